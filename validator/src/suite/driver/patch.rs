//! Does the loaded module carry our peer-to-peer patches, and has the kernel logged nothing of what
//! a driver says that has them and does not work? Only GPUs that are reached through BAR1 need them.

use crate::config::Level;
use crate::machine::host::nvidia::account;
use crate::machine::host::nvidia::account::{Account, Outcome};
use crate::machine::host::nvidia::log;
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::suite::machine::{Machine, known};
use crate::suite::shared::peer;
use crate::suite::{Group, READING, Test};

pub(in crate::suite) const TEST: Test = Test {
    id: "patch",
    title: "Peer-to-peer patch",
    proves: "the loaded module has the patch level of the driver image, and the kernel's log shows none of the lines of a patch that does not work",
    level: Level::Quick,
    deadline: READING,
    mandatory: true,
    group: Group::Host,
    run,
};

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    let lines = machine.log.as_deref().unwrap_or_default();
    if let Some(finding) = not_effective(&log::patch_fails(lines)) {
        return Ok(Judgement::by(finding));
    }
    if let Some(nothing) = machine.idle()? {
        return Ok(nothing);
    }
    let needed = !peer::through_bar1(machine.fabric()?, known(&machine.nvidia.gpus)?).is_empty();
    let account = known(&machine.nvidia.account)?.as_ref();
    let loaded = known(&machine.nvidia.loaded)?.as_ref();
    let srcversion = loaded.and_then(|l| l.hash.srcversion.as_deref());
    let said = judge(account, needed, srcversion);
    // What is not in a log that nobody could read proves nothing.
    if said.outcome() == crate::outcome::Outcome::Pass {
        machine.log()?;
    }
    Ok(said)
}

fn not_effective(lines: &[&str]) -> Option<Finding> {
    let first = lines.first()?;
    let message = format!("{} lines of the kernel say so, first: {first}", lines.len());
    let seen = lines.iter().take(8).map(|l| format!("kmsg: {l}")).collect();
    let finding = Code::PatchNotEffective.finding(Severity::Fail, "nvidia", message);
    Some(finding.values(lines.len(), 0, Some("lines")).seen_all(seen))
}

fn judge(account: Option<&Account>, needed: bool, loaded: Option<&str>) -> Judgement {
    let expected = account.and_then(|a| a.image.as_ref()).map(|image| image.patch.as_str());
    let (account, expected) = match (account, expected) {
        _ if !needed => return Judgement::not_applicable("no GPU here is reached through BAR1"),
        (Some(account), Some(expected)) if !expected.is_empty() => (account, expected),
        (_, Some(_)) => {
            return Judgement::not_applicable("the driver image has NVIDIA's own module, without patches");
        }
        _ => return Judgement::not_applicable("not firstlight's driver: no patch level is expected"),
    };
    let file = account.module("nvidia");
    let level = file.and_then(|m| m.patch.as_deref()).filter(|level| !level.is_empty());
    let missing = |severity, message: String| {
        let found = level.map_or(serde_json::Value::Null, Into::into);
        let finding = Code::PatchMissing.finding(severity, "nvidia", message).values(found, expected, None);
        Judgement::by(finding.seen(format!("/{}: patch of nvidia.ko", account::FILE)))
    };
    if level != Some(expected) {
        let level = level.unwrap_or("none");
        return missing(Severity::Fail, format!("the module's patch level is {level}, expected {expected}"));
    }
    // The level is that of the image's file. That it is the loaded module, init's own loading
    // proves, or else the hash of its sources.
    let same = file.and_then(|m| Some(m.srcversion.as_deref()? == loaded?));
    match (file.map(|m| m.outcome), same) {
        (_, Some(false)) => missing(Severity::Fail, "the loaded module is not the driver image's".to_owned()),
        (Some(Outcome::Loaded), _) | (_, Some(true)) => {
            Judgement::of(format!("level {expected}, and no line of the kernel against it"), Vec::new())
        }
        _ => missing(
            Severity::Error,
            "nothing tells whether the loaded module is the driver image's: no srcversion".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::host::nvidia::account::tests::with;
    use crate::outcome::Outcome as Ended;
    use serde_json::{Value, json};

    fn say(pointer: &str, value: Value, loaded: Option<&str>) -> Judgement {
        judge(Some(&with(pointer, value)), true, loaded)
    }

    #[test]
    fn the_images_level_passes_and_any_other_fails() {
        assert_eq!(say("/load", json!(true), Some("ABC")).outcome(), Ended::Pass);
        for level in [json!("2"), json!(""), Value::Null] {
            let said = say("/modules/0/patch", level, Some("ABC"));
            assert!(said.outcome() == Ended::Fail && said.findings[0].is(Code::PatchMissing));
        }
    }

    #[test]
    fn the_level_counts_only_for_the_module_that_is_loaded() {
        assert_eq!(say("/load", json!(true), Some("XYZ")).outcome(), Ended::Fail);
        assert_eq!(say("/load", json!(true), None).outcome(), Ended::Pass, "init loaded it");
        let already = json!("already");
        assert_eq!(say("/modules/0/outcome", already.clone(), Some("ABC")).outcome(), Ended::Pass);
        assert_eq!(say("/modules/0/outcome", already, None).outcome(), Ended::Error);
        assert_eq!(say("/modules", json!([]), Some("ABC")).outcome(), Ended::Fail);
    }

    #[test]
    fn where_no_patch_is_expected_or_needed_there_is_nothing_to_judge() {
        assert_eq!(judge(None, true, None).outcome(), Ended::NotApplicable);
        assert_eq!(say("/image/patch", json!(""), None).outcome(), Ended::NotApplicable);
        assert_eq!(say("/image", Value::Null, None).outcome(), Ended::NotApplicable);
        assert_eq!(judge(Some(&with("/load", json!(true))), false, None).outcome(), Ended::NotApplicable);
    }

    #[test]
    fn lines_of_a_patch_that_does_not_work_fail_whoever_made_it() {
        let line = "NVRM: nvAssertFailed: Assertion failed: x @ field_desc.h:272";
        let finding = not_effective(&[line, line]).unwrap();
        assert!(finding.is(Code::PatchNotEffective) && finding.severity == Severity::Fail);
        assert!(finding.message.starts_with("2 lines"), "{}", finding.message);
        assert_eq!(not_effective(&[]), None);
    }
}
