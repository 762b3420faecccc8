//! The output of the commands over several nodes: text on standard output, and JSON.

use crate::cli::args::Place;
use crate::cli::output::{self, to_stdout};
use crate::cli::{CommandError, FAILURE, SUCCESS};
use crate::nccl::{Row, Sweep};
use crate::nodes::card::Card;
use crate::nodes::cluster::Cluster;
use crate::nodes::communicators::Communicator;
use crate::nodes::order::{Ending, Welcome};
use crate::nodes::watcher::{TestInfo, Watcher};
use crate::render::nccl::{Device, RunInfo, RunMetadata, columns, head, json, row, tail};
use contract::schema;
use contract::status::DEGRADED;
use gpu::Collective;
use outcome::finding::{Finding, FindingEntry, Severity};
use outcome::platform::Host;
use outcome::text::shown_text;
use outcome::text::time::utc;
use outcome::{Advice, Judgement, Verdict};
use report::Level;
use report::render::last_line::nodes_line;
use report::render::{causes, pretty, text};
use report::{TestEntry, ungrouped_causes};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

/// Standard output, until a write fails.
pub(super) struct NodesConsole {
    on: bool,
    begun: bool,
    pub(super) failed: Option<String>,
}

impl NodesConsole {
    pub(super) const fn new(on: bool) -> Self {
        Self {
            on,
            begun: false,
            failed: None,
        }
    }

    fn say(&mut self, text: &str) {
        if self.on
            && let Err(error) = to_stdout(&shown_text(text))
        {
            (self.on, self.failed) = (false, Some(format!("standard output: {error}")));
        }
    }

    pub(super) fn welcome(&mut self, welcome: &Welcome) {
        let Welcome { node, names, .. } = welcome;
        self.say(&format!(
            "node {} of {}: {}\n",
            node + 1,
            names.len(),
            names.join(", ")
        ));
    }

    /// Prints the findings of a run that has no rows.
    pub(super) fn findings(&mut self, findings: &[Finding]) {
        let entries = entry(&ALONE, &Judgement::of("", findings.to_vec()), 0.0);
        let entries = [entries];
        self.say(&causes::details(&ungrouped_causes(&entries), &entries));
    }

    /// Prints the end on a node that does not lead; `why`: the source of the verdict.
    pub(super) fn member(&mut self, name: &str, ending: &Ending, why: &str, seconds: f64) {
        self.say(&member_end(name, ending, why, seconds));
    }

    pub(super) fn end(&mut self, tests: &[TestEntry], status: u8, name: &str, seconds: f64) {
        let verdict = verdict_of(status);
        let line = nodes_line(verdict, tests, Vec::new(), name, seconds);
        let text = format!(
            "{}\nVERDICT  {verdict}   {}\n{line}",
            causes::details(&ungrouped_causes(tests), tests),
            text::counts(tests)
        );
        self.say(&text);
    }
}

fn member_end(name: &str, ending: &Ending, why: &str, seconds: f64) -> String {
    let verdict = verdict_of(ending.status);
    let codes = ending
        .findings
        .iter()
        .filter(|f| f.severity > Severity::Info)
        .map(|f| f.code.as_str());
    format!(
        "\nVERDICT  {verdict}   {why}\n{}",
        nodes_line(verdict, &[], codes.collect(), name, seconds)
    )
}

/// The findings of a node that met no other.
const ALONE: TestInfo = TestInfo {
    id: "nodes-meeting",
    title: "",
    proves: "",
};

impl Watcher for NodesConsole {
    fn head(&mut self, cluster: &Cluster, group: &Communicator, sweep: &Sweep) {
        self.say(&("\n".to_owned() + &title(cluster, group, sweep) + &columns()));
    }

    fn row(&mut self, one: &Row) {
        self.say(&row(one));
    }

    fn text(&mut self, text: &str) {
        self.say(text);
    }

    fn tail(&mut self, collective: Collective, rows: &[Row]) {
        self.say(&(tail(collective, rows) + "\n"));
    }

    fn ended(&mut self, about: &TestInfo, judgement: &Judgement, seconds: f64) {
        if !self.begun {
            self.say(&format!(
                "firstlight {}   nodes\n\n",
                env!("CARGO_PKG_VERSION")
            ));
            self.begun = true;
        }
        self.say(&text::row(&entry(about, judgement, seconds)));
    }
}

fn title(cluster: &Cluster, group: &Communicator, sweep: &Sweep) -> String {
    let devices = devices(cluster, group);
    let library = group.nccl.first().copied().unwrap_or_default();
    head(&RunInfo {
        version: env!("CARGO_PKG_VERSION"),
        library,
        sweep,
        gpus: 1,
        devices: &devices,
    })
}

fn devices(cluster: &Cluster, group: &Communicator) -> Vec<Device> {
    let one = |(node, device): &(usize, crate::nccl::ranks::Device)| Device {
        rank: device.rank,
        pid: device.pid,
        host: cluster.name(*node),
        ordinal: device.ordinal,
        bdf: device.bdf,
        name: device.name.clone(),
    };
    group.devices.iter().map(one).collect()
}

fn verdict_of(status: u8) -> Verdict {
    match status {
        SUCCESS => Verdict::Pass,
        FAILURE => Verdict::Fail,
        DEGRADED => Verdict::Degraded,
        _ => Verdict::Error,
    }
}

/// The tests as in a report.
pub(super) fn entries(tests: &[(TestInfo, Judgement, f64)]) -> Vec<TestEntry> {
    tests
        .iter()
        .map(|(about, judgement, seconds)| entry(about, judgement, *seconds))
        .collect()
}

fn entry(about: &TestInfo, judgement: &Judgement, seconds: f64) -> TestEntry {
    let TestInfo {
        id, title, proves, ..
    } = about;
    let host = Host::default();
    TestEntry {
        seconds,
        ..TestEntry::from_judgement(id, title, proves, Level::Standard, judgement.clone(), &host)
    }
}

/// A node in the report.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Node<'a> {
    /// As the node that leads knows it.
    Card(&'a Card),
    /// As a member knows it.
    Name {
        /// Its name.
        name: &'a str,
    },
}

/// `firstlight.nodes/1`
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    verdict: Verdict,
    started: String,
    seconds: f64,
    nodes: Vec<Node<'a>>,
    tests: &'a [TestEntry],
    findings: Vec<FindingEntry>,
    /// The settings that this node's workload should use between the nodes, and the reasons.
    workload_env: BTreeMap<&'a str, &'a str>,
    workload_reasons: BTreeMap<&'a str, &'a str>,
}

/// Writes the result as JSON.
pub(super) fn write(
    place: &Place,
    nodes: Vec<Node<'_>>,
    tests: &[TestEntry],
    (ending, workload): (&Ending, &[Advice]),
    (started, begun): (SystemTime, Instant),
) -> Result<(), CommandError> {
    let report = Report {
        schema: schema::NODES,
        verdict: verdict_of(ending.status),
        started: utc(started),
        seconds: begun.elapsed().as_secs_f64(),
        nodes,
        tests,
        findings: FindingEntry::all(&ending.findings, &Host::default()),
        workload_env: workload
            .iter()
            .map(|a| (a.name.as_str(), a.value.as_str()))
            .collect(),
        workload_reasons: workload
            .iter()
            .map(|a| (a.name.as_str(), a.reason.as_str()))
            .collect(),
    };
    let text = pretty(&report).map_err(|e| CommandError::undone(&e))?;
    Ok(output::write(place, &text)?)
}

/// nccl-tests' table of `firstlight nccl --nodes`.
pub(super) struct CollectiveTable {
    screen: NodesConsole,
    json: Option<Place>,
    begun: SystemTime,
    rows: Vec<Row>,
    library: u32,
    devices: Vec<Device>,
}

impl CollectiveTable {
    pub(super) fn new(on: bool, json: Option<Place>) -> Self {
        let begun = SystemTime::now();
        Self {
            screen: NodesConsole::new(on),
            json,
            begun,
            rows: Vec::new(),
            library: 0,
            devices: Vec::new(),
        }
    }

    /// The end of the table, and nccl-tests' JSON.
    pub(super) fn finish(mut self, sweep: &Sweep, complete: bool) -> Result<(), CommandError> {
        if complete {
            self.screen.say(&tail(sweep.collective, &self.rows));
        }
        if let Some(place) = &self.json {
            let moment = |at| utc(at).replace('T', " ").replace('Z', "");
            let run = RunMetadata {
                start: &moment(self.begun),
                end: &moment(SystemTime::now()),
                args: &std::env::args().collect::<Vec<_>>(),
                environment: &[],
                errors: &[],
            };
            let (library, devices) = (self.library, self.devices.as_slice());
            let title = RunInfo {
                version: env!("CARGO_PKG_VERSION"),
                library,
                sweep,
                gpus: 1,
                devices,
            };
            let text =
                pretty(&json(&title, &self.rows, &run)).map_err(|e| CommandError::undone(&e))?;
            output::write(place, &text)?;
        }
        self.screen
            .failed
            .map_or(Ok(()), |why| Err(CommandError::Undone(why)))
    }
}

impl Watcher for CollectiveTable {
    fn head(&mut self, cluster: &Cluster, group: &Communicator, sweep: &Sweep) {
        (self.devices, self.library) = (
            devices(cluster, group),
            group.nccl.first().copied().unwrap_or_default(),
        );
        self.screen
            .say(&(title(cluster, group, sweep) + &columns()));
    }

    fn row(&mut self, one: &Row) {
        self.screen.say(&row(one));
        self.rows.push(one.clone());
    }

    fn text(&mut self, _: &str) {}

    fn tail(&mut self, _: Collective, _: &[Row]) {}

    fn ended(&mut self, _: &TestInfo, _: &Judgement, _: f64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_node_that_does_not_lead_has_the_time_it_took() {
        let ending = Ending {
            status: SUCCESS,
            findings: Vec::new(),
            network: None,
        };
        let text = member_end("node2", &ending, "of the node that leads", 12.34);
        assert!(
            text.starts_with("\nVERDICT  PASS   of the node that leads\nFIRSTLIGHT verdict=PASS"),
            "{text}"
        );
        assert!(text.ends_with("host=node2 seconds=12.3\n"), "{text}");
    }
}
