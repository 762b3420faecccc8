//! The judgement over the patterns: a table with the links' limits, findings and the summary. Pure.

use super::pattern::PatternKind;
use super::switches::SwitchSpeed;
use super::{PatternSpeeds, Results};
use crate::floors::{
    ExpectedSpeed, JointTransfers, KnownPaths, PatternTransfer, ResourceRates, classes, collapse,
    starved,
};
use crate::schedule::{Pair, Routes};
use crate::suite::benchmark::{judged, rounded};
use machine::pcie::model::Bdf;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::table::{Table, TogetherRow};
use std::collections::BTreeMap;

/// Below this part of what the links allow, many GPUs that send to several others may be slow by the order alone.
const BY_ORDER: f64 = 0.9;

/// The row of mixed traffic.
const MIXED: &str =
    "mixed: reads and writes, kernels and copy engines, and copies to and from the host";

/// What figures are judged by: the paths and links of the machine.
pub(super) struct Basis<'a> {
    pub(super) routes: &'a Routes,
    /// How many NVLinks each GPU has up.
    pub(super) nvlinks: &'a [u32],
    /// What a bridge's link carries, GB/s.
    pub(super) raw: &'a dyn Fn(Bdf) -> Option<f64>,
    /// The name of the group of pairs with similar paths, which are compared with each other.
    pub(super) path_group: &'a dyn Fn(Pair) -> String,
}

/// A pattern compared with what the links allow; `expected` is `None` if a pair was not measured alone.
struct Row<'a> {
    speeds: &'a PatternSpeeds,
    expected: Option<ExpectedSpeed>,
    /// The class of each pair: links between packages carry other transfers than links inside a package.
    classes: &'a BTreeMap<Pair, usize>,
}

impl Row<'_> {
    fn ratio(&self) -> Option<f64> {
        let expected = self
            .expected
            .as_ref()
            .map(|e| e.total)
            .filter(|total| *total > 0.0)?;
        Some(self.speeds.best() / expected)
    }

    fn finding(&self) -> Option<Finding> {
        let PatternSpeeds {
            pattern,
            total,
            again,
            ..
        } = self.speeds;
        let again = again.as_ref().map(|again| again.0);
        collapse(
            &pattern.kind.to_string(),
            pattern.pairs.len(),
            (*total, again),
            self.expected.as_ref()?,
        )
    }

    fn may_be_slow_by_order(&self) -> bool {
        let sends_to_several = matches!(
            self.speeds.pattern.kind,
            PatternKind::All | PatternKind::Next(_)
        );
        sends_to_several && self.ratio().is_some_and(|ratio| ratio < BY_ORDER)
    }

    fn starved(&self, results: &Results, basis: &Basis<'_>) -> Vec<Finding> {
        let PatternSpeeds { pattern, .. } = self.speeds;
        let share = |(pair, gb_s): (&Pair, f64)| {
            let like = format!("{} {:?}", (basis.path_group)(*pair), self.classes.get(pair));
            Some(PatternTransfer {
                pair: *pair,
                gb_s,
                alone: *results.alone.get(pair)?,
                like,
            })
        };
        let each: Vec<_> = pattern
            .pairs
            .iter()
            .zip(self.speeds.each())
            .filter_map(share)
            .collect();
        starved(&pattern.kind.to_string(), &each)
    }
}

fn rows<'a>(
    results: &'a Results,
    basis: &'a Basis<'_>,
    classes: &'a BTreeMap<Pair, usize>,
) -> Vec<Row<'a>> {
    let known = KnownPaths {
        routes: basis.routes,
        alone: &results.alone,
        nvlinks: basis.nvlinks,
        classes,
    };
    let ran: Vec<_> = results
        .speeds
        .iter()
        .map(|m| JointTransfers {
            pairs: &m.pattern.pairs,
            total: m.best(),
        })
        .collect();
    let network = ResourceRates::new(known, basis.raw, &ran);
    let row = |speeds: &'a PatternSpeeds| Row {
        speeds,
        expected: network.expected(&speeds.pattern.pairs),
        classes,
    };
    results.speeds.iter().map(row).collect()
}

/// The patterns that must be measured once more before they are judged.
pub(super) fn suspect_patterns(results: &Results, basis: &Basis<'_>) -> Vec<PatternKind> {
    let suspect = |row: &&Row<'_>| {
        row.finding().is_some()
            || row.may_be_slow_by_order()
            || !row.starved(results, basis).is_empty()
    };
    rows(results, basis, &classes(&results.alone, basis.path_group))
        .iter()
        .filter(suspect)
        .map(|row| row.speeds.pattern.kind)
        .collect()
}

/// Judges everything; `states`: the GPUs' states, a line each.
pub(super) fn judge(results: Results, basis: &Basis<'_>, states: &[String]) -> Judgement {
    if results.alone.is_empty()
        && results
            .findings
            .iter()
            .all(|f| f.severity == Severity::Info)
    {
        return Judgement::not_applicable("no pair has peer access; see p2p-capability");
    }
    let classes = classes(&results.alone, basis.path_group);
    let rows = rows(&results, basis, &classes);
    let mut findings: Vec<_> = rows.iter().filter_map(Row::finding).collect();
    findings.extend(rows.iter().flat_map(|row| row.starved(&results, basis)));
    findings.extend(
        results
            .movers
            .iter()
            .filter_map(|speed| speed.finding(&results, &results.alone_by)),
    );
    findings.extend(results.switches.iter().filter_map(SwitchSpeed::finding));
    for finding in &mut findings {
        finding.evidence.extend(states.iter().cloned());
    }
    findings.extend(left_out(&results));
    let summary = summary(&rows, &results);
    let tables = vec![pattern_table(&rows, &results)];
    let matrices = results.matrices(basis.routes.gpus().len());
    drop(rows);
    judged(summary, results.findings.into_iter().chain(findings))
        .showing(matrices)
        .with_tables(tables)
}

/// The finding about patterns that did not run, and so prove nothing. `p2p-capability` judges pairs without access.
fn left_out(results: &Results) -> Option<Finding> {
    let (pattern, why) = results.left_out.first()?;
    let all = results.left_out.len();
    let message = format!(
        "{all} patterns were not run, the first is {}: {why}",
        pattern.kind
    );
    let names = results
        .left_out
        .iter()
        .map(|(pattern, why)| format!("{}: {why}", pattern.kind))
        .collect();
    Some(
        Code::P2pNotRun
            .finding(Severity::Info, Subject::Machine, message)
            .seen_all(names),
    )
}

fn pattern_table(rows: &[Row<'_>], results: &Results) -> Table {
    let bare = |pattern: String, transfers: usize| TogetherRow {
        pattern,
        transfers,
        measured: None,
        expected: None,
        ratio: None,
        limit: None,
        links: None,
        sum: None,
        alone: None,
    };
    let judged = |row: &Row<'_>| {
        let (PatternSpeeds { pattern, .. }, expected) = (row.speeds, row.expected.as_ref());
        let alone = pattern
            .pairs
            .iter()
            .map(|pair| results.alone.get(pair))
            .sum::<Option<f64>>();
        TogetherRow {
            measured: Some(rounded(row.speeds.best())),
            expected: expected.map(|e| rounded(e.total)),
            ratio: row.ratio().map(rounded),
            limit: expected.map(|e| e.limit.clone()),
            links: expected.map(|e| rounded(e.links)),
            sum: Some(rounded(row.speeds.each().iter().sum())),
            alone: alone.map(rounded),
            ..bare(pattern.kind.to_string(), pattern.pairs.len())
        }
    };
    let mut all: Vec<_> = rows.iter().map(judged).collect();
    // Kernels, reads, switches and mixed traffic: what they moved, and nothing that the links would allow.
    let shown = results
        .movers
        .iter()
        .map(|speed| (speed.name(), speed.pattern.pairs.len(), speed.best()));
    let mixed = results
        .mixed
        .iter()
        .map(|(count, gb_s)| (MIXED.to_owned(), *count, *gb_s));
    let by = |speed: &SwitchSpeed| {
        let (name, count) = (speed.transfers.name(), speed.transfers.pairs.len());
        [
            (format!("{name}, write"), count, speed.best()),
            (format!("{name}, read"), count, speed.reads),
        ]
    };
    let switches = results.switches.iter().flat_map(by);
    all.extend(
        shown
            .chain(switches)
            .chain(mixed)
            .map(|(name, transfers, gb_s)| TogetherRow {
                measured: Some(rounded(gb_s)),
                ..bare(name, transfers)
            }),
    );
    all.extend(results.left_out.iter().map(|(pattern, why)| {
        bare(
            format!("{} (not run: {why})", pattern.kind),
            pattern.pairs.len(),
        )
    }));
    Table::Together(all)
}

/// `all to all 1543.2 GB/s (0.98), ring 1540.1 GB/s (0.98), lowest: all to GPU 2 380.1 GB/s (0.95) ..`
fn summary(rows: &[Row<'_>], results: &Results) -> String {
    let of = |kind: PatternKind| rows.iter().find(|row| row.speeds.pattern.kind == kind);
    let ratio = |row: &Row<'_>| {
        row.ratio()
            .map_or("unknown".to_owned(), |ratio| format!("{ratio:.2}"))
    };
    let one = |row: &Row<'_>| {
        format!(
            "{} {:.1} GB/s ({})",
            row.speeds.pattern.kind,
            row.speeds.best(),
            ratio(row)
        )
    };
    let mut parts: Vec<_> = [PatternKind::All, PatternKind::Ring]
        .into_iter()
        .filter_map(of)
        .map(one)
        .collect();
    let least = rows
        .iter()
        .filter(|row| row.ratio().is_some())
        .min_by(|a, b| {
            a.ratio()
                .unwrap_or(f64::MAX)
                .total_cmp(&b.ratio().unwrap_or(f64::MAX))
        });
    parts.extend(least.map(|row| format!("lowest: {}", one(row))));
    let not_run = match results.left_out.first() {
        Some((pattern, _)) => format!(
            "; not run: {} of {} patterns, the first is {}",
            results.left_out.len(),
            results.left_out.len() + rows.len(),
            pattern.kind
        ),
        None => String::new(),
    };
    if parts.is_empty() {
        format!("no pattern could be run{not_run}")
    } else {
        parts.join(", ") + " of what the links allow" + &not_run
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::patterns;
    use super::*;
    use crate::suite::shared::fixture;
    use machine::pcie::topo::NvLinks;
    use outcome::Outcome;

    /// Four GPUs behind NVSwitch.
    fn routes() -> Routes {
        let fabric = fixture::machine(4);
        let pairs = fabric
            .gpus
            .iter()
            .flat_map(|a| fabric.gpus.iter().map(move |b| (*a, *b)));
        let links: NvLinks = pairs
            .filter(|(a, b)| a < b)
            .map(|pair| (pair, 18))
            .collect();
        Routes::new(&fabric, &fabric.gpus, &links).unwrap()
    }

    /// Every transfer reaches this fraction of what a GPU's links provide.
    fn results(part: f64) -> Results {
        let mut results = Results::default();
        for pattern in patterns(4) {
            let busiest = (0..4).map(|n| pattern.pairs.iter().filter(|p| p.from == n).count());
            let busiest =
                busiest.chain((0..4).map(|n| pattern.pairs.iter().filter(|p| p.to == n).count()));
            let each = vec![392.0 / busiest.max().unwrap() as f64 * part; pattern.pairs.len()];
            let total = each.iter().sum();
            if pattern.kind == PatternKind::All {
                results.alone = pattern.pairs.iter().map(|pair| (*pair, 392.0)).collect();
            }
            results.speeds.push(PatternSpeeds {
                total,
                pattern,
                each,
                times: 1,
                again: None,
            });
        }
        results
    }

    fn with<T>(judge: impl FnOnce(&Basis<'_>) -> T) -> T {
        judge(&Basis {
            routes: &routes(),
            nvlinks: &[18; 4],
            raw: &|_| None,
            path_group: &|_| String::new(),
        })
    }

    fn said(results: Results, states: &[String]) -> Judgement {
        with(|basis| judge(results, basis, states))
    }

    fn suspects_of(results: &Results) -> Vec<PatternKind> {
        with(|basis| suspect_patterns(results, basis))
    }

    #[test]
    fn full_link_speed_passes_with_a_row_for_each_pattern() {
        assert_eq!(suspects_of(&results(0.98)), []);
        let said = said(results(0.98), &[]);
        assert_eq!(said.outcome(), Outcome::Pass, "{:?}", said.findings);
        assert!(
            said.summary
                .starts_with("all to all 1536.6 GB/s (0.98), ring 1536.6"),
            "{}",
            said.summary
        );
        let names: Vec<_> = said.matrices.iter().map(|m| m.name.as_str()).collect();
        let wanted = [
            "together.ring",
            "together.ring.back",
            "together.all",
            "together.to-one",
            "together.from-one",
        ];
        assert_eq!(names, wanted);
        assert_eq!(said.matrices[0].values[0][1], Some(384.16));
        assert_eq!(said.matrices[3].values, [vec![Some(384.16); 4]]);
        let Table::Together(rows) = &said.tables[0] else {
            panic!("{:?}", said.tables)
        };
        assert_eq!(rows.len(), 3 + 8 + 1);
        assert_eq!(
            (rows[0].ratio, rows[0].limit.as_deref()),
            (Some(0.98), Some("GPU 0 -> 1 alone"))
        );
    }

    #[test]
    fn half_the_speed_is_a_collapse_that_fails_when_it_persists() {
        let mut half = results(1.0);
        half.speeds[2].total *= 0.5;
        assert_eq!(suspects_of(&half), [PatternKind::All]);
        let mut stays = results(1.0);
        (stays.speeds[2].total, stays.speeds[2].again) = (784.0, Some((790.0, vec![65.0; 12])));
        let judged = said(stays, &["GPU 0: 35 C".to_owned()]);
        assert_eq!(judged.outcome(), Outcome::Fail);
        let finding = &judged.findings[0];
        assert!(
            finding.is(Code::P2pCollapse) && finding.evidence.contains(&"GPU 0: 35 C".to_owned())
        );
        assert!(
            finding
                .message
                .contains("move 784.00 GB/s (790.00 when measured again)"),
            "{finding:?}"
        );
        half.speeds[2].again = Some((1550.0, vec![129.0; 12]));
        assert_eq!(
            said(half, &[]).outcome(),
            Outcome::Pass,
            "it was low only once"
        );
    }

    #[test]
    fn all_to_all_that_may_be_slow_by_order_is_measured_again_although_it_passes() {
        let mut slow = results(0.8);
        assert_eq!(suspects_of(&slow), [PatternKind::All]);
        slow.speeds[2].again = Some((1540.0, vec![128.0; 12]));
        assert!(
            said(slow, &[])
                .summary
                .starts_with("all to all 1540.0 GB/s (0.98)")
        );
    }

    #[test]
    fn one_starved_transfer_in_its_group_is_named() {
        let mut starved = results(1.0);
        starved.speeds[2].each[5] = 50.0;
        assert_eq!(suspects_of(&starved), [PatternKind::All]);
        let judged = said(starved, &[]);
        assert_eq!(judged.outcome(), Outcome::Warn);
        assert_eq!(judged.findings[0].subject, "GPU 1 -> 3");
    }

    #[test]
    fn a_pattern_that_could_not_be_run_is_reported() {
        let mut part = results(1.0);
        let left_out = part.speeds.remove(2).pattern;
        part.left_out
            .push((left_out, "GPU 0 -> 3: too many peers".to_owned()));
        let judged = said(part, &[]);
        let Table::Together(rows) = &judged.tables[0] else {
            panic!("{:?}", judged.tables)
        };
        let last = rows.last().unwrap();
        assert_eq!(
            last.pattern,
            "all to all (not run: GPU 0 -> 3: too many peers)"
        );
        assert_eq!(last.measured, None);
        let end = "; not run: 1 of 12 patterns, the first is all to all";
        assert!(judged.summary.ends_with(end), "{}", judged.summary);
        assert!(judged.findings[0].is(Code::P2pNotRun) && judged.outcome() == Outcome::Pass);
        assert_eq!(
            said(Results::default(), &[]).outcome(),
            Outcome::NotApplicable
        );
    }
}
