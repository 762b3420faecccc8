//! Findings that are the same for many pairs of GPUs, and matrices of all pairs.

use crate::schedule::Pair;
use machine::GpuId;
use outcome::Matrix;
use outcome::finding::{Finding, Subject};
use outcome::metric::Metric;
use std::collections::BTreeSet;

/// One finding for each kind: findings that differ only in the pair become one whose subject names the pairs,
/// with the evidence of all.
pub(in crate::suite) fn merge_pairs(found: Vec<(Pair, Finding)>) -> Vec<Finding> {
    let mut groups: Vec<(Vec<Pair>, Finding)> = Vec::new();
    for (pair, finding) in found {
        match groups
            .iter_mut()
            .find(|(_, first)| same_except_pair(first, &finding))
        {
            Some((pairs, first)) => {
                pairs.push(pair);
                first.evidence.extend(finding.evidence);
            }
            None => groups.push((vec![pair], finding)),
        }
    }
    groups
        .into_iter()
        .map(|(pairs, finding)| name_pairs(pairs, finding))
        .collect()
}

fn same_except_pair(a: &Finding, b: &Finding) -> bool {
    a.code == b.code && a.severity == b.severity && a.message == b.message && a.reason == b.reason
}

fn name_pairs(pairs: Vec<Pair>, mut finding: Finding) -> Finding {
    let subject = Subject::pairs(pairs);
    finding.message = format!("{subject}: {}", finding.message).into();
    finding.subject = subject;
    let mut seen = BTreeSet::new();
    finding.evidence.retain(|line| seen.insert(line.clone()));
    finding
}

/// A matrix of all GPUs; row: from, column: to.
pub(in crate::suite) fn matrix(
    metric: Metric,
    gpus: usize,
    value: impl Fn(Pair) -> Option<f64>,
) -> Matrix {
    let labels: Vec<String> = (0..gpus).map(|n| n.to_string()).collect();
    let row = |from| {
        GpuId::all(gpus)
            .map(|to| value(Pair { from, to }))
            .collect()
    };
    Matrix {
        name: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        rows: labels.clone(),
        columns: labels,
        values: GpuId::all(gpus).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcome::finding::{Code, Severity};

    #[test]
    fn findings_that_differ_only_in_the_pair_become_one() {
        let found =
            |text: &str| Code::P2pUnsupported.finding(Severity::Fail, Subject::Machine, text);
        let pairs = (1..7).map(|to| (Pair::of(0, to), found("no")));
        let mut all: Vec<_> = pairs.collect();
        all.push((Pair::of(1, 0), found("never")));
        let said = merge_pairs(all);
        assert_eq!(said.len(), 2);
        assert_eq!(
            said[0].message,
            "6 pairs (GPU 0 -> 1, GPU 0 -> 2, GPU 0 -> 3, GPU 0 -> 4, ..): no"
        );
        assert_eq!(said[0].subject.named_pairs().len(), 6);
        assert_eq!(
            (&said[1].subject, &*said[1].message),
            (&Pair::of(1, 0).into(), "GPU 1 -> 0: never")
        );
    }

    #[test]
    fn a_matrix_has_a_row_and_a_column_for_each_gpu() {
        let matrix = matrix(Metric::ACCESS, 2, |p| (p.from != p.to).then_some(1.0));
        assert_eq!(
            matrix.values,
            [vec![None, Some(1.0)], vec![Some(1.0), None]]
        );
    }
}
