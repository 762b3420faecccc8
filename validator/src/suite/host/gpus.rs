//! Whether the expected GPUs are present. Finding none is never a pass by itself: only the configuration can
//! say that none is expected.

use crate::config::{Expect, Level, numbered};
use crate::suite::context::known;
use crate::suite::p2p::bandwidth;
use crate::suite::p2p::capability::unknown_peer;
use crate::suite::selection::plan;
use crate::suite::{FILE_DEADLINE, Group, Test, TestContext};
use machine::pcie::model::{Bdf, Fabric};
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::scope::Scope;
use outcome::test;
use std::collections::BTreeMap;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::GPUS,
    title: "GPU inventory",
    proves: "the number and the model of the NVIDIA GPUs on the bus are as expected",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let fabric = context.fabric()?;
    let known = known(&context.nvidia.gpus)?;
    let names = known
        .iter()
        .filter_map(|(gpu, known)| Some((gpu.clone(), known.name.clone()?)))
        .collect();
    let left_out = context
        .config
        .validate
        .limit
        .as_ref()
        .map_or(0, |limit| limit.left_out.len());
    let judgement = judge(&context.config.expect, fabric, left_out, &names);
    // A run that is limited to some tests does not check the configured minimum.
    let measured = matches!(
        context.config.validate.scope,
        Scope::Fabric | Scope::Only(_)
    ) || plan(&context.config, Some(fabric))
        .run
        .iter()
        .any(|t| t.id() == bandwidth::TEST.id());
    let gpus = &fabric.gpus;
    let peers = context
        .config
        .expect
        .peers
        .as_ref()
        .and_then(|groups| numbered(groups, gpus).err());
    let judgement = judgement.with(peers.iter().map(|why| unknown_peer(why)).collect());
    Ok(judgement.with(
        unmeasured(&context.config.expect, fabric, measured)
            .into_iter()
            .collect(),
    ))
}

/// The finding that no test of this run measures the configured minimum bandwidth.
fn unmeasured(expect: &Expect, fabric: &Fabric, measured: bool) -> Option<Finding> {
    let floor = expect
        .min_p2p_gb_s
        .filter(|_| !measured && !fabric.gpus.is_empty())?;
    let message = format!("expect.min_p2p_gb_s is {floor}, but p2p-bandwidth is left out");
    let finding = Code::ExpectUnchecked.finding(Severity::Error, Subject::Machine, message);
    Some(finding.values(serde_json::Value::Null, floor, Some("GB/s")))
}

/// `left_out`: further GPUs that are on the bus but are not tested.
fn judge(
    expect: &Expect,
    fabric: &Fabric,
    left_out: usize,
    names: &BTreeMap<String, String>,
) -> Judgement {
    let found = fabric.gpus.len() + left_out;
    let count = count(expect.gpus, found, fabric);
    let summary = match (&count, expect.gpus) {
        (Some(finding), _) => finding.message.to_string(),
        (None, Some(n)) => format!("{found} of {n} on the bus"),
        (None, None) => format!("{found} on the bus"),
    };
    let models = fabric
        .gpus
        .iter()
        .filter_map(|g| model(expect.gpu_name.as_deref()?, *g, names));
    let unchecked: &[Code] = if expect.gpus.is_none() {
        &[Code::GpuCount]
    } else {
        &[]
    };
    Judgement::of(summary, count.into_iter().chain(models).collect()).without_checking(unchecked)
}

fn count(expected: Option<u64>, found: usize, fabric: &Fabric) -> Option<Finding> {
    let found = u64::try_from(found).unwrap_or(u64::MAX);
    let finding = match expected {
        None if found == 0 => {
            let message = format!("0 NVIDIA GPUs among {} PCI functions", fabric.devices.len());
            Code::GpuNone
                .finding(Severity::Error, Subject::Machine, message)
                .values(0, "expect.gpus is not set", Some("GPUs"))
        }
        Some(expected) if expected != found => {
            let message = format!("{found} NVIDIA GPUs on the bus, expected {expected}");
            Code::GpuCount
                .finding(Severity::Fail, Subject::Machine, message)
                .values(found, expected, Some("GPUs"))
        }
        _ => return None,
    };
    let list: Vec<_> = fabric.gpus.iter().map(ToString::to_string).collect();
    Some(finding.seen(format!("/sys/bus/pci/devices: GPUs {}", list.join(" "))))
}

fn model(expected: &str, gpu: Bdf, names: &BTreeMap<String, String>) -> Option<Finding> {
    let Some(name) = names.get(&gpu.to_string()) else {
        let message = format!("the model of {gpu} is unknown, expected {expected}");
        let finding = Code::ExpectUnchecked.finding(Severity::Error, gpu, message);
        return Some(finding.values(serde_json::Value::Null, expected, None));
    };
    (name != expected).then(|| {
        let message = format!("{gpu} is a {name}, expected {expected}");
        Code::GpuName
            .finding(Severity::Fail, gpu, message)
            .values(name.as_str(), expected, None)
            .seen(format!(
                "/proc/driver/nvidia/gpus/{gpu}/information: Model: {name}"
            ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use outcome::Outcome;

    fn expect(gpus: Option<u64>) -> Expect {
        Expect {
            gpus,
            ..Expect::default()
        }
    }

    fn say(expect: &Expect, gpus: u8) -> Judgement {
        judge(expect, &fixture::machine(gpus), 0, &BTreeMap::new())
    }

    #[test]
    fn the_expected_number_passes_and_one_less_fails() {
        assert_eq!(
            say(&expect(Some(2)), 2),
            Judgement::of("2 of 2 on the bus", vec![])
        );
        let said = say(&expect(Some(3)), 2);
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::GpuCount));
        assert_eq!(said.summary, "2 NVIDIA GPUs on the bus, expected 3");
        assert_eq!(say(&expect(Some(1)), 2).outcome(), Outcome::Fail);
    }

    #[test]
    fn none_passes_only_when_none_is_expected() {
        assert_eq!(say(&expect(Some(0)), 0).outcome(), Outcome::Pass);
        let said = say(&expect(None), 0);
        assert!(said.outcome() == Outcome::Error && said.findings[0].is(Code::GpuNone));
        let said = say(&expect(None), 2);
        assert_eq!(
            (said.outcome(), &said.unchecked[..]),
            (Outcome::Pass, &[Code::GpuCount][..])
        );
    }

    #[test]
    fn another_model_fails_and_an_unknown_one_is_an_error() {
        let expect = Expect {
            gpu_name: Some("NVIDIA GeForce RTX 4090".into()),
            ..Expect::default()
        };
        let fabric = fixture::machine(1);
        let named = |name: &str| BTreeMap::from([(fabric.gpus[0].to_string(), name.to_owned())]);
        assert_eq!(
            judge(&expect, &fabric, 0, &named("NVIDIA GeForce RTX 4090")).outcome(),
            Outcome::Pass
        );
        let said = judge(&expect, &fabric, 0, &named("NVIDIA GeForce RTX 3090"));
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::GpuName));
        assert_eq!(say(&expect, 1).outcome(), Outcome::Error);
    }

    #[test]
    fn an_unmeasured_floor_is_an_error() {
        let floor = Expect {
            min_p2p_gb_s: Some(20.0),
            ..Expect::default()
        };
        let said = |gpus, measured| unmeasured(&floor, &fixture::machine(gpus), measured);
        assert!(said(2, false).unwrap().is(Code::ExpectUnchecked));
        assert_eq!((said(2, true), said(0, false)), (None, None));
    }
}
