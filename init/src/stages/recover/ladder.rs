//! The ladder of recovery: which rung is tried next, given the ones already tried. Pure.

use serde::Serialize;
use std::fmt;

/// One measure of the recovery. Each needs the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rung {
    /// Every other process is killed.
    EndProcesses,
    /// The GPUs that process 1 holds open are closed.
    CloseDevices,
    /// The driver's modules are removed.
    UnloadModules,
    /// Each GPU is reset by itself (function-level reset).
    ResetFunctions,
    /// The link above each GPU is reset (secondary bus reset).
    ResetBuses,
    /// The fabric pass reads BARs and ACS again and corrects them.
    Fabric,
    /// The driver is started again.
    LoadDriver,
    /// Each GPU is tested alone.
    TestWithoutP2p,
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EndProcesses => "end processes",
            Self::CloseDevices => "close devices",
            Self::UnloadModules => "unload modules",
            Self::ResetFunctions => "reset functions",
            Self::ResetBuses => "reset buses",
            Self::Fabric => "fabric",
            Self::LoadDriver => "load driver",
            Self::TestWithoutP2p => "test without peer-to-peer",
        })
    }
}

/// A rung that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// Which rung it was.
    pub rung: Rung,
    /// Whether it succeeded.
    pub done: bool,
    /// What it did, or why not.
    pub said: String,
    /// How long it took.
    pub seconds: f64,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// This rung is tried.
    Try(Rung),
    /// Every GPU works by itself.
    Recovered,
    /// No rung is left.
    GaveUp,
}

/// The rung after those that were tried. Functions are reset first. If that is not possible or does not help, the buses
/// are reset; each kind of reset is tried once, so the ladder ends.
#[must_use]
pub fn next(tried: &[Tried]) -> NextStep {
    let was_tried = |rung| tried.iter().any(|tried| tried.rung == rung);
    let Some(last) = tried.last() else {
        return NextStep::Try(Rung::EndProcesses);
    };
    match (last.rung, last.done) {
        (Rung::EndProcesses, true) => NextStep::Try(Rung::CloseDevices),
        (Rung::CloseDevices, true) => NextStep::Try(Rung::UnloadModules),
        (Rung::UnloadModules, true) if was_tried(Rung::ResetFunctions) => {
            NextStep::Try(Rung::ResetBuses)
        }
        (Rung::UnloadModules, true) => NextStep::Try(Rung::ResetFunctions),
        (Rung::ResetFunctions | Rung::ResetBuses, true) => NextStep::Try(Rung::Fabric),
        (Rung::Fabric, true) => NextStep::Try(Rung::LoadDriver),
        (Rung::LoadDriver, true) => NextStep::Try(Rung::TestWithoutP2p),
        (Rung::TestWithoutP2p, true) => NextStep::Recovered,
        // A GPU in use must not be reset.
        (Rung::EndProcesses | Rung::CloseDevices | Rung::UnloadModules, false) => NextStep::GaveUp,
        (Rung::ResetFunctions, false) => NextStep::Try(Rung::ResetBuses),
        (Rung::ResetBuses, false) => NextStep::GaveUp,
        (Rung::Fabric | Rung::LoadDriver | Rung::TestWithoutP2p, false)
            if was_tried(Rung::ResetBuses) =>
        {
            NextStep::GaveUp
        }
        (Rung::Fabric | Rung::LoadDriver | Rung::TestWithoutP2p, false) => {
            NextStep::Try(Rung::EndProcesses)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rung::{
        CloseDevices, EndProcesses, Fabric, LoadDriver, ResetBuses, ResetFunctions, TestWithoutP2p,
        UnloadModules,
    };
    use super::*;

    /// The rungs that are tried, and the end. A rung fails as many times as it is listed in `fails`.
    fn climb(fails: &[Rung]) -> (Vec<Rung>, NextStep) {
        let (mut fails, mut tried) = (fails.to_vec(), Vec::new());
        loop {
            let NextStep::Try(rung) = next(&tried) else {
                return (tried.iter().map(|tried| tried.rung).collect(), next(&tried));
            };
            let fails_now = fails
                .iter()
                .position(|fail| *fail == rung)
                .map(|at| fails.remove(at));
            tried.push(Tried {
                rung,
                done: fails_now.is_none(),
                said: String::new(),
                seconds: 0.0,
            });
            assert!(tried.len() <= 14, "the ladder does not end: {tried:?}");
        }
    }

    const FREE: [Rung; 3] = [EndProcesses, CloseDevices, UnloadModules];
    const AGAIN: [Rung; 3] = [Fabric, LoadDriver, TestWithoutP2p];

    #[test]
    fn a_reset_of_the_functions_that_helps_is_enough() {
        let all = [&FREE[..], &[ResetFunctions], &AGAIN].concat();
        assert_eq!(climb(&[]), (all, NextStep::Recovered));
    }

    #[test]
    fn a_gpu_in_use_is_not_reset() {
        for (n, rung) in FREE.into_iter().enumerate() {
            assert_eq!(climb(&[rung]), (FREE[..=n].to_vec(), NextStep::GaveUp));
        }
    }

    #[test]
    fn what_functions_do_not_offer_or_does_not_help_is_done_to_the_buses_once() {
        let refused = [&FREE[..], &[ResetFunctions, ResetBuses], &AGAIN].concat();
        assert_eq!(climb(&[ResetFunctions]), (refused, NextStep::Recovered));
        for (n, rung) in AGAIN.into_iter().enumerate() {
            let first = [
                &FREE[..],
                &[ResetFunctions],
                &AGAIN[..=n],
                &FREE,
                &[ResetBuses],
            ]
            .concat();
            assert_eq!(
                climb(&[rung]),
                ([&first[..], &AGAIN].concat(), NextStep::Recovered)
            );
            assert_eq!(
                climb(&[rung, rung]),
                ([&first[..], &AGAIN[..=n]].concat(), NextStep::GaveUp)
            );
            assert_eq!(climb(&[rung, ResetBuses]), (first, NextStep::GaveUp));
        }
        let both = [&FREE[..], &[ResetFunctions, ResetBuses]].concat();
        assert_eq!(
            climb(&[ResetFunctions, ResetBuses]),
            (both, NextStep::GaveUp)
        );
    }
}
