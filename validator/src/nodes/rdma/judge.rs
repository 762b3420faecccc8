//! Derives findings from the results of the pairs.

use super::Memory;
use super::pass::{Latency, Pass, Rate, Sent, Trouble};
use crate::nodes::cluster::Cluster;
use crate::nodes::rails::{self, port};
use crate::nodes::verbs::Verb;
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The fraction of a port's rate that host memory must reach, and the fraction of host memory's that a GPU's must reach.
const OF_PORT: f64 = 0.9;
const OF_HOST: f64 = 0.9;

/// Judges all pairs; `host`: the same pairs with the host's memory.
pub(super) fn judge(all: &[Pass], host: &[Pass], memory: Memory, cluster: &Cluster) -> Judgement {
    let name: Name<'_> = &|node, rail| port(cluster, node, rail);
    if let Some(Trouble::Unsupported { node, why }) = all.iter().find_map(|pass| {
        pass.trouble.as_ref().filter(|trouble| matches!(trouble, Trouble::Unsupported { .. }))
    }) {
        return Judgement::not_applicable(format!("node {}: {why}", cluster.name(*node)));
    }
    let mut findings = Vec::new();
    for pass in all {
        findings.extend(wrong(pass, name));
        findings
            .extend(pass.trouble.as_ref().map(|trouble| stopped(trouble, pass, name, &|n| cluster.name(n))));
        findings.extend(slow(pass, host, memory, cluster));
        findings.extend(elsewhere(pass, cluster));
    }
    Judgement::summed_up(|| summary(all), findings)
        .with_tables(vec![rows(all, memory, name), counters(all, memory, name)])
}

fn wrong(pass: &Pass, name: Name<'_>) -> Vec<Finding> {
    let finding = |(verb, node, wrong): &(Verb, usize, super::content::Wrong)| {
        let (a, b) = pass.pair;
        let other = name(if *node == a { b } else { a }, pass.rail);
        let here = name(*node, pass.rail);
        let of = wrong.transfer.map_or_else(
            || "between the transfers".to_owned(),
            |bytes| format!("of a transfer of {bytes} B"),
        );
        let message = format!(
            "RDMA {verb} between {here} and {other}: {} bytes are wrong in the memory of {here}; the first one, {of}, is {:#04x}, expected {:#04x}",
            wrong.count, wrong.found, wrong.expected
        );
        Code::RdmaData.finding(Severity::Fail, &here, message).values(wrong.count, 0, Some("bytes"))
    };
    pass.wrong.iter().map(finding).collect()
}

fn stopped(trouble: &Trouble, pass: &Pass, name: Name<'_>, node_name: &dyn Fn(usize) -> String) -> Finding {
    let (a, b) = pass.pair;
    let between = format!("{} and {}", name(a, pass.rail), name(b, pass.rail));
    match trouble {
        Trouble::Failed { node, why, doing } => {
            let message = format!("RDMA between {between}: node {}, {doing}: {why}", node_name(*node));
            Code::RdmaError.finding(Severity::Error, &name(*node, pass.rail), message)
        }
        Trouble::Unsupported { node, why } => {
            Code::RdmaError.finding(Severity::Error, &name(*node, pass.rail), why.clone())
        }
        Trouble::Lost { node, why, doing } => {
            let lost = node_name(*node);
            Code::NodesLost.finding(Severity::Error, &lost, format!("node {lost}, {doing}: {why}"))
        }
    }
}

/// Ports whose counters show far fewer bytes than were sent through them; with several rails, also cards without counters.
fn elsewhere(pass: &Pass, cluster: &Cluster) -> Vec<Finding> {
    let several = rails::number(cluster) > 1;
    let one = |sent: &Sent| {
        let name = port(cluster, sent.node, pass.rail);
        let is_card =
            cluster.card(sent.node).is_some_and(|card| matches!(card.gbit_s.get(pass.rail), Some(Some(_))));
        match &sent.counted {
            Err(why) => Some(Code::NodesRail.finding(Severity::Error, &name, format!("{name}: {why}"))),
            Ok(None) => (several && is_card).then(|| rails::without_counters(&name)),
            Ok(Some(counted)) => sent.is_elsewhere().then(|| {
                let bytes = sent.bytes;
                let message = format!("RDMA sent {bytes} B by {name}, whose counter rose by {counted} B");
                Code::NodesRail.finding(Severity::Warn, &name, message).values(*counted, bytes, Some("B"))
            }),
        }
    };
    pass.sent.iter().filter_map(one).collect()
}

/// Bandwidths below what the ports or the host's memory can reach.
pub(super) fn slow(pass: &Pass, host: &[Pass], memory: Memory, cluster: &Cluster) -> Vec<Finding> {
    let name = |node, rail| port(cluster, node, rail);
    let expected = |node: usize, rail: usize| cluster.card(node).and_then(|card| *card.gbit_s.get(rail)?);
    let (a, b) = pass.pair;
    let mut findings = Vec::new();
    for verb in [Verb::Write, Verb::Read] {
        for (from, to) in [(a, b), (b, a)] {
            let Some(got) = pass.best(verb, (from, to)) else { continue };
            let ports = expected(from, pass.rail).zip(expected(to, pass.rail)).map(|(x, y)| x.min(y));
            let beside = host.iter().find(|other| other.pair == pass.pair && other.rail == pass.rail);
            let (floor, of) = match memory {
                Memory::Host => (ports.map(|gbit_s| gbit_s * OF_PORT), "the port's rate or its slot's"),
                Memory::Gpu => {
                    let best = beside.and_then(|other| other.best(verb, (from, to)));
                    (best.map(|gbit_s| gbit_s * OF_HOST), "that of host memory")
                }
            };
            let Some(floor) = floor.filter(|floor| got < *floor) else { continue };
            let (by, at) = (name(from, pass.rail), name(to, pass.rail));
            let message = format!(
                "RDMA {verb} by {by} at {at}: {got:.2} Gb/s, expected at least {floor:.2} Gb/s ({:.0} % of {of})",
                100.0 * if memory == Memory::Host { OF_PORT } else { OF_HOST }
            );
            findings.push(Code::RdmaSlow.finding(Severity::Warn, &by, message).values(
                got,
                floor,
                Some("Gb/s"),
            ));
        }
    }
    findings
}

fn summary(all: &[Pass]) -> String {
    let transfers: u64 = all.iter().map(|pass| pass.transfers).sum();
    let rates = all.iter().flat_map(|pass| pass.rates.iter().map(super::pass::Rate::gbit_s));
    let best = rates.max_by(f64::total_cmp).unwrap_or_default();
    let typical = all.iter().flat_map(|pass| pass.latencies.iter().map(|of| of.at(0.5)));
    let least = typical.min_by(f64::total_cmp).unwrap_or_default();
    let mut ways: Vec<_> = all.iter().flat_map(|pass| pass.how.iter().map(ToString::to_string)).collect();
    ways.sort();
    ways.dedup();
    let ways = ways.join(" and ");
    format!(
        "{} pairs of ports, {ways}: {transfers} transfers checked, all right; at most {best:.2} Gb/s, at least {least:.1} us",
        all.len()
    )
}

// The figures in the form of perftest's programs (`ib_write_bw --report_gbits`, `ib_write_lat`), and for the report.

/// The name of a port: of a node and a rail.
pub(super) type Name<'a> = &'a dyn Fn(usize, usize) -> String;

const fn word(memory: Memory) -> &'static str {
    match memory {
        Memory::Host => "host memory",
        Memory::Gpu => "GPU memory",
    }
}

fn rates(pass: &Pass) -> impl Iterator<Item = (&Rate, f64)> {
    pass.rates.iter().map(|rate| (rate, rate.gbit_s()))
}

/// For the console.
pub(super) fn text(all: &[Pass], memory: Memory, name: Name<'_>) -> String {
    let mut text = String::new();
    for pass in all.iter().filter(|pass| !pass.rates.is_empty()) {
        let (a, b) = pass.pair;
        let (a, b) = (name(a, pass.rail), name(b, pass.rail));
        let _ = writeln!(text, "\n# RDMA {}: {a}, {b}; MTU {}", word(memory), pass.mtu);
        text.push_str(" #bytes     #iterations    BW average[Gb/sec]   MsgRate[Mpps]   transfer\n");
        for (rate, gbit_s) in rates(pass) {
            let (from, to) = (name(rate.nodes.0, pass.rail), name(rate.nodes.1, pass.rail));
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let messages = rate.count as f64 / rate.seconds / 1e6;
            let (bytes, count, verb) = (rate.bytes, rate.count, rate.verb);
            let _ = writeln!(
                text,
                " {bytes:<10} {count:<14} {gbit_s:<20.2} {messages:<15.6} {verb} by {from}, at {to}"
            );
        }
        text.push_str(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    99% percentile[usec]   transfer\n");
        for of in &pass.latencies {
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

/// For the report.
pub(super) fn rows(all: &[Pass], memory: Memory, name: Name<'_>) -> Value {
    let columns = [("rail", ""), ("transfer", ""), ("by", ""), ("at", ""), ("size", "B"), ("rate", "Gb/s")];
    let columns: Vec<_> =
        columns.iter().map(|(heading, unit)| json!({ "heading": heading, "unit": unit })).collect();
    let rows = all.iter().flat_map(|pass| {
        rates(pass).map(move |(rate, gbit_s)| {
            let (by, at) = (name(rate.nodes.0, pass.rail), name(rate.nodes.1, pass.rail));
            json!([pass.rail, rate.verb.to_string(), by, at, rate.bytes, gbit_s])
        })
    });
    json!({ "name": format!("RDMA, {}", word(memory)), "columns": columns, "rows": rows.collect::<Vec<_>>() })
}

/// The ports' counters, for the report.
fn counters(all: &[Pass], memory: Memory, name: Name<'_>) -> Value {
    let columns = [("rail", ""), ("port", ""), ("sent by RDMA", "B"), ("counted", "B")];
    let columns: Vec<_> =
        columns.iter().map(|(heading, unit)| json!({ "heading": heading, "unit": unit })).collect();
    let rows = all.iter().flat_map(|pass| {
        let counted = |sent: &Sent| sent.counted.clone().ok().flatten();
        pass.sent
            .iter()
            .map(move |sent| json!([pass.rail, name(sent.node, pass.rail), sent.bytes, counted(sent)]))
    });
    let name = format!("RDMA, {}: bytes by the ports' counters", word(memory));
    json!({ "name": name, "columns": columns, "rows": rows.collect::<Vec<_>>() })
}
