//! The name that a person most likely meant: one, two typing errors away from a known one.

/// The known name nearest to `name`, when it is near enough to be a typing error of it.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).clamp(1, 2);
    known.map(|k| (distance(name, k), k)).filter(|(d, _)| *d <= most).min().map(|(_, k)| k)
}

/// Levenshtein's distance: how many characters must be put in, taken out or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        let mut left = i + 1;
        for (y, pair) in b.iter().zip(row.windows(2)) {
            let &[diagonal, above] = pair else { continue };
            left = (diagonal + usize::from(x != *y)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name() {
        let known = ["fabric.iommu", "fabric.acs", "fabric.rebar"];
        assert_eq!(nearest("fabric.iomu", known.into_iter()), Some("fabric.iommu"));
        assert_eq!(nearest("fabrik.acs", known.into_iter()), Some("fabric.acs"));
    }

    #[test]
    fn another_word_finds_nothing() {
        assert_eq!(nearest("colour", ["fabric.iommu", "fabric.acs"].into_iter()), None);
        assert_eq!(nearest("", ["acs"].into_iter()), None);
    }

    #[test]
    fn the_distance_counts_single_changes() {
        for (a, b, d) in [("", "abc", 3), ("abc", "", 3), ("abc", "abc", 0), ("kitten", "sitting", 3)] {
            assert_eq!(distance(a, b), d, "{a} {b}");
        }
    }
}
