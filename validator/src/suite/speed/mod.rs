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

pub(super) use access::Access;
pub(super) use bench::{Bench, FULL};
pub(super) use chase::{Chased, LOADS};
pub(super) use flow::{Flow, How, Side, copies, copies_at};
pub(super) use grid::{Grid, across, rounded};
pub(super) use host::{HostFlow, HostTimed, Towards};
pub(super) use load::Links;
pub(super) use run::Timed;
pub(super) use sampling::{Figure, Job, Taken};
pub(super) use table::table;
pub(super) use told::{judged, moments, noisy, wrong};
pub(super) use watch::Watch;
pub(super) use ways::{Ways, kind};
