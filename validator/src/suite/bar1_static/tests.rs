//! Logs of patched and stock drivers, whole and cut.

use super::super::fixture;
use super::*;
use crate::host::nvidia::account::tests::with;
use crate::outcome::Outcome;
use serde_json::json;

const MAP: &str = "NVRM: kbusEnableStaticBar1Mapping_GH100: Static bar1 mapped offset 0x0 size 0x5e9200000";
const PAIR: &str = "NVRM: x: added PCIe BAR1 P2P mapping between GPU0 and GPU1";
const FIRST: &str =
    "NVRM: BAR1 peer-to-peer of 0000:10:00.0 possible: video memory 0x5e9200000, BAR1 0x8 at 0x0";
const SECOND: &str =
    "NVRM: BAR1 peer-to-peer of 0000:11:00.0 possible: video memory 0x5e9200000, BAR1 0x8 at 0x0";
const OFF: &str =
    "NVRM: BAR1 peer-to-peer of 0000:11:00.0 off: BAR1 is too small: video memory 0x5e9200000, x";

fn say_of(device: &str, first: u64, texts: &[&str], patched: bool) -> Judgement {
    let mut fabric = fixture::machine(2);
    for gpu in fabric.gpus.clone() {
        fixture::device(&mut fabric, gpu).device = device.into();
    }
    let gpus: Vec<_> = fabric.devices.iter().filter(|d| fabric.gpus.contains(&d.bdf)).collect();
    let line = |(seq, text): (u64, &&str)| Line { seq, at: Duration::from_secs(seq), text: (*text).into() };
    let lines: Vec<_> = (first..).zip(texts).map(line).collect();
    judge(&lines, &gpus, patched)
}

fn say(texts: &[&str], patched: bool) -> Judgement {
    say_of("0x2684", 0, texts, patched)
}

#[test]
fn a_line_for_every_gpu_passes_whoever_wrote_the_driver() {
    for patched in [true, false] {
        assert_eq!(say(&[MAP, MAP], patched).summary, "2 of 2 GPUs");
        assert_eq!(say(&[MAP, MAP, MAP, PAIR], patched).outcome(), Outcome::Pass);
        assert_eq!(say(&[FIRST, SECOND], patched).outcome(), Outcome::Pass);
        assert_eq!(say(&[FIRST, OFF, SECOND], patched).outcome(), Outcome::Pass, "the last start counts");
    }
}

#[test]
fn a_gpu_less_fails_and_so_do_pairs_without_maps() {
    for texts in [&["Linux version"][..], &[MAP], &[PAIR], &[FIRST], &[FIRST, FIRST]] {
        let said = say(texts, true);
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::Bar1NotStatic), "{texts:?}");
    }
    assert_eq!(say(&[MAP], false).outcome(), Outcome::Fail);
    assert_eq!(say(&[PAIR], false).outcome(), Outcome::Fail);
}

#[test]
fn the_drivers_own_reason_is_the_cause() {
    let said = say(&[FIRST, OFF], true);
    let [finding] = &said.findings[..] else { panic!("one finding") };
    assert_eq!((finding.subject.as_str(), finding.cause.as_str()), ("0000:11:00.0", "BAR1 is too small"));
    assert_eq!((finding.severity, finding.evidence.len()), (Severity::Fail, 1));
}

#[test]
fn a_stock_driver_and_a_family_that_the_patches_leave_alone_promise_nothing() {
    assert_eq!(say(&["Linux version"], false).outcome(), Outcome::NotApplicable);
    assert_eq!(say_of("0x2204", 0, &["Linux version"], true).outcome(), Outcome::NotApplicable);
}

#[test]
fn a_log_without_its_beginning_proves_no_absence() {
    let said = say_of("0x2684", 900, &["later"], true);
    assert_eq!(said.outcome(), Outcome::Error);
    assert!(said.summary.ends_with("before 900 s are gone"), "{}", said.summary);
}

#[test]
fn only_a_patched_module_whose_gpus_were_started_is_expected_to_say_so() {
    assert!(is_patched(&with("/load", json!(true))));
    assert!(!is_patched(&with("/held", json!([]))));
    assert!(!is_patched(&with("/modules/0/patch", json!(""))));
}
