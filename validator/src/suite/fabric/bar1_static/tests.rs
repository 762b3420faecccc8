//! Logs of patched and stock drivers, complete and truncated.

use super::*;
use crate::suite::shared::fixture;
use gpu::Bar1Memory;
use machine::host::nvidia::fixture::account_with as with;
use outcome::Outcome;
use serde_json::json;
use std::time::Duration;

const MAP: &str =
    "NVRM: kbusEnableStaticBar1Mapping_GH100: Static bar1 mapped offset 0x0 size 0x5e9200000";
const PAIR: &str = "NVRM: x: added PCIe BAR1 P2P mapping between GPU0 and GPU1";
const FIRST: &str =
    "NVRM: BAR1 peer-to-peer of 0000:10:00.0 possible: video memory 0x5e9200000, BAR1 0x8 at 0x0";
const SECOND: &str =
    "NVRM: BAR1 peer-to-peer of 0000:11:00.0 possible: video memory 0x5e9200000, BAR1 0x8 at 0x0";
const OFF: &str =
    "NVRM: BAR1 peer-to-peer of 0000:11:00.0 off: BAR1 is too small: video memory 0x5e9200000, x";

/// MiB of BAR1 that NVML counts as used on each of two GPUs with 24564 MiB; `None` if it does not answer.
type Used = Option<[u64; 2]>;

fn say_of(device: &str, first: u64, texts: &[&str], asked: MapRequest, used: Used) -> Judgement {
    let mut fabric = fixture::machine(2);
    for gpu in fabric.gpus.clone() {
        fixture::device(&mut fabric, gpu).device = device.into();
    }
    let gpus: Vec<_> = fabric
        .devices
        .iter()
        .filter(|d| fabric.gpus.contains(&d.bdf))
        .collect();
    let line = |(seq, text): (u64, &&str)| Line {
        seq,
        at: Duration::from_secs(seq),
        text: (*text).into(),
    };
    let lines: Vec<_> = (first..).zip(texts).map(line).collect();
    let bar1_by_gpu = used
        .ok_or_else(|| "NVML does not answer within 3.0 s".to_owned())
        .map(|used| {
            let window = |mib: u64| Bar1Memory {
                bar1: 32 << 30,
                mapped: mib << 20,
                memory: 24564 << 20,
                usable: 24210 << 20,
            };
            gpus.iter()
                .zip(used)
                .map(|(gpu, mib)| (gpu.bdf, Ok(window(mib))))
                .collect()
        });
    judge(&lines, &gpus, asked, &bar1_by_gpu)
}

fn say(texts: &[&str], patched: bool) -> Judgement {
    say_of(
        "0x2684",
        0,
        texts,
        if patched {
            MapRequest::Logged
        } else {
            MapRequest::No
        },
        None,
    )
}

/// The judgement from NVML's count and a log of these lines.
fn both(texts: &[&str], asked: MapRequest, used: [u64; 2]) -> Judgement {
    say_of("0x2684", 0, texts, asked, Some(used))
}

#[test]
fn a_line_for_every_gpu_passes_with_any_driver() {
    for patched in [true, false] {
        assert_eq!(say(&[MAP, MAP], patched).summary, "2 of 2 GPUs");
        assert_eq!(
            say(&[MAP, MAP, MAP, PAIR], patched).outcome(),
            Outcome::Pass
        );
        assert_eq!(say(&[FIRST, SECOND], patched).outcome(), Outcome::Pass);
        assert_eq!(
            say(&[FIRST, OFF, SECOND], patched).outcome(),
            Outcome::Pass,
            "the last start counts"
        );
    }
}

#[test]
fn a_missing_gpu_fails_and_so_do_pairs_without_maps() {
    for texts in [
        &["Linux version"][..],
        &[MAP],
        &[PAIR],
        &[FIRST],
        &[FIRST, FIRST],
    ] {
        let said = say(texts, true);
        assert!(
            said.outcome() == Outcome::Fail && said.findings[0].is(Code::Bar1NotStatic),
            "{texts:?}"
        );
    }
    assert_eq!(say(&[MAP], false).outcome(), Outcome::Fail);
    assert_eq!(say(&[PAIR], false).outcome(), Outcome::Fail);
}

#[test]
fn the_drivers_own_reason_is_the_cause() {
    let said = say(&[FIRST, OFF], true);
    let [finding] = &said.findings[..] else {
        panic!("one finding")
    };
    assert_eq!(finding.subject, "0000:11:00.0");
    assert_eq!(
        finding.reason,
        Some(Reason::NotMapped("BAR1 is too small".into()))
    );
    assert_eq!(
        (finding.severity, finding.evidence.len()),
        (Severity::Fail, 1)
    );
}

#[test]
fn a_stock_driver_and_an_unpatched_family_are_not_applicable() {
    assert_eq!(
        say(&["Linux version"], false).outcome(),
        Outcome::NotApplicable
    );
    assert_eq!(
        say_of("0x2204", 0, &["Linux version"], MapRequest::Logged, None).outcome(),
        Outcome::NotApplicable
    );
}

#[test]
fn a_log_without_its_beginning_proves_no_absence() {
    let said = say_of("0x2684", 900, &["later"], MapRequest::Logged, None);
    assert_eq!(said.outcome(), Outcome::Error);
    assert!(
        said.summary.ends_with("before 900 s are gone"),
        "{}",
        said.summary
    );
}

#[test]
fn only_a_patched_module_with_started_gpus_is_expected_to_log_the_mapping() {
    assert!(is_patched(&with("/load", json!(true))));
    assert!(!is_patched(&with("/held", json!([]))));
    assert!(!is_patched(&with("/modules/0/patch", json!(""))));
}

#[test]
fn a_geforce_rtx_30_is_expected_to_be_mapped_only_where_its_keys_request_it() {
    let mut fabric = fixture::machine(1);
    let gpu = fabric.gpus[0];
    for (device, without_keys) in [("0x2204", false), ("0x2684", true), ("0x2b85", true)] {
        let board = fixture::device(&mut fabric, gpu);
        board.device = device.into();
        assert_eq!(is_changed(board, &[]), without_keys, "{device}");
        assert!(is_changed(board, &[gpu]), "{device}");
    }
}

const ALL: [u64; 2] = [24211, 24211];
const LITTLE: [u64; 2] = [24211, 5];

#[test]
fn nvml_alone_suffices_with_a_driver_that_logs_nothing() {
    let said = both(&["Linux version"], MapRequest::Silent, ALL);
    assert_eq!(said.outcome(), Outcome::Pass);
    assert_eq!(
        said.summary,
        "2 of 2 GPUs; NVML counts 24211 MiB of BAR1 as used, of 24564 MiB of memory"
    );
    // A driver that maps without being asked to, as forks do.
    assert_eq!(
        both(&["Linux version"], MapRequest::No, ALL).outcome(),
        Outcome::Pass
    );
}

#[test]
fn a_gpu_of_which_nvml_counts_little_fails_where_the_map_is_asked_for_or_another_gpu_has_it() {
    for asked in [MapRequest::Silent, MapRequest::Logged, MapRequest::No] {
        let said = both(&["Linux version"], asked, LITTLE);
        let [finding] = &said.findings[..] else {
            panic!("one finding: {said:?}")
        };
        assert!(finding.is(Code::Bar1NotStatic) && finding.severity == Severity::Fail);
        assert_eq!(finding.subject, "0000:11:00.0");
        assert!(
            said.summary.contains("NVML counts 5 MiB"),
            "{}",
            said.summary
        );
    }
    let said = both(&["Linux version"], MapRequest::No, [5, 5]);
    assert_eq!(said.outcome(), Outcome::NotApplicable);
    assert!(
        said.summary
            .ends_with("NVML counts 5 MiB of BAR1 as used, of 24564 MiB of memory")
    );
}

#[test]
fn witnesses_that_disagree_are_a_finding() {
    let said = both(&[FIRST, SECOND], MapRequest::Logged, LITTLE);
    assert!(
        said.outcome() == Outcome::Fail && said.findings[0].is(Code::Bar1Witnesses),
        "{said:?}"
    );
    let said = both(&[MAP, MAP], MapRequest::Silent, LITTLE);
    assert!(
        said.outcome() == Outcome::Fail && said.findings[0].is(Code::Bar1Witnesses),
        "{said:?}"
    );
    let said = both(&[FIRST, OFF], MapRequest::Logged, ALL);
    assert!(
        said.outcome() == Outcome::Warn && said.findings[0].is(Code::Bar1Witnesses),
        "{said:?}"
    );
    assert_eq!(
        both(&[FIRST, SECOND], MapRequest::Logged, ALL).outcome(),
        Outcome::Pass
    );
    // If both sources report no map, the driver's reason counts.
    let said = both(&[FIRST, OFF], MapRequest::Logged, LITTLE);
    assert_eq!(
        said.findings[0].reason,
        Some(Reason::NotMapped("BAR1 is too small".into()))
    );
}

#[test]
fn a_count_between_little_and_all_is_unknown() {
    let said = both(&["Linux version"], MapRequest::Silent, [24211, 16000]);
    assert_eq!((said.outcome(), said.findings.len()), (Outcome::Error, 1));
    assert!(
        said.summary.starts_with("it is unknown whether"),
        "{}",
        said.summary
    );
    assert_eq!(
        both(&["Linux version"], MapRequest::No, [16000, 5]).outcome(),
        Outcome::NotApplicable
    );
}

#[test]
fn neither_witness_is_no_pass_and_no_fault_of_the_machine() {
    let said = say_of("0x2684", 0, &["Linux version"], MapRequest::Silent, None);
    assert_eq!(said.outcome(), Outcome::Error);
    assert!(
        said.summary.ends_with("this driver need not log it"),
        "{}",
        said.summary
    );
    assert_eq!(said.findings[0].evidence.len(), 2, "{said:?}");
}
