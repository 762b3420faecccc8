//! Runs the tests of a plan in order, each group in a child process with a deadline. If a child crashes, hangs or
//! sends an invalid message, its test is an error and the other tests continue.

mod aer;
mod ask;
mod group;
mod handover;
mod interrupt;
mod part;
mod proof;
mod supervise;
mod watch;
mod witness;
pub mod worker;

pub use ask::{nvlinks, nvml_hangs};
pub use interrupt::{Interrupt, Interrupts};

use crate::config::{Config, IdentityPolicy, Validate};
use crate::machine::host::interfaces;
use crate::machine::root::Root;
use crate::outcome::Advice;
use crate::outcome::finding::{Code, Severity};
use crate::outcome::{Judgement, Verdict};
use crate::report::{BoundTo, Driver, Gpu, MachineEntry, Named, Report, SCHEMA, TestEntry, fingerprint};
use crate::suite::protocol::Facts;
use crate::suite::{Plan, Test};
use crate::text::time::utc;
use aer::Aer;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};
use watch::{Flags, Watch};
use witness::Witness;

/// Receives events of a run; the console is one.
pub trait Audience {
    /// Called once, before the first test ends, with the facts of the machine.
    fn machine(&mut self, report: &Report);
    /// A test has begun, with this time limit.
    fn begun(&mut self, _id: &str, _deadline: Duration) {}
    /// The running test has started another step.
    fn doing(&mut self, _what: &str) {}
    /// A test has ended.
    fn ended(&mut self, test: &TestEntry);
}

/// Runs `plan` and returns the report; after a signal the remaining tests are errors.
pub fn planned(
    root: &Root,
    config: &Config,
    plan: &Plan,
    interrupts: &Interrupts,
    audience: &mut impl Audience,
) -> Report {
    let start = Instant::now();
    let mut run = Run {
        report: empty(root, config, plan),
        audience,
        introduced: false,
        root,
        watch: Watch::begin(root),
        flags: Flags::begin(root),
        aer: Aer::default(),
        witness: Witness::default(),
        advice: Vec::new(),
        interrupts: interrupts.clone(),
        start,
        begun: None,
        until: start + Duration::from_secs(config.validate.timeout_s),
        limit_s: config.validate.timeout_s,
        identity: config.validate.identity,
    };
    for (level, tests) in plan.groups(&config.validate) {
        let validate = Validate { level, ..config.validate.clone() };
        group::run(&mut run, root, &Config { validate, ..config.clone() }, tests);
    }
    run.introduce();
    for (test, why) in &plan.left_out {
        run.end(test, Duration::ZERO, not_run(test, why), Vec::new());
    }
    let Run { mut report, advice: found, audience, .. } = run;
    report.covers = proof::covers(&report, config.validate.limit.as_ref());
    if let Some(entry) = proof::unproven(&report, plan) {
        audience.ended(&entry);
        report.push(entry);
    }
    let up = interfaces::up(root).inspect_err(|e| log::warn!("network interfaces: {e}")).ok();
    let untested = handover::untested(&report, config.validate.nvls, up.as_deref());
    let advice = untested.into_iter().chain(found).collect();
    report.seconds = seconds(start.elapsed());
    settle(&mut report, advice);
    report
}

/// Determines the causes, and the settings for the workload that `report` supports: its earlier ones, and those in `advice`.
pub fn settle(report: &mut Report, advice: Vec<Advice>) {
    report.explain();
    let reasons = std::mem::take(&mut report.workload_reasons);
    let before = std::mem::take(&mut report.workload_env).into_iter().filter_map(|(name, value)| {
        let reason = reasons.get(&name)?.clone();
        (!handover::is_own(&name)).then_some(Advice { name, value, reason })
    });
    let all = before.chain(advice).collect();
    for Advice { name, value, reason } in handover::handed_over(report, all) {
        report.workload_reasons.insert(name.clone(), reason);
        report.workload_env.insert(name, value);
    }
}

/// One run in progress.
struct Run<'a, A: Audience> {
    report: Report,
    audience: &'a mut A,
    introduced: bool,
    root: &'a Root,
    watch: Watch,
    flags: Flags,
    aer: Aer,
    witness: Witness,
    advice: Vec<Advice>,
    interrupts: Interrupts,
    start: Instant,
    /// When the running test began.
    begun: Option<Instant>,
    until: Instant,
    limit_s: u64,
    identity: IdentityPolicy,
}

impl<A: Audience> Run<'_, A> {
    fn introduce(&mut self) {
        if !self.introduced {
            self.introduced = true;
            self.audience.machine(&self.report);
        }
    }

    fn learn(&mut self, facts: Facts) {
        if !self.introduced {
            learn(&mut self.report, facts, self.identity);
            if let Some(fabric) = &self.report.fabric {
                self.aer = Aer::begin(self.root, fabric);
            }
        }
        self.introduce();
    }

    fn end(&mut self, test: &Test, took: Duration, said: Judgement, log_tail: Vec<String>) {
        self.introduce();
        let mut kernel = self.watch.news();
        kernel.extend(self.flags.news(self.root));
        kernel.extend(self.aer.news(self.root));
        let said = self.witness.settle(test, said, kernel);
        self.advice.extend(said.advice.iter().cloned());
        let effects = said.effects.iter().map(|(name, ratio)| (name.clone(), Some(*ratio)));
        self.report.effects.extend(effects);
        let entry = TestEntry {
            id: test.id.to_owned(),
            title: test.title.to_owned(),
            proves: test.proves.to_owned(),
            level: test.level,
            outcome: said.outcome(),
            began: self.begun.take().map(|at| seconds(at.saturating_duration_since(self.start))),
            seconds: seconds(took),
            summary: said.summary,
            findings: said.findings,
            matrices: said.matrices,
            tables: said.tables,
            log_tail,
        };
        self.audience.ended(&entry);
        self.report.push(entry);
    }
}

fn empty(root: &Root, config: &Config, plan: &Plan) -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        verdict: Verdict::Error,
        answer: String::new(),
        causes: Vec::new(),
        scope: plan.scope.clone(),
        covers: "nothing was read yet".to_owned(),
        level: config.validate.level,
        root: root.path().display().to_string(),
        started: utc(SystemTime::now()),
        seconds: 0.0,
        boot: Vec::new(),
        appliance: None,
        machine: MachineEntry::unread(),
        driver: Driver::default(),
        gpus: Vec::new(),
        fabric: None,
        tests: Vec::new(),
        effects: BTreeMap::new(),
        workload_env: BTreeMap::new(),
        workload_reasons: BTreeMap::new(),
    }
}

fn learn(report: &mut Report, facts: Facts, how: IdentityPolicy) {
    let Facts { identity, fabric, driver, module, gpus } = facts;
    report.gpus = fabric.as_ref().map(|fabric| Gpu::all(fabric, &gpus)).unwrap_or_default();
    let named = Named::of(&identity, how);
    let bound_to = BoundTo::of(&identity, &driver, &module, &report.gpus, fabric.as_ref());
    report.driver = driver;
    report.machine = MachineEntry {
        fingerprint: fingerprint(&bound_to),
        bound_to,
        host: named.host,
        machine_id: named.machine_id,
        serial: named.serial,
        dmi: identity.dmi,
        kernel: identity.kernel,
        cmdline: identity.cmdline,
    };
    report.appliance = Some(identity.appliance);
    report.fabric = fabric;
}

fn not_run(test: &Test, why: &str) -> Judgement {
    let message = format!("mandatory, but skipped {why}");
    Judgement::by(
        Code::TestNotRun.finding(Severity::Error, test.id, message).because(format!("skipped {why}")),
    )
}

/// Seconds with three decimals: readable, and as precise as a clock under load.
fn seconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1000.0).round() / 1000.0
}
