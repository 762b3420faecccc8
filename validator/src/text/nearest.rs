//! The known name that the user most likely meant: one or two typing errors away.

use strsim::levenshtein;

/// The known name nearest to `name`, if it is near enough to be a typing error.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).clamp(1, 2);
    known.map(|k| (levenshtein(name, k), k)).filter(|(d, _)| *d <= most).min().map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_the_right_name() {
        let known = ["fabric.iommu", "fabric.acs", "fabric.rebar"];
        assert_eq!(nearest("fabric.iomu", known.into_iter()), Some("fabric.iommu"));
        assert_eq!(nearest("fabrik.acs", known.into_iter()), Some("fabric.acs"));
    }

    #[test]
    fn another_word_finds_nothing() {
        assert_eq!(nearest("colour", ["fabric.iommu", "fabric.acs"].into_iter()), None);
        assert_eq!(nearest("", ["acs"].into_iter()), None);
    }
}
