//! Counters and clocks of the GPUs around a test, and second by second in a long one: packets that their links
//! had to repeat, clocks that were throttled, heat and power.

use crate::suite::TestContext;
use gpu::State;
use machine::GpuId;
use machine::pcie::model::Bdf;
use outcome::finding::{Code, Finding, Severity};
use outcome::table::GpuState;
use std::collections::BTreeMap;

use super::rounded;

/// One GPU's PCIe replay counter; `None` where NVML does not report it.
#[derive(Debug)]
struct ReplayCounter {
    gpu: GpuId,
    bdf: Bdf,
    replays: Option<u32>,
}

/// The GPUs' replay counters at the beginning of a test.
#[derive(Debug)]
pub(in crate::suite) struct Watch(Vec<ReplayCounter>);

impl Watch {
    /// Reads the counters.
    pub(in crate::suite) fn begin(context: &TestContext, gpus: &[Bdf]) -> Self {
        let counter = |(gpu, bdf): (GpuId, &Bdf)| ReplayCounter {
            gpu,
            bdf: *bdf,
            replays: replays(context, *bdf),
        };
        Self(GpuId::each(gpus).map(counter).collect())
    }

    /// Findings about what has happened since, and a line about each GPU's present state, for the evidence of other
    /// findings.
    pub(in crate::suite) fn end(&self, context: &TestContext) -> (Vec<Finding>, Vec<String>) {
        let mut findings = Vec::new();
        let mut lines = Vec::new();
        for ReplayCounter {
            gpu,
            bdf,
            replays: before,
        } in &self.0
        {
            findings.extend(replayed(*gpu, *bdf, *before, replays(context, *bdf)));
            if let Some(state) = context.nvml().ok().and_then(|nvml| nvml.state(*bdf).ok()) {
                findings.extend(throttled(*gpu, &state));
                lines.push(state_line(*gpu, &state));
            }
        }
        (findings, lines)
    }
}

fn replays(context: &TestContext, bdf: Bdf) -> Option<u32> {
    context.nvml().ok()?.replays(bdf).ok()
}

/// The finding about a link that repeated packets: it has bit errors, of which a few are harmless by design.
fn replayed(gpu: GpuId, bdf: Bdf, before: Option<u32>, after: Option<u32>) -> Option<Finding> {
    let more = after?.checked_sub(before?).filter(|more| *more > 0)?;
    let message = format!("GPU {gpu} ({bdf}): its PCIe link repeated {more} packets, expected 0");
    let finding = Code::PcieAer.finding(Severity::Warn, bdf, message);
    Some(
        finding
            .values(more, 0, Some("packets"))
            .seen(format!("NVML's replay counter rose by {more}")),
    )
}

/// Throttling by the power limit is normal for a busy GPU; anything else is a fault.
fn throttled(gpu: GpuId, state: &State) -> Option<Finding> {
    let bad = state.throttled.iter().any(|why| why != "power cap");
    let why = (!state.throttled.is_empty()).then(|| state.throttled.join(", "))?;
    let severity = if bad { Severity::Warn } else { Severity::Info };
    let message = format!("GPU {gpu}: clocks are throttled: {why}");
    Some(
        Code::GpuThrottled
            .finding(severity, gpu, message)
            .seen(state_line(gpu, state)),
    )
}

/// `GPU 0: SM 1980 MHz, memory 3201 MHz, 35 C, 121.4 W`
pub(in crate::suite) fn state_line(gpu: GpuId, state: &State) -> String {
    let words = [
        state.sm_mhz.map(|mhz| format!("SM {mhz} MHz")),
        state.memory_mhz.map(|mhz| format!("memory {mhz} MHz")),
        state.celsius.map(|celsius| format!("{celsius} C")),
        state.watts.map(|watts| format!("{watts:.1} W")),
        (!state.throttled.is_empty()).then(|| state.throttled.join(", ")),
    ];
    let words: Vec<_> = words.into_iter().flatten().collect();
    format!(
        "GPU {gpu}: {}",
        if words.is_empty() {
            "no state reported".to_owned()
        } else {
            words.join(", ")
        }
    )
}

/// The present state of every GPU; `None` where NVML does not report it.
pub(in crate::suite) fn states_now(context: &TestContext) -> Vec<Option<State>> {
    let gpus = context
        .clique()
        .map(gpu::Clique::addresses)
        .unwrap_or_default();
    let state = |bdf| context.nvml().ok().and_then(|nvml| nvml.state(bdf).ok());
    gpus.into_iter().map(state).collect()
}

/// GPUs whose clocks were throttled, with every reason and its number of seconds; `seconds`: the states of all
/// GPUs in each.
pub(in crate::suite) fn throttled_for(seconds: &[&[Option<State>]]) -> Vec<Finding> {
    let mut reasons: BTreeMap<(GpuId, &str), usize> = BTreeMap::new();
    for (gpu, state) in seconds.iter().flat_map(|states| GpuId::each(states.iter())) {
        for why in state.iter().flat_map(|state| &state.throttled) {
            *reasons.entry((gpu, why)).or_default() += 1;
        }
    }
    let finding = |((gpu, why), times): ((GpuId, &str), usize)| {
        // A busy GPU may reach its power limit; anything else is a fault.
        let severity = if why == "power cap" {
            Severity::Info
        } else {
            Severity::Warn
        };
        let all = seconds.len();
        let message =
            format!("GPU {gpu}: clocks were throttled in {times} of {all} seconds: {why}");
        Code::GpuThrottled.finding(severity, gpu, message)
    };
    reasons.into_iter().map(finding).collect()
}

/// A state as rows of tables have it.
pub(in crate::suite) fn state_of(gpu: GpuId, state: Option<&State>) -> GpuState {
    let number = |figure: fn(&State) -> Option<f64>| state.and_then(figure).map(rounded);
    GpuState {
        gpu,
        sm: number(|s| s.sm_mhz.map(f64::from)),
        memory: number(|s| s.memory_mhz.map(f64::from)),
        temperature: number(|s| s.celsius.map(f64::from)),
        power: number(|s| s.watts),
        held_down_by: state.map(|s| s.throttled.join(", ")),
    }
}

/// `; 31 to 44 C, at most 280 W`; empty where NVML reports neither.
pub(in crate::suite) fn thermal_summary(seconds: &[&[Option<State>]]) -> String {
    let states = || seconds.iter().flat_map(|states| states.iter().flatten());
    let celsius = || states().filter_map(|s| s.celsius);
    let heat = celsius()
        .min()
        .zip(celsius().max())
        .map(|(low, high)| format!("; {low} to {high} C"));
    let power = states()
        .filter_map(|s| s.watts)
        .reduce(f64::max)
        .map(|w| format!(", at most {w:.0} W"));
    [heat, power].map(Option::unwrap_or_default).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BDF: Bdf = Bdf {
        domain: 0,
        bus: 0x41,
        device: 0,
        function: 0,
    };

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
        assert!(
            replayed(0.into(), BDF, Some(7), Some(9))
                .unwrap()
                .message
                .contains("repeated 2 packets")
        );
        for (before, after) in [
            (Some(7), Some(7)),
            (None, Some(7)),
            (Some(7), None),
            (Some(7), Some(0)),
        ] {
            assert_eq!(replayed(0.into(), BDF, before, after), None);
        }
    }

    #[test]
    fn heat_warns_and_the_power_limit_is_reported() {
        assert_eq!(throttled(0.into(), &state(&[])), None);
        assert_eq!(
            throttled(0.into(), &state(&["power cap"]))
                .unwrap()
                .severity,
            Severity::Info
        );
        assert_eq!(
            throttled(0.into(), &state(&["power cap", "power brake"]))
                .unwrap()
                .severity,
            Severity::Warn
        );
        assert_eq!(
            state_line(0.into(), &state(&[])),
            "GPU 0: SM 1980 MHz, memory 3201 MHz, 35 C, 121.4 W"
        );
    }
}
