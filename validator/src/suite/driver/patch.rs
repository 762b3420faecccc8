//! Whether the loaded module carries our peer-to-peer patches, and whether the kernel's log is free of lines
//! that show a patch to be ineffective. Only GPUs that are reached through BAR1 need the patches.

use crate::suite::context::{TestContext, known};
use crate::suite::shared::peer_mechanism;
use crate::suite::{FILE_DEADLINE, Group, Test};
use machine::host::nvidia::account;
use machine::host::nvidia::account::{Account, Outcome};
use machine::host::nvidia::log;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use outcome::text::count;
use report::Level;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::PATCH,
    title: "Peer-to-peer patch",
    proves: "the loaded module has the patch level of the driver image, and the kernel's log has no line that shows the patch to be ineffective",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let lines = context.log.as_deref().unwrap_or_default();
    if let Some(finding) = not_effective(&log::patch_fails(lines)) {
        return Ok(Judgement::by(finding));
    }
    if let Some(nothing) = context.no_driver()? {
        return Ok(nothing);
    }
    let needed =
        !peer_mechanism::through_bar1(context.fabric()?, known(&context.nvidia.gpus)?).is_empty();
    let account = known(&context.nvidia.account)?.as_ref();
    let loaded = known(&context.nvidia.loaded)?.as_ref();
    let srcversion = loaded.and_then(|l| l.hash.srcversion.as_deref());
    let judgement = judge(account, needed, srcversion);
    // A log that cannot be read proves nothing, and one whose beginning is gone proves little.
    if judgement.outcome() == outcome::Outcome::Pass {
        let whole = log::begins(context.log()?).is_none() && context.log_lost == 0;
        return Ok(if whole {
            judgement
        } else {
            judgement.without_checking(&[Code::PatchNotEffective])
        });
    }
    Ok(judgement)
}

fn not_effective(lines: &[&str]) -> Option<Finding> {
    let first = lines.first()?;
    let message = format!(
        "the kernel logged {} of an ineffective patch, the first: {first}",
        count(lines.len(), "line")
    );
    let seen = lines.iter().take(8).map(|l| format!("kmsg: {l}")).collect();
    let finding = Code::PatchNotEffective.finding(Severity::Fail, Subject::part("nvidia"), message);
    Some(finding.values(lines.len(), 0, Some("lines")).seen_all(seen))
}

fn judge(account: Option<&Account>, needed: bool, loaded: Option<&str>) -> Judgement {
    let expected = account
        .and_then(|a| a.image.as_ref())
        .map(|image| image.patch.as_str());
    let (account, expected) = match (account, expected) {
        _ if !needed => return Judgement::not_applicable("no GPU here is reached through BAR1"),
        (Some(account), Some(expected)) if !expected.is_empty() => (account, expected),
        (_, Some(_)) => {
            return Judgement::not_applicable(
                "the driver image has NVIDIA's own module, without patches",
            );
        }
        _ => {
            return Judgement::not_applicable(
                "not firstlight's driver: no patch level is expected",
            );
        }
    };
    let file = account.module("nvidia");
    let level = file
        .and_then(|m| m.patch.as_deref())
        .filter(|level| !level.is_empty());
    let missing = |severity, message: String| {
        let found = level.map_or(serde_json::Value::Null, Into::into);
        let finding = Code::PatchMissing
            .finding(severity, Subject::part("nvidia"), message)
            .values(found, expected, None);
        Judgement::by(finding.seen(format!("/{}: patch of nvidia.ko", account::FILE)))
    };
    if level != Some(expected) {
        let level = level.unwrap_or("none");
        return missing(
            Severity::Fail,
            format!("the module's patch level is {level}, expected {expected}"),
        );
    }
    // The level is that of the image's file. That this file is the loaded module is proven by init, which loaded
    // it, or else by the hash of the sources.
    let same = file.and_then(|m| Some(m.srcversion.as_deref()? == loaded?));
    match (file.map(|m| m.outcome), same) {
        (_, Some(false)) => missing(Severity::Fail, "the loaded module is not the one of the driver image".to_owned()),
        (Some(Outcome::Loaded), _) | (_, Some(true)) => {
            Judgement::of(format!("level {expected}, and no kernel line of an ineffective patch"), Vec::new())
        }
        _ => missing(
            Severity::Error,
            "it is unknown whether the loaded module is the one of the driver image: it has no srcversion".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::host::nvidia::fixture::account_with as with;
    use outcome::Outcome as Ended;
    use serde_json::{Value, json};

    fn say(pointer: &str, value: Value, loaded: Option<&str>) -> Judgement {
        judge(Some(&with(pointer, value)), true, loaded)
    }

    #[test]
    fn the_images_level_passes_and_any_other_fails() {
        assert_eq!(
            say("/load", json!(true), Some("ABC")).outcome(),
            Ended::Pass
        );
        for level in [json!("2"), json!(""), Value::Null] {
            let said = say("/modules/0/patch", level, Some("ABC"));
            assert!(said.outcome() == Ended::Fail && said.findings[0].is(Code::PatchMissing));
        }
    }

    #[test]
    fn the_level_counts_only_for_the_module_that_is_loaded() {
        assert_eq!(
            say("/load", json!(true), Some("XYZ")).outcome(),
            Ended::Fail
        );
        assert_eq!(
            say("/load", json!(true), None).outcome(),
            Ended::Pass,
            "init loaded it"
        );
        let already = json!("already");
        assert_eq!(
            say("/modules/0/outcome", already.clone(), Some("ABC")).outcome(),
            Ended::Pass
        );
        assert_eq!(
            say("/modules/0/outcome", already, None).outcome(),
            Ended::Error
        );
        assert_eq!(
            say("/modules", json!([]), Some("ABC")).outcome(),
            Ended::Fail
        );
    }

    #[test]
    fn no_expected_or_needed_patch_is_not_applicable() {
        assert_eq!(judge(None, true, None).outcome(), Ended::NotApplicable);
        assert_eq!(
            say("/image/patch", json!(""), None).outcome(),
            Ended::NotApplicable
        );
        assert_eq!(
            say("/image", Value::Null, None).outcome(),
            Ended::NotApplicable
        );
        assert_eq!(
            judge(Some(&with("/load", json!(true))), false, None).outcome(),
            Ended::NotApplicable
        );
    }

    #[test]
    fn lines_of_an_ineffective_patch_fail_with_any_driver() {
        let line = "NVRM: nvAssertFailed: Assertion failed: x @ field_desc.h:272";
        let finding = not_effective(&[line, line]).unwrap();
        assert!(finding.is(Code::PatchNotEffective) && finding.severity == Severity::Fail);
        assert!(finding.message.contains("2 lines"), "{}", finding.message);
        assert_eq!(not_effective(&[]), None);
    }
}
