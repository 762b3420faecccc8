//! Versions of drivers, kernels and libraries as their numbers, and ranges of them. Pure.

use std::fmt;

/// The numbers of a version: 595, 58 and 3 of `595.58.03`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    numbers: Vec<u64>,
    text: String,
}

impl Version {
    /// A version in the table: numbers and dots alone.
    pub(super) fn exact(text: &str) -> Option<Self> {
        let numbers = text.split('.').map(number).collect::<Option<_>>()?;
        Some(Self {
            numbers,
            text: text.to_owned(),
        })
    }

    /// The version of a machine's part: the numbers that it begins with, as in `6.8.0-111-generic`.
    pub(super) fn begins(text: &str) -> Option<Self> {
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        Self::exact(text.get(..end)?.trim_end_matches('.'))
    }

    /// As many of its numbers as `other` has; a number that it lacks is 0.
    fn like(&self, other: &Self) -> Vec<u64> {
        let numbers = self.numbers.iter().copied().chain(std::iter::repeat(0));
        numbers.take(other.numbers.len()).collect()
    }

    /// Whether it is `other` or newer, by as many numbers as `other` has.
    fn reaches(&self, other: &Self) -> bool {
        self.like(other) >= other.numbers
    }

    /// Whether it is newer than `other`, by as many numbers as `other` has: 580.142.01 is not newer than 580.142.
    fn exceeds(&self, other: &Self) -> bool {
        self.like(other) > other.numbers
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn number(text: &str) -> Option<u64> {
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// The end of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The last version in it.
    To(Version),
    /// The first version that is not in it, because it has a fix.
    Fixed(Version),
}

/// The versions from one on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    from: Version,
    end: End,
}

impl Range {
    /// The range; `None` if no version is in it.
    pub(super) fn of(from: Version, end: End) -> Option<Self> {
        let range = Self { from, end };
        range.contains(&range.from).then_some(range)
    }

    pub(super) fn contains(&self, version: &Version) -> bool {
        version.reaches(&self.from)
            && match &self.end {
                End::To(last) => !version.exceeds(last),
                End::Fixed(fixed) => !version.reaches(fixed),
            }
    }
}

/// `580.142`, `2.29.7 to 2.30.4`, `2.30 to before 2.31.2`
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            End::To(last) if *last == self.from => write!(f, "{}", self.from),
            End::To(last) => write!(f, "{} to {last}", self.from),
            End::Fixed(fixed) => write!(f, "{} to before {fixed}", self.from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: &str, end: End) -> Range {
        Range::of(Version::exact(from).unwrap(), end).unwrap()
    }

    fn to(text: &str) -> End {
        End::To(Version::exact(text).unwrap())
    }

    fn fixed(text: &str) -> End {
        End::Fixed(Version::exact(text).unwrap())
    }

    #[track_caller]
    fn has(range: &Range, inside: &[&str], outside: &[&str]) {
        for (texts, expected) in [(inside, true), (outside, false)] {
            for text in texts {
                assert_eq!(
                    range.contains(&Version::begins(text).unwrap()),
                    expected,
                    "{text} in {range}"
                );
            }
        }
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        let all = range("580.65.06", to("595.9"));
        has(
            &all,
            &["580.65.06", "580.126.9", "590.44.01", "595.9.1"],
            &["580.65.05", "580.9", "595.58.03", "610.57.04"],
        );
        has(
            &range("6.8", to("6.14")),
            &["6.8.0-111-generic", "6.14.9"],
            &["6.7.12", "6.15.0", "6.80"],
        );
    }

    #[test]
    fn a_bound_stands_for_all_versions_that_begin_with_it_and_a_fix_ends_the_range() {
        has(
            &range("580", to("580")),
            &["580.65.06", "580.142"],
            &["575.64", "590.44.01"],
        );
        has(
            &range("2.30", fixed("2.31.2")),
            &["2.30.4", "2.31.1"],
            &["2.29.7", "2.31.2", "2.31.2+cuda13.0", "2.32"],
        );
        has(
            &range("580.142", to("580.142")),
            &["580.142", "580.142.00"],
            &["580.126.20", "580.159.04"],
        );
    }

    #[test]
    fn what_is_not_a_version_is_none() {
        for text in [
            "",
            "x",
            "1..2",
            "1.2.",
            ".1",
            "1.x",
            "-1",
            "99999999999999999999",
        ] {
            assert_eq!(Version::exact(text), None, "{text}");
        }
        for text in ["", "none", "v6.1", "-"] {
            assert_eq!(Version::begins(text), None, "{text}");
        }
        assert_eq!(
            Version::begins("7.0.3-arch1-1").map(|v| v.numbers),
            Some(vec![7, 0, 3])
        );
    }

    #[test]
    fn a_range_without_versions_is_none() {
        let version = |text| Version::exact(text).unwrap();
        assert_eq!(Range::of(version("595"), to("580")), None);
        assert_eq!(Range::of(version("2.31.2"), fixed("2.31.2")), None);
    }

    #[test]
    fn a_range_is_shown_with_its_end() {
        assert_eq!(range("1.2", to("1.2")).to_string(), "1.2");
        assert_eq!(range("1.2", to("1.4")).to_string(), "1.2 to 1.4");
        assert_eq!(range("1.2", fixed("1.4")).to_string(), "1.2 to before 1.4");
    }
}
