//! The part of the stage `publish` that runs `firstlight publish` to keep the report on the data partition
//! and to send it. A failure is reported and does not change the verdict.

use crate::child::{ChildResult, ChildSpec, End, on_output};
use crate::config::types::{Config, Report};
use crate::fault::Fault;
use crate::helper::{self, PublishRequest};
use crate::machine::Machine;
use crate::paths;
use crate::verdict::{Judgement, StageError};
use log::info;

/// The result: the stage's line, and an error if a configuration appeared too late to be used, because the
/// verdict then followed the wrong settings.
pub type KeepResult = (String, Option<StageError>);

/// What the lines of `firstlight publish` report.
#[derive(Debug, Default, PartialEq, Eq)]
struct PublishOutput {
    partition: Option<String>,
    url: Option<String>,
    has_config: bool,
    ignored: Vec<String>,
}

impl PublishOutput {
    fn parse_line(&mut self, line: &str) {
        if let Some(said) = line.strip_prefix("partition: ") {
            self.partition = Some(said.to_owned());
        } else if let Some(said) = line.strip_prefix("url: ") {
            self.url = Some(said.to_owned());
        } else if let Some(said) = line.strip_prefix(helper::IGNORED) {
            self.ignored.push(said.to_owned());
        } else if line == helper::HAS_CONFIG {
            self.has_config = true;
        }
    }

    fn run(&mut self, m: &Machine, spec: &ChildSpec) -> Result<ChildResult, Fault> {
        m.run(spec, &mut on_output(|line| self.parse_line(line)), |_| true)
    }
}

/// Keeps and sends the report.
///
/// # Errors
/// Only an interruption.
pub fn keep_report(
    m: &Machine,
    config: &Config,
    judgement: &Judgement,
) -> Result<KeepResult, Fault> {
    let report = &config.report;
    let verdict = judgement.verdict.to_string();
    let failed = m.network.as_ref().and_then(|result| result.as_ref().err());
    let offline = failed.map(|why| format!("no network: {why}"));
    let file = if judgement.has_report {
        paths::REPORT
    } else {
        paths::VERDICT
    };
    let what = PublishRequest {
        file,
        verdict: &verdict,
        offline: offline.as_deref(),
    };
    let mut output = PublishOutput::default();
    let mut last = None;
    if let Some(place) = &report.partition {
        last = Some(output.run(
            m,
            &helper::publish_on(place, &config.network, report, &what),
        )?);
    }
    // The stage `config` has already logged those that existed then.
    output
        .ignored
        .iter()
        .filter(|line| !report.ignored.contains(line))
        .for_each(|line| info!("warning: {line}"));
    let keep_result = keep_result(report, &output, last.as_ref());
    let Some(url) = &report.url else {
        return Ok(keep_result);
    };
    // Without a partition the report is sent anyway, unless the time for sending has run out.
    if output.url.is_none()
        && last
            .as_ref()
            .is_none_or(|done| matches!(done.end, End::Exited(_)))
    {
        last = Some(output.run(m, &helper::publish(&config.network, report, &what))?);
    }
    let why = || last.map_or_else(String::new, |done| done.reason());
    info!(
        "{}",
        post_line(
            &output
                .url
                .unwrap_or_else(|| format!("not sent to {url}: {}", why()))
        )
    );
    Ok(keep_result)
}

fn keep_result(report: &Report, output: &PublishOutput, done: Option<&ChildResult>) -> KeepResult {
    let (Some(place), Some(done)) = (&report.partition, done) else {
        return (
            "verdict.json; no data partition is configured".to_owned(),
            None,
        );
    };
    let late = output.has_config && !report.config_read;
    let cause = || {
        format!(
            "{} came after the configuration was read and has one for it",
            place.text()
        )
    };
    let stage_error = late.then(|| StageError {
        stage: "config",
        code: None,
        cause: cause(),
    });
    let said = match (&output.partition, done.end) {
        (Some(said), _) if said.starts_with("kept ") => said.clone(),
        (Some(said), _) => format!("warning: {said}"),
        (None, End::Exited(helper::ABSENT)) if !report.required && output.ignored.is_empty() => {
            format!("verdict.json; no {} to keep it on", place.text())
        }
        (None, End::Exited(helper::ABSENT)) if !report.required => {
            format!("verdict.json; the only {} is ignored", place.text())
        }
        (None, _) => format!("warning: not kept: {}", done.reason()),
    };
    (said, stage_error)
}

fn post_line(said: &str) -> String {
    if said.starts_with("sent ") {
        format!("post      {said}")
    } else {
        format!("warning: {said}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, LayerSource};
    use std::time::Duration;

    fn report(text: &str) -> Report {
        config::build(
            &[config::ConfigFile {
                source: LayerSource::Image,
                path: "f".to_owned(),
                text: text.to_owned(),
            }],
            &[],
        )
        .unwrap()
        .report
    }

    fn done(end: End, said: &str) -> ChildResult {
        ChildResult {
            end,
            tail: vec![said.to_owned()],
            took: Duration::ZERO,
        }
    }

    fn output(lines: &[&str]) -> PublishOutput {
        let mut output = PublishOutput::default();
        lines.iter().for_each(|line| output.parse_line(line));
        output
    }

    #[test]
    fn results_are_shown_and_a_failure_is_a_warning() {
        let lines = [
            "partition: kept as reports/000001-x-PASS.json",
            "url: not sent to http://h/: why",
            "other",
        ];
        let all = output(&lines);
        let fine = done(End::Exited(1), "");
        assert_eq!(
            keep_result(&report(""), &all, Some(&fine)).0,
            "kept as reports/000001-x-PASS.json"
        );
        assert_eq!(
            post_line(&all.url.unwrap()),
            "warning: not sent to http://h/: why"
        );
        assert_eq!(
            post_line("sent to http://h/"),
            "post      sent to http://h/"
        );
        let full = output(&["partition: not kept: no room"]);
        assert_eq!(
            keep_result(&report(""), &full, Some(&fine)).0,
            "warning: not kept: no room"
        );
        let hung = done(End::TimedOut(Duration::from_secs(30)), "");
        let said = keep_result(&report(""), &output(&[]), Some(&hung)).0;
        assert_eq!(
            said,
            "warning: not kept: did not end within 30 s and was killed"
        );
    }

    #[test]
    fn an_absent_partition_is_a_warning_only_where_it_is_required() {
        let absent = done(
            End::Exited(helper::ABSENT),
            "LABEL=X: no such file system on any disk",
        );
        let unnamed = keep_result(&report(""), &output(&[]), Some(&absent)).0;
        assert_eq!(unnamed, "verdict.json; no LABEL=FIRSTLIGHT to keep it on");
        let ignored = keep_result(
            &report(""),
            &output(&["ignored /dev/vda .."]),
            Some(&absent),
        )
        .0;
        assert_eq!(
            ignored,
            "verdict.json; the only LABEL=FIRSTLIGHT is ignored"
        );
        let named = report("[report]\npartition = \"LABEL=X\"\n");
        let named = keep_result(&named, &output(&[]), Some(&absent)).0;
        assert_eq!(
            named,
            "warning: not kept: LABEL=X: no such file system on any disk"
        );
    }

    #[test]
    fn a_configuration_that_came_too_late_is_trouble() {
        let late = keep_result(
            &report(""),
            &output(&["config.toml"]),
            Some(&done(End::Exited(0), "")),
        );
        assert!(
            late.1
                .unwrap()
                .cause
                .contains("came after the configuration was read")
        );
        let read = Report {
            config_read: true,
            ..report("")
        };
        assert_eq!(
            keep_result(
                &read,
                &output(&["config.toml"]),
                Some(&done(End::Exited(0), ""))
            )
            .1,
            None
        );
    }
}
