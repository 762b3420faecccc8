//! Do device addresses mean physical memory? All witnesses must agree: the IOMMU class, groups and
//! their types, devices that are in a group. What firmware and kernel say is evidence beside them.

use super::{Group, Machine, READING, Test, machine::unreadable};
use crate::config::{IommuPolicy, Level};
use crate::finding::{Code, Finding, Severity};
use crate::host::dma_groups::{self, DmaGroups};
use crate::outcome::Judgement;
use crate::pcie::model::{Iommu, IommuMode};

pub(super) const TEST: Test = Test {
    id: "iommu",
    title: "IOMMU",
    proves: "no IOMMU translates device addresses, so that GPUs reach each other by physical address",
    level: Level::Quick,
    deadline: READING,
    mandatory: true,
    group: Group::Host,
    run,
};

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    let fabric = machine.fabric()?;
    let groups = dma_groups::read(&machine.root).map_err(|e| unreadable("sys/kernel/iommu_groups", &e))?;
    let log = machine.log_evidence(&["DMAR: IOMMU", "DMAR-IR:", "AMD-Vi:", "iommu: Default domain type"]);
    let doubts = fabric.findings.iter().filter(|f| f.is(Code::IommuUnknown)).cloned().collect();
    Ok(judge(machine.config.fabric.iommu, &fabric.iommu, doubts, &groups, log))
}

/// `doubts` are witnesses that could not be read or contradict each other.
fn judge(
    policy: IommuPolicy,
    iommu: &Iommu,
    doubts: Vec<Finding>,
    groups: &DmaGroups,
    log: Vec<String>,
) -> Judgement {
    let translating: Vec<_> = groups.types.iter().filter(|(_, kind)| kind != "identity").collect();
    let finding = if let Some((group, kind)) = translating.first() {
        // Whoever leaves the choice to the firmware has been told; the measured tests decide.
        let severity = if policy == IommuPolicy::Firmware { Severity::Warn } else { Severity::Fail };
        let message = format!(
            "{} of {} IOMMU groups translate (group {group} is {kind}), expected 0",
            translating.len(),
            groups.types.len()
        );
        Code::IommuTranslating.finding(severity, "machine", message).values(
            translating.len(),
            0,
            Some("groups"),
        )
    } else if policy == IommuPolicy::Off && in_use(iommu, groups) {
        let message = format!(
            "an IOMMU is in use: {} classes, {} groups, {} devices in groups, expected 0 of each",
            iommu.classes.len(),
            iommu.groups,
            groups.members.len()
        );
        Code::IommuNotOff.finding(Severity::Fail, "machine", message).values("in use", "off", None)
    } else if iommu.mode == IommuMode::Unknown || iommu.groups != groups.types.len() {
        let message = "the witnesses of the IOMMU contradict each other or cannot be read";
        Code::IommuUnknown.finding(Severity::Error, "machine", message)
    } else {
        return Judgement::of(summary(iommu, groups), doubts);
    };
    let doubts = doubts.into_iter().map(|d| d.message).collect();
    Judgement::by(finding.seen_all(witnesses(iommu, groups)).seen_all(doubts).seen_all(log))
}

fn in_use(iommu: &Iommu, groups: &DmaGroups) -> bool {
    !iommu.classes.is_empty() || iommu.groups > 0 || !groups.types.is_empty() || !groups.members.is_empty()
}

fn summary(iommu: &Iommu, groups: &DmaGroups) -> String {
    let firmware = match &iommu.firmware_tables[..] {
        [] => String::new(),
        tables => format!(" (firmware offers {})", tables.join(", ")),
    };
    match (iommu.classes.len(), groups.types.len()) {
        (0, 0) => format!("off: no IOMMU class, no groups{firmware}"),
        (classes, 0) => format!("no groups, {classes} IOMMU classes{firmware}"),
        (_, groups) => format!("{groups} groups, all identity{firmware}"),
    }
}

fn witnesses(iommu: &Iommu, groups: &DmaGroups) -> Vec<String> {
    let list = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.iter().take(8).cloned().collect::<Vec<_>>().join(" "),
    };
    let types: Vec<_> = groups.types.iter().map(|(group, kind)| format!("{group}:{kind}")).collect();
    vec![
        format!("/sys/class/iommu: {}", list(&iommu.classes)),
        format!("/sys/kernel/iommu_groups/*/type: {}", list(&types)),
        format!("/sys/bus/pci/devices/*/iommu_group: {}", list(&groups.members)),
        format!("ACPI tables: {}", list(&iommu.firmware_tables)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    fn iommu(mode: IommuMode, classes: &[&str], groups: usize) -> Iommu {
        let classes = classes.iter().map(|c| (*c).to_owned()).collect();
        Iommu { mode, classes, groups, firmware_tables: vec!["DMAR".into()] }
    }

    fn groups(types: &[&str], members: &[&str]) -> DmaGroups {
        DmaGroups {
            types: (0..).zip(types).map(|(i, t): (i32, _)| (i.to_string(), (*t).to_owned())).collect(),
            members: members.iter().map(|m| (*m).to_owned()).collect(),
        }
    }

    fn off() -> Iommu {
        iommu(IommuMode::Off, &[], 0)
    }

    #[test]
    fn no_witness_of_an_iommu_is_off() {
        let said = judge(IommuPolicy::Off, &off(), vec![], &groups(&[], &[]), vec![]);
        assert_eq!((said.outcome(), said.findings.len()), (Outcome::Pass, 0));
        assert_eq!(said.summary, "off: no IOMMU class, no groups (firmware offers DMAR)");
    }

    #[test]
    fn each_single_witness_is_enough_to_fail() {
        let gpu = "0000:41:00.0";
        for (class, dma) in [
            (iommu(IommuMode::Off, &["dmar0"], 0), groups(&[], &[])),
            (iommu(IommuMode::Identity, &[], 1), groups(&["identity"], &[])),
            (off(), groups(&[], &[gpu])),
        ] {
            let said =
                judge(IommuPolicy::Off, &class, vec![], &dma, vec!["kmsg: DMAR: IOMMU enabled".into()]);
            assert_eq!(said.outcome(), Outcome::Fail);
            assert!(said.findings[0].is(Code::IommuNotOff));
            assert_eq!(said.findings[0].evidence.len(), 5);
        }
    }

    #[test]
    fn one_translating_group_among_many_fails_off_and_pt() {
        let class = iommu(IommuMode::Translated, &["dmar0"], 3);
        let dma = groups(&["identity", "DMA-FQ", "identity"], &[]);
        for policy in [IommuPolicy::Off, IommuPolicy::Pt] {
            let said = judge(policy, &class, vec![], &dma, vec![]);
            assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::IommuTranslating));
            assert_eq!(said.summary, "1 of 3 IOMMU groups translate (group 1 is DMA-FQ), expected 0");
        }
        assert_eq!(judge(IommuPolicy::Firmware, &class, vec![], &dma, vec![]).outcome(), Outcome::Warn);
    }

    #[test]
    fn identity_everywhere_is_what_pass_through_means() {
        let class = iommu(IommuMode::Identity, &["ivhd0"], 2);
        let said = judge(IommuPolicy::Pt, &class, vec![], &groups(&["identity"; 2], &[]), vec![]);
        assert_eq!(said.outcome(), Outcome::Pass);
        assert_eq!(said.summary, "2 groups, all identity (firmware offers DMAR)");
        assert_eq!(
            judge(IommuPolicy::Pt, &off(), vec![], &groups(&[], &[]), vec![]).outcome(),
            Outcome::Pass
        );
    }

    #[test]
    fn groups_that_were_counted_but_not_read_are_an_error() {
        let class = iommu(IommuMode::Identity, &[], 2);
        let said = judge(IommuPolicy::Pt, &class, vec![], &groups(&["identity"], &[]), vec![]);
        assert_eq!(said.outcome(), Outcome::Error);
    }

    #[test]
    fn a_witness_that_cannot_be_read_is_an_error_not_off() {
        let doubt = Code::IommuUnknown.finding(Severity::Error, "machine", "/sys/class/iommu: denied");
        let said = judge(IommuPolicy::Off, &off(), vec![doubt], &groups(&[], &[]), vec![]);
        assert_eq!(said.outcome(), Outcome::Error);
        let unknown = iommu(IommuMode::Unknown, &[], 0);
        assert_eq!(
            judge(IommuPolicy::Off, &unknown, vec![], &groups(&[], &[]), vec![]).outcome(),
            Outcome::Error
        );
    }
}
