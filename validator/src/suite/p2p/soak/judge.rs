//! The judgement over the minute: a table with a row for each second and GPU, findings and the summary. Pure.

use super::{MOVERS, Results, Second};
use crate::suite::benchmark::{judged, rounded, state_of, thermal_summary, throttled_for};
use gpu::State;
use machine::GpuId;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::table::{SoakRow, Table};
use report::stats::median;

/// Less than this fraction of the median is a drop: over PCIe between sockets, speed on shared interconnects
/// varies by a tenth.
const DROP: f64 = 0.8;

/// Judges all seconds.
pub(super) fn judge(results: Results) -> Judgement {
    if results.transfers == 0 && results.findings.is_empty() {
        return Judgement::not_applicable("no pair has peer access; see p2p-capability");
    }
    let tables = vec![soak_table(&results.seconds)];
    let mut findings = throttled_for(&states(&results.seconds));
    if !results.in_turns {
        findings.extend(
            MOVERS
                .iter()
                .filter_map(|by| speed_drop(&of(&results, by.name))),
        );
    }
    let summary = summary(&results);
    judged(summary, results.findings.into_iter().chain(findings)).with_tables(tables)
}

/// The seconds in which the mover of this name moved the data.
fn of<'a>(results: &'a Results, by: &str) -> Vec<&'a Second> {
    results
        .seconds
        .iter()
        .filter(|second| second.by == by)
        .collect()
}

fn middle(seconds: &[&Second]) -> Option<f64> {
    median(&seconds.iter().map(|second| second.gb_s).collect::<Vec<_>>()).ok()
}

/// The slowest second, where it is far below the others with the same mover.
fn speed_drop(seconds: &[&Second]) -> Option<Finding> {
    let middle = middle(seconds)?;
    let slowest = seconds.iter().min_by(|a, b| a.gb_s.total_cmp(&b.gb_s))?;
    let least = middle * DROP;
    if slowest.gb_s >= least {
        return None;
    }
    let message = format!(
        "{:.1} GB/s after {:.0} s, expected at least {least:.1} GB/s ({DROP} of the {middle:.1} GB/s that \
         all pairs move together otherwise; {})",
        slowest.gb_s, slowest.at, slowest.by
    );
    let finding = Code::P2pNoisy.finding(Severity::Warn, Subject::Machine, message);
    Some(finding.values(rounded(slowest.gb_s), rounded(least), Some("GB/s")))
}

fn soak_table(seconds: &[Second]) -> Table {
    let row = |second: &Second, gpu: GpuId, state: Option<&State>| SoakRow {
        time: rounded(second.at),
        gb_s: rounded(second.gb_s),
        state: state_of(gpu, state),
        by: second.by.to_owned(),
    };
    let rows = seconds
        .iter()
        .flat_map(|s| GpuId::each(&s.states).map(move |(gpu, state)| row(s, gpu, state.as_ref())));
    Table::Soak(rows.collect())
}

/// `60 s: 9000 transfers arrived, 1480.2 GB/s (at least 1475.0), kernels write 1400.1; 31 to 44 C, at most 280 W`
fn summary(results: &Results) -> String {
    let long = results.seconds.last().map_or(0.0, |s| s.at);
    let first = MOVERS
        .first()
        .map(|by| of(results, by.name))
        .unwrap_or_default();
    let least = first.iter().map(|s| s.gb_s).reduce(f64::min);
    let mut speed = middle(&first)
        .zip(least)
        .map(|(m, l)| format!(", {m:.1} GB/s (at least {l:.1})"))
        .unwrap_or_default();
    for by in MOVERS.iter().skip(1) {
        speed += &middle(&of(results, by.name))
            .map(|gb_s| format!(", {} {gb_s:.1}", by.name))
            .unwrap_or_default();
    }
    let heat = thermal_summary(&states(&results.seconds));
    format!(
        "{long:.0} s: {} transfers arrived{speed}{heat}",
        results.transfers
    )
}

fn states(seconds: &[Second]) -> Vec<&[Option<State>]> {
    seconds
        .iter()
        .map(|second| second.states.as_slice())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Pair;
    use outcome::Outcome;

    fn state(throttled: &[&str]) -> Option<State> {
        Some(State {
            sm_mhz: Some(1980),
            memory_mhz: None,
            celsius: Some(41),
            watts: Some(250.5),
            throttled: throttled.iter().map(|t| (*t).to_owned()).collect(),
        })
    }

    fn results(seconds: &[(f64, &[&str])]) -> Results {
        let second = |(n, (gb_s, why)): (u32, &(f64, &[&str]))| Second {
            at: f64::from(n),
            by: MOVERS[0].name,
            gb_s: *gb_s,
            states: vec![state(why), None],
        };
        Results {
            seconds: (1..).zip(seconds).map(second).collect(),
            transfers: 24,
            ..Results::default()
        }
    }

    #[test]
    fn a_steady_minute_passes_with_a_row_for_each_second_and_gpu() {
        let said = judge(results(&[(1480.0, &[]), (1475.0, &["power cap"])]));
        assert_eq!(said.outcome(), Outcome::Pass, "{:?}", said.findings);
        assert_eq!(
            said.summary,
            "2 s: 24 transfers arrived, 1477.5 GB/s (at least 1475.0); 41 to 41 C, at most 250 W"
        );
        let [Table::Soak(rows)] = said.tables.as_slice() else {
            panic!("{:?}", said.tables)
        };
        assert_eq!(rows.len(), 4);
        assert_eq!(
            (rows[2].state.power, rows[2].state.held_down_by.as_deref()),
            (Some(250.5), Some("power cap"))
        );
        assert_eq!(rows[3].state.held_down_by, None);
    }

    #[test]
    fn heat_warns_with_the_seconds_that_it_lasted() {
        let said = judge(results(&[
            (1.0, &["temperature (hardware)"]),
            (1.0, &["temperature (hardware)"]),
        ]));
        assert_eq!(said.outcome(), Outcome::Warn);
        assert!(
            said.summary
                .contains("in 2 of 2 seconds: temperature (hardware)"),
            "{}",
            said.summary
        );
    }

    #[test]
    fn a_drop_warns_and_wrong_data_fails() {
        let said = judge(results(&[(100.0, &[]), (20.0, &[]), (100.0, &[])]));
        assert!(said.outcome() == Outcome::Warn && said.findings[0].is(Code::P2pNoisy));
        let mut wrong = results(&[(100.0, &[])]);
        wrong
            .findings
            .push(Code::P2pWrongData.finding(Severity::Fail, Pair::of(0, 1), "wrong"));
        assert_eq!(judge(wrong).outcome(), Outcome::Fail);
    }

    #[test]
    fn kernels_and_reads_are_held_against_their_own_seconds() {
        let mut mixed = results(&[(100.0, &[]), (99.0, &[]), (40.0, &[]), (41.0, &[])]);
        mixed.seconds[2..]
            .iter_mut()
            .for_each(|second| second.by = "kernels read");
        let said = judge(mixed);
        assert_eq!(said.outcome(), Outcome::Pass, "{:?}", said.findings);
        assert!(
            said.summary
                .contains("99.5 GB/s (at least 99.0), kernels read 40.5;"),
            "{}",
            said.summary
        );
        assert!(matches!(&said.tables[0], Table::Soak(rows) if rows[6].by == "kernels read"));
        let mut drop = results(&[(100.0, &[]), (40.0, &[]), (20.0, &[]), (41.0, &[])]);
        drop.seconds[1..]
            .iter_mut()
            .for_each(|second| second.by = "kernels read");
        let said = judge(drop);
        assert!(
            said.outcome() == Outcome::Warn && said.summary.contains("; kernels read)"),
            "{}",
            said.summary
        );
    }

    #[test]
    fn without_a_pair_there_is_nothing_to_soak() {
        assert_eq!(judge(Results::default()).outcome(), Outcome::NotApplicable);
    }
}
