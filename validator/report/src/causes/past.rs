//! Faults that the kernel logged before the tests, as causes. They may be over, so they are information and no causes by
//! themselves. But where a test failed and nothing that was measured explains it, they are the likely cause.

use super::PlacedFinding;
use outcome::finding::Severity;

/// Makes earlier faults the roots of the findings that they explain. `roots` has the root of each finding; an earlier
/// fault has none yet, and keeps none if it explains no failure.
pub(super) fn explain(all: &[PlacedFinding<'_>], order: &[usize], roots: &mut [Option<usize>]) {
    let earlier = |n: &&usize| {
        all.get(**n)
            .is_some_and(|finding| finding.finding.is_earlier_fault())
    };
    let mut heads: Vec<usize> = Vec::new();
    for n in order.iter().filter(earlier) {
        let Some(fault) = all.get(*n) else { continue };
        let explains = |m: usize| all.get(m).is_some_and(|finding| fault.explains(finding));
        let fails = |m: usize| {
            all.get(m)
                .is_some_and(|finding| finding.finding.severity >= Severity::Fail)
        };
        // What is explained already keeps its root, unless that is an earlier fault of the same kind.
        let like = heads
            .iter()
            .copied()
            .find(|head| all.get(*head).is_some_and(|head| fault.is_like(head)));
        let open = |root: usize| (Some(root) == like) || (explains(root) && !heads.contains(&root));
        let failure =
            |(m, root): (usize, &Option<usize>)| fails(m) && explains(m) && root.is_some_and(open);
        if !roots.iter().enumerate().any(failure) {
            continue;
        }
        let free = |m: &usize| roots.get(*m) == Some(&Some(*m)) && !heads.contains(m);
        let taken: Vec<_> = (0..all.len()).filter(|m| free(m) && explains(*m)).collect();
        for root in roots
            .iter_mut()
            .filter(|root| root.is_some_and(|root| taken.contains(&root)))
        {
            *root = Some(*n);
        }
        if let Some(root) = roots.get_mut(*n) {
            *root = Some(*n);
        }
        heads.push(*n);
    }
}
