//! What NVML reports about the GPUs second by second while they work: clocks, heat, power and links.

use crate::suite::TestContext;
use crate::suite::benchmark::{rounded, state_of, states_now, thermal_summary, throttled_for};
use gpu::{Clique, State};
use machine::GpuId;
use outcome::finding::{Code, Finding, Severity};
use outcome::table::{SampleRow, Table};
use std::time::Instant;

/// The GPUs' states at one time, by GPU; `None` where NVML does not report it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    /// Seconds since the work began.
    at: f64,
    states: Vec<Option<State>>,
    /// Lanes of each GPU's link.
    widths: Vec<Option<u32>>,
}

impl Sample {
    /// The present state during work that began at `began`.
    pub(super) fn now(context: &TestContext, began: Instant) -> Self {
        let gpus = context.clique().map(Clique::addresses).unwrap_or_default();
        let width = |bdf| {
            context
                .nvml()
                .ok()
                .and_then(|nvml| nvml.link(bdf).ok())
                .map(|link| link.width)
        };
        let widths = gpus.into_iter().map(width).collect();
        Self {
            at: began.elapsed().as_secs_f64(),
            states: states_now(context),
            widths,
        }
    }
}

/// The findings from all samples together.
pub(super) fn findings(samples: &[Sample]) -> Vec<Finding> {
    let mut all = throttled_for(&states(samples));
    let gpus = samples
        .iter()
        .map(|sample| sample.widths.len())
        .max()
        .unwrap_or_default();
    all.extend(GpuId::all(gpus).filter_map(|gpu| narrowed(gpu, samples)));
    all
}

/// A link that lost lanes while its GPU worked.
fn narrowed(gpu: GpuId, samples: &[Sample]) -> Option<Finding> {
    let mut widths = samples
        .iter()
        .filter_map(|s| Some((s.at, (*s.widths.get(gpu.index())?)?)));
    let (_, before) = widths.next()?;
    let (at, after) = widths.find(|(_, width)| *width < before)?;
    let message = format!(
        "GPU {gpu}: after {at:.0} s of load its link has {after} lanes, expected {before} as before"
    );
    let finding = Code::GpuLinkLoad.finding(Severity::Fail, gpu, message);
    Some(finding.values(after, before, Some("lanes")))
}

/// Most rows of a table of samples.
const MOST_ROWS: usize = 20_000;

/// A row for each sample and GPU.
pub(super) fn samples_table(samples: &[Sample]) -> Table {
    let row = |sample: &Sample, gpu: GpuId| SampleRow {
        time: rounded(sample.at),
        state: state_of(gpu, sample.states.get(gpu.index()).and_then(Option::as_ref)),
        lanes: sample.widths.get(gpu.index()).copied().flatten(),
    };
    // A day of 16 GPUs would be more than a report may have: of a long run, not every second is shown.
    let gpus = samples
        .iter()
        .map(|sample| sample.states.len())
        .max()
        .unwrap_or(0);
    let step = (samples.len() * gpus).div_ceil(MOST_ROWS).max(1);
    let rows = samples
        .iter()
        .step_by(step)
        .flat_map(|sample| GpuId::all(sample.states.len()).map(move |gpu| row(sample, gpu)));
    Table::Samples(rows.collect())
}

/// `; 31 to 44 C, at most 280 W`
pub(super) fn heat_of(samples: &[Sample]) -> String {
    thermal_summary(&states(samples))
}

fn states(samples: &[Sample]) -> Vec<&[Option<State>]> {
    samples
        .iter()
        .map(|sample| sample.states.as_slice())
        .collect()
}

#[cfg(test)]
pub(super) fn of_widths(widths: &[u32]) -> Vec<Sample> {
    let sample = |(n, width): (u32, &u32)| Sample {
        at: f64::from(n),
        states: vec![None],
        widths: vec![Some(*width)],
    };
    (0..).zip(widths).map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_loses_lanes_fails_and_one_that_keeps_them_does_not() {
        assert_eq!(findings(&of_widths(&[16, 16, 16])), Vec::new());
        assert_eq!(findings(&[]), Vec::new());
        let found = findings(&of_widths(&[16, 16, 8, 16]));
        assert!(found[0].is(Code::GpuLinkLoad) && found[0].severity == Severity::Fail);
        assert_eq!(
            found[0].message,
            "GPU 0: after 2 s of load its link has 8 lanes, expected 16 as before"
        );
    }

    #[test]
    fn every_second_and_gpu_has_a_row() {
        let Table::Samples(rows) = samples_table(&of_widths(&[16, 8])) else {
            panic!()
        };
        assert_eq!((rows.len(), rows[1].lanes), (2, Some(8)));
        let Table::Samples(day) = samples_table(&of_widths(&[16; 86_400])) else {
            panic!()
        };
        assert_eq!(day.len(), 17_280, "every fifth");
    }
}
