//! The report: all results of one run of `validate`, as `firstlight.report/1`. Every key is always present;
//! a value that does not exist on the machine is `null`. Renderers only read the report.

#![forbid(unsafe_code)]

mod asked;
pub mod baseline;
mod boot;
mod causes;
pub mod drift;
mod driver;
mod earlier;
pub mod facts;
mod figures;
mod fingerprint;
pub mod fleet;
pub mod gain;
mod identity;
mod json;
pub mod known_problems;
pub mod mac;
mod next_step;
mod read;
pub mod render;
pub mod stats;
pub mod summary;

pub use asked::{IdentityPolicy, Level};
pub use boot::BootStage;
pub use causes::{Cause, NotCause, Symptom, gpus_of, pairs_of, ungrouped_causes};
pub use driver::Driver;
pub use fingerprint::{BoundTo, fingerprint};
pub use identity::ReportIdentity;
pub use json::MOST_MEMORY;
pub use known_problems::KnownProblem;
pub use next_step::{NextStep, StepFor, after_runs};
pub use read::{ReportError, from_json, schema};

use machine::host::identity::Appliance;
use machine::host::nvidia::gpus::Information;
use machine::pcie::model::{Bdf, Device, Fabric, Link};
use outcome::finding::{Finding, FindingEntry};
use outcome::platform::Host;
use outcome::scope::Scope;
use outcome::table::Table;
use outcome::test::Properties;
use outcome::{self, Judgement, Matrix, Outcome, Verdict, later};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of this format.
pub const SCHEMA: &str = contract::schema::REPORT;

/// One run's report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`]
    pub schema: String,
    /// The verdict over all tests.
    #[schemars(schema_with = "outcome::schema::verdict")]
    pub verdict: Verdict,
    /// Whether peer-to-peer works, and why not, in one line.
    #[serde(default)]
    pub answer: String,
    /// The causes of the findings, in the order of repair.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// What the machine needs before it takes work: it follows from the verdict and the causes. Earlier reports lack it.
    #[serde(default, deserialize_with = "later::or_default")]
    pub next_step: NextStep,
    /// The scope of the verdict: `machine`, `fabric`, or `only:` and the ids of tests.
    pub scope: Scope,
    /// The same in one sentence, with the GPUs' names.
    pub covers: String,
    /// The requested level.
    pub level: Level,
    /// The root that was read; `/` for the machine itself.
    pub root: String,
    /// When the run began, UTC, as in `2026-11-20T12:00:00Z`.
    pub started: String,
    /// How long it took, seconds.
    pub seconds: f64,
    /// The stages of the boot before the tests; empty if process 1 did not start the tests, and in earlier reports.
    #[serde(default)]
    pub boot: Vec<BootStage>,
    /// The image; `null` if the worker that reads the machine did not report it.
    pub appliance: Option<Appliance>,
    /// The machine.
    pub machine: MachineEntry,
    /// Versions of the GPU software.
    pub driver: Driver,
    /// Problems that were reported in public for versions that this machine has: information, and no result of a test.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "later::readable"
    )]
    pub known_problems: Vec<KnownProblem>,
    /// NVIDIA GPUs.
    pub gpus: Vec<Gpu>,
    /// The fabric; `null` when it could not be read.
    pub fabric: Option<Fabric<FindingEntry>>,
    /// Every test that ran, and every mandatory one that did not.
    pub tests: Vec<TestEntry>,
    /// Effects of switching something on, by name, as ratios.
    pub effects: BTreeMap<String, Option<f64>>,
    /// NAME and value for the workload's environment.
    pub workload_env: BTreeMap<String, String>,
    /// The reason for each of them, by name: one line.
    pub workload_reasons: BTreeMap<String, String>,
}

/// Which machine this was, and what the verdict depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineEntry {
    /// The firmware's names for it, without serial numbers.
    pub dmi: BTreeMap<String, Option<String>>,
    /// Its host name.
    pub host: Option<String>,
    /// A stable id: that in /etc/machine-id or a hash of it, as `validate.identity` selects.
    #[serde(default)]
    pub machine_id: Option<String>,
    /// The firmware's serial number; only if `validate.identity` is `full`.
    #[serde(default)]
    pub serial: Option<String>,
    /// What kind of machine it is. Earlier reports lack it.
    #[serde(default, deserialize_with = "later::or_default")]
    pub platform: Host,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Kernel command line.
    pub cmdline: Option<String>,
    /// SHA-256 of `bound_to`, in hexadecimal.
    pub fingerprint: String,
    /// The state that the verdict applies to: if any of it changes the verdict is no longer valid.
    pub bound_to: BoundTo,
}

/// One NVIDIA GPU; values that need the driver are `null` without one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// Its address.
    pub bdf: Bdf,
    /// Device id as in `0x2684`.
    pub device: String,
    /// The model as the driver names it.
    pub name: Option<String>,
    /// The GPU's own id.
    pub uuid: Option<String>,
    /// Version of its firmware.
    pub vbios: Option<String>,
    /// Size of BAR1, bytes; `null` if it has no address.
    pub bar1_bytes: Option<u64>,
    /// NUMA node.
    pub numa: Option<u32>,
    /// The bound kernel driver.
    pub driver: Option<String>,
    /// Its link.
    pub link: Option<Link>,
}

/// One test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestEntry {
    /// Short and stable.
    pub id: String,
    /// The name.
    pub title: String,
    /// What a pass proves.
    pub proves: String,
    /// The first level that runs it.
    pub level: Level,
    /// The outcome.
    #[schemars(schema_with = "outcome::schema::outcome")]
    pub outcome: Outcome,
    /// When it began, seconds after the run began; `null` if it did not run, and in earlier reports.
    #[serde(default)]
    pub began: Option<f64>,
    /// How long it took, seconds.
    pub seconds: f64,
    /// The result in one line.
    pub summary: String,
    /// All findings.
    pub findings: Vec<FindingEntry>,
    /// Codes that the test did not look for in this run, or not everywhere: a pass does not rule them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
    /// Measurements by row and column.
    pub matrices: Vec<Matrix>,
    /// Measurements by size.
    pub tables: Vec<Table>,
    /// Last lines of the worker if it did not end normally.
    pub log_tail: Vec<String>,
}

impl MachineEntry {
    /// A machine before anything was read.
    #[must_use]
    pub fn unread() -> Self {
        let bound_to = BoundTo::default();
        let fingerprint = fingerprint(&bound_to);
        Self {
            dmi: BTreeMap::new(),
            host: None,
            machine_id: None,
            serial: None,
            platform: Host::default(),
            kernel: None,
            cmdline: None,
            fingerprint,
            bound_to,
        }
    }
}

impl Gpu {
    /// The GPUs of a fabric, with the driver's information about them, by address.
    #[must_use]
    pub fn all(fabric: &Fabric, known: &BTreeMap<String, Information>) -> Vec<Self> {
        let gpus = fabric
            .devices
            .iter()
            .filter(|d| fabric.gpus.contains(&d.bdf));
        let known = |d: &Device| known.get(&d.bdf.to_string()).cloned().unwrap_or_default();
        gpus.map(|d| (d, known(d)))
            .map(|(d, known)| Self {
                bdf: d.bdf,
                device: d.device.clone(),
                name: known.name,
                uuid: known.uuid,
                vbios: known.vbios,
                bar1_bytes: d.aperture().filter(|b| b.start != 0).map(|b| b.bytes),
                numa: d.numa,
                driver: d.driver.clone(),
                link: d.link.clone(),
            })
            .collect()
    }
}

impl TestEntry {
    /// What is known of the test of this name; `None` if this program has no such test.
    #[must_use]
    pub fn properties(&self) -> Option<&'static Properties> {
        Properties::of(&self.id)
    }

    /// An entry that is not a test's: a result about the run itself.
    #[must_use]
    pub fn for_run(
        id: &str,
        title: &str,
        proves: &str,
        level: Level,
        finding: &Finding,
        host: &Host,
    ) -> Self {
        Self::from_judgement(
            id,
            title,
            proves,
            level,
            Judgement::by(finding.clone()),
            host,
        )
    }

    /// As [`Self::for_run`], from a judgement.
    #[must_use]
    pub fn from_judgement(
        id: &str,
        title: &str,
        proves: &str,
        level: Level,
        judgement: Judgement,
        host: &Host,
    ) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            proves: proves.to_owned(),
            level,
            outcome: judgement.outcome(),
            began: None,
            seconds: 0.0,
            summary: judgement.summary,
            unchecked: judgement
                .unchecked
                .iter()
                .map(|code| code.as_str().to_owned())
                .collect(),
            findings: FindingEntry::all(&judgement.findings, host),
            matrices: judgement.matrices,
            tables: judgement.tables,
            log_tail: Vec::new(),
        }
    }
}

impl Report {
    /// The ids of the tests that failed or ended in an error, in order.
    #[must_use]
    pub fn failed(&self) -> Vec<&str> {
        self.ended(&[Outcome::Fail, Outcome::Error])
    }

    /// The ids of the tests that warned, in order.
    #[must_use]
    pub fn warned(&self) -> Vec<&str> {
        self.ended(&[Outcome::Warn])
    }

    fn ended(&self, outcomes: &[Outcome]) -> Vec<&str> {
        self.tests
            .iter()
            .filter(|t| outcomes.contains(&t.outcome))
            .map(|t| t.id.as_str())
            .collect()
    }

    /// The speed of the slowest pair of GPUs, GB/s: the lowest figure of one direction between two GPUs with peer access,
    /// written or read by copy engines; `None` if none was measured.
    #[must_use]
    pub fn slowest_pair(&self) -> Option<f64> {
        summary::slowest_pair(self)
    }

    /// `8 x NVIDIA H200`, or each model with its count, so that none is hidden by the others.
    #[must_use]
    pub fn gpu_names(&self) -> String {
        if self.fabric.is_none() && self.gpus.is_empty() {
            return "GPUs unknown".to_owned();
        }
        let mut models: Vec<(&str, usize)> = Vec::new();
        for gpu in &self.gpus {
            let name = render::words::model(self, gpu);
            match models.iter_mut().find(|(model, _)| *model == name) {
                Some((_, count)) => *count += 1,
                None => models.push((name, 1)),
            }
        }
        let names: Vec<_> = models
            .iter()
            .map(|(name, count)| format!("{count} x {name}"))
            .collect();
        if names.is_empty() {
            "no GPU".to_owned()
        } else {
            names.join(", ")
        }
    }

    /// True if this report is about a recorded machine.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.root != "/"
    }

    /// Determines the causes of the findings, the answer, and the next step.
    pub fn explain(&mut self) {
        self.causes = causes::causes(self);
        self.next_step = next_step::of_one_run(self);
        self.answer = causes::answer(self, &self.causes);
    }

    /// Adds an entry and determines the verdict again.
    pub fn push(&mut self, entry: TestEntry) {
        self.tests.push(entry);
        self.update_verdict();
    }

    /// Determines the verdict from all entries.
    pub fn update_verdict(&mut self) {
        self.verdict = outcome::verdict(&self.tests.iter().map(|t| t.outcome).collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests;
