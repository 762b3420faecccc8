//! The form of a version of NVIDIA's driver: 555.58.02, 580.95.05, 550.163.01.

/// True for numbers with at least one dot between them; `1` of `libcuda.so.1` is not a version.
#[must_use]
pub fn is_version(text: &str) -> bool {
    let mut parts = text.split('.');
    let numbers = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.contains('.') && parts.all(numbers)
}

/// The version in a line such as `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.58.02  ..`.
#[must_use]
pub fn in_line(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| is_version(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_distinguished_from_other_words() {
        for good in ["555.58.02", "580.95.05", "1.0", "2.29.7"] {
            assert!(is_version(good), "{good}");
        }
        for bad in ["", "1", ".", "555.", ".5", "555.58.0a", "x86_64", "555..02"] {
            assert!(!is_version(bad), "{bad}");
        }
    }

    #[test]
    fn the_version_is_found_in_either_drivers_line() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.58.02  Release Build  (root@host)";
        assert_eq!(in_line(open), Some("555.58.02"));
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024";
        assert_eq!(in_line(closed), Some("550.54.15"));
        assert_eq!(in_line("NVRM version: unknown"), None);
    }
}
