//! Boots of process 1 under faults, one table row each: whatever its children, its files, the media, the firmware
//! or a user do, process 1 survives, never announces PASS without evidence, announces its verdict once and identically in
//! both forms, and follows the policy. `./run faults [WORD]` runs all of them, or those whose names contain the word;
//! `./run check` runs a part.

mod children;
mod surroundings;

use super::CONFIG;
use super::namespace::{Down, Machine, PASS, is_validated, scraper_lines};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Instant;

/// What a run changes about its machine before it boots.
type Change = Box<dyn FnOnce(Machine) -> Machine + Send>;

/// One boot.
struct Case {
    name: String,
    /// What the validator does at `validate`.
    validator: String,
    /// Shell code before that: what it does at other commands.
    before: String,
    config: String,
    words: String,
    workload: &'static str,
    changes: Vec<Change>,
    /// A text on the console, and the signals that process 1 receives once the text has appeared.
    signals: Option<(&'static str, Vec<&'static str>)>,
    /// The policy for ERROR, where it matters.
    policy: Option<&'static str>,
    /// Whether it runs in every check.
    always: bool,
    /// Whether it takes long and is therefore started first.
    slow: bool,
    want: Expectation,
}

/// What follows the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The policy's action for the verdict.
    Policy,
    /// The policy's action after a fault of init, which never runs the workload.
    Fault,
    /// It holds.
    Hold,
    PowerOff,
    Reboot,
}

/// The expected result.
struct Expectation {
    verdict: &'static str,
    /// The first entry of `failed`.
    failed: &'static str,
    /// A part of the cause.
    cause: String,
    /// Parts of the console.
    says: Vec<String>,
    /// Whether verdict.json must exist: it does not if /run is full or gone.
    file: bool,
    then: Outcome,
}

fn pass() -> Expectation {
    let (verdict, failed) = ("PASS", "");
    Expectation {
        verdict,
        failed,
        cause: String::new(),
        says: Vec::new(),
        file: true,
        then: Outcome::Policy,
    }
}

/// The verdict is ERROR, because of this.
fn error(failed: &'static str, cause: &str) -> Expectation {
    Expectation {
        verdict: "ERROR",
        failed,
        cause: cause.to_owned(),
        ..pass()
    }
}

/// As [`error`], caused by a fault of init.
fn fault(failed: &'static str, cause: &str) -> Expectation {
    Expectation {
        then: Outcome::Fault,
        ..error(failed, cause)
    }
}

impl Expectation {
    fn then(self, then: Outcome) -> Self {
        Self { then, ..self }
    }

    fn says(mut self, text: &str) -> Self {
        self.says.push(text.to_owned());
        self
    }
}

impl Case {
    /// A machine that would pass without its faults.
    fn new(name: &str, want: Expectation) -> Self {
        Self {
            name: name.to_owned(),
            validator: PASS.to_owned(),
            before: String::new(),
            config: CONFIG.to_owned(),
            words: String::new(),
            workload: "echo \"WORKLOAD RUNS <$NCCL_P2P_DISABLE>\"",
            changes: Vec::new(),
            signals: None,
            policy: None,
            always: false,
            slow: false,
            want,
        }
    }

    fn validator(self, script: &str) -> Self {
        Self {
            validator: script.to_owned(),
            ..self
        }
    }

    /// Adds shell code for one command of the validator.
    fn at(mut self, command: &str, script: &str) -> Self {
        self.before += &format!("case \"$*\" in *{command}*) {script}\n;; esac\n");
        self
    }

    fn config(self, more: &str) -> Self {
        Self {
            config: format!("{CONFIG}{more}"),
            ..self
        }
    }

    fn words(mut self, words: &str) -> Self {
        self.words = format!("{} {words}", self.words);
        self
    }

    fn workload(self, script: &'static str) -> Self {
        Self {
            workload: script,
            ..self
        }
    }

    fn change(mut self, change: impl FnOnce(Machine) -> Machine + Send + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    fn file(self, path: &'static str, content: impl AsRef<[u8]> + Send + 'static) -> Self {
        self.change(move |m| m.file(path, content))
    }

    fn signals(self, at: &'static str, signals: &[&'static str]) -> Self {
        Self {
            signals: Some((at, signals.to_vec())),
            ..self
        }
    }

    fn policy(self, policy: &'static str) -> Self {
        Self {
            policy: Some(policy),
            ..self
        }
    }

    fn always(self) -> Self {
        Self {
            always: true,
            ..self
        }
    }

    fn slow(self) -> Self {
        Self { slow: true, ..self }
    }
}

/// The policies for ERROR, used in turn.
const POLICIES: [&str; 4] = ["reboot", "poweroff", "hold", "workload-without-p2p"];

/// Boots the case; returns the expectations that were not met.
fn boot(case: Case, policy: &str) -> Vec<String> {
    let m = Machine::new(&case.validator, &case.config).workload(case.workload);
    let program = fs::read_to_string(m.path("usr/bin/firstlight")).unwrap();
    let m = m.program(
        "usr/bin/firstlight",
        &program.replacen('\n', &format!("\n{}", case.before), 1),
    );
    let m = m.cmdline(&format!(
        "quiet firstlight.policy.on_error={policy} {}",
        case.words
    ));
    let m = case.changes.into_iter().fold(m, |m, change| change(m));
    let mut running = m.boot();
    if let Some((text, signals)) = &case.signals {
        running.until(text);
        // The first signal may end the machine before the others are sent.
        let sent: Vec<_> = signals
            .iter()
            .map(|signal| running.try_signal(signal))
            .collect();
        assert!(sent[0], "no signal was sent");
    }
    // A machine that is asked to end while it holds goes down by itself.
    let held = !(case.signals.is_some()
        && matches!(case.want.then, Outcome::Reboot | Outcome::PowerOff))
        && running.holds();
    let others = if held { running.others() } else { Vec::new() };
    if held {
        running.signal("TERM");
    }
    let (down, m, console) = running.down();
    let mut failures = check_boot(&case.want, policy, &m, &console);
    let want = case.want.end(policy);
    if (held, &down) != (want.0, &want.1) {
        failures.push(format!("held: {held}, {down:?}; expected {want:?}"));
    }
    if !others.is_empty() {
        failures.push(format!("left running: {others:?}"));
    }
    if !failures.is_empty() {
        failures.push(console);
    }
    failures
}

impl Expectation {
    /// Whether the machine holds before it ends, and how it ends.
    fn end(&self, policy: &str) -> (bool, Down) {
        match (self.then, self.verdict, policy) {
            (Outcome::Hold, ..) | (Outcome::Policy | Outcome::Fault, "ERROR", "hold") => {
                (true, Down::PoweredOff)
            }
            (Outcome::Fault, _, "workload-without-p2p" | "hold") => (true, Down::PoweredOff),
            // A mark that vetoes a step stays until a person clears it, so a reboot would change nothing.
            (Outcome::Policy, "ERROR", "reboot") if self.failed == "reset" => {
                (true, Down::PoweredOff)
            }
            (Outcome::Reboot, ..)
            | (Outcome::Policy, "ERROR", "reboot")
            | (Outcome::Fault, _, "reboot") => (false, Down::Rebooted),
            _ => (false, Down::PoweredOff),
        }
    }

    /// The line that the workload prints; `None` if it must not run.
    fn workload(&self, policy: &str) -> Option<&'static str> {
        match (self.then, self.verdict, policy) {
            (Outcome::Policy, "PASS" | "DEGRADED", _) => Some("WORKLOAD RUNS <>"),
            (Outcome::Policy, "ERROR", "workload-without-p2p") => Some("WORKLOAD RUNS <1>"),
            _ => None,
        }
    }
}

/// Checks the conditions that every boot must meet.
fn check_boot(want: &Expectation, policy: &str, m: &Machine, console: &str) -> Vec<String> {
    let mut failures = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            failures.push(what);
        }
    };
    let errors = fs::read(m.path("stderr.txt")).unwrap_or_default();
    let all = format!("{console}{}", String::from_utf8_lossy(&errors));
    must(
        !all.contains("panic") && !all.contains("INIT-PANIC"),
        "a panic".to_owned(),
    );
    want.says.iter().for_each(|text| {
        must(
            console.contains(text),
            format!("the console lacks {text:?}"),
        );
    });
    let lines = scraper_lines(console);
    let line = lines.first().copied().unwrap_or_default();
    must(
        lines.len() == 1,
        format!("{} lines for scrapers", lines.len()),
    );
    let word = |name: &str| {
        line.split(' ')
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    must(
        word("verdict") == Some(want.verdict),
        format!("expected {}: {line}", want.verdict),
    );
    let ran: Vec<_> = console
        .lines()
        .filter(|line| line.starts_with("WORKLOAD RUNS"))
        .collect();
    must(
        ran == want.workload(policy).into_iter().collect::<Vec<_>>(),
        format!("the workload: {ran:?}"),
    );
    let good = ["PASS", "DEGRADED"].contains(&want.verdict);
    if !want.file {
        return failures;
    }
    must(
        is_validated(m) == good,
        format!("validated: {}", is_validated(m)),
    );
    let verdict: Value = fs::read(m.path("run-outside/firstlight/verdict.json"))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    must(
        verdict["schema"] == "firstlight.verdict/1",
        "no verdict.json".to_owned(),
    );
    must(
        verdict["verdict"] == want.verdict,
        format!("verdict.json: {}", verdict["verdict"]),
    );
    for (name, list) in [("failed", &verdict["failed"]), ("codes", &verdict["codes"])] {
        must(
            word(name) == Some(&listed(list)),
            format!("{name} in verdict.json: {list}"),
        );
    }
    let failed = verdict["failed"][0].as_str().unwrap_or_default();
    must(
        failed == want.failed,
        format!("failed first: {failed:?}, expected {:?}", want.failed),
    );
    let cause = verdict["cause"].as_str().unwrap_or_default();
    must(
        cause.contains(&want.cause),
        format!("the cause {cause:?} lacks {:?}", want.cause),
    );
    must(
        cause.is_empty() == (want.verdict != "ERROR"),
        format!("the cause: {cause:?}"),
    );
    failures
}

/// A list of verdict.json in the form of the line for scrapers.
fn listed(list: &Value) -> String {
    let plain = |c: char| {
        if c.is_control() || c.is_whitespace() || c == '=' {
            '?'
        } else {
            c
        }
    };
    let words = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let words: Vec<String> = words
        .map(|word| word.chars().map(plain).collect())
        .collect();
    if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(",")
    }
}

/// Boots all cases, several at a time, because most of them wait; prints how many held, and fails if one did not.
fn run_cases(cases: Vec<(usize, Case)>) {
    let (began, count) = (Instant::now(), cases.len());
    let (mut first, rest): (Vec<_>, Vec<_>) = cases.into_iter().partition(|(_, case)| case.slow);
    first.extend(rest);
    let (cases, failed) = (Mutex::new(VecDeque::from(first)), Mutex::new(Vec::new()));
    let work = || {
        while let Some((nth, case)) = { cases.lock().unwrap().pop_front() } {
            let name = case.name.clone();
            let policy = case.policy.unwrap_or(POLICIES[nth % POLICIES.len()]);
            let failures =
                catch_unwind(AssertUnwindSafe(|| boot(case, policy))).unwrap_or_else(|why| {
                    vec![
                        why.downcast_ref::<String>()
                            .cloned()
                            .unwrap_or("the test panicked".to_owned()),
                    ]
                });
            if !failures.is_empty() {
                let failures = failures.join("\n");
                failed
                    .lock()
                    .unwrap()
                    .push(format!("== {name} (on_error {policy})\n{failures}"));
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap();
    let held = count - failed.len();
    let line = format!(
        "faults     {held} of {count} held, {} s\n",
        began.elapsed().as_secs()
    );
    // Bypasses the output capture of the test harness.
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    assert!(failed.is_empty(), "{}\n{line}", failed.join("\n"));
}

const THREADS: usize = 12;

/// The whole table.
fn table() -> Vec<(usize, Case)> {
    let all: Vec<_> = children::cases()
        .into_iter()
        .chain(surroundings::cases())
        .enumerate()
        .collect();
    let mut names: Vec<_> = all.iter().map(|(_, case)| case.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    assert!(
        twice.is_none() && all.len() >= 300,
        "{} runs, {twice:?} twice",
        all.len()
    );
    all
}

/// The whole table if `./run faults` asks for it, otherwise a part of it.
#[test]
fn every_boot_under_a_fault_holds() {
    let all = table();
    let cases: Vec<_> = match std::env::var("FIRSTLIGHT_FAULTS") {
        Ok(word) => all
            .into_iter()
            .filter(|(_, case)| case.name.contains(&word))
            .collect(),
        Err(_) => all
            .into_iter()
            .filter(|(nth, case)| case.always || (nth % 9 == 0 && !case.slow))
            .collect(),
    };
    assert!(!cases.is_empty(), "no boot has this word in its name");
    run_cases(cases);
}
