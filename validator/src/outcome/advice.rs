//! A setting for the workload that a test has proven correct.

use serde::{Deserialize, Serialize};

/// One variable for the workload's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// `NCCL_P2P_LEVEL`
    pub name: String,
    /// Its value.
    pub value: String,
    /// The reason, in one line without `=`, because old NCCL takes any line of nccl.conf with `=` as a
    /// setting.
    pub reason: String,
}

impl Advice {
    /// A variable; the reason is reduced to one line.
    #[must_use]
    pub fn new(name: &str, value: impl Into<String>, reason: &str) -> Self {
        let plain = |c: char| match c {
            c if c.is_control() => ' ',
            '=' => ':',
            c => c,
        };
        let reason: String = reason.chars().map(plain).collect();
        Self { name: name.to_owned(), value: value.into(), reason: reason.trim().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_one_line_without_an_equals_sign() {
        assert_eq!(Advice::new("NCCL_X", "1", "a=b\nc ").reason, "a:b c");
    }
}
