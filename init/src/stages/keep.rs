//! The part of the stage `publish` that runs `firstlight publish` to keep the report on the data partition
//! and to send it. A failure is reported and does not change the verdict.

use crate::child::{Done, End, Spec, on_output};
use crate::config::types::{Config, Report};
use crate::fault::Fault;
use crate::helper::{self, Published};
use crate::machine::Machine;
use crate::paths;
use crate::verdict::{Judgement, Trouble};
use log::info;

/// The result: the stage's line, and trouble if a configuration appeared too late to be used, because the
/// verdict then followed the wrong settings.
pub type Kept = (String, Option<Trouble>);

/// The lines of `firstlight publish`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answers {
    partition: Option<String>,
    url: Option<String>,
    has_config: bool,
    ignored: Vec<String>,
}

impl Answers {
    fn line(&mut self, line: &str) {
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

    fn run(&mut self, m: &Machine, spec: &Spec) -> Result<Done, Fault> {
        m.run(spec, &mut on_output(|line| self.line(line)), |_| true)
    }
}

/// Keeps and sends the report.
///
/// # Errors
/// Only an interruption.
pub fn keep(m: &Machine, config: &Config, judgement: &Judgement) -> Result<Kept, Fault> {
    let report = &config.report;
    let verdict = judgement.verdict.to_string();
    let failed = m.network.as_ref().and_then(|result| result.as_ref().err());
    let offline = failed.map(|why| format!("no network: {why}"));
    let file = if judgement.has_report { paths::REPORT } else { paths::VERDICT };
    let what = Published { file, verdict: &verdict, offline: offline.as_deref() };
    let mut answers = Answers::default();
    let mut last = None;
    if let Some(place) = &report.partition {
        last = Some(answers.run(m, &helper::publish_on(place, &config.network, report, &what))?);
    }
    // The stage `config` has already logged those that existed then.
    answers
        .ignored
        .iter()
        .filter(|line| !report.ignored.contains(line))
        .for_each(|line| info!("warning: {line}"));
    let kept = kept(report, &answers, last.as_ref());
    let Some(url) = &report.url else { return Ok(kept) };
    // Without a partition the report is sent anyway, unless the time for sending has run out.
    if answers.url.is_none() && last.as_ref().is_none_or(|done| matches!(done.end, End::Exited(_))) {
        last = Some(answers.run(m, &helper::publish(&config.network, report, &what))?);
    }
    let why = || last.map_or_else(String::new, |done| done.reason());
    info!("{}", post_line(&answers.url.unwrap_or_else(|| format!("not sent to {url}: {}", why()))));
    Ok(kept)
}

fn kept(report: &Report, answers: &Answers, done: Option<&Done>) -> Kept {
    let (Some(place), Some(done)) = (&report.partition, done) else {
        return ("verdict.json; no data partition is configured".to_owned(), None);
    };
    let late = answers.has_config && !report.config_read;
    let cause = || format!("{} came after the configuration was read and has one for it", place.text());
    let trouble = late.then(|| Trouble { stage: "config", code: None, cause: cause() });
    let said = match (&answers.partition, done.end) {
        (Some(said), _) if said.starts_with("kept ") => said.clone(),
        (Some(said), _) => format!("warning: {said}"),
        (None, End::Exited(helper::ABSENT)) if !report.required && answers.ignored.is_empty() => {
            format!("verdict.json; no {} to keep it on", place.text())
        }
        (None, End::Exited(helper::ABSENT)) if !report.required => {
            format!("verdict.json; the only {} is ignored", place.text())
        }
        (None, _) => format!("warning: not kept: {}", done.reason()),
    };
    (said, trouble)
}

fn post_line(said: &str) -> String {
    if said.starts_with("sent ") { format!("post      {said}") } else { format!("warning: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Source};
    use std::time::Duration;

    fn report(text: &str) -> Report {
        config::build(
            &[config::File { source: Source::Image, path: "f".to_owned(), text: text.to_owned() }],
            &[],
        )
        .unwrap()
        .report
    }

    fn done(end: End, said: &str) -> Done {
        Done { end, tail: vec![said.to_owned()], took: Duration::ZERO }
    }

    fn answers(lines: &[&str]) -> Answers {
        let mut answers = Answers::default();
        lines.iter().for_each(|line| answers.line(line));
        answers
    }

    #[test]
    fn results_are_shown_and_a_failure_is_a_warning() {
        let lines =
            ["partition: kept as reports/000001-x-PASS.json", "url: not sent to http://h/: why", "other"];
        let all = answers(&lines);
        let fine = done(End::Exited(1), "");
        assert_eq!(kept(&report(""), &all, Some(&fine)).0, "kept as reports/000001-x-PASS.json");
        assert_eq!(post_line(&all.url.unwrap()), "warning: not sent to http://h/: why");
        assert_eq!(post_line("sent to http://h/"), "post      sent to http://h/");
        let full = answers(&["partition: not kept: no room"]);
        assert_eq!(kept(&report(""), &full, Some(&fine)).0, "warning: not kept: no room");
        let hung = done(End::TimedOut(Duration::from_secs(30)), "");
        let said = kept(&report(""), &answers(&[]), Some(&hung)).0;
        assert_eq!(said, "warning: not kept: did not end within 30 s and was killed");
    }

    #[test]
    fn an_absent_partition_is_a_warning_only_where_it_is_required() {
        let absent = done(End::Exited(helper::ABSENT), "LABEL=X: no such file system on any disk");
        let unnamed = kept(&report(""), &answers(&[]), Some(&absent)).0;
        assert_eq!(unnamed, "verdict.json; no LABEL=FIRSTLIGHT to keep it on");
        let ignored = kept(&report(""), &answers(&["ignored /dev/vda .."]), Some(&absent)).0;
        assert_eq!(ignored, "verdict.json; the only LABEL=FIRSTLIGHT is ignored");
        let named = kept(&report("[report]\npartition = \"LABEL=X\"\n"), &answers(&[]), Some(&absent)).0;
        assert_eq!(named, "warning: not kept: LABEL=X: no such file system on any disk");
    }

    #[test]
    fn a_configuration_that_came_too_late_is_trouble() {
        let late = kept(&report(""), &answers(&["config.toml"]), Some(&done(End::Exited(0), "")));
        assert!(late.1.unwrap().cause.contains("came after the configuration was read"));
        let read = Report { config_read: true, ..report("") };
        assert_eq!(kept(&read, &answers(&["config.toml"]), Some(&done(End::Exited(0), ""))).1, None);
    }
}
