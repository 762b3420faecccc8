//! Derives findings from the results of the pairs.

use super::Memory;
use super::pair_result::{Latency, PairError, PairResult, Rate, SentBytes};
use crate::nodes::cluster::Cluster;
use crate::nodes::rails::{self, port_name};
use gpu::verbs::Verb;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::table::{CountersRow, RateRow, RdmaMemory, Table};
use std::fmt::Write as _;

/// The fraction of a port's rate that host memory must reach, and the fraction of host memory's that a GPU's must reach.
const MIN_OF_PORT_RATE: f64 = 0.9;
const MIN_OF_HOST_RATE: f64 = 0.9;

/// Judges all pairs; `host`: the same pairs with the host's memory.
pub(super) fn judge(
    all: &[PairResult],
    host: &[PairResult],
    memory: Memory,
    cluster: &Cluster,
) -> Judgement {
    let name: PortName<'_> = &|node, rail| port_name(cluster, node, rail);
    if let Some(PairError::Unsupported { node, why }) = all.iter().find_map(|result| {
        result
            .error
            .as_ref()
            .filter(|error| matches!(error, PairError::Unsupported { .. }))
    }) {
        return Judgement::not_applicable(format!("node {}: {why}", cluster.name(*node)));
    }
    let mut findings = Vec::new();
    for result in all {
        findings.extend(wrong_data_findings(result, name));
        findings.extend(
            result
                .error
                .as_ref()
                .map(|error| error_finding(error, result, name, &|n| cluster.name(n))),
        );
        findings.extend(slow_findings(result, host, memory, cluster));
        findings.extend(bypass_findings(result, cluster));
    }
    Judgement::summed_up(|| summary(all), findings).with_tables(vec![
        rates_table(all, memory, name),
        counters_table(all, memory, name),
    ])
}

fn wrong_data_findings(result: &PairResult, name: PortName<'_>) -> Vec<Finding> {
    let finding = |(verb, node, wrong): &(Verb, usize, super::content::Wrong)| {
        let (a, b) = result.pair;
        let other = name(if *node == a { b } else { a }, result.rail);
        let here = name(*node, result.rail);
        let of = wrong.transfer.map_or_else(
            || "between the transfers".to_owned(),
            |bytes| format!("of a transfer of {bytes} B"),
        );
        let message = format!(
            "RDMA {verb} between {here} and {other}: {} bytes are wrong in the memory of {here}; the first one, {of}, is {:#04x}, expected {:#04x}",
            wrong.count, wrong.found, wrong.expected
        );
        Code::RdmaData
            .finding(Severity::Fail, Subject::port(&here), message)
            .values(wrong.count, 0, Some("bytes"))
    };
    result.wrong.iter().map(finding).collect()
}

fn error_finding(
    error: &PairError,
    result: &PairResult,
    name: PortName<'_>,
    node_name: &dyn Fn(usize) -> String,
) -> Finding {
    let (a, b) = result.pair;
    let between = format!("{} and {}", name(a, result.rail), name(b, result.rail));
    match error {
        PairError::Failed { node, why, doing } => {
            let message = format!(
                "RDMA between {between}: node {}, {doing}: {why}",
                node_name(*node)
            );
            Code::RdmaError.finding(
                Severity::Error,
                Subject::port(name(*node, result.rail)),
                message,
            )
        }
        PairError::Unsupported { node, why } => Code::RdmaError.finding(
            Severity::Error,
            Subject::port(name(*node, result.rail)),
            why.clone(),
        ),
        PairError::Lost { node, why, doing } => {
            let lost = node_name(*node);
            Code::NodesLost.finding(
                Severity::Error,
                Subject::node(&lost),
                format!("node {lost}, {doing}: {why}"),
            )
        }
    }
}

/// The findings about ports whose counters show far fewer bytes than were sent through them; and, if there are several
/// rails, about NICs without counters.
fn bypass_findings(result: &PairResult, cluster: &Cluster) -> Vec<Finding> {
    let several = rails::rail_count(cluster) > 1;
    let one = |sent: &SentBytes| {
        let name = port_name(cluster, sent.node, result.rail);
        let is_card = cluster
            .card(sent.node)
            .is_some_and(|card| matches!(card.gbit_s.get(result.rail), Some(Some(_))));
        match &sent.counted {
            Err(why) => Some(Code::NodesRail.finding(
                Severity::Error,
                Subject::port(&name),
                format!("{name}: {why}"),
            )),
            Ok(None) => (several && is_card).then(|| rails::no_counters_finding(&name)),
            Ok(Some(counted)) => sent.bypassed_port().then(|| {
                let bytes = sent.bytes;
                let message =
                    format!("RDMA sent {bytes} B by {name}, whose counter rose by {counted} B");
                Code::NodesRail
                    .finding(Severity::Warn, Subject::port(&name), message)
                    .values(*counted, bytes, Some("B"))
            }),
        }
    };
    result.sent.iter().filter_map(one).collect()
}

/// The findings about rates below what the ports or the host's memory can reach.
pub(super) fn slow_findings(
    result: &PairResult,
    host: &[PairResult],
    memory: Memory,
    cluster: &Cluster,
) -> Vec<Finding> {
    let name = |node, rail| port_name(cluster, node, rail);
    let expected =
        |node: usize, rail: usize| cluster.card(node).and_then(|card| *card.gbit_s.get(rail)?);
    let (a, b) = result.pair;
    let mut findings = Vec::new();
    for verb in [Verb::Write, Verb::Read] {
        for (from, to) in [(a, b), (b, a)] {
            let Some(got) = result.best(verb, (from, to)) else {
                continue;
            };
            let ports = expected(from, result.rail)
                .zip(expected(to, result.rail))
                .map(|(x, y)| x.min(y));
            let beside = host
                .iter()
                .find(|other| other.pair == result.pair && other.rail == result.rail);
            let (floor, of) = match memory {
                Memory::Host => (
                    ports.map(|gbit_s| gbit_s * MIN_OF_PORT_RATE),
                    "the port's rate or its slot's",
                ),
                Memory::Gpu => {
                    let best = beside.and_then(|other| other.best(verb, (from, to)));
                    (
                        best.map(|gbit_s| gbit_s * MIN_OF_HOST_RATE),
                        "that of host memory",
                    )
                }
            };
            let Some(floor) = floor.filter(|floor| got < *floor) else {
                continue;
            };
            let (by, at) = (name(from, result.rail), name(to, result.rail));
            let message = format!(
                "RDMA {verb} by {by} at {at}: {got:.2} Gb/s, expected at least {floor:.2} Gb/s ({:.0} % of {of})",
                100.0
                    * if memory == Memory::Host {
                        MIN_OF_PORT_RATE
                    } else {
                        MIN_OF_HOST_RATE
                    }
            );
            findings.push(
                Code::RdmaSlow
                    .finding(Severity::Warn, Subject::port(&by), message)
                    .values(got, floor, Some("Gb/s")),
            );
        }
    }
    findings
}

fn summary(all: &[PairResult]) -> String {
    let transfers: u64 = all.iter().map(|result| result.transfers).sum();
    let rates = all
        .iter()
        .flat_map(|result| result.rates.iter().map(super::pair_result::Rate::gbit_s));
    let best = rates.max_by(f64::total_cmp).unwrap_or_default();
    let typical = all
        .iter()
        .flat_map(|result| result.latencies.iter().map(|of| of.at(0.5)));
    let least = typical.min_by(f64::total_cmp).unwrap_or_default();
    let mut registrations: Vec<_> = all
        .iter()
        .flat_map(|result| result.how.iter().map(ToString::to_string))
        .collect();
    registrations.sort();
    registrations.dedup();
    let registrations = registrations.join(" and ");
    format!(
        "{} pairs of ports, {registrations}: {transfers} transfers checked, all right; \
         at most {best:.2} Gb/s, at least {least:.1} us",
        all.len()
    )
}

// The figures in the form of perftest's programs (`ib_write_bw --report_gbits`, `ib_write_lat`), and for the report.

/// Returns the name of a port, given its node and rail.
pub(super) type PortName<'a> = &'a dyn Fn(usize, usize) -> String;

const fn memory_name(memory: Memory) -> &'static str {
    match memory {
        Memory::Host => "host memory",
        Memory::Gpu => "GPU memory",
    }
}

fn rates(result: &PairResult) -> impl Iterator<Item = (&Rate, f64)> {
    result.rates.iter().map(|rate| (rate, rate.gbit_s()))
}

/// The rates and latencies as text for the console.
pub(super) fn console_text(all: &[PairResult], memory: Memory, name: PortName<'_>) -> String {
    let mut text = String::new();
    for result in all.iter().filter(|result| !result.rates.is_empty()) {
        let (a, b) = result.pair;
        let (a, b) = (name(a, result.rail), name(b, result.rail));
        let _ = writeln!(
            text,
            "\n# RDMA {}: {a}, {b}; MTU {}",
            memory_name(memory),
            result.mtu
        );
        text.push_str(" #bytes     #iterations    BW average[Gb/sec]   MsgRate[Mpps]   transfer\n");
        for (rate, gbit_s) in rates(result) {
            let (from, to) = (
                name(rate.nodes.0, result.rail),
                name(rate.nodes.1, result.rail),
            );
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let messages = rate.count as f64 / rate.seconds / 1e6;
            let (bytes, count, verb) = (rate.bytes, rate.count, rate.verb);
            let _ = writeln!(
                text,
                " {bytes:<10} {count:<14} {gbit_s:<20.2} {messages:<15.6} {verb} by {from}, at {to}"
            );
        }
        text.push_str(
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    99% percentile[usec]   transfer\n",
        );
        for of in &result.latencies {
            let Latency { verb, times, .. } = of;
            let [least, most, typical, late] = [0.0, 1.0, 0.5, 0.99].map(|part| of.at(part));
            let count = times.len();
            let _ = writeln!(
                text,
                " 8       {count:<14} {least:<14.2} {most:<12.2} {typical:<18.2} {late:<22.2} {verb}"
            );
        }
    }
    text
}

/// The rates as a table for the report.
pub(super) fn rates_table(all: &[PairResult], memory: Memory, name: PortName<'_>) -> Table {
    let rows = all.iter().flat_map(|result| {
        rates(result).map(move |(rate, gbit_s)| RateRow {
            rail: result.rail,
            transfer: rate.verb.to_string(),
            by: name(rate.nodes.0, result.rail),
            at: name(rate.nodes.1, result.rail),
            bytes: rate.bytes,
            rate: gbit_s,
        })
    });
    Table::Rates(of_report(memory), rows.collect())
}

/// The ports' counters as a table for the report.
fn counters_table(all: &[PairResult], memory: Memory, name: PortName<'_>) -> Table {
    let row = |result: &PairResult, sent: &SentBytes| CountersRow {
        rail: result.rail,
        port: name(sent.node, result.rail),
        sent: sent.bytes,
        counted: sent.counted.clone().ok().flatten(),
    };
    let rows = all
        .iter()
        .flat_map(|result| result.sent.iter().map(move |sent| row(result, sent)));
    Table::Counters(of_report(memory), rows.collect())
}

const fn of_report(memory: Memory) -> RdmaMemory {
    match memory {
        Memory::Host => RdmaMemory::Host,
        Memory::Gpu => RdmaMemory::Gpu,
    }
}
