//! Which devices the lines go to, so that each line appears once on every physical console:
//! `/dev/console` is only another name for one of them.

/// A device that could be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name in /dev.
    pub name: String,
    /// Its device number.
    pub number: (u32, u32),
}

/// Number of `/dev/console`.
const CONSOLE: (u32, u32) = (5, 1);

/// The device behind a candidate: `/dev/console` is the last of /sys/class/tty/console/active.
fn real_name<'a>(candidate: &'a Candidate, active: &'a str) -> &'a str {
    match active.split_whitespace().last() {
        Some(last) if candidate.number == CONSOLE => last,
        _ => &candidate.name,
    }
}

/// The candidates to keep, in their order; of two that are the same device the first.
#[must_use]
pub fn pick(candidates: &[Candidate], active: &str) -> Vec<String> {
    let mut kept: Vec<&Candidate> = Vec::new();
    for candidate in candidates {
        let same = |other: &&Candidate| {
            other.number == candidate.number || real_name(other, active) == real_name(candidate, active)
        };
        if !kept.iter().any(same) {
            kept.push(candidate);
        }
    }
    kept.into_iter().map(|candidate| candidate.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(candidates: &[(&str, (u32, u32))], active: &str) -> Vec<String> {
        let all: Vec<_> =
            candidates.iter().map(|(n, d)| Candidate { name: (*n).to_owned(), number: *d }).collect();
        pick(&all, active)
    }

    #[test]
    fn the_console_is_dropped_when_the_device_behind_it_is_there() {
        let all = [("ttyS0", (4, 64)), ("tty0", (4, 0)), ("console", (5, 1))];
        assert_eq!(names(&all, "tty0 ttyS0"), ["ttyS0", "tty0"]);
        assert_eq!(names(&all, "ttyS0 tty0\n"), ["ttyS0", "tty0"]);
        assert_eq!(names(&all, "ttyS1"), ["ttyS0", "tty0", "console"]);
    }

    #[test]
    fn a_console_that_is_a_bind_mount_of_something_else_stays() {
        assert_eq!(names(&[("tty0", (4, 0)), ("console", (136, 3))], "tty0"), ["tty0", "console"]);
    }

    #[test]
    fn the_same_line_named_twice_is_opened_once() {
        assert_eq!(names(&[("ttyS0", (4, 64)), ("ttyS0", (4, 64))], ""), ["ttyS0"]);
    }

    #[test]
    fn without_a_list_of_active_consoles_the_console_stays() {
        assert_eq!(names(&[("ttyS0", (4, 64)), ("console", (5, 1))], ""), ["ttyS0", "console"]);
    }
}
