//! The last line of every boot and of every text report, for programs that read the console: `FIRSTLIGHT
//! verdict=.. failed=.. warned=.. codes=.. scope=.. host=.. seconds=..`. Each value is one word, whatever its
//! source contains.

use crate::outcome::Verdict;
use crate::text::is_invisible;
use std::fmt;

/// The first word of the line, with the blank after it.
pub const BEGINNING: &str = "FIRSTLIGHT ";

/// The beginning of a progress line on the validator's standard error.
pub const PROGRESS: &str = "progress  ";

/// The line, without a newline.
#[derive(Debug, Clone)]
pub struct LastLine<'a> {
    /// The verdict.
    pub verdict: Verdict,
    /// Ids of everything that failed.
    pub failed: Vec<&'a str>,
    /// Ids of everything that warned.
    pub warned: Vec<&'a str>,
    /// Codes of the findings, except harmless ones.
    pub codes: Vec<&'a str>,
    /// The scope of the verdict.
    pub scope: &'a str,
    /// The machine's name; empty when it is unknown.
    pub host: &'a str,
    /// How long it took.
    pub seconds: f64,
}

impl fmt::Display for LastLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verdict,
            warned,
            codes,
            scope,
            seconds,
            ..
        } = self;
        write!(
            f,
            "{BEGINNING}verdict={verdict} failed={} warned={} codes={} scope={} host={} seconds={seconds:.1}",
            self.failed(),
            list(warned),
            list(codes),
            word(scope),
            self.host()
        )
    }
}

/// The maximum number of characters of the short form, so that it fits 80 columns with its newline.
pub const SHORT: usize = 79;

impl LastLine<'_> {
    /// The same words in the same order in less than 80 characters: each list as its first entry and the
    /// number of others; words that do not fit are left out. The verdict and what failed come first.
    #[must_use]
    pub fn short(&self) -> String {
        let Self {
            verdict,
            failed,
            warned,
            codes,
            scope,
            seconds,
            ..
        } = self;
        let failed = if failed.is_empty() {
            self.failed()
        } else {
            first(failed)
        };
        let all = [
            (true, format!(" failed={failed}")),
            (!warned.is_empty(), format!(" warned={}", first(warned))),
            (!codes.is_empty(), format!(" codes={}", first(codes))),
            (*scope != "machine", format!(" scope={}", word(scope))),
            (true, format!(" host={}", self.host())),
            (true, format!(" seconds={seconds:.1}")),
        ];
        let mut line = format!("{BEGINNING}verdict={verdict}");
        for (_, word) in all.iter().filter(|(wanted, _)| *wanted) {
            if line.chars().count() + word.chars().count() <= SHORT {
                line.push_str(word);
            }
        }
        line.chars().take(SHORT).collect()
    }

    /// `none` only if the verdict is good or something else explains it; otherwise `unknown`.
    fn failed(&self) -> String {
        let unexplained = match self.verdict {
            Verdict::Pass => false,
            Verdict::Degraded => self.warned.is_empty() && self.codes.is_empty(),
            Verdict::Fail | Verdict::Error => true,
        };
        if self.failed.is_empty() && unexplained {
            "unknown".to_owned()
        } else {
            list(&self.failed)
        }
    }

    fn host(&self) -> String {
        word(if self.host.is_empty() {
            "unknown"
        } else {
            self.host
        })
    }
}

/// `acs+2`
fn first(words: &[&str]) -> String {
    match words {
        [] => "none".to_owned(),
        [one] => word(one),
        [one, more @ ..] => format!("{}+{}", word(one), more.len()),
    }
}

/// The maximum number of entries of a list, and of characters of a value: a report may have any number of tests, with any names.
const LISTED: usize = 20;
const WORD: usize = 128;

/// `acs,iommu`; of a long list the first entries and the number of others, as `acs,iommu+3`.
fn list(words: &[&str]) -> String {
    if words.is_empty() {
        return "none".to_owned();
    }
    let more = words.len().saturating_sub(LISTED);
    let listed = words
        .iter()
        .take(LISTED)
        .map(|w| word(w))
        .collect::<Vec<_>>()
        .join(",");
    if more == 0 {
        listed
    } else {
        format!("{listed}+{more}")
    }
}

/// Replaces characters that would end the value or the line, or forge another value, with `?`.
fn word(text: &str) -> String {
    let keeps = |c: char| !is_invisible(c) && !c.is_whitespace() && c != '=';
    let mut word: String = text
        .chars()
        .take(WORD)
        .map(|c| if keeps(c) { c } else { '?' })
        .collect();
    if text.chars().nth(WORD).is_some() {
        word.push_str("..");
    }
    word
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
    fn the_short_form_fits_80_columns_and_keeps_the_verdict_and_its_reason() {
        let long = "a-host-with-a-very-long-name.in-a-domain.of-a-large-company.example";
        let codes = ["P2P-WRONG-DATA", "NCCL-WRONG-DATA"];
        let mut line = LastLine {
            verdict: Verdict::Fail,
            failed: vec!["p2p-integrity", "nccl", "acs"],
            warned: vec![],
            codes: codes.to_vec(),
            scope: "machine",
            host: "node7",
            seconds: 19.52,
        };
        let start = "FIRSTLIGHT verdict=FAIL failed=p2p-integrity+2 codes=P2P-WRONG-DATA+1";
        assert_eq!(line.short(), format!("{start}"));
        line.codes = vec!["P2P-HANG"];
        assert_eq!(
            line.short(),
            "FIRSTLIGHT verdict=FAIL failed=p2p-integrity+2 codes=P2P-HANG host=node7"
        );
        line.host = long;
        assert_eq!(
            line.short(),
            "FIRSTLIGHT verdict=FAIL failed=p2p-integrity+2 codes=P2P-HANG seconds=19.5"
        );
        line.failed = vec![long, long];
        assert!(
            line.short().chars().count() < 80
                && line.short().starts_with("FIRSTLIGHT verdict=FAIL")
        );
    }

    #[test]
    fn a_bad_verdict_never_says_none_without_a_reason() {
        for (verdict, failed, codes) in [
            (Verdict::Fail, "failed=unknown ", &[][..]),
            (Verdict::Error, "failed=unknown ", &["X"][..]),
            (Verdict::Degraded, "failed=unknown ", &[][..]),
            (Verdict::Degraded, "failed=none ", &["X"][..]),
            (Verdict::Pass, "failed=none ", &[][..]),
        ] {
            let none = || Vec::new();
            let codes = codes.to_vec();
            let line = LastLine {
                verdict,
                failed: none(),
                warned: none(),
                codes,
                scope: "machine",
                host: "",
                seconds: 1.0,
            };
            assert!(
                line.to_string().contains(failed) && line.short().contains(failed),
                "{line}"
            );
        }
    }

    #[test]
    fn it_has_every_value_and_is_one_line() {
        let start = "FIRSTLIGHT verdict=ERROR failed=config,a warned=none codes=none scope=machine";
        assert_eq!(
            line(&["config", "a"], &[], "node7"),
            format!("{start} host=node7 seconds=0.5")
        );
        assert_eq!(
            line(&["config", "a"], &[], ""),
            format!("{start} host=unknown seconds=0.5")
        );
        let hostile = line(&[], &["X\rY", "\u{85}\u{2028}"], "a b\nc=d");
        assert!(
            hostile.ends_with("codes=X?Y,?? scope=machine host=a?b?c?d seconds=0.5"),
            "{hostile}"
        );
        let turned = line(&[], &["X\u{202e}Y"], "a\u{200b}b");
        assert!(
            turned.ends_with("codes=X?Y scope=machine host=a?b seconds=0.5"),
            "{turned}"
        );
    }

    #[test]
    fn a_long_list_and_a_long_word_are_cut() {
        let (words, long) = (vec!["a"; 1_000_000], "x".repeat(1_000_000));
        let cut = line(&words, &[&long], "n");
        let start = format!(
            "FIRSTLIGHT verdict=ERROR failed={}+999980 warned=none codes=",
            vec!["a"; 20].join(",")
        );
        assert!(
            cut.starts_with(&start) && cut.contains(&format!("codes={}.. scope", "x".repeat(128))),
            "{cut:.300}"
        );
        assert!(
            line(&words[..20], &[], "n").contains(&format!("failed={} ", vec!["a"; 20].join(",")))
        );
    }
}
