//! The judgement over the minute: a table with a row for each second and GPU, findings and the summary. Pure.

use super::{Second, Seen};
use crate::floors::stats::median;
use crate::gpu::State;
use crate::machine::GpuId;
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::suite::shared::speed::{STATE_COLUMNS, heat, judged, rounded, state_cells, table, throttled_for};
use serde_json::Value;

/// Less than this fraction of the median is a drop: over PCIe between sockets, speed on shared interconnects
/// varies by a tenth.
const DROP: f64 = 0.8;

/// Judges the minute.
pub(super) fn judge(seen: Seen) -> Judgement {
    if seen.transfers == 0 && seen.findings.is_empty() {
        return Judgement::not_applicable("no pair has peer access; see p2p-capability");
    }
    let tables = vec![soak_table(&seen.seconds)];
    let mut findings = throttled_for(&states(&seen.seconds));
    let speeds: Vec<_> = seen.seconds.iter().map(|second| second.gb_s).collect();
    let middle = median(&speeds).ok();
    findings.extend(middle.filter(|_| !seen.in_turns).and_then(|middle| drop_of(&seen.seconds, middle)));
    let summary = summary(&seen, middle);
    judged(summary, seen.findings.into_iter().chain(findings)).with_tables(tables)
}

/// The slowest second, where it is far below the others.
fn drop_of(seconds: &[Second], middle: f64) -> Option<Finding> {
    let slowest = seconds.iter().min_by(|a, b| a.gb_s.total_cmp(&b.gb_s))?;
    let least = middle * DROP;
    if slowest.gb_s >= least {
        return None;
    }
    let message = format!(
        "{:.1} GB/s after {:.0} s, expected at least {least:.1} GB/s ({DROP} of the {middle:.1} GB/s that \
         all pairs move together otherwise)",
        slowest.gb_s, slowest.at
    );
    let finding = Code::P2pNoisy.finding(Severity::Warn, "machine", message);
    Some(finding.values(rounded(slowest.gb_s), rounded(least), Some("GB/s")))
}

fn soak_table(seconds: &[Second]) -> Value {
    let columns = [&[("time", "s"), ("all pairs", "GB/s")][..], &STATE_COLUMNS].concat();
    let row = |second: &Second, gpu: GpuId, state: Option<&State>| {
        let mut row = vec![rounded(second.at).into(), rounded(second.gb_s).into()];
        row.extend(state_cells(gpu, state));
        row
    };
    let rows: Vec<_> = seconds
        .iter()
        .flat_map(|s| GpuId::each(&s.states).map(move |(gpu, state)| row(s, gpu, state.as_ref())))
        .collect();
    table("soak", &columns, &rows)
}

/// `60 s: 9000 transfers arrived, 1480.2 GB/s (at least 1475.0); 31 to 44 C, at most 280 W`
fn summary(seen: &Seen, middle: Option<f64>) -> String {
    let long = seen.seconds.last().map_or(0.0, |s| s.at);
    let least = seen.seconds.iter().map(|s| s.gb_s).reduce(f64::min);
    let speed = middle.zip(least).map(|(m, l)| format!(", {m:.1} GB/s (at least {l:.1})"));
    let (speed, heat) = (speed.unwrap_or_default(), heat(&states(&seen.seconds)));
    format!("{long:.0} s: {} transfers arrived{speed}{heat}", seen.transfers)
}

fn states(seconds: &[Second]) -> Vec<&[Option<State>]> {
    seconds.iter().map(|second| second.states.as_slice()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    fn state(throttled: &[&str]) -> Option<State> {
        Some(State {
            sm_mhz: Some(1980),
            memory_mhz: None,
            celsius: Some(41),
            watts: Some(250.5),
            throttled: throttled.iter().map(|t| (*t).to_owned()).collect(),
        })
    }

    fn seen(seconds: &[(f64, &[&str])]) -> Seen {
        let second = |(n, (gb_s, why)): (u32, &(f64, &[&str]))| Second {
            at: f64::from(n),
            gb_s: *gb_s,
            states: vec![state(why), None],
        };
        Seen { seconds: (1..).zip(seconds).map(second).collect(), transfers: 24, ..Seen::default() }
    }

    #[test]
    fn a_steady_minute_passes_with_a_row_for_each_second_and_gpu() {
        let said = judge(seen(&[(1480.0, &[]), (1475.0, &["power cap"])]));
        assert_eq!(said.outcome(), Outcome::Pass, "{:?}", said.findings);
        assert_eq!(
            said.summary,
            "2 s: 24 transfers arrived, 1477.5 GB/s (at least 1475.0); 41 to 41 C, at most 250 W"
        );
        let rows = said.tables[0]["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 4);
        assert_eq!(
            (&rows[2][6], &rows[2][7], &rows[3][7]),
            (&250.5.into(), &"power cap".into(), &Value::Null)
        );
    }

    #[test]
    fn heat_warns_with_the_seconds_that_it_lasted() {
        let said = judge(seen(&[(1.0, &["temperature (hardware)"]), (1.0, &["temperature (hardware)"])]));
        assert_eq!(said.outcome(), Outcome::Warn);
        assert!(said.summary.contains("in 2 of 2 seconds: temperature (hardware)"), "{}", said.summary);
    }

    #[test]
    fn a_drop_warns_and_wrong_data_fails() {
        let said = judge(seen(&[(100.0, &[]), (20.0, &[]), (100.0, &[])]));
        assert!(said.outcome() == Outcome::Warn && said.findings[0].is(Code::P2pNoisy));
        let mut wrong = seen(&[(100.0, &[])]);
        wrong.findings.push(Code::P2pWrongData.finding(Severity::Fail, "GPU 0 -> 1", "wrong"));
        assert_eq!(judge(wrong).outcome(), Outcome::Fail);
    }

    #[test]
    fn without_a_pair_there_is_nothing_to_soak() {
        assert_eq!(judge(Seen::default()).outcome(), Outcome::NotApplicable);
    }
}
