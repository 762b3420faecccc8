//! The line for programs that read the console, the last one of every boot and of every text: `FIRSTLIGHT
//! verdict=.. failed=.. warned=.. codes=.. scope=.. host=.. seconds=..`. Each value is one word, whatever
//! it is made of.

use crate::outcome::Verdict;
use std::fmt;

/// The first word of the line, with the blank after it.
pub const BEGINNING: &str = "FIRSTLIGHT ";

/// The line, without its end.
#[derive(Debug, Clone)]
pub struct LastLine<'a> {
    /// The verdict.
    pub verdict: Verdict,
    /// Ids of what failed.
    pub failed: Vec<&'a str>,
    /// Ids of what warned.
    pub warned: Vec<&'a str>,
    /// Codes of the findings, except harmless ones.
    pub codes: Vec<&'a str>,
    /// What the verdict speaks of.
    pub scope: &'a str,
    /// The machine's name; empty when it is unknown.
    pub host: &'a str,
    /// How long it took.
    pub seconds: f64,
}

impl fmt::Display for LastLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, failed, warned, codes, scope, host, seconds } = self;
        let host = if host.is_empty() { "unknown" } else { host };
        write!(
            f,
            "{BEGINNING}verdict={verdict} failed={} warned={} codes={} scope={} host={} seconds={seconds:.1}",
            list(failed),
            list(warned),
            list(codes),
            word(scope),
            word(host)
        )
    }
}

fn list(words: &[&str]) -> String {
    if words.is_empty() {
        return "none".to_owned();
    }
    words.iter().map(|w| word(w)).collect::<Vec<_>>().join(",")
}

/// What would end the value, or the line, or forge another value, becomes `?`.
fn word(text: &str) -> String {
    let keeps = |c: char| !c.is_control() && !c.is_whitespace() && c != '=';
    text.chars().map(|c| if keeps(c) { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line<'a>(failed: &[&'a str], codes: &[&'a str], host: &'a str) -> String {
        let (failed, codes) = (failed.to_vec(), codes.to_vec());
        let line = LastLine {
            verdict: Verdict::Error,
            failed,
            warned: vec![],
            codes,
            scope: "machine",
            host,
            seconds: 0.5,
        };
        line.to_string()
    }

    #[test]
    fn it_has_every_value_and_is_one_line() {
        let start = "FIRSTLIGHT verdict=ERROR failed=config,a warned=none codes=none scope=machine";
        assert_eq!(line(&["config", "a"], &[], "node7"), format!("{start} host=node7 seconds=0.5"));
        assert_eq!(line(&["config", "a"], &[], ""), format!("{start} host=unknown seconds=0.5"));
        let hostile = line(&[], &["X\rY", "\u{85}\u{2028}"], "a b\nc=d");
        assert!(hostile.ends_with("codes=X?Y,?? scope=machine host=a?b?c?d seconds=0.5"), "{hostile}");
    }
}
