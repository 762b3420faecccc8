//! Whether the driver has mapped all of a GPU's memory into BAR1 permanently. Peers write to bus addresses
//! inside BAR1; after a temporary mapping such an address would soon lead to other memory. The driver reports
//! this only in the kernel's log, each time it starts a GPU.

use crate::config::Level;
use crate::machine::host::kmsg;
use crate::machine::host::kmsg::Line;
use crate::machine::host::nvidia::account::Account;
use crate::machine::host::nvidia::log;
use crate::machine::host::nvidia::log::Bar1Peer;
use crate::machine::pcie::model::Device;
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::suite::machine::{Machine, known};
use crate::suite::shared::peer;
use crate::suite::{Group, READING, Test};
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "bar1-static",
    title: "Static BAR1",
    proves: "according to the kernel's log the driver has mapped the memory of every GPU that needs it into BAR1 permanently",
    level: Level::Quick,
    deadline: READING,
    mandatory: false,
    group: Group::Host,
    run,
};

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(nothing) = machine.idle()? {
        return Ok(nothing);
    }
    let gpus = peer::through_bar1(machine.fabric()?, known(&machine.nvidia.gpus)?);
    if gpus.is_empty() {
        return Ok(Judgement::not_applicable("no GPU here is reached through BAR1"));
    }
    let patched = known(&machine.nvidia.account)?.as_ref().is_some_and(is_patched);
    Ok(judge(machine.log()?, &gpus, patched))
}

/// The image's module carries the patch, and init holds GPUs open, so they were started.
fn is_patched(account: &Account) -> bool {
    let level = account.module("nvidia").and_then(|m| m.patch.as_deref());
    level.is_some_and(|level| !level.is_empty()) && !account.held.is_empty()
}

fn judge(lines: &[Line], gpus: &[&Device], patched: bool) -> Judgement {
    let off: Vec<_> = gpus.iter().filter_map(|gpu| switched_off(gpu, lines)).collect();
    if let Some(first) = off.first() {
        return Judgement::of(first.message.clone(), off);
    }
    let (maps, pairs) = (log::static_maps(lines).len(), log::peer_maps(lines));
    // Lines of other drivers do not name the GPU; then their number must suffice.
    let mapped = gpus.iter().filter(|gpu| last(gpu, lines).is_some()).count().max(maps.min(gpus.len()));
    let expected = match () {
        () if mapped + pairs > 0 => gpus.len(),
        () if patched => gpus.iter().filter(|gpu| peer::is_ada(gpu)).count(),
        () => 0,
    };
    match (expected, log::begins(lines)) {
        (0, _) => Judgement::not_applicable("this driver is not known to map BAR1 permanently"),
        _ if mapped >= expected => Judgement::of(format!("{mapped} of {expected} GPUs"), Vec::new()),
        (_, begins) => Judgement::by(missing(mapped, expected, begins, lines)),
    }
}

/// The last line of our patches about a GPU.
fn last<'a>(gpu: &Device, lines: &'a [Line]) -> Option<Bar1Peer<'a>> {
    let address = gpu.bdf.to_string();
    log::bar1_peers(lines).into_iter().rev().find(|line| line.gpu == address)
}

fn switched_off(gpu: &Device, lines: &[Line]) -> Option<Finding> {
    let why = last(gpu, lines)?.off?;
    let message = format!("the driver does not map {} into BAR1: {why}", gpu.bdf);
    let finding = Code::Bar1NotStatic.finding(Severity::Fail, &gpu.bdf, message);
    let words = format!("BAR1 peer-to-peer of {}", gpu.bdf);
    Some(finding.because(why).seen_all(kmsg::mentioning(lines, &[&words], 8)))
}

fn missing(mapped: usize, expected: usize, begins: Option<Duration>, lines: &[Line]) -> Finding {
    let (severity, since) = match begins {
        None => (Severity::Fail, String::new()),
        // The missing beginning of the log may have held the lines.
        Some(at) => (Severity::Error, format!("; lines before {} s are gone", at.as_secs())),
    };
    let message = format!("{mapped} of {expected} GPUs have their memory in BAR1 permanently{since}");
    let seen = kmsg::mentioning(lines, &["tatic bar1", "BAR1 P2P mapping", "BAR1 peer-to-peer"], 8);
    let finding = Code::Bar1NotStatic.finding(severity, "nvidia", message);
    finding.values(mapped, expected, Some("GPUs")).seen_all(seen)
}

#[cfg(test)]
mod tests {
    //! Logs of patched and stock drivers, complete and truncated.

    use super::*;
    use crate::machine::host::nvidia::account::tests::with;
    use crate::outcome::Outcome;
    use crate::suite::shared::fixture;
    use serde_json::json;

    const MAP: &str =
        "NVRM: kbusEnableStaticBar1Mapping_GH100: Static bar1 mapped offset 0x0 size 0x5e9200000";
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
        let line =
            |(seq, text): (u64, &&str)| Line { seq, at: Duration::from_secs(seq), text: (*text).into() };
        let lines: Vec<_> = (first..).zip(texts).map(line).collect();
        judge(&lines, &gpus, patched)
    }

    fn say(texts: &[&str], patched: bool) -> Judgement {
        say_of("0x2684", 0, texts, patched)
    }

    #[test]
    fn a_line_for_every_gpu_passes_with_any_driver() {
        for patched in [true, false] {
            assert_eq!(say(&[MAP, MAP], patched).summary, "2 of 2 GPUs");
            assert_eq!(say(&[MAP, MAP, MAP, PAIR], patched).outcome(), Outcome::Pass);
            assert_eq!(say(&[FIRST, SECOND], patched).outcome(), Outcome::Pass);
            assert_eq!(say(&[FIRST, OFF, SECOND], patched).outcome(), Outcome::Pass, "the last start counts");
        }
    }

    #[test]
    fn a_missing_gpu_fails_and_so_do_pairs_without_maps() {
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
    fn a_stock_driver_and_an_unpatched_family_are_not_applicable() {
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
    fn only_a_patched_module_with_started_gpus_is_expected_to_log_the_mapping() {
        assert!(is_patched(&with("/load", json!(true))));
        assert!(!is_patched(&with("/held", json!([]))));
        assert!(!is_patched(&with("/modules/0/patch", json!(""))));
    }
}
