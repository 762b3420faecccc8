//! The report that process 1 writes when the child that starts the driver does not finish: the child's last
//! draft, with a finding about where it stopped.

use super::report::{Code, Finding, Module, Report, Severity};
use super::start::seconds;
use crate::child::End;
use crate::sys::kernel::error_name;
use std::time::Duration;

/// A start of the driver that the child did not finish: its state when the child ended.
#[derive(Debug)]
pub struct UnfinishedStart<'a> {
    /// Whether a driver was wanted.
    pub load: bool,
    /// The child's last draft.
    pub draft: Result<Vec<u8>, String>,
    /// How the child ended.
    pub end: End,
    /// The last step that it announced.
    pub doing: &'a str,
    /// The kernel's lines about a driver since the stage began.
    pub lines: Vec<String>,
    /// How long it ran.
    pub took: Duration,
}

impl UnfinishedStart<'_> {
    /// The report in place of the child's own.
    #[must_use]
    pub fn report(self) -> Report {
        let draft = self
            .draft
            .and_then(|bytes| serde_json::from_slice::<Report>(&bytes).map_err(|e| e.to_string()));
        let mut evidence = self.lines;
        let mut report = draft.unwrap_or_else(|why| {
            evidence.push(format!("the draft is lost: {why}"));
            Report::new(self.load)
        });
        let doing = if self.doing.is_empty() {
            "starting"
        } else {
            self.doing
        };
        let code = match self.end {
            End::TimedOut(_) | End::Unkillable(_) => Code::DriverTimeout,
            _ => Code::DriverFailed,
        };
        let message = format!("the driver's start {} while {doing}", ended(self.end));
        let finding = Finding::fail(code, subject(&report.modules), message);
        report
            .findings
            .push(finding.as_severe_as(Severity::Error).shown_by(evidence));
        // It is unknown whether the devices that were open then still are.
        report.held.clear();
        report.seconds = seconds(self.took);
        report
    }
}

fn subject(modules: &[Module]) -> &str {
    modules.last().map_or("driver", |module| &module.name)
}

fn ended(end: End) -> String {
    match end {
        End::NotStarted(errno) => format!("could not be started ({})", error_name(errno)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(draft: Result<Vec<u8>, String>, end: End) -> Report {
        let lines = vec!["kernel: NVRM: waiting".to_owned()];
        UnfinishedStart {
            load: true,
            draft,
            end,
            doing: "opening /dev/nvidia3",
            lines,
            took: Duration::from_millis(300_500),
        }
        .report()
    }

    #[test]
    fn a_hang_is_reported_with_its_step_and_the_draft() {
        let mut before = Report::new(true);
        before.gpus.push("0000:01:00.0".into());
        before.held.push("/dev/nvidia0".into());
        let report = late(
            Ok(serde_json::to_vec(&before).unwrap()),
            End::TimedOut(Duration::from_secs(300)),
        );
        assert_eq!(
            (report.gpus.len(), report.held.len(), report.seconds),
            (1, 0, 300.5)
        );
        let finding = &report.findings[0];
        assert_eq!(
            (finding.code, finding.severity),
            (Code::DriverTimeout, Severity::Error)
        );
        assert_eq!(
            finding.message,
            "the driver's start did not end within 300 s and was killed while opening /dev/nvidia3"
        );
        assert_eq!(finding.evidence, ["kernel: NVRM: waiting"]);
    }

    #[test]
    fn a_crash_is_no_timeout_and_a_lost_draft_is_reported() {
        for draft in [
            Err("No such file".to_owned()),
            Ok(b"{}".to_vec()),
            Ok(vec![0xff]),
        ] {
            let report = late(draft, End::Signalled(9));
            assert_eq!(report.findings[0].code, Code::DriverFailed);
            assert!(
                report.findings[0]
                    .message
                    .contains("was killed by signal 9 while opening /dev/nvidia3")
            );
            assert!(report.findings[0].evidence[1].starts_with("the draft is lost: "));
        }
    }
}
