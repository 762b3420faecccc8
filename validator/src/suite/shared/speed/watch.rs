//! Counters and clocks of the GPUs around a test: packets that their links had to repeat, and clocks that
//! were throttled.

use crate::gpu::State;
use crate::machine::pcie::model::Bdf;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::suite::Machine;

/// One GPU's replay counter before and after.
#[derive(Debug)]
struct Seen {
    gpu: usize,
    bdf: Bdf,
    replays: Option<u32>,
}

/// The GPUs since a test began.
#[derive(Debug)]
pub(in crate::suite) struct Watch(Vec<Seen>);

impl Watch {
    /// Starts to watch.
    pub(in crate::suite) fn begin(machine: &Machine, gpus: &[Bdf]) -> Self {
        let seen = |(gpu, bdf): (usize, &Bdf)| Seen { gpu, bdf: *bdf, replays: replays(machine, *bdf) };
        Self(gpus.iter().enumerate().map(seen).collect())
    }

    /// What has happened since, and the GPUs' present state, for the evidence of other findings.
    pub(in crate::suite) fn end(&self, machine: &Machine) -> (Vec<Finding>, Vec<String>) {
        let mut findings = Vec::new();
        let mut lines = Vec::new();
        for Seen { gpu, bdf, replays: before } in &self.0 {
            findings.extend(replayed(*gpu, *bdf, *before, replays(machine, *bdf)));
            if let Some(state) = machine.nvml().ok().and_then(|nvml| nvml.state(*bdf).ok()) {
                findings.extend(throttled(*gpu, &state));
                lines.push(state_line(*gpu, &state));
            }
        }
        (findings, lines)
    }
}

fn replays(machine: &Machine, bdf: Bdf) -> Option<u32> {
    machine.nvml().ok()?.replays(bdf).ok()
}

/// A link that repeats packets has bit errors; a few are harmless by design.
fn replayed(gpu: usize, bdf: Bdf, before: Option<u32>, after: Option<u32>) -> Option<Finding> {
    let more = after?.checked_sub(before?).filter(|more| *more > 0)?;
    let message = format!("GPU {gpu} ({bdf}): its PCIe link repeated {more} packets, expected 0");
    let finding = Code::PcieAer.finding(Severity::Warn, &bdf, message);
    Some(finding.values(more, 0, Some("packets")).seen(format!("NVML's replay counter rose by {more}")))
}

/// Throttling by the power limit is normal for a busy GPU; anything else is a fault.
fn throttled(gpu: usize, state: &State) -> Option<Finding> {
    let bad = state.throttled.iter().any(|why| why != "power cap");
    let why = (!state.throttled.is_empty()).then(|| state.throttled.join(", "))?;
    let severity = if bad { Severity::Warn } else { Severity::Info };
    let message = format!("GPU {gpu}: clocks are throttled: {why}");
    Some(Code::GpuThrottled.finding(severity, &format!("GPU {gpu}"), message).seen(state_line(gpu, state)))
}

/// `GPU 0: SM 1980 MHz, memory 3201 MHz, 35 C, 121.4 W`
pub(in crate::suite) fn state_line(gpu: usize, state: &State) -> String {
    let words = [
        state.sm_mhz.map(|mhz| format!("SM {mhz} MHz")),
        state.memory_mhz.map(|mhz| format!("memory {mhz} MHz")),
        state.celsius.map(|celsius| format!("{celsius} C")),
        state.watts.map(|watts| format!("{watts:.1} W")),
        (!state.throttled.is_empty()).then(|| state.throttled.join(", ")),
    ];
    let words: Vec<_> = words.into_iter().flatten().collect();
    format!("GPU {gpu}: {}", if words.is_empty() { "no state reported".to_owned() } else { words.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BDF: Bdf = Bdf { domain: 0, bus: 0x41, device: 0, function: 0 };

    fn state(throttled: &[&str]) -> State {
        let throttled = throttled.iter().map(|t| (*t).to_owned()).collect();
        State {
            sm_mhz: Some(1980),
            memory_mhz: Some(3201),
            celsius: Some(35),
            watts: Some(121.44),
            throttled,
        }
    }

    #[test]
    fn a_rising_replay_counter_is_reported_and_an_unknown_one_is_not() {
        assert!(replayed(0, BDF, Some(7), Some(9)).unwrap().message.contains("repeated 2 packets"));
        for (before, after) in [(Some(7), Some(7)), (None, Some(7)), (Some(7), None), (Some(7), Some(0))] {
            assert_eq!(replayed(0, BDF, before, after), None);
        }
    }

    #[test]
    fn heat_warns_and_the_power_limit_is_reported() {
        assert_eq!(throttled(0, &state(&[])), None);
        assert_eq!(throttled(0, &state(&["power cap"])).unwrap().severity, Severity::Info);
        assert_eq!(throttled(0, &state(&["power cap", "power brake"])).unwrap().severity, Severity::Warn);
        assert_eq!(state_line(0, &state(&[])), "GPU 0: SM 1980 MHz, memory 3201 MHz, 35 C, 121.4 W");
    }
}
