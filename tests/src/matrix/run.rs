//! Runs cases, several at a time: what the program said of each, and whether that is right.

use super::case::{Case, Subject};
use super::class::Claim;
use crate::simgpu::{Judged, validate};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Cases that wait for a deadline use next to no processor: this many run beside the others.
const WAITERS: usize = 6;

/// Has the program judge all cases, `workers` at a time, and beside them those that mostly wait; `told` hears each as it
/// ends. In the cases' order.
pub fn run(cases: &[Case], workers: usize, told: impl Fn(usize, &Said) + Sync) -> Vec<Said> {
    let (wait, work): (Vec<_>, Vec<_>) = cases.iter().enumerate().partition(|(_, case)| case.waits());
    let done = AtomicUsize::new(0);
    let one = |(nth, case): &(usize, &Case)| {
        let said = judge(case);
        told(done.fetch_add(1, Ordering::Relaxed) + 1, &said);
        (*nth, said)
    };
    let mut all = thread::scope(|scope| {
        let waiting = scope.spawn(|| at_a_time(WAITERS, &wait, one));
        let mut all = at_a_time(workers, &work, one);
        all.extend(waiting.join().expect("no worker panics"));
        all
    });
    all.sort_by_key(|(nth, _)| *nth);
    all.into_iter().map(|(_, said)| said).collect()
}

/// Does the same with each item, with `workers` at a time, and returns the results in the order in which they came.
pub fn at_a_time<T: Sync, R: Send>(workers: usize, items: &[T], one: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = one(item);
            all.lock().expect("no worker panics with it").push(result);
        }
    };
    thread::scope(|scope| (0..workers.max(1)).for_each(|_| drop(scope.spawn(work))));
    all.into_inner().expect("no worker panicked with it")
}

fn judge(case: &Case) -> Said {
    let began = Instant::now();
    let words = case.words();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let judged = case.scenario().and_then(|scenario| validate(&scenario, &words));
    let seconds = began.elapsed().as_secs_f64();
    match judged {
        Ok(judged) => said(case, &judged, seconds),
        Err(why) => {
            let (verdict, text) = ("none".to_owned(), why.told());
            Said { case: case.clone(), verdict, blamed: Vec::new(), text, seconds, mark: Mark::Broken }
        }
    }
}

fn said(case: &Case, judged: &Judged, seconds: f64) -> Said {
    let blamed: Vec<_> = judged.fails().into_iter().map(str::to_owned).collect();
    let mark = Mark::of(case, judged.verdict(), &blamed);
    let text = format!("{}\n{}", judged.text, judged.log);
    Said { case: case.clone(), verdict: judged.verdict().to_owned(), blamed, text, seconds, mark }
}

/// Whether it is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// As it must be.
    Right,
    /// A fault that the level claims to find passed.
    FalsePass,
    /// A healthy machine did not get the verdict that it deserves.
    FalseFail,
    /// A fault was found, with another verdict than it must have.
    Verdict,
    /// A fault was found, and none of the tests that find it is blamed.
    Blame,
    /// A fault that the level does not look for passed.
    Unlooked,
    /// A fault that the level does not look for was found all the same.
    Surplus,
    /// There was no report.
    Broken,
}

/// What was said.
#[derive(Debug, Clone)]
pub struct Said {
    /// Of what.
    pub case: Case,
    /// The verdict, or why there is none.
    pub verdict: String,
    /// Tests that ended neither well nor as not applicable.
    pub blamed: Vec<String>,
    /// What people saw.
    pub text: String,
    /// How long it took.
    pub seconds: f64,
    /// Whether it is right.
    pub mark: Mark,
}

impl Claim {
    /// Whether the level finds it.
    #[must_use]
    pub const fn is_found(&self) -> bool {
        matches!(self, Self::Found(_))
    }
}

impl Mark {
    /// The mark of a verdict, with the tests that were blamed.
    #[must_use]
    pub fn of(case: &Case, verdict: &str, blamed: &[String]) -> Self {
        let class = match &case.subject {
            Subject::Healthy(healthy) if healthy.expect == verdict => return Self::Right,
            Subject::Healthy(_) => return Self::FalseFail,
            Subject::Fault(class, ..) => class,
        };
        match &class.claims[case.level] {
            Claim::Not(_) if verdict == "PASS" => Self::Unlooked,
            Claim::Not(_) => Self::Surplus,
            Claim::Found(_) if verdict == "PASS" => Self::FalsePass,
            Claim::Found(verdicts) if !verdicts.iter().any(|v| v == verdict) => Self::Verdict,
            Claim::Found(_) if !class.blamed.iter().any(|id| blamed.contains(id)) => Self::Blame,
            Claim::Found(_) => Self::Right,
        }
    }

    /// Whether it is as it should be.
    #[must_use]
    pub const fn is_right(self) -> bool {
        matches!(self, Self::Right | Self::Unlooked | Self::Surplus)
    }

    /// The words for it beside a case.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::FalsePass => "false PASS",
            Self::FalseFail => "false FAIL",
            Self::Verdict => "another verdict",
            Self::Blame => "another test is blamed",
            Self::Unlooked => "not looked for",
            Self::Surplus => "found, though not claimed",
            Self::Broken => "no report",
        }
    }
}
