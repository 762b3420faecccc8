//! Groups of GPUs that reach each other, on machines where not all do: bridged pairs, partitions of a switch.
//! Pure.

use crate::schedule::Pair;
use machine::GpuId;

/// Groups of GPUs within which each GPU reaches every other and none outside; `None` where there are no such
/// groups.
pub(in crate::suite) fn groups(
    gpus: usize,
    reaches: impl Fn(Pair) -> bool,
) -> Option<Vec<Vec<GpuId>>> {
    let around = |from: GpuId| -> Vec<GpuId> {
        GpuId::all(gpus)
            .filter(|to| *to == from || reaches(Pair { from, to: *to }))
            .collect()
    };
    let all: Vec<Vec<GpuId>> = GpuId::all(gpus).map(around).collect();
    let agree = all
        .iter()
        .all(|group| group.iter().all(|gpu| all.get(gpu.index()) == Some(group)));
    let mut groups = all;
    groups.sort();
    groups.dedup();
    agree.then_some(groups)
}

/// `[0,1] [2,3]`
pub(in crate::suite) fn format_groups(groups: &[Vec<GpuId>]) -> String {
    let one = |group: &Vec<GpuId>| {
        let gpus: Vec<_> = group.iter().map(ToString::to_string).collect();
        format!("[{}]", gpus.join(","))
    };
    groups.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Whether one of `groups` contains both GPUs.
pub(in crate::suite) fn in_same_group(groups: &[Vec<GpuId>], pair: Pair) -> bool {
    groups
        .iter()
        .any(|group| group.contains(&pair.from) && group.contains(&pair.to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_where_access_is_symmetric_and_transitive() {
        let found = |wanted: &[Vec<GpuId>]| {
            groups(wanted.concat().len(), |pair| in_same_group(wanted, pair))
        };
        for wanted in [
            vec![GpuId::list([0, 1]), GpuId::list([2, 3])],
            vec![GpuId::list([0, 2]), GpuId::list([1, 3])],
            vec![GpuId::list([0, 1, 2])],
            vec![GpuId::list([0]), GpuId::list([1, 2])],
        ] {
            assert_eq!(found(&wanted), Some(wanted));
        }
        assert_eq!(
            format_groups(&[GpuId::list([0, 1]), GpuId::list([2])]),
            "[0,1] [2]"
        );
    }

    #[test]
    fn a_missing_direction_or_pair_makes_no_group() {
        let without = |lost: &[Pair]| groups(4, |pair| !lost.contains(&pair));
        assert_eq!(without(&[Pair::of(0, 1)]), None);
        assert_eq!(without(&[Pair::of(0, 1), Pair::of(1, 0)]), None);
        assert_eq!(without(&[]), Some(vec![GpuId::list([0, 1, 2, 3])]));
    }
}
