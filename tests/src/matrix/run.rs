//! Runs cases, several at a time: the program's verdict on each, and whether it is right.

use super::case::{Case, Subject};
use super::class::Claim;
use crate::simgpu::{ValidatorRun, validate};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Cases that wait for a deadline use almost no processor time: this many run in addition to the others.
const WAITING_WORKERS: usize = 6;

/// Lets the program judge all cases, `workers` at a time, and in addition those that mostly wait; calls `report` for each
/// one when it ends. Returns the results in the cases' order.
pub fn run(
    cases: &[Case],
    workers: usize,
    report: impl Fn(usize, &CaseResult) + Sync,
) -> Vec<CaseResult> {
    let (wait, work): (Vec<_>, Vec<_>) = cases
        .iter()
        .enumerate()
        .partition(|(_, case)| case.mostly_waits());
    let done = AtomicUsize::new(0);
    let one = |(nth, case): &(usize, &Case)| {
        let result = validate_case(case);
        report(done.fetch_add(1, Ordering::Relaxed) + 1, &result);
        (*nth, result)
    };
    let mut all = thread::scope(|scope| {
        let waiting = scope.spawn(|| parallel_map(WAITING_WORKERS, &wait, one));
        let mut all = parallel_map(workers, &work, one);
        all.extend(waiting.join().expect("no worker panics"));
        all
    });
    all.sort_by_key(|(nth, _)| *nth);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Calls `one` for each item, `workers` at a time, and returns the results in the order in which they were completed.
pub fn parallel_map<T: Sync, R: Send>(
    workers: usize,
    items: &[T],
    one: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
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

fn validate_case(case: &Case) -> CaseResult {
    let began = Instant::now();
    let words = case.arguments();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let validated = case
        .scenario()
        .and_then(|scenario| validate(&scenario, &words));
    let seconds = began.elapsed().as_secs_f64();
    match validated {
        Ok(validated) => case_result(case, &validated, seconds),
        Err(why) => {
            let (verdict, text) = ("none".to_owned(), why.one_line());
            CaseResult {
                case: case.clone(),
                verdict,
                blamed: Vec::new(),
                text,
                seconds,
                assessment: Assessment::NoReport,
            }
        }
    }
}

fn case_result(case: &Case, validated: &ValidatorRun, seconds: f64) -> CaseResult {
    let blamed: Vec<_> = validated.fails().into_iter().map(str::to_owned).collect();
    let assessment = Assessment::of(case, validated.verdict(), &blamed);
    let text = format!("{}\n{}", validated.text, validated.log);
    CaseResult {
        case: case.clone(),
        verdict: validated.verdict().to_owned(),
        blamed,
        text,
        seconds,
        assessment,
    }
}

/// Whether a verdict is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assessment {
    /// As required.
    Right,
    /// A fault that the level claims to find passed.
    FalsePass,
    /// A healthy machine did not receive the required verdict.
    FalseFail,
    /// A fault was found, but with a wrong verdict.
    WrongVerdict,
    /// A fault was found, but none of the tests that find it is blamed.
    WrongTest,
    /// A fault that the level does not look for passed.
    NotCovered,
    /// A fault that the level does not look for was found anyway.
    Unclaimed,
    /// There was no report.
    NoReport,
}

/// The result of a case.
#[derive(Debug, Clone)]
pub struct CaseResult {
    /// The case.
    pub case: Case,
    /// The verdict, or why there is none.
    pub verdict: String,
    /// Tests whose outcome is neither good nor not applicable.
    pub blamed: Vec<String>,
    /// The output for users.
    pub text: String,
    /// Its duration.
    pub seconds: f64,
    /// Whether it is right.
    pub assessment: Assessment,
}

impl Claim {
    /// Whether the level finds the fault.
    #[must_use]
    pub const fn is_found(&self) -> bool {
        matches!(self, Self::Found(_))
    }
}

impl Assessment {
    /// Assesses a verdict and the blamed tests.
    #[must_use]
    pub fn of(case: &Case, verdict: &str, blamed: &[String]) -> Self {
        let class = match &case.subject {
            Subject::Healthy(healthy) if healthy.expect == verdict => return Self::Right,
            Subject::Healthy(_) => return Self::FalseFail,
            Subject::Fault(class, ..) => class,
        };
        match &class.claims[case.level] {
            Claim::Not(_) if verdict == "PASS" => Self::NotCovered,
            Claim::Not(_) => Self::Unclaimed,
            Claim::Found(_) if verdict == "PASS" => Self::FalsePass,
            Claim::Found(verdicts) if !verdicts.iter().any(|v| v == verdict) => Self::WrongVerdict,
            Claim::Found(_) if !class.blamed.iter().any(|id| blamed.contains(id)) => {
                Self::WrongTest
            }
            Claim::Found(_) => Self::Right,
        }
    }

    /// Whether it is acceptable.
    #[must_use]
    pub const fn is_right(self) -> bool {
        matches!(self, Self::Right | Self::NotCovered | Self::Unclaimed)
    }

    /// Its description next to a case.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::FalsePass => "false PASS",
            Self::FalseFail => "false FAIL",
            Self::WrongVerdict => "another verdict",
            Self::WrongTest => "another test is blamed",
            Self::NotCovered => "not looked for",
            Self::Unclaimed => "found, though not claimed",
            Self::NoReport => "no report",
        }
    }
}
