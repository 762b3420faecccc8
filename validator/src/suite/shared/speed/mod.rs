//! What the speed tests share: transfers as data (`flow`), running many of them at once with their data
//! checked (`bench`, `run`, `host`, `chase`, `take`), samples until they agree (`sampling`), the GPUs' clocks
//! against the host's (`clock`), the paths between the GPUs and what they carry under load (`ways`, `load`),
//! and the GPUs' own counters meanwhile (`watch`). Each test decides what it measures and how it judges the
//! figures.

mod bench;
mod chase;
mod clock;
mod findings;
mod flow;
mod grid;
mod host;
mod load;
mod run;
mod sampling;
mod take;
mod watch;
mod ways;

pub(in crate::suite) use bench::{Bench, FULL};
pub(in crate::suite) use chase::{Access, Chased, LOADS};
pub(in crate::suite) use findings::{judged, moments, noisy, wrong};
pub(in crate::suite) use flow::{Flow, How, Side, copies, copies_at};
pub(in crate::suite) use grid::{Grid, across, rounded};
pub(in crate::suite) use host::{HostFlow, HostTimed, Towards};
pub(in crate::suite) use load::Links;
pub(in crate::suite) use run::Timed;
pub(in crate::suite) use sampling::{Figure, Job, Taken};
pub(in crate::suite) use watch::{STATE_COLUMNS, Watch, heat, state_cells, states_now, throttled_for};
pub(in crate::suite) use ways::{Ways, kind};

use serde_json::{Value, json};

/// A table; `columns`: heading and unit of each, where `""` is text or a count. Every row has a value for
/// each column, `null` where there is none.
pub(in crate::suite) fn table(name: &str, columns: &[(&str, &str)], rows: &[Vec<Value>]) -> Value {
    let columns: Vec<_> =
        columns.iter().map(|(heading, unit)| json!({ "heading": heading, "unit": unit })).collect();
    json!({ "name": name, "columns": columns, "rows": rows })
}
