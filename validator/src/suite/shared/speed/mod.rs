//! What the tests of speed have in common: transfers as data (`flow`), running many of them at once
//! with their data checked (`bench`, `run`, `host`, `chase`, `take`), samples until they agree (`sampling`), the GPUs' clocks
//! against the host's (`clock`), the ways between the GPUs and what they carry under load (`ways`, `load`), and what the GPUs say of themselves
//! meanwhile (`watch`). What is measured, and what the figures mean, is each test's own matter.

mod access;
mod bench;
mod chase;
mod clock;
mod flow;
mod grid;
mod host;
mod load;
mod run;
mod sampling;
mod table;
mod take;
mod told;
mod watch;
mod ways;

pub(in crate::suite) use access::Access;
pub(in crate::suite) use bench::{Bench, FULL};
pub(in crate::suite) use chase::{Chased, LOADS};
pub(in crate::suite) use flow::{Flow, How, Side, copies, copies_at};
pub(in crate::suite) use grid::{Grid, across, rounded};
pub(in crate::suite) use host::{HostFlow, HostTimed, Towards};
pub(in crate::suite) use load::Links;
pub(in crate::suite) use run::Timed;
pub(in crate::suite) use sampling::{Figure, Job, Taken};
pub(in crate::suite) use table::table;
pub(in crate::suite) use told::{judged, moments, noisy, wrong};
pub(in crate::suite) use watch::Watch;
pub(in crate::suite) use ways::{Ways, kind};
