//! What the patterns come to: a table with what fair sharing predicts, matrices, findings and one
//! line. Pure.

use super::pattern::Kind;
use super::{Moved, Seen};
use crate::finding::Severity;
use crate::judge::{collapse, fair};
use crate::outcome::Judgement;
use crate::report::Matrix;
use crate::schedule::{Pair, Routes};
use crate::suite::pair::matrix;
use crate::suite::speed::{judged, rounded, table};
use serde_json::Value;

/// Patterns whose transfers are told one by one, and the matrix of each.
const MATRICES: &[(&str, Kind)] =
    &[("together.ring", Kind::Ring), ("together.ring.back", Kind::RingBack), ("together.all", Kind::All)];

/// A pattern against its prediction.
struct Row<'a> {
    moved: &'a Moved,
    /// By transfer; `None` where a pair has no figure alone.
    predicted: Option<Vec<f64>>,
    alone: Option<Vec<f64>>,
}

impl Row<'_> {
    fn expected(&self) -> Option<f64> {
        Some(self.predicted.as_ref()?.iter().sum())
    }

    fn sum(&self) -> f64 {
        self.moved.each.iter().sum()
    }

    fn ratio(&self) -> Option<f64> {
        self.expected().filter(|expected| *expected > 0.0).map(|expected| self.sum() / expected)
    }
}

/// Judges everything; `states`: how the GPUs fared, a line each.
pub(super) fn judge(seen: Seen, gpus: usize, routes: &Routes, states: &[String]) -> Judgement {
    if seen.alone.is_empty() && seen.findings.iter().all(|f| f.severity == Severity::Info) {
        return Judgement::not_applicable("no pair has peer access; see p2p-capability");
    }
    let row = |moved| row(moved, &seen, routes);
    let rows: Vec<_> = seen.moved.iter().map(row).collect();
    let mut findings: Vec<_> = rows
        .iter()
        .filter_map(|row| {
            let Moved { pattern, each, .. } = row.moved;
            let measured: Vec<_> = pattern.pairs.iter().copied().zip(each.iter().copied()).collect();
            let (predicted, alone) = (row.predicted.as_ref()?, row.alone.as_ref()?);
            collapse(&pattern.kind.to_string(), &measured, predicted, alone)
        })
        .collect();
    for finding in &mut findings {
        finding.evidence.extend(states.iter().cloned());
    }
    let summary = summary(&rows);
    let tables = vec![told(&rows, &seen)];
    let matrices = matrices(&seen.moved, gpus);
    judged(summary, seen.findings.into_iter().chain(findings)).showing(matrices).with_tables(tables)
}

fn row<'a>(moved: &'a Moved, seen: &Seen, routes: &Routes) -> Row<'a> {
    let pairs = &moved.pattern.pairs;
    let alone = pairs.iter().map(|pair| seen.alone.get(pair).copied()).collect();
    Row { moved, predicted: fair(routes, &seen.alone, pairs), alone }
}

/// `expected` is the least that fair sharing gives each transfer by the pairs' speeds alone, summed
/// (shared things may carry more than one pair can show), `measured` the
/// sum of what each moved by its own clock, `total` all bytes from the first start to the last stop
/// (nvbandwidth's figure), `alone` the sum of the pairs one by one.
fn told(rows: &[Row<'_>], seen: &Seen) -> Value {
    let columns = [
        ("pattern", ""),
        ("transfers", ""),
        ("measured", "GB/s"),
        ("expected", "GB/s"),
        ("ratio", ""),
        ("total", "GB/s"),
        ("alone", "GB/s"),
    ];
    let number = |figure: Option<f64>| figure.map_or(Value::Null, |figure| rounded(figure).into());
    let line = |row: &Row<'_>| {
        vec![
            row.moved.pattern.kind.to_string().into(),
            row.moved.pattern.pairs.len().into(),
            number(Some(row.sum())),
            number(row.expected()),
            number(row.ratio()),
            number(Some(row.moved.total)),
            number(row.alone.as_ref().map(|alone| alone.iter().sum())),
        ]
    };
    let mut lines: Vec<_> = rows.iter().map(line).collect();
    lines.extend(seen.left_out.iter().map(|(pattern, why)| {
        let mut line = vec![format!("{} (not run: {why})", pattern.kind).into(), pattern.pairs.len().into()];
        line.resize(columns.len(), Value::Null);
        line
    }));
    table("together", &columns, &lines)
}

fn matrices(moved: &[Moved], gpus: usize) -> Vec<Matrix> {
    let cell = |kind: Kind, pair: Pair| {
        let Moved { pattern, each, .. } = moved.iter().find(|m| m.pattern.kind == kind)?;
        let place = pattern.pairs.iter().position(|p| *p == pair)?;
        each.get(place).copied().map(rounded)
    };
    let pairs = MATRICES.iter().map(|(name, kind)| matrix(name, "GB/s", gpus, |pair| cell(*kind, pair)));
    let total = |kind: Kind| moved.iter().find(|m| m.pattern.kind == kind).map(|m| rounded(m.total));
    let row = |name: &str, kind: fn(usize) -> Kind| Matrix {
        name: name.to_owned(),
        unit: "GB/s".to_owned(),
        rows: vec!["total".to_owned()],
        columns: (0..gpus).map(|n| n.to_string()).collect(),
        values: vec![(0..gpus).map(|n| total(kind(n))).collect()],
    };
    let ones = [row("together.to-one", Kind::ToOne), row("together.from-one", Kind::FromOne)];
    pairs.chain(ones.into_iter().filter(|_| gpus > 2)).collect()
}

/// `all to all 1543.2 GB/s (0.98), ring 1540.1 GB/s (0.98), lowest: all to GPU 2 380.1 GB/s (0.95) ..`
fn summary(rows: &[Row<'_>]) -> String {
    let of = |kind: Kind| rows.iter().find(|row| row.moved.pattern.kind == kind);
    let ratio = |row: &Row<'_>| row.ratio().map_or("not known".to_owned(), |ratio| format!("{ratio:.2}"));
    let told = |row: &Row<'_>| format!("{} {:.1} GB/s ({})", row.moved.pattern.kind, row.sum(), ratio(row));
    let mut parts: Vec<_> = [Kind::All, Kind::Ring].into_iter().filter_map(of).map(told).collect();
    let least = rows
        .iter()
        .filter(|row| row.ratio().is_some())
        .min_by(|a, b| a.ratio().unwrap_or(f64::MAX).total_cmp(&b.ratio().unwrap_or(f64::MAX)));
    parts.extend(least.map(|row| format!("lowest: {}", told(row))));
    if parts.is_empty() {
        "no pattern could be run".to_owned()
    } else {
        parts.join(", ") + " of what fair sharing gives at least"
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::patterns;
    use super::*;
    use crate::finding::Code;
    use crate::outcome::Outcome;
    use crate::pcie::topo::NvLinks;
    use crate::suite::fixture;

    /// Four GPUs behind NVSwitch.
    fn routes() -> Routes {
        let fabric = fixture::machine(4);
        let pairs = fabric.gpus.iter().flat_map(|a| fabric.gpus.iter().map(move |b| (*a, *b)));
        let links: NvLinks = pairs.filter(|(a, b)| a < b).map(|pair| (pair, 18)).collect();
        Routes::new(&fabric, &fabric.gpus, &links).unwrap()
    }

    /// Each transfer moves this part of its fair share.
    fn seen(part: f64) -> Seen {
        let mut seen = Seen::default();
        let all = patterns(4, &[vec![Pair::new(0, 1), Pair::new(2, 3)]]);
        seen.alone = all[2].pairs.iter().map(|pair| (*pair, 392.0)).collect();
        for pattern in all {
            let fair = fair(&routes(), &seen.alone, &pattern.pairs).unwrap();
            let each: Vec<_> = fair.iter().map(|share| share * part).collect();
            seen.moved.push(Moved { total: each.iter().sum(), pattern, each });
        }
        seen
    }

    #[test]
    fn fair_shares_pass_with_a_row_for_each_pattern() {
        let said = judge(seen(0.98), 4, &routes(), &[]);
        assert_eq!(said.outcome(), Outcome::Pass, "{:?}", said.findings);
        assert!(said.summary.starts_with("all to all 1536.6 GB/s (0.98), ring 1536.6"), "{}", said.summary);
        let names: Vec<_> = said.matrices.iter().map(|m| m.name.as_str()).collect();
        let wanted =
            ["together.ring", "together.ring.back", "together.all", "together.to-one", "together.from-one"];
        assert_eq!(names, wanted);
        assert_eq!(said.matrices[0].values[0][1], Some(384.16));
        assert_eq!(said.matrices[3].values, [vec![Some(384.16); 4]]);
        assert_eq!(said.tables[0]["rows"].as_array().unwrap().len(), 3 + 8 + 2);
        assert_eq!(said.tables[0]["rows"][0][4], 0.98);
    }

    #[test]
    fn a_collapse_fails() {
        let said = judge(seen(0.07), 4, &routes(), &["GPU 0: 35 C".to_owned()]);
        assert_eq!(said.outcome(), Outcome::Fail);
        assert!(said.findings[0].is(Code::P2pCollapse));
        assert!(said.findings[0].evidence.contains(&"GPU 0: 35 C".to_owned()));
    }

    #[test]
    fn a_pattern_that_could_not_be_run_is_told() {
        let mut part = seen(1.0);
        let left_out = part.moved.remove(2).pattern;
        part.left_out.push((left_out, "GPU 0 -> 3: too many peers".to_owned()));
        let said = judge(part, 4, &routes(), &[]);
        let rows = said.tables[0]["rows"].as_array().unwrap();
        assert_eq!(rows.last().unwrap()[0], "all to all (not run: GPU 0 -> 3: too many peers)");
        assert_eq!(rows.last().unwrap()[2], Value::Null);
        assert_eq!(judge(Seen::default(), 4, &routes(), &[]).outcome(), Outcome::NotApplicable);
    }
}
