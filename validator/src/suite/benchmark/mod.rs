//! What the speed tests share: transfers as data (`flow`), running many of them at once with their data
//! checked (`bench`, `run`, `host`, `host_load`, `chase`, `bench_jobs`), samples until they agree (`sampling`), the GPUs' clocks
//! against the host's (`clock`), the paths between the GPUs and what they carry under load (`paths`, `link_states`),
//! and the GPUs' own counters meanwhile (`watch`). Each test decides what it measures and how it judges the
//! figures.

mod bench;
mod bench_jobs;
mod chase;
mod clock;
mod findings;
mod flow;
mod grid;
mod host;
mod host_load;
mod link_states;
mod paths;
mod run;
mod sampling;
mod watch;

pub(in crate::suite) use bench::{Bench, FULL};
pub(in crate::suite) use chase::{ChaseResult, LOADS, RoundAccess};
pub(in crate::suite) use findings::{doubtful, judged, noisy, repeat_differences, wrong_data};
pub(in crate::suite) use flow::{CopyMethod, Flow, Side, copies, copies_at};
pub(in crate::suite) use grid::{Grid, rounded, transpose};
pub(in crate::suite) use host::{HostDirection, HostFlow, HostTiming};
pub(in crate::suite) use host_load::{HostLoad, WrongHostCopy};
pub(in crate::suite) use link_states::LinkStates;
pub(in crate::suite) use paths::{GpuPaths, kind, left_to_full};
pub(in crate::suite) use run::GroupTiming;
pub(in crate::suite) use sampling::{Job, JobFigure, JobResult};
pub(in crate::suite) use watch::{Watch, state_of, states_now, thermal_summary, throttled_for};
