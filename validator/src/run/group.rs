//! One group of tests: a worker runs them; when it fails in one, that one is an error and a new
//! worker goes on with the rest. Each round settles at least one test, so this ends.

use super::protocol::{Message, Request};
use super::supervise::{Ending, supervise};
use super::{Audience, Run, worker};
use crate::config::Config;
use crate::finding::{Code, Severity};
use crate::outcome::Judgement;
use crate::root::Root;
use crate::suite::{self, Test};
use std::collections::VecDeque;
use std::process::Command;
use std::time::{Duration, Instant};

/// Reading a machine before the first test: a hundred times what the largest takes.
const FACTS: Duration = Duration::from_secs(30);
/// Between two tests there is nothing to do.
const BETWEEN: Duration = Duration::from_secs(5);

/// Runs `tests` to an outcome each.
pub(super) fn run<A: Audience>(
    run: &mut Run<'_, A>,
    root: &Root,
    config: &Config,
    tests: Vec<&'static Test>,
) {
    let mut open: VecDeque<_> = tests.into();
    while !open.is_empty() {
        if Instant::now() >= run.until {
            let limit = run.limit_s;
            let message = format!("not started: all {limit} s of validate.timeout_s were used up");
            settle_all(
                run,
                &mut open,
                &Judgement::by(Code::TestTimeout.finding(Severity::Error, "machine", message)),
                &[],
            );
            return;
        }
        round(run, root, config, &mut open);
    }
}

/// One worker, until it ends.
fn round<A: Audience>(
    run: &mut Run<'_, A>,
    root: &Root,
    config: &Config,
    open: &mut VecDeque<&'static Test>,
) {
    let before = open.len();
    let mut begun = None;
    let mut start = Instant::now();
    let until = run.until;
    let within = |limit: Duration| limit.min(until.saturating_duration_since(Instant::now()));
    let request = Request {
        root: root.path().to_owned(),
        config: config.clone(),
        tests: open.iter().map(|t| t.id.to_owned()).collect(),
    };
    let (command, request) = match (command(config), serde_json::to_vec(&request)) {
        (Ok(command), Ok(request)) => (command, request),
        (Err(e), _) => return settle_all(run, open, &crashed("machine", &Ending::NotStarted(e)), &[]),
        (_, Err(e)) => return settle_all(run, open, &crashed("machine", &Ending::NotStarted(e.into())), &[]),
    };
    let (ending, last_lines) = supervise(command, &request, within(FACTS), |message| match message {
        Message::Facts(facts) => {
            run.learn(*facts);
            within(BETWEEN)
        }
        Message::Begin(id) => {
            begun = suite::by_id(&id);
            start = Instant::now();
            within(begun.map_or(BETWEEN, |t| t.deadline))
        }
        Message::End { id, seconds, said } => {
            begun = None;
            if let Some(test) = open.pop_front_if(|t| t.id == id) {
                run.end(test, Duration::try_from_secs_f64(seconds).unwrap_or_default(), said, Vec::new());
            }
            within(BETWEEN)
        }
    });
    match (begun, open.front()) {
        // It failed in this test: the others may still be told.
        (Some(test), Some(next)) if test.id == next.id => {
            open.pop_front();
            run.end(test, start.elapsed(), crashed(test.id, &ending), last_lines);
        }
        // It failed between tests after some progress: the next worker gets what is left.
        (_, Some(_)) if open.len() < before => {}
        // It failed before the first test, as the next one would.
        _ => settle_all(run, open, &crashed("machine", &ending), &last_lines),
    }
}

/// This program again, with nothing of our environment but where the driver's libraries are.
fn command(config: &Config) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(worker::COMMAND).env_clear();
    if !config.validate.library_path.is_empty() {
        command.env("LD_LIBRARY_PATH", config.validate.library_path.join(":"));
    }
    Ok(command)
}

fn crashed(subject: &str, ending: &Ending) -> Judgement {
    let code = if matches!(ending, Ending::Silent(_)) { Code::TestTimeout } else { Code::TestCrashed };
    Judgement::by(code.finding(Severity::Error, subject, ending.to_string()))
}

fn settle_all<A: Audience>(
    run: &mut Run<'_, A>,
    open: &mut VecDeque<&'static Test>,
    said: &Judgement,
    last_lines: &[String],
) {
    for test in open.drain(..) {
        run.end(test, Duration::ZERO, said.clone(), last_lines.to_vec());
    }
}
