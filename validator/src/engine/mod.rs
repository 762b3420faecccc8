//! Runs the tests of a plan in order, in a child process with a deadline for each. If it crashes, hangs or sends an invalid
//! message, its test is an error and another child continues with the other tests.

mod aer;
mod handover;
mod interrupt;
mod level;
mod monitor;
mod part;
mod proof;
mod query;
mod supervise;
mod watch;
pub mod worker;

pub use interrupt::{Interrupt, Interrupts};
pub use query::{nvlinks, nvml_hangs};

use crate::config::{Config, IdentityPolicy, Validate};
use crate::nccl::nvls::Nvls;
use crate::suite::protocol::{Activity, Facts};
use crate::suite::{Test, TestPlan};
use aer::Aer;
use machine::host::faults::Scene;
use machine::host::interfaces;
use machine::root::Root;
use monitor::GpuMonitor;
use outcome::Advice;
use outcome::finding::{Code, Reason, Severity, Subject};
use outcome::text::time::utc;
use outcome::{Judgement, Verdict};
use report::{
    BoundTo, Driver, Gpu, MachineEntry, NextStep, Report, ReportIdentity, SCHEMA, TestEntry,
    fingerprint,
};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};
use watch::{KernelLogWatch, TaintWatch};

/// Receives events of a run; the console is one.
pub trait ProgressListener {
    /// Called once, before the first test ends, with the facts of the machine.
    fn machine(&mut self, report: &Report);
    /// A test has begun, with this time limit.
    fn begun(&mut self, _id: &str, _deadline: Duration) {}
    /// The running test has started another step.
    fn doing(&mut self, _what: &Activity) {}
    /// A test has ended.
    fn ended(&mut self, test: &TestEntry);
}

/// Runs `plan` and returns the report; after a signal the remaining tests are errors.
pub fn run_plan(
    root: &Root,
    config: &Config,
    plan: &TestPlan,
    interrupts: &Interrupts,
    listener: &mut impl ProgressListener,
) -> Report {
    let start = Instant::now();
    let mut run = Run {
        report: empty_report(root, config, plan),
        listener,
        announced: false,
        root,
        kernel_log: KernelLogWatch::begin(root),
        scene: Scene::default(),
        taint: TaintWatch::begin(root),
        aer: Aer::default(),
        gpu_monitor: GpuMonitor::default(),
        advice: Vec::new(),
        interrupts: interrupts.clone(),
        start,
        begun: None,
        until: start + Duration::from_secs(config.validate.timeout_s),
        limit_s: config.validate.timeout_s,
        identity: config.validate.identity,
    };
    for (level, tests) in plan.by_level(&config.validate) {
        let validate = Validate {
            level,
            ..config.validate.clone()
        };
        level::run(
            &mut run,
            root,
            &Config {
                validate,
                ..config.clone()
            },
            tests,
        );
    }
    run.announce_machine();
    for (test, why) in &plan.left_out {
        run.end(test, Duration::ZERO, not_run(test, why), Vec::new());
    }
    let Run {
        mut report,
        advice: found,
        listener,
        ..
    } = run;
    report.covers = proof::covers(&report, config.validate.limit.as_ref());
    if let Some(entry) = proof::unproven_entry(&report, plan) {
        listener.ended(&entry);
        report.push(entry);
    }
    let up = interfaces::up(root)
        .inspect_err(|e| log::warn!("network interfaces: {e}"))
        .ok();
    let untested = handover::untested_settings(&report, &nvls(config), up.as_deref());
    let advice = untested.into_iter().chain(found).collect();
    report.seconds = seconds(start.elapsed());
    finish_report(&mut report, advice);
    report
}

/// What NVLink SHARP is for in this run.
fn nvls(config: &Config) -> Nvls {
    Nvls::of(
        config.validate.nvls,
        config.validate.nvls_forbidden.as_deref(),
    )
}

/// Determines the causes, and the settings for the workload that `report` supports: its earlier ones, and those in `advice`.
pub fn finish_report(report: &mut Report, advice: Vec<Advice>) {
    report.explain();
    let reasons = std::mem::take(&mut report.workload_reasons);
    let before = std::mem::take(&mut report.workload_env)
        .into_iter()
        .filter_map(|(name, value)| {
            let reason = reasons.get(&name)?.clone();
            (!handover::is_report_variable(&name)).then_some(Advice {
                name,
                value,
                reason,
            })
        });
    let all = before.chain(advice).collect();
    for Advice {
        name,
        value,
        reason,
    } in handover::workload_settings(report, all)
    {
        report.workload_reasons.insert(name.clone(), reason);
        report.workload_env.insert(name, value);
    }
}

/// One run in progress.
struct Run<'a, A: ProgressListener> {
    report: Report,
    listener: &'a mut A,
    announced: bool,
    root: &'a Root,
    kernel_log: KernelLogWatch,
    /// Whose devices the lines of the log may be about.
    scene: Scene,
    taint: TaintWatch,
    aer: Aer,
    gpu_monitor: GpuMonitor,
    advice: Vec<Advice>,
    interrupts: Interrupts,
    start: Instant,
    /// When the running test began.
    begun: Option<Instant>,
    until: Instant,
    limit_s: u64,
    identity: IdentityPolicy,
}

impl<A: ProgressListener> Run<'_, A> {
    fn announce_machine(&mut self) {
        if !self.announced {
            self.announced = true;
            self.listener.machine(&self.report);
        }
    }

    fn add_facts(&mut self, facts: Facts) {
        if !self.announced {
            add_facts(&mut self.report, facts, self.identity);
            self.scene = Scene::of(self.report.fabric.as_ref());
            self.aer = Aer::begin(self.root, &self.scene);
        }
        self.announce_machine();
    }

    fn end(&mut self, test: &Test, took: Duration, judgement: Judgement, log_tail: Vec<String>) {
        self.announce_machine();
        let mut kernel = self.kernel_log.new_findings(&self.scene);
        kernel.extend(self.taint.new_findings(self.root));
        kernel.extend(self.aer.new_findings(self.root));
        let judgement = self.gpu_monitor.explain(test, judgement, kernel);
        self.advice.extend(judgement.advice.iter().cloned());
        let effects = judgement
            .effects
            .iter()
            .map(|(name, ratio)| (name.clone(), Some(*ratio)));
        self.report.effects.extend(effects);
        let entry = TestEntry {
            began: self
                .begun
                .take()
                .map(|at| seconds(at.saturating_duration_since(self.start))),
            seconds: seconds(took),
            log_tail,
            ..TestEntry::from_judgement(
                test.id(),
                test.title,
                test.proves,
                test.level,
                judgement,
                &self.report.machine.platform,
            )
        };
        self.listener.ended(&entry);
        self.report.push(entry);
    }
}

fn empty_report(root: &Root, config: &Config, plan: &TestPlan) -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        verdict: Verdict::Error,
        answer: String::new(),
        causes: Vec::new(),
        next_step: NextStep::default(),
        scope: plan.scope.clone(),
        covers: "nothing was read yet".to_owned(),
        level: config.validate.level,
        root: root.name(),
        started: utc(SystemTime::now()),
        seconds: 0.0,
        boot: Vec::new(),
        appliance: None,
        machine: MachineEntry::unread(),
        driver: Driver::default(),
        known_problems: Vec::new(),
        gpus: Vec::new(),
        fabric: None,
        tests: Vec::new(),
        effects: BTreeMap::new(),
        workload_env: BTreeMap::new(),
        workload_reasons: BTreeMap::new(),
    }
}

fn add_facts(report: &mut Report, facts: Facts, how: IdentityPolicy) {
    let Facts {
        identity,
        fabric,
        driver,
        module,
        gpus,
        host,
    } = facts;
    report.gpus = fabric
        .as_ref()
        .map(|fabric| Gpu::all(fabric, &gpus))
        .unwrap_or_default();
    let named = ReportIdentity::of(&identity, how);
    let bound_to = BoundTo::of(&identity, &driver, &module, &report.gpus, fabric.as_ref());
    report.driver = driver;
    report.machine = MachineEntry {
        fingerprint: fingerprint(&bound_to),
        bound_to,
        host: named.host,
        machine_id: named.machine_id,
        serial: named.serial,
        platform: host,
        dmi: identity.dmi,
        kernel: identity.kernel,
        cmdline: identity.cmdline,
    };
    report.appliance = Some(identity.appliance);
    report.fabric = fabric.map(|fabric| fabric.shown(&report.machine.platform));
}

fn not_run(test: &Test, why: &str) -> Judgement {
    let message = format!("mandatory, but skipped {why}");
    let finding = Code::TestNotRun.finding(Severity::Error, Subject::test(test.id()), message);
    Judgement::by(finding.because(Reason::LeftOut(why.into())))
}

/// Seconds with three decimals: readable, and as precise as a clock under load.
fn seconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1000.0).round() / 1000.0
}
