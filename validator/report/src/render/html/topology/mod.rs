//! The topology as a drawing: NUMA nodes at the left, then root ports and switches, GPUs and NICs at the right, each link
//! with its generation and width. Ports whose ACS was changed are marked; pairs and GPUs with findings are in color, and
//! are named.

mod picture;

use super::frame::{drawing, note, section};
use crate::render::element::{Element, element};
use crate::render::words;
use crate::{Report, pairs_of};
use machine::GpuId;
use machine::pcie::model::{Bdf, Device, Kind};
use machine::pcie::tree::Tree;
use outcome::finding::{Code, FindingEntry, Severity};
use outcome::metric::Metric;
use outcome::platform::Pair;
use outcome::table::{Table, pair_rows};
use std::collections::{BTreeMap, BTreeSet};

/// Sizes of the drawing's parts.
const SOCKET: f64 = 26.0;
const PORT: f64 = 84.0;
const LINK: f64 = 56.0;
const END: f64 = 168.0;
const ARCS: f64 = 54.0;
const ROW: f64 = 64.0;
const BOX: f64 = 56.0;
const TOP: f64 = 4.0;
/// The most rows of one drawing.
const MAX_ROWS: usize = 8;
/// More NICs are counted and not drawn.
const MAX_NICS: usize = 24;
/// With more pairs than this none is drawn, because nobody could tell their curves apart.
const MAX_PAIRS: usize = 16;

/// A function in the drawing, with the functions below it.
struct Node<'a> {
    device: &'a Device,
    below: Vec<Node<'a>>,
}

/// The drawing in progress, and the data that it needs.
struct TopologyDrawing<'a> {
    report: &'a Report,
    ends: BTreeSet<Bdf>,
    acs: BTreeSet<String>,
    bad: BTreeMap<Pair, (Severity, String)>,
    lanes: BTreeMap<GpuId, u32>,
    mixed: bool,
    right: f64,
    y: f64,
    middle: BTreeMap<Bdf, f64>,
    parts: Vec<Element>,
    summary: Vec<String>,
}

/// The drawing; `None` if the fabric is unknown or has no GPU.
pub(super) fn section_of(report: &Report) -> Option<Element> {
    let fabric = report.fabric.as_ref().filter(|_| !report.gpus.is_empty())?;
    let tree = Tree::of(fabric);
    let all: Vec<_> = fabric
        .nics
        .iter()
        .filter(|nic| tree.get(**nic).is_some_and(|d| d.physfn.is_none()))
        .collect();
    let nics = all.iter().take(MAX_NICS).map(|nic| **nic);
    let ends: BTreeSet<Bdf> = fabric.gpus.iter().copied().chain(nics).collect();
    let mut roots: BTreeMap<Option<u32>, Vec<Node<'_>>> = BTreeMap::new();
    let mut deepest = 0.0_f64;
    for end in ends.iter().filter_map(|bdf| tree.get(*bdf)) {
        let mut chain = tree.above(end.bdf);
        chain.reverse();
        chain.push(end);
        deepest = deepest.max(depth(&chain));
        let numa = end.numa.or_else(|| chain.first()?.numa);
        insert(roots.entry(numa).or_default(), &chain);
    }
    let right = SOCKET + 12.0 + deepest;
    let (ends, bad) = (ends.clone(), bad_pairs(report));
    let mut canvas = TopologyDrawing {
        report,
        ends,
        acs: ports_with_cleared_acs(report),
        bad,
        lanes: lanes_under_load(report),
        mixed: is_mixed(report),
        right,
        y: TOP,
        middle: BTreeMap::new(),
        parts: Vec::new(),
        summary: Vec::new(),
    };
    let drawable = are_drawable(&canvas.bad, report.gpus.len());
    let width = right + END + if drawable { ARCS } else { 4.0 };
    let mut drawn = Vec::new();
    for (numa, nodes) in &roots {
        // Without lines between the halves they stand beside each other where there is room.
        if !drawable
            && canvas.ends.len() > MAX_ROWS
            && drawn.is_empty()
            && canvas.middle.len() * 2 >= canvas.ends.len()
        {
            drawn.push(canvas.drawing(width, "Topology of the machine, first half"));
        }
        canvas.draw_socket(*numa, nodes);
    }
    if drawable {
        canvas.draw_pairs();
    }
    let title = if drawn.is_empty() {
        "Topology of the machine"
    } else {
        "Topology of the machine, second half"
    };
    drawn.push(canvas.drawing(width, title));
    let drawn = element("div").with("class", "halves").children(drawn);
    let more = all.len().saturating_sub(MAX_NICS);
    let links = links_note(more, !canvas.lanes.is_empty(), !canvas.acs.is_empty());
    let notes = [Some(links), pairs_note(&canvas.bad, report.gpus.len())]
        .into_iter()
        .flatten();
    Some(
        section("Topology")
            .with("id", "topology")
            .with("class", "drawn")
            .children(notes.map(|text| note(&text)))
            .child(drawn),
    )
}

impl TopologyDrawing<'_> {
    /// What was drawn since the last time, as a drawing of its own.
    fn drawing(&mut self, width: f64, title: &str) -> Element {
        let parts = std::mem::take(&mut self.parts);
        let desc = std::mem::take(&mut self.summary).join("; ");
        drawing(
            (width, std::mem::replace(&mut self.y, TOP)),
            title,
            &desc,
            parts,
        )
    }
}

/// The width of the ports of a chain with the room behind them.
fn depth(chain: &[&Device]) -> f64 {
    let ports = chain.len().saturating_sub(1);
    chain
        .iter()
        .take(ports)
        .map(|device| PORT + gap(device))
        .sum()
}

/// The room to the right of a port: a switch's ports are close together.
const fn gap(port: &Device) -> f64 {
    if matches!(port.kind, Kind::Upstream) {
        6.0
    } else {
        LINK
    }
}

fn insert<'a>(nodes: &mut Vec<Node<'a>>, chain: &[&'a Device]) {
    let Some((first, rest)) = chain.split_first() else {
        return;
    };
    let known = nodes.iter().position(|node| node.device.bdf == first.bdf);
    let at = known.unwrap_or_else(|| {
        nodes.push(Node {
            device: first,
            below: Vec::new(),
        });
        nodes.len() - 1
    });
    if let Some(node) = nodes.get_mut(at) {
        insert(&mut node.below, rest);
    }
}

/// The ports whose ACS the fabric pass cleared, as its finding lists them.
fn ports_with_cleared_acs(report: &Report) -> BTreeSet<String> {
    let findings = report
        .tests
        .iter()
        .flat_map(|test| &test.findings)
        .filter(|f| f.is(Code::AcsCleared));
    findings
        .flat_map(|f| &f.evidence)
        .filter_map(|line| Some(line.split_once(": ")?.0.to_owned()))
        .collect()
}

/// Pairs that findings name, the lower number first, each with its worst finding's code. A finding that represents many
/// pairs names only some of them: the others are the pairs without access, and those whose data did not arrive.
fn bad_pairs(report: &Report) -> BTreeMap<Pair, (Severity, String)> {
    let mut all: BTreeMap<Pair, (Severity, String)> = BTreeMap::new();
    let mut keep = |pair: Pair, finding: &FindingEntry| {
        let worst = all
            .entry(pair.sorted())
            .or_insert((finding.severity, finding.code.clone()));
        if finding.severity > worst.0 {
            *worst = (finding.severity, finding.code.clone());
        }
    };
    for test in &report.tests {
        let bad = || test.findings.iter().filter(|f| f.severity > Severity::Info);
        for finding in bad().filter(|f| !f.about().named_pairs().is_empty()) {
            pairs_of(finding, report)
                .into_iter()
                .for_each(|pair| keep(pair, finding));
        }
        let Some(worst) = bad().rev().max_by_key(|f| f.severity) else {
            continue;
        };
        pair_rows(&test.tables)
            .filter(|row| !row.is_good())
            .for_each(|row| keep(row.pair(), worst));
        for matrix in test
            .matrices
            .iter()
            .filter(|matrix| matrix.metric() == Some(Metric::ACCESS))
        {
            let values = matrix.values.iter().enumerate();
            let cells = values.flat_map(|(from, row)| {
                row.iter()
                    .enumerate()
                    .map(move |(to, value)| (Pair::of(from, to), *value))
            });
            let none = cells.filter(|(pair, value)| pair.from != pair.to && *value == Some(0.0));
            none.for_each(|(pair, _)| keep(pair, worst));
        }
    }
    all
}

/// The fewest lanes of each GPU's link under load, if a test has measured them.
fn lanes_under_load(report: &Report) -> BTreeMap<GpuId, u32> {
    let mut all = BTreeMap::new();
    for table in report
        .tests
        .iter()
        .flat_map(|test| &test.tables)
        .map(Table::known)
    {
        let Table::Samples(rows) = table.as_ref() else {
            continue;
        };
        for (gpu, lanes) in rows
            .iter()
            .filter_map(|row| Some((row.state.gpu, row.lanes?)))
        {
            let least = all.entry(gpu).or_insert(lanes);
            *least = lanes.min(*least);
        }
    }
    all
}

/// Whether the GPUs are not all of one model.
fn is_mixed(report: &Report) -> bool {
    let models: BTreeSet<_> = report
        .gpus
        .iter()
        .map(|gpu| words::model(report, gpu))
        .collect();
    models.len() > 1
}

/// The number of pairs, of which each counts once for both directions.
const fn unordered(gpus: usize) -> usize {
    gpus * gpus.saturating_sub(1) / 2
}

/// Whether lines between these pairs say something: neither too many, nor simply all of three or more.
fn are_drawable(bad: &BTreeMap<Pair, (Severity, String)>, gpus: usize) -> bool {
    (1..=MAX_PAIRS).contains(&bad.len()) && (bad.len() < unordered(gpus) || gpus < 3)
}

fn links_note(nics: usize, loaded: bool, acs: bool) -> String {
    let mut text = "PCI Express links: generation and lanes".to_owned();
    text += if loaded {
        " at rest, and the fewest lanes under load."
    } else {
        " at rest, when GPUs lower the generation."
    };
    if acs {
        text += " ACS cleared: the fabric pass changed this port's register. ACS with letters: redirection that is on.";
    }
    if nics > 0 {
        text += &format!(" {nics} more NICs are not drawn.");
    }
    text
}

/// Which pairs have findings, and whether they are drawn.
fn pairs_note(bad: &BTreeMap<Pair, (Severity, String)>, gpus: usize) -> Option<String> {
    let all = unordered(gpus);
    let codes: BTreeSet<_> = bad.values().map(|(_, code)| code.as_str()).collect();
    let codes = codes.into_iter().collect::<Vec<_>>().join(", ");
    if bad.is_empty() {
        return None;
    }
    if !are_drawable(bad, gpus) {
        let count = if bad.len() < all {
            format!("{} of {all} pairs", bad.len())
        } else {
            format!("All {all} pairs")
        };
        return Some(format!(
            "{count} have findings: {codes}. They are not drawn."
        ));
    }
    let named: Vec<_> = bad
        .keys()
        .take(6)
        .map(|pair| format!("GPU {} and {}", pair.from, pair.to))
        .collect();
    let more = bad.len().saturating_sub(named.len());
    let more = if more > 0 {
        format!(", and {more} more pairs")
    } else {
        String::new()
    };
    Some(format!(
        "Lines at the right: pairs with findings, {}{more}.",
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pairs_are_a_sentence_and_no_lines() {
        let bad = |pairs: &[(usize, usize)]| -> BTreeMap<Pair, (Severity, String)> {
            pairs
                .iter()
                .map(|(a, b)| (Pair::of(*a, *b), (Severity::Fail, "P2P-SLOW".to_owned())))
                .collect()
        };
        let three = bad(&[(0, 1), (0, 2), (1, 2)]);
        assert!(!are_drawable(&three, 3));
        let note = pairs_note(&three, 3).unwrap();
        assert_eq!(
            note,
            "All 3 pairs have findings: P2P-SLOW. They are not drawn."
        );
        assert!(are_drawable(&three, 4) && are_drawable(&bad(&[(0, 1)]), 2));
        assert!(
            pairs_note(&three, 4)
                .unwrap()
                .starts_with("Lines at the right: pairs with findings, GPU 0 and 1, ")
        );
        let many: Vec<_> = (1..=MAX_PAIRS + 1).map(|n| (0, n)).collect();
        assert!(!are_drawable(&bad(&many), 64));
        assert_eq!(
            pairs_note(&bad(&many), 64).unwrap(),
            "17 of 2016 pairs have findings: P2P-SLOW. They are not drawn."
        );
        assert!(!are_drawable(&bad(&[]), 4) && pairs_note(&bad(&[]), 4).is_none());
    }
}
