//! After the verdict: policies, the workload by both ways of handing over, its end, and a machine that is asked to go down.

mod exec;
mod policy;
mod switch_root;
mod watchdog;
mod workload_exit;
