//! Whether the machine could be read without a contradiction: all findings from reading it that no other test
//! covers, such as missing devices, damaged configuration space, unreadable files; and whether each memory BAR of a GPU has
//! an address, without which no driver can use the GPU.

mod unplaced;

use crate::suite::fabric::links::is_of_link;
use crate::suite::{FILE_DEADLINE, Group, Test};
use machine::host::kmsg::Line;
use machine::pcie::model::Fabric;
use outcome::Judgement;
use outcome::finding::{Code, Finding};
use outcome::test;
use outcome::text::count;
use report::Level;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::FABRIC,
    title: "PCI inventory",
    proves: "every PCI function answers and could be read without a contradiction, and no memory BAR of a GPU lacks an address",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run: |context| {
        let lines = context.log.as_deref().unwrap_or_default();
        Ok(judge(context.fabric()?, &context.identity.problems, lines))
    },
};

/// Whether the test acs, iommu or links covers a code.
const fn is_of_other_test(code: Code) -> bool {
    matches!(
        code,
        Code::AcsQuirk
            | Code::AcsKept
            | Code::AcsStuck
            | Code::AcsRefused
            | Code::AcsUnknown
            | Code::AcsReverted
            | Code::AcsRedirect
            | Code::AcsCleared
            | Code::NoEcam
            | Code::IommuTranslating
            | Code::IommuNotOff
            | Code::IommuUnknown
            | Code::IommuFault
    ) || is_of_link(code)
}

fn judge(fabric: &Fabric, problems: &[Finding], lines: &[Line]) -> Judgement {
    let own = fabric.findings.iter().filter(|f| !is_of_other_test(f.code));
    let mut findings: Vec<_> = own.chain(problems).cloned().collect();
    unplaced::add(&mut findings, fabric, lines);
    let summary = match findings.iter().max_by_key(|f| f.severity) {
        Some(worst) => worst.message.to_string(),
        None => format!(
            "{}, {}, {}",
            count(fabric.devices.len(), "PCI function"),
            count(fabric.gpus.len(), "GPU"),
            count(fabric.nics.len(), "NIC")
        ),
    };
    Judgement::of(summary, findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use fabric::judge;
    use outcome::Outcome;

    fn spoilt(spoil: impl Fn(&mut Fabric)) -> Judgement {
        let mut fabric = fixture::machine(2);
        spoil(&mut fabric);
        fabric.findings = judge::all(&fabric);
        super::judge(&fabric, &[], &[])
    }

    #[test]
    fn a_healthy_machine_passes_and_one_with_a_gpu_off_the_bus_fails() {
        assert_eq!(spoilt(|_| ()).summary, "6 PCI functions, 2 GPUs, 0 NICs");
        let said = spoilt(|f| {
            let gpu = f.gpus[1];
            fixture::device(f, gpu).config.gone = true;
        });
        assert_eq!(said.outcome(), Outcome::Fail);
        assert!(said.summary.contains("0000:11:00.0"), "{}", said.summary);
    }

    #[test]
    fn findings_that_another_test_covers_are_left_to_it() {
        let said = spoilt(|f| {
            fixture::device(f, fixture::port(0))
                .acs
                .as_mut()
                .unwrap()
                .ctrl = 0x1d;
        });
        assert_eq!((said.outcome(), said.findings.len()), (Outcome::Pass, 0));
    }
}
