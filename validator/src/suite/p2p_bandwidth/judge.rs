//! What the figures of all pairs come to: matrices, findings and one line. Pure.

use super::Seen;
use super::plan::{MATRICES, policy};
use crate::config::Level;
use crate::finding::{Code, Finding, Severity};
use crate::judge::{Carrier, Figures, asymmetric, pair};
use crate::outcome::Judgement;
use crate::schedule::Pair;
use crate::suite::speed::{judged, noisy, rounded, table};
use serde_json::Value;

/// Kernels and reads move at least this part of what the copy engine writes: reads wait for their
/// answers, so that they may be slower on healthy machines; on record 0.93 and more.
const PART: f64 = 0.5;

/// What the test was asked, and what it knows of the machine.
pub(super) struct Asked<'a> {
    pub(super) gpus: usize,
    pub(super) level: Level,
    /// `expect.min_p2p_gb_s`
    pub(super) least: Option<f64>,
    /// What carries each pair's data.
    pub(super) carrier: &'a dyn Fn(Pair) -> Carrier,
    /// How the GPUs fared, a line each.
    pub(super) states: &'a [String],
}

/// Judges everything.
pub(super) fn judge(seen: Seen, asked: &Asked<'_>) -> Judgement {
    let pairs = || (0..asked.gpus).flat_map(|from| (0..asked.gpus).map(move |to| Pair::new(from, to)));
    let mut findings: Vec<_> = pairs().flat_map(|pair| one(&seen, asked, pair)).collect();
    findings.extend(pairs().filter(|p| p.from < p.to).filter_map(|pair| lopsided(&seen, pair)));
    findings.extend(pairs().flat_map(|pair| lame(&seen, pair)));
    for finding in &mut findings {
        finding.evidence.extend(asked.states.iter().cloned());
    }
    findings.extend(noisy(&seen.grid, "GB/s", |name| Some(policy(name, asked.level))));
    findings.extend(seen.apart.iter().flat_map(|(pair, why)| apart(*pair, why, asked.least)));
    let summary = summary(&seen);
    let shown = MATRICES.iter().filter(|(_, from)| *from <= asked.level);
    let matrices = shown.map(|(name, _)| seen.grid.matrix(name, "GB/s", asked.gpus)).collect();
    judged(summary, seen.findings.into_iter().chain(findings))
        .showing(matrices)
        .with_tables(tables(&seen.rows))
}

/// Bandwidth by size, where it was measured.
fn tables(rows: &[Vec<Value>]) -> Vec<Value> {
    let columns = [("pair", ""), ("way", ""), ("size", "bytes"), ("ce.write", "GB/s"), ("sm.write", "GB/s")];
    let some = (!rows.is_empty()).then(|| table("bandwidth.by-size", &columns, rows));
    some.into_iter().collect()
}

/// A pair's speed against what carries it. Pairs without a figure have a finding of their own.
fn one(seen: &Seen, asked: &Asked<'_>, way: Pair) -> Vec<Finding> {
    let figure = |name| seen.grid.get(name, way);
    let Some(one_way) = figure("ce.write").filter(|_| way.from != way.to) else { return Vec::new() };
    let figures = Figures {
        pair: way,
        carrier: (asked.carrier)(way),
        one_way,
        off: figure("sample.uni.off"),
        both_ways: figure("ce.bi.write"),
        latency_us: seen.latency.get("latency", way),
    };
    pair(&figures, asked.least)
}

fn lopsided(seen: &Seen, pair: Pair) -> Option<Finding> {
    let figure = |pair| seen.grid.get("ce.write", pair);
    asymmetric(pair, figure(pair)?, figure(pair.back())?)
}

/// Reads and kernels against the copy engine's writes over the same way. `actor`: who reads or
/// writes, and whose memory.
fn lame(seen: &Seen, actor: Pair) -> Vec<Finding> {
    let slow = |(name, way, acts): (&str, Pair, &str)| {
        let (gb_s, write) = (seen.grid.get(name, actor)?, seen.grid.get("ce.write", way)?);
        let least = write * PART;
        if gb_s >= least {
            return None;
        }
        let message = format!(
            "{way}: GPU {} {acts} {gb_s:.2} GB/s, expected at least {least:.2} GB/s ({PART} of the {write:.2} \
             GB/s that the copy engine writes)",
            actor.from
        );
        let finding = Code::P2pSlow.finding(Severity::Warn, &way, message);
        Some(finding.values(rounded(gb_s), rounded(least), Some("GB/s")))
    };
    let kinds = [
        ("ce.read", actor.back(), "reads by its copy engine"),
        ("sm.write", actor, "writes by a kernel"),
        ("sm.read", actor.back(), "reads by a kernel"),
        ("sample.uni.on", actor, "writes by peer copies"),
    ];
    kinds.into_iter().filter_map(slow).collect()
}

/// No peer access is `p2p-capability`'s to judge; but a floor that was asked for stays unmeasured.
fn apart(pair: Pair, why: &str, least: Option<f64>) -> Option<Finding> {
    least.map(|least| {
        let message = format!("{pair}: expect.min_p2p_gb_s is {least}, and there is no peer access: {why}");
        let finding = Code::ExpectUnchecked.finding(Severity::Error, &pair, message);
        finding.values(Value::Null, least, Some("GB/s"))
    })
}

/// `12 ordered pairs: 391.5 to 393.7 GB/s, both directions 778.2 to 783.1; without peer access 37.3 to 38.8`
fn summary(seen: &Seen) -> String {
    let range = |name| seen.grid.range(name).map(|(low, high)| format!("{low:.1} to {high:.1}"));
    let off = seen.grid.all("sample.uni.off").filter(|(pair, _)| pair.from != pair.to);
    let off: Vec<_> = off.map(|(_, gb_s)| gb_s).collect();
    let ends = (off.iter().copied().reduce(f64::min), off.iter().copied().reduce(f64::max));
    let (Some(low), Some(high)) = ends else { return "nothing was measured".to_owned() };
    let pairs = seen.grid.all("ce.write").count();
    let Some(on) = range("ce.write") else {
        return format!("no pair has peer access; by way of the host {low:.1} to {high:.1} GB/s");
    };
    let both = range("ce.bi.write").map_or(String::new(), |both| format!(", both directions {both}"));
    format!("{pairs} ordered pairs: {on} GB/s{both}; without peer access {low:.1} to {high:.1}")
}
