//! Tests of one level, run by a worker; if it fails during a test, that test is an error and a new worker
//! continues with the rest. Each round settles at least one test, so this ends.

use super::interrupt::Interrupt;
use super::supervise::{Ending, supervise};
use super::worker::command;
use super::{ProgressListener, Run, query};
use crate::config::Config;
use crate::process::partner::leftovers::Leftovers;
use crate::suite::protocol::Activity;
use crate::suite::protocol::{Message, Request};
use crate::suite::{self, Group, Test};
use machine::root::Root;
use outcome::finding::{Code, Finding, Reason, Recovery, Severity, Subject};
use outcome::{Judgement, Matrix};
use report::Report;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Time to read a machine before the first test: a hundred times what the largest machine needs.
const FACTS_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two tests, in which there is nothing to do.
const BETWEEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs `tests` until each of them has an outcome.
pub(super) fn run<A: ProgressListener>(
    run: &mut Run<'_, A>,
    root: &Root,
    config: &Config,
    tests: Vec<&'static Test>,
) {
    let mut remaining: VecDeque<_> = tests.into();
    while !remaining.is_empty() {
        if let Some(by) = run.interrupts.received() {
            return end_all(
                run,
                &mut remaining,
                &interrupted("machine", by, Some(&Activity::from("not started"))),
                &[],
            );
        }
        if Instant::now() >= run.until {
            let judgement =
                out_of_time("machine", run.limit_s, Some(&Activity::from("not started")));
            return end_all(run, &mut remaining, &judgement, &[]);
        }
        run_worker(run, root, config, &mut remaining);
    }
}

/// Runs one worker until it ends.
fn run_worker<A: ProgressListener>(
    run: &mut Run<'_, A>,
    root: &Root,
    config: &Config,
    remaining: &mut VecDeque<&'static Test>,
) {
    let before = remaining.len();
    let (mut begun, mut doing) = (None, None);
    // A test that has ended, until the state of the GPUs after it is known.
    let mut ended_test: Option<EndedTest> = None;
    let (mut start, mut patience) = (Instant::now(), BETWEEN_TIMEOUT);
    let until = run.until;
    let within = |limit: Duration, from: Instant| limit.min(until.saturating_duration_since(from));
    let request = Request {
        tests: remaining.iter().map(|t| t.id().to_owned()).collect(),
        ended: run
            .report
            .tests
            .iter()
            .map(|t| (t.id.clone(), t.outcome))
            .collect(),
        matrices: earlier_matrices(&run.report),
        ..Request::of(root, config)
    };
    let (command, request) = match (command(config), serde_json::to_vec(&request)) {
        (Ok(command), Ok(request)) => (command, request),
        (Err(e), _) => {
            return end_all(
                run,
                remaining,
                &crashed("machine", &Ending::NotStarted(e), None),
                &[],
            );
        }
        (_, Err(e)) => {
            return end_all(
                run,
                remaining,
                &crashed("machine", &Ending::NotStarted(e.into()), None),
                &[],
            );
        }
    };
    // Process ids are those of the live machine, whatever root is read.
    let leftovers = Leftovers::before(Root::new("/"));
    let interrupts = run.interrupts.clone();
    let first = within(FACTS_TIMEOUT, start);
    let (ending, last_lines) = supervise(command, &request, first, &interrupts, |message, at| {
        // GPUs first, then the log: later kernel messages belong to the next test.
        if !matches!(message, Message::Look(_)) {
            report_ended(run, &mut ended_test);
        }
        run.kernel_log.read_new();
        let spent = at.saturating_duration_since(start);
        match message {
            Message::Look(snapshot) => {
                snapshot
                    .iter()
                    .for_each(|snapshot| run.gpu_monitor.add_snapshot(snapshot));
                report_ended(run, &mut ended_test);
                within(
                    if begun.is_some() {
                        patience.saturating_sub(spent)
                    } else {
                        BETWEEN_TIMEOUT
                    },
                    at,
                )
            }
            Message::Facts(facts) => {
                run.add_facts(*facts);
                within(BETWEEN_TIMEOUT, at)
            }
            Message::Begin(id) => {
                begun = suite::by_id(&id);
                (start, doing) = (at, None);
                patience = begun.map_or(BETWEEN_TIMEOUT, |t| {
                    t.time_limit(run.report.gpus.len(), &config.validate)
                });
                run.begun = Some(at);
                run.listener.begun(&id, patience);
                within(patience, at)
            }
            // The request of this worker does not ask for NVLinks.
            Message::NvLinks(_) => within(BETWEEN_TIMEOUT, at),
            Message::Cuda(version) => {
                run.report.driver.cuda = Some(version);
                within(patience.saturating_sub(spent), at)
            }
            Message::Doing(what) => {
                run.listener.doing(&what);
                doing = Some(what);
                within(patience.saturating_sub(spent), at)
            }
            Message::End { id, seconds, said } => {
                begun = None;
                if let Some(test) = remaining.pop_front_if(|t| t.id() == id) {
                    ended_test = Some((
                        test,
                        Duration::try_from_secs_f64(seconds).unwrap_or_default(),
                        said,
                    ));
                    if test.group == Group::Host {
                        report_ended(run, &mut ended_test);
                    }
                }
                within(BETWEEN_TIMEOUT, at)
            }
        }
    });
    run.kernel_log.read_new();
    report_ended(run, &mut ended_test);
    if !matches!(ending, Ending::Done) {
        // A dead worker cannot clean up.
        let _ = leftovers.remove();
    }
    let limit_s = run.limit_s;
    let crashed = |subject: &str, doing: Option<&Activity>| match ending {
        Ending::Interrupted(by) => interrupted(subject, by, doing),
        // The test may not be at fault: the run had no time left for it.
        Ending::Silent(_) if Instant::now() >= until => out_of_time(subject, limit_s, doing),
        _ => crashed(subject, &ending, doing),
    };
    match (begun, remaining.front()) {
        // It failed in this test: the other tests can still run.
        (Some(test), Some(next)) if test.id() == next.id() => {
            remaining.pop_front();
            let took = start.elapsed();
            if test.group == Group::Gpu && run.gpu_monitor.has_snapshot() {
                run.gpu_monitor
                    .add_snapshot(&query::gpu_snapshot(root, config));
            }
            let mut judgement = crashed(test.id(), doing.as_ref());
            if test.group == Group::Gpu && matches!(ending, Ending::Silent(_)) {
                // A call into the driver did not return, and the next one may not either.
                judgement
                    .findings
                    .iter_mut()
                    .for_each(|finding| finding.recovery = Some(Recovery::ResetGpu));
            }
            run.end(test, took, judgement, last_lines);
        }
        // It failed between tests after some progress: the next worker continues.
        (_, Some(_)) if remaining.len() < before => {}
        // The remaining tests are settled at the start of the next round.
        _ if matches!(ending, Ending::Interrupted(_)) => {}
        // It failed before the first test, and the next worker would too.
        _ => end_all(run, remaining, &crashed("machine", None), &last_lines),
    }
}

/// A test that has ended, its duration, and its judgement.
type EndedTest = (&'static Test, Duration, Judgement);

fn report_ended<A: ProgressListener>(run: &mut Run<'_, A>, ended_test: &mut Option<EndedTest>) {
    if let Some((test, took, judgement)) = ended_test.take() {
        run.end(test, took, judgement, Vec::new());
    }
}

/// The matrices of earlier tests, which later tests may use.
fn earlier_matrices(report: &Report) -> BTreeMap<String, Vec<Matrix>> {
    let some = report.tests.iter().filter(|t| !t.matrices.is_empty());
    some.map(|t| (t.id.clone(), t.matrices.clone())).collect()
}

/// The judgement if the time for all tests ran out before this test or, if `doing` is given, during it.
fn out_of_time(subject: &str, limit_s: u64, doing: Option<&Activity>) -> Judgement {
    let what = doing.map_or("not ended", |doing| doing.what.as_str());
    let message = format!("{what}: all {limit_s} s of validate.timeout_s were used up");
    let finding = Code::TestTimeout.finding(Severity::Error, Subject::test(subject), message);
    Judgement::by(during(finding.because(Reason::OutOfTime), doing))
}

/// The judgement if a signal ended the run before this test or, if `doing` is given, during it.
fn interrupted(subject: &str, by: Interrupt, doing: Option<&Activity>) -> Judgement {
    let message = format!(
        "{}: {by} ended the run",
        doing.map_or("not ended", |doing| doing.what.as_str())
    );
    Judgement::by(Code::Interrupted.finding(Severity::Error, Subject::test(subject), message))
}

/// The judgement if the worker failed; `doing` is its last progress message.
fn crashed(subject: &str, ending: &Ending, doing: Option<&Activity>) -> Judgement {
    let code = if matches!(ending, Ending::Silent(_)) {
        Code::TestTimeout
    } else {
        Code::TestCrashed
    };
    let message = doing.map_or_else(
        || ending.to_string(),
        |doing| format!("{}: {ending}", doing.what),
    );
    Judgement::by(during(
        code.finding(Severity::Error, Subject::test(subject), message),
        doing,
    ))
}

/// Adds the pair that the test was busy with.
fn during(mut finding: Finding, doing: Option<&Activity>) -> Finding {
    finding
        .represents
        .extend(doing.and_then(|doing| doing.pair).map(Subject::from));
    finding
}

fn end_all<A: ProgressListener>(
    run: &mut Run<'_, A>,
    remaining: &mut VecDeque<&'static Test>,
    judgement: &Judgement,
    last_lines: &[String],
) {
    for test in remaining.drain(..) {
        run.end(test, Duration::ZERO, judgement.clone(), last_lines.to_vec());
    }
}
