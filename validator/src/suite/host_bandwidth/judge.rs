//! What the figures of all GPUs come to: matrices of one row, findings and one line. Pure.

use super::Seen;
use crate::judge::host;
use crate::measure::BANDWIDTH;
use crate::outcome::Judgement;
use crate::report::Matrix;
use crate::schedule::Pair;
use crate::suite::speed::{judged, noisy, rounded};

/// The matrices in the report's order, and their row.
const MATRICES: &[(&str, &str)] = &[
    ("host.to.ce", "CPU"),
    ("host.from.ce", "CPU"),
    ("host.bi.to.ce", "CPU"),
    ("host.bi.from.ce", "CPU"),
    ("host.to.all.ce", "CPU"),
    ("host.from.all.ce", "CPU"),
    ("local", "GPU"),
];

/// Judges everything; `raw`: what each GPU's links to the host carry, GB/s; `states`: how the GPUs
/// fared, a line each. All at once and both directions depend on what GPUs share, and are told only.
pub(super) fn judge(seen: Seen, raw: &[Option<f64>], states: &[String]) -> Judgement {
    let figure = |name: &str, gpu| seen.grid.get(name, Pair::new(gpu, gpu));
    let one = |(gpu, raw): (usize, &Option<f64>)| {
        [("host.to.ce", "from the host"), ("host.from.ce", "to the host")]
            .into_iter()
            .filter_map(|(name, what)| host(gpu, what, figure(name, gpu)?, *raw))
            .collect::<Vec<_>>()
    };
    let mut findings: Vec<_> = raw.iter().enumerate().flat_map(one).collect();
    for finding in &mut findings {
        finding.evidence.extend(states.iter().cloned());
    }
    let policy = |name: &str| matches!(name, "host.to.ce" | "host.from.ce").then_some(BANDWIDTH);
    findings.extend(noisy(&seen.grid, "GB/s", policy));
    let summary = summary(&seen);
    let row = |(name, label): &(&str, &str)| Matrix {
        name: (*name).to_owned(),
        unit: "GB/s".to_owned(),
        rows: vec![(*label).to_owned()],
        columns: (0..raw.len()).map(|n| n.to_string()).collect(),
        values: vec![(0..raw.len()).map(|gpu| figure(name, gpu).map(rounded)).collect()],
    };
    let matrices = MATRICES.iter().map(row).collect();
    judged(summary, seen.findings.into_iter().chain(findings)).showing(matrices)
}

/// `4 GPUs: 54.9 to 55.6 GB/s from the host, 55.4 to 55.4 to it; all at once 55.3 and 55.3 each at least`
fn summary(seen: &Seen) -> String {
    let gpus = seen.grid.all("host.to.ce").count();
    let range = |name| seen.grid.range(name).map(|(low, high)| format!("{low:.1} to {high:.1}"));
    let (Some(to), Some(from)) = (range("host.to.ce"), range("host.from.ce")) else {
        return "nothing was measured".to_owned();
    };
    let least = |name| seen.grid.range(name).map(|(low, _)| format!("{low:.1}"));
    let all = least("host.to.all.ce").zip(least("host.from.all.ce"));
    let all = all.map(|(to, from)| format!("; all at once {to} and {from} each at least"));
    format!("{gpus} GPUs: {to} GB/s from the host, {from} to it{}", all.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Code, Severity};
    use crate::measure::Measured;
    use crate::outcome::Outcome;

    /// Two GPUs as recorded on H200, with this figure from the host to GPU 0.
    fn seen(to: f64) -> Seen {
        let mut seen = Seen::default();
        for (name, _) in MATRICES {
            for gpu in 0..2 {
                let median = if *name == "host.to.ce" && gpu == 0 { to } else { 55.4 };
                let figure =
                    Measured { samples: vec![median; 3], median, spread: 0.0, repeats: 0, noisy: false };
                seen.grid.put(name, Pair::new(gpu, gpu), figure);
            }
        }
        seen
    }

    #[test]
    fn healthy_gpus_pass_with_all_matrices() {
        let said = judge(seen(54.9), &[Some(63.0); 2], &[]);
        assert_eq!(said.outcome(), Outcome::Pass, "{:?}", said.findings);
        assert_eq!(
            said.summary,
            "2 GPUs: 54.9 to 55.4 GB/s from the host, 55.4 to 55.4 to it; all at once 55.4 and 55.4 each \
             at least"
        );
        assert_eq!(said.matrices.len(), MATRICES.len());
        assert_eq!(said.matrices[0].values, [vec![Some(54.9), Some(55.4)]]);
    }

    #[test]
    fn a_slow_gpu_warns_with_how_it_fared() {
        let said = judge(seen(13.0), &[Some(63.0); 2], &["GPU 0: 35 C".to_owned()]);
        assert_eq!(said.outcome(), Outcome::Warn);
        assert!(said.findings[0].is(Code::HostSlow));
        assert_eq!(said.findings[0].evidence, ["GPU 0: 35 C"]);
    }

    #[test]
    fn data_that_is_wrong_fails_and_has_no_figure() {
        let mut wrong = Seen::default();
        wrong.findings.push(Code::HostWrongData.finding(Severity::Fail, "GPU 0", "wrong"));
        let said = judge(wrong, &[Some(63.0)], &[]);
        assert_eq!((said.outcome(), &said.matrices[0].values), (Outcome::Fail, &vec![vec![None]]));
    }
}
