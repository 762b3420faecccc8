//! Groups of GPUs that reach each other, on machines where not all do: bridged pairs, partitions of a switch.
//! Pure.

use crate::schedule::Pair;

/// Groups of GPUs within which each GPU reaches every other and none outside; `None` where there are no such
/// groups.
pub(in crate::suite) fn groups(gpus: usize, reaches: impl Fn(Pair) -> bool) -> Option<Vec<Vec<usize>>> {
    let around = |from: usize| -> Vec<usize> {
        (0..gpus).filter(|to| *to == from || reaches(Pair { from, to: *to })).collect()
    };
    let all: Vec<Vec<usize>> = (0..gpus).map(around).collect();
    let agree = all.iter().all(|group| group.iter().all(|gpu| all.get(*gpu) == Some(group)));
    let mut groups = all;
    groups.sort();
    groups.dedup();
    agree.then_some(groups)
}

/// `[0,1] [2,3]`
pub(in crate::suite) fn named(groups: &[Vec<usize>]) -> String {
    let one = |group: &Vec<usize>| {
        let gpus: Vec<_> = group.iter().map(ToString::to_string).collect();
        format!("[{}]", gpus.join(","))
    };
    groups.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Whether one of `groups` contains both GPUs.
pub(in crate::suite) fn joins(groups: &[Vec<usize>], pair: Pair) -> bool {
    groups.iter().any(|group| group.contains(&pair.from) && group.contains(&pair.to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_where_access_is_symmetric_and_transitive() {
        let found = |wanted: &[Vec<usize>]| groups(wanted.concat().len(), |pair| joins(wanted, pair));
        for wanted in [
            vec![vec![0, 1], vec![2, 3]],
            vec![vec![0, 2], vec![1, 3]],
            vec![vec![0, 1, 2]],
            vec![vec![0], vec![1, 2]],
        ] {
            assert_eq!(found(&wanted), Some(wanted));
        }
        assert_eq!(named(&[vec![0, 1], vec![2]]), "[0,1] [2]");
    }

    #[test]
    fn a_missing_direction_or_pair_makes_no_group() {
        let without = |lost: &[(usize, usize)]| groups(4, |pair| !lost.contains(&(pair.from, pair.to)));
        assert_eq!(without(&[(0, 1)]), None);
        assert_eq!(without(&[(0, 1), (1, 0)]), None);
        assert_eq!(without(&[]), Some(vec![vec![0, 1, 2, 3]]));
    }
}
