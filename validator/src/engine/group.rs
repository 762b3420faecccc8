//! One group of tests: a worker runs them; when it fails in one, that one is an error and a new
//! worker goes on with the rest. Each round settles at least one test, so this ends.

use super::command::command;
use super::interrupt::Interrupt;
use super::supervise::{Ending, supervise};
use super::{Audience, Run, probe};
use crate::config::Config;
use crate::machine::root::Root;
use crate::outcome::finding::{Code, Severity};
use crate::outcome::{Judgement, Matrix};
use crate::process::partner::leftovers::Leftovers;
use crate::report::Report;
use crate::suite::protocol::{Message, Request};
use crate::suite::{self, Group, Test};
use std::collections::{BTreeMap, VecDeque};
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
        if let Some(by) = run.interrupts.come() {
            return settle_all(run, &mut open, &interrupted("machine", by, Some("not started")), &[]);
        }
        if Instant::now() >= run.until {
            let said = used_up("machine", run.limit_s, Some("not started"));
            return settle_all(run, &mut open, &said, &[]);
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
    let (mut begun, mut doing) = (None, None);
    // A test that has ended, until it is known how the GPUs stand after it.
    let mut held: Option<Held> = None;
    let (mut start, mut patience) = (Instant::now(), BETWEEN);
    let until = run.until;
    let within = |limit: Duration, from: Instant| limit.min(until.saturating_duration_since(from));
    let request = Request {
        tests: open.iter().map(|t| t.id.to_owned()).collect(),
        ended: run.report.tests.iter().map(|t| (t.id.clone(), t.outcome)).collect(),
        matrices: measured(&run.report),
        ..Request::of(root, config)
    };
    let (command, request) = match (command(config), serde_json::to_vec(&request)) {
        (Ok(command), Ok(request)) => (command, request),
        (Err(e), _) => return settle_all(run, open, &crashed("machine", &Ending::NotStarted(e), None), &[]),
        (_, Err(e)) => {
            return settle_all(run, open, &crashed("machine", &Ending::NotStarted(e.into()), None), &[]);
        }
    };
    // Its processes are real ones, whatever machine it reads.
    let leftovers = Leftovers::before(Root::new("/"));
    let interrupts = run.interrupts.clone();
    let first = within(FACTS, start);
    let (ending, last_lines) = supervise(command, &request, first, &interrupts, |message, at| {
        // First what is held, then the log: what the kernel says from now on belongs to the next test.
        if !matches!(message, Message::Look(_)) {
            release(run, &mut held);
        }
        run.watch.look();
        let spent = at.saturating_duration_since(start);
        match message {
            Message::Look(look) => {
                look.iter().for_each(|look| run.witness.see(look));
                release(run, &mut held);
                within(if begun.is_some() { patience.saturating_sub(spent) } else { BETWEEN }, at)
            }
            Message::Facts(facts) => {
                run.learn(*facts);
                within(BETWEEN, at)
            }
            Message::Begin(id) => {
                begun = suite::by_id(&id);
                (start, doing) = (at, None);
                patience = begun.map_or(BETWEEN, |t| t.patience(run.report.gpus.len()));
                within(patience, at)
            }
            // Nobody asked.
            Message::NvLinks(_) => within(BETWEEN, at),
            Message::Cuda(version) => {
                run.report.driver.cuda = Some(version);
                within(patience.saturating_sub(spent), at)
            }
            Message::Doing(what) => {
                doing = Some(what);
                within(patience.saturating_sub(spent), at)
            }
            Message::End { id, seconds, said } => {
                begun = None;
                if let Some(test) = open.pop_front_if(|t| t.id == id) {
                    held = Some((test, Duration::try_from_secs_f64(seconds).unwrap_or_default(), said));
                    if test.group == Group::Host {
                        release(run, &mut held);
                    }
                }
                within(BETWEEN, at)
            }
        }
    });
    run.watch.look();
    release(run, &mut held);
    if !matches!(ending, Ending::Done) {
        // What died with it cannot tidy up any more.
        let _ = leftovers.remove();
    }
    let limit_s = run.limit_s;
    let crashed = |subject: &str, doing: Option<&str>| match ending {
        Ending::Interrupted(by) => interrupted(subject, by, doing),
        // It may have had no fault: nothing of the time was left for it.
        Ending::Silent(_) if Instant::now() >= until => used_up(subject, limit_s, doing),
        _ => crashed(subject, &ending, doing),
    };
    match (begun, open.front()) {
        // It failed in this test: the others may still be told.
        (Some(test), Some(next)) if test.id == next.id => {
            open.pop_front();
            let took = start.elapsed();
            if test.group == Group::Gpu && run.witness.has_looked() {
                run.witness.see(&probe::look(root, config));
            }
            run.end(test, took, crashed(test.id, doing.as_deref()), last_lines);
        }
        // It failed between tests after some progress: the next worker gets what is left.
        (_, Some(_)) if open.len() < before => {}
        // Whatever is left is settled where the next worker would be started.
        _ if matches!(ending, Ending::Interrupted(_)) => {}
        // It failed before the first test, as the next one would.
        _ => settle_all(run, open, &crashed("machine", None), &last_lines),
    }
}

/// A test, how long it took, and what it said.
type Held = (&'static Test, Duration, Judgement);

fn release<A: Audience>(run: &mut Run<'_, A>, held: &mut Option<Held>) {
    if let Some((test, took, said)) = held.take() {
        run.end(test, took, said, Vec::new());
    }
}

/// What tests may build on that an earlier worker measured.
fn measured(report: &Report) -> BTreeMap<String, Vec<Matrix>> {
    let some = report.tests.iter().filter(|t| !t.matrices.is_empty());
    some.map(|t| (t.id.clone(), t.matrices.clone())).collect()
}

/// The time for all tests together ran out before or, where it is told what was being done, in this one.
fn used_up(subject: &str, limit_s: u64, doing: Option<&str>) -> Judgement {
    let doing = doing.unwrap_or("not ended");
    let message = format!("{doing}: all {limit_s} s of validate.timeout_s were used up");
    let finding = Code::TestTimeout.finding(Severity::Error, subject, message);
    Judgement::by(finding.because("the tests together took longer than validate.timeout_s"))
}

/// A signal ended the run before or, where it is told what was being done, in this one.
fn interrupted(subject: &str, by: Interrupt, doing: Option<&str>) -> Judgement {
    let message = format!("{}: {by} ended the run", doing.unwrap_or("not ended"));
    Judgement::by(Code::Interrupted.finding(Severity::Error, subject, message))
}

/// `doing` is the last that the worker said of its work.
fn crashed(subject: &str, ending: &Ending, doing: Option<&str>) -> Judgement {
    let code = if matches!(ending, Ending::Silent(_)) { Code::TestTimeout } else { Code::TestCrashed };
    let message = doing.map_or_else(|| ending.to_string(), |doing| format!("{doing}: {ending}"));
    Judgement::by(code.finding(Severity::Error, subject, message))
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
