//! The result of a boot: the console, how the machine ended, and the files that came back.

use crate::archive::Entry;
use crate::config_space;
use crate::report::Report;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// How a machine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It powered off.
    PowerOff,
    /// It reset itself, as a panicking kernel does too.
    Reboot,
    /// It was still running when the test stopped it.
    StillRunning,
    /// Something else; QEMU's name for it.
    Other(String),
}

impl End {
    pub(crate) fn from_reason(reason: &str) -> Self {
        match reason {
            "guest-shutdown" => Self::PowerOff,
            "guest-reset" => Self::Reboot,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// The boot's final line for programs that read the serial line: `FIRSTLIGHT verdict=.. failed=.. warned=.. codes=..
/// scope=.. host=.. seconds=..`.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// `PASS`, `DEGRADED`, `FAIL` or `ERROR`.
    pub verdict: String,
    /// The tests that failed or could not be run; empty for `none`.
    pub failed: Vec<String>,
    /// The tests that warned; empty for `none`.
    pub warned: Vec<String>,
    /// The codes of the findings; empty for `none`.
    pub codes: Vec<String>,
    /// What the verdict applies to.
    pub scope: String,
    /// The machine's name.
    pub host: String,
    /// How long the validation took.
    pub seconds: f64,
}

impl Verdict {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("FIRSTLIGHT ")?.split_whitespace();
        let mut value = |key: &str| {
            words
                .next()?
                .strip_prefix(key)?
                .strip_prefix('=')
                .map(str::to_owned)
        };
        let list = |text: String| {
            text.split(',')
                .filter(|id| *id != "none")
                .map(str::to_owned)
                .collect()
        };
        Some(Self {
            verdict: value("verdict")?,
            failed: list(value("failed")?),
            warned: list(value("warned")?),
            codes: list(value("codes")?),
            scope: value("scope")?,
            host: value("host")?,
            seconds: value("seconds")?.parse().ok()?,
        })
    }
}

/// The scope of the verdict of `firstlight nodes`.
const NODES: &str = "nodes";

/// A boot that has ended.
#[derive(Debug)]
pub struct Booted {
    /// Everything on the serial line, including kernel messages.
    pub console: String,
    /// How it ended.
    pub end: End,
    /// From QEMU's start to its end.
    pub took: Duration,
    files: Vec<Entry>,
}

impl Booted {
    pub(crate) fn new(console: String, end: End, files: Vec<Entry>, took: Duration) -> Self {
        Self {
            console,
            end,
            took,
            files,
        }
    }

    /// The console's lines; kernel messages are included, without their time stamp.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.console.lines().map(unstamped)
    }

    /// The one verdict line of this boot.
    ///
    /// # Panics
    /// If there is none, more than one, or one that cannot be parsed.
    #[must_use]
    #[track_caller]
    pub fn verdict(&self) -> Verdict {
        let mut all: Vec<_> = self
            .verdicts()
            .filter(|verdict| verdict.scope != NODES)
            .collect();
        match all.len() {
            1 => all.remove(0),
            several => panic!("{several} verdict lines instead of one\n{self}"),
        }
    }

    fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        let lines = self.lines().filter(|line| line.starts_with("FIRSTLIGHT "));
        lines.map(move |line| {
            Verdict::parse(line).unwrap_or_else(|| panic!("cannot read {line:?}\n{self}"))
        })
    }

    /// A file that came back: `firstlight/..` from /run/firstlight, `kept/..` from /run/kept.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&[u8]> {
        self.files
            .iter()
            .find(|f| f.path == path)
            .map(|f| f.data.as_slice())
    }

    /// A file that came back, as text without the white space around it.
    ///
    /// # Panics
    /// If it did not come back.
    #[must_use]
    #[track_caller]
    pub fn text(&self, path: &str) -> String {
        let Some(data) = self.find(path) else {
            let names: Vec<_> = self.files.iter().map(|f| &f.path).collect();
            panic!("{path} did not come back, only {names:?}\n{self}");
        };
        String::from_utf8_lossy(data).trim().to_owned()
    }

    /// A file that came back, as JSON.
    ///
    /// # Panics
    /// If it did not come back or is not JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self, path: &str) -> Value {
        let text = self.text(path);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}\n{text}"))
    }

    /// The validator's report.
    ///
    /// # Panics
    /// If it did not come back or is not JSON.
    #[must_use]
    #[track_caller]
    pub fn report(&self) -> Report {
        Report(self.json("firstlight/report.json"))
    }

    /// ACS Control of a port, from the configuration space that [`config_space::SAVE_PORTS`] saved.
    ///
    /// # Panics
    /// If that did not come back or has no ACS.
    #[must_use]
    #[track_caller]
    pub fn acs_control(&self, bdf: &str) -> u16 {
        let Some(space) = self.find(&format!("kept/config.{bdf}")) else {
            panic!("no {bdf}\n{self}")
        };
        config_space::acs_control(space).unwrap_or_else(|| panic!("{bdf} shows no ACS\n{self}"))
    }

    /// Every port whose configuration space [`config_space::SAVE_PORTS`] saved and has ACS, with its ACS Control.
    #[must_use]
    pub fn acs_ports(&self) -> Vec<(&str, u16)> {
        let port = |f: &'_ Entry| config_space::acs_control(&f.data);
        let named = self
            .files
            .iter()
            .filter_map(|f| Some((f.path.strip_prefix("kept/config.")?, port(f)?)));
        named.collect()
    }

    /// Fails the test unless the console contains `text`.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn says(&self, text: &str) {
        assert!(
            self.console.contains(text),
            "the console does not say {text:?}\n{self}"
        );
    }

    /// Fails the test if the console contains `text`.
    ///
    /// # Panics
    /// If it does.
    #[track_caller]
    pub fn never_says(&self, text: &str) {
        assert!(
            !self.console.contains(text),
            "the console says {text:?}\n{self}"
        );
    }

    /// Fails the test unless the machine ended as `end`.
    ///
    /// # Panics
    /// If it ended otherwise.
    #[track_caller]
    pub fn ended(&self, end: &End) {
        assert_eq!(&self.end, end, "{self}");
    }
}

impl fmt::Display for Booted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "--- console, {:.1} s, {:?}",
            self.took.as_secs_f64(),
            self.end
        )?;
        writeln!(f, "{}", self.console)
    }
}

/// A line without the kernel's time stamp `[    1.234567] `.
fn unstamped(line: &str) -> &str {
    let stamped = || {
        let (stamp, rest) = line.strip_prefix('[')?.split_once("] ")?;
        stamp
            .trim_start()
            .bytes()
            .all(|b| b.is_ascii_digit() || b == b'.')
            .then_some(rest)
    };
    stamped().unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn booted(console: &str) -> Booted {
        Booted::new(
            console.to_owned(),
            End::PowerOff,
            Vec::new(),
            Duration::ZERO,
        )
    }

    #[test]
    fn the_verdict_line_is_read_also_from_the_kernel_log() {
        let verdict = booted("x\n[    3.1] FIRSTLIGHT verdict=FAIL failed=acs,iommu warned=none codes=ACS-REDIRECT scope=machine host=node7 seconds=0.4\n").verdict();
        assert_eq!(verdict.failed, ["acs", "iommu"]);
        assert_eq!((verdict.verdict.as_str(), verdict.seconds), ("FAIL", 0.4));
    }

    #[test]
    fn failed_none_lists_no_test() {
        assert!(
            booted("FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=1\n")
                .verdict()
                .failed
                .is_empty()
        );
    }

    #[test]
    #[should_panic(expected = "2 verdict lines")]
    fn a_second_verdict_line_fails_the_test() {
        let line = "FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=1\n";
        let _ = booted(&line.repeat(2)).verdict();
    }
}
