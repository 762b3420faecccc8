//! Completes the pairs of `firstlight p2p`: after a pair whose transfers hang, the remaining pairs are tried in new
//! processes, and if data arrives for some pairs only, only their speed is measured. The additional runs can only
//! make the verdict worse.

use crate::cli::console::Console;
use crate::config::Config;
use crate::engine::{self, Interrupts, ProgressListener};
use crate::schedule::Pair;
use crate::suite;
use machine::root::Root;
use outcome::finding::{Code, FindingEntry, Subject};
use outcome::table::{PairRow, Table, pair_rows};
use outcome::{Outcome, of_severities};
use report::{Report, TestEntry};
use std::collections::BTreeMap;

/// The test that tries the pairs.
const TRIED: &str = "p2p-integrity";
/// The tests that measure.
const SPEED: &[&str] = &["p2p-bandwidth", "p2p-latency"];
/// The result of a pair whose data arrives.
const GOOD: &str = "ok";

/// Shows nothing: the rows of these additional runs are shown when they are added to the report.
struct Silent;

impl ProgressListener for Silent {
    fn machine(&mut self, _: &Report) {}
    fn ended(&mut self, _: &TestEntry) {}
}

/// Tries the pairs that `report` lacks, within the remaining time for all tests.
pub(super) fn finish(
    root: &Root,
    config: &Config,
    report: &mut Report,
    interrupts: &Interrupts,
    console: &mut Console,
) {
    let mut known = results(report);
    // Without a single result the test could not run, and another run would not change that.
    if known.is_empty() || interrupts.received().is_some() {
        return;
    }
    let run = |tests: &[&str], avoid: Vec<Pair>, spent: f64| {
        let mut config = config.clone();
        let left = config.validate.timeout_s as f64 - spent;
        (config.validate.timeout_s, config.validate.avoid) = (
            whole(left)?,
            avoid.iter().map(|pair| (pair.from, pair.to)).collect(),
        );
        let plan = suite::selection(&config.validate, tests);
        interrupts
            .received()
            .is_none()
            .then(|| engine::run_plan(root, &config, &plan, interrupts, &mut Silent))
    };
    let gpus = report.gpus.len();
    while known.len() < gpus * gpus.saturating_sub(1) {
        let Some(part) = run(
            &["cuda", TRIED],
            known.keys().copied().collect(),
            report.seconds,
        ) else {
            break;
        };
        let more = results(&part);
        report.seconds += part.seconds;
        let Some(entry) = part
            .tests
            .into_iter()
            .find(|t| t.id == TRIED)
            .filter(|_| !more.is_empty())
        else {
            break;
        };
        console.row(&entry);
        add(report, entry, &more);
        known.extend(more);
    }
    let bad: Vec<_> = known
        .iter()
        .filter(|(_, result)| *result != GOOD)
        .map(|(pair, _)| *pair)
        .collect();
    let idle =
        |t: &TestEntry| SPEED.contains(&t.id.as_str()) && t.outcome == Outcome::NotApplicable;
    if !bad.is_empty()
        && bad.len() < known.len()
        && report.tests.iter().any(idle)
        && let Some(part) = run(&[&["cuda"], SPEED].concat(), bad, report.seconds)
    {
        report.seconds += part.seconds;
        for entry in part
            .tests
            .into_iter()
            .filter(|t| SPEED.contains(&t.id.as_str()))
        {
            console.row(&entry);
            if let Some(place) = report.tests.iter_mut().find(|t| t.id == entry.id) {
                *place = entry;
            }
        }
    }
    report.update_verdict();
    engine::finish_report(report, Vec::new());
}

/// Whole seconds; `None` if none is left.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "1 to 86400 by the check before the cast"
)]
fn whole(seconds: f64) -> Option<u64> {
    (1.0..=86_400.0)
        .contains(&seconds)
        .then_some(seconds as u64)
}

/// The results by ordered pair. A test that ended without them names the pair that it hung in.
fn results(report: &Report) -> BTreeMap<Pair, String> {
    let Some(test) = report.tests.iter().find(|test| test.id == TRIED) else {
        return BTreeMap::new();
    };
    let all: BTreeMap<_, _> = pair_rows(&test.tables)
        .map(|row| (row.pair(), row.result))
        .collect();
    if !all.is_empty() {
        return all;
    }
    let silent = test.findings.iter().filter(|f| f.is(Code::TestTimeout));
    silent
        .filter_map(|f| Some((pair_of(f)?, "HANG".to_owned())))
        .collect()
}

/// The pair that a test hung in, if it names one.
fn pair_of(finding: &FindingEntry) -> Option<Pair> {
    let subjects = std::iter::once(finding.about()).chain(&finding.represents);
    subjects.flat_map(Subject::named_pairs).next().copied()
}

/// Adds a later run of the same test: its findings, its time, and its results, also those that are in no table of it.
fn add(report: &mut Report, more: TestEntry, results: &BTreeMap<Pair, String>) {
    let Some(test) = report.tests.iter_mut().find(|test| test.id == TRIED) else {
        return;
    };
    test.findings.extend(more.findings);
    test.seconds += more.seconds;
    test.log_tail.extend(more.log_tail);
    test.outcome = of_severities(test.findings.iter().map(|f| f.severity));
    let rows = results
        .iter()
        .map(|(pair, result)| PairRow::new(*pair, result.as_str()));
    match test.tables.iter_mut().find_map(|table| {
        if let Table::Pairs(all) = table {
            Some(all)
        } else {
            None
        }
    }) {
        Some(all) => all.extend(rows),
        None => test.tables.push(Table::Pairs(rows.collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::GpuId;
    use outcome::finding::Severity;
    use outcome::platform::Host;

    #[test]
    fn a_silent_test_names_its_pair_and_another_subject_names_none() {
        let of = |represents: &[Subject]| {
            let mut finding =
                Code::TestTimeout.finding(Severity::Error, Subject::test(TRIED), "no answer");
            finding.represents = represents.to_vec();
            pair_of(&FindingEntry::of(&finding, &Host::default()))
        };
        let pair = Pair::of(3, 12);
        assert_eq!(of(&[pair.into()]), Some(pair));
        assert_eq!((of(&[GpuId::new(3).into()]), of(&[])), (None, None));
        let own = Code::TestTimeout.finding(Severity::Error, pair, "no answer");
        assert_eq!(
            pair_of(&FindingEntry::of(&own, &Host::default())),
            Some(pair)
        );
    }

    #[test]
    fn no_run_starts_without_time() {
        assert_eq!(
            (whole(0.9), whole(-3.0), whole(f64::NAN), whole(12.7)),
            (None, None, None, Some(12))
        );
    }
}
