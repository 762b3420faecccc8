//! Kernels and reads in the ring and from all to all, or to the next GPUs, beside the copy engines' writes, which all patterns use.

use super::Results;
use super::pattern::{Pattern, PatternKind};
use crate::floors::slow_together;
use crate::schedule::Pair;
use crate::suite::benchmark::{CopyMethod, Flow, Side};
use outcome::finding::Finding;
use outcome::metric::Metric;
use std::collections::BTreeMap;

/// What moves the data of a pattern besides copy engines that write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mover {
    /// As in `kernels write`.
    pub(super) name: &'static str,
    method: CopyMethod,
    by: Side,
    /// The matrix of `p2p-bandwidth` with the speed of each pair alone.
    pub(super) alone: Metric,
}

/// All of them.
pub(super) const MOVERS: [Mover; 3] = [
    Mover {
        name: "kernels write",
        method: CopyMethod::Sm,
        by: Side::Source,
        alone: Metric::SM_WRITE,
    },
    Mover {
        name: "copy engines read",
        method: CopyMethod::Ce,
        by: Side::Target,
        alone: Metric::CE_READ,
    },
    Mover {
        name: "kernels read",
        method: CopyMethod::Sm,
        by: Side::Target,
        alone: Metric::SM_READ,
    },
];

impl Mover {
    /// The same transfer by this mover.
    pub(super) fn of(self, flow: Flow) -> Flow {
        Flow {
            method: self.method,
            by: self.by,
            ..flow
        }
    }

    /// The pair whose cell of its matrix has the speed of data along `pair`: the row's GPU acts.
    pub(super) const fn cell(self, pair: Pair) -> Pair {
        match self.by {
            Side::Source => pair,
            Side::Target => pair.back(),
        }
    }
}

/// The patterns that are tried by every mover: the ring, and from all to all or, where GPUs cannot have so many peers, to the next.
pub(super) const fn is_tried(kind: PatternKind) -> bool {
    matches!(
        kind,
        PatternKind::Ring | PatternKind::All | PatternKind::Next(_)
    )
}

/// The speed of a pattern by one mover.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MoverSpeed {
    pub(super) pattern: Pattern,
    pub(super) mover: Mover,
    /// From the first start to the last stop, all bytes, GB/s.
    pub(super) total: f64,
    /// The same when it was measured again.
    pub(super) again: Option<f64>,
}

impl MoverSpeed {
    /// `ring, kernels write`
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.pattern.kind, self.mover.name)
    }

    pub(super) fn best(&self) -> f64 {
        self.again.map_or(self.total, |again| again.max(self.total))
    }

    /// The finding that it is far slower than the copy engines' writes and the pairs alone suggest. Nothing is expected
    /// where a pair was not measured alone.
    pub(super) fn finding(
        &self,
        results: &Results,
        alone: &BTreeMap<&'static str, BTreeMap<Pair, f64>>,
    ) -> Option<Finding> {
        let writes = results
            .speeds
            .iter()
            .find(|speeds| speeds.pattern == self.pattern)?;
        let own = alone.get(self.mover.alone.name())?;
        let sum = |of: &dyn Fn(&Pair) -> Option<f64>| {
            self.pattern.pairs.iter().map(of).sum::<Option<f64>>()
        };
        let (mine, others) = (
            sum(&|pair| own.get(pair).copied())?,
            sum(&|pair| results.alone.get(pair).copied())?,
        );
        slow_together(
            &self.name(),
            self.pattern.pairs.len(),
            (self.total, self.again),
            writes.best() * mine / others,
        )
    }
}
