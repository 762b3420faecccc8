//! Views of a report. Each is a pure function of the report.

pub mod causes;
pub mod element;
#[cfg(any(test, feature = "samples"))]
pub mod fixture;
pub mod fleet;
pub mod gain;
pub mod html;
pub mod junit;
pub mod last_line;
pub mod number;
pub mod pair_matrix;
pub mod prometheus;
pub mod text;
pub mod words;

use serde::Serialize;
use std::collections::BTreeMap;

/// Indented JSON with a newline at its end.
///
/// # Errors
/// The JSON writer's error.
pub fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Groups the items with equal keys, in the order of the first item of each group; fast for thousands of findings.
pub fn group_by_key<T, K: Ord>(
    all: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<Vec<T>> {
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<T>> = Vec::new();
    for one in all {
        let place = *places.entry(key(&one)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_in_the_order_of_their_first_items() {
        let groups = group_by_key(["b1", "a1", "b2", "c1", "a2"], |text| text.chars().next());
        assert_eq!(groups, [vec!["b1", "b2"], vec!["a1", "a2"], vec!["c1"]]);
    }
}
