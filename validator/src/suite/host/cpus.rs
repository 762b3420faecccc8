//! Whether all processors are in use. A kernel without x2APIC silently omits those with large APIC ids, which
//! happens on large AMD machines when the IOMMU is switched off.

use crate::config::Level;
use crate::machine::host::cpu::Cpus;
use crate::machine::host::madt;
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Reason, Severity, Subject};
use crate::suite::machine::unreadable;
use crate::suite::{FILE_DEADLINE, Group, Machine, Test};
use std::io::ErrorKind;

pub(in crate::suite) const TEST: Test = Test {
    id: "cpus",
    title: "Processors",
    proves: "every processor that firmware and kernel know of is in use",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

/// Kernel messages about unusable processors (arch/x86/kernel/{apic,smpboot,cpu/topology}.c).
const X2APIC: &[&str] = &["x2apic disabled", "x2apic: IRQ remapping doesn't", "has invalid APIC ID"];
const LIMIT: &str = "NR_CPUS/possible_cpus limit";
/// Without x2APIC an APIC id has 8 bits, of which 255 means all processors: no more can be addressed.
const WITHOUT_X2APIC: usize = 255;

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    let fabric = machine.fabric()?;
    // Only root may read the table; without that permission one source is missing.
    let firmware = match madt::read(&machine.root) {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => None,
        read => read.map_err(|e| unreadable("sys/firmware/acpi/tables/APIC", &e))?,
    };
    let words: Vec<_> = X2APIC.iter().copied().chain([LIMIT]).collect();
    Ok(judge(fabric.cpus, firmware.map(|madt| madt.enabled), machine.log_evidence(&words)))
}

fn judge(cpus: Cpus, firmware: Option<usize>, log: Vec<String>) -> Judgement {
    let Cpus { possible, present, online } = cpus;
    let known = firmware.unwrap_or(possible);
    if online == present && known <= online {
        // The kernel need not count what it cannot use.
        let unchecked: &[Code] = if firmware.is_none() { &[Code::CpusLost] } else { &[] };
        return Judgement::of(format!("{online} of {online} online"), Vec::new()).without_checking(unchecked);
    }
    let expected = known.max(present);
    let in_firmware = firmware.map_or_else(|| "not read".to_owned(), |n| n.to_string());
    let counts = format!("possible {possible}, present {present}, online {online}");
    let finding = Code::CpusLost
        .finding(Severity::Fail, Subject::Machine, format!("{online} processors are online, expected {expected}"))
        .values(online, expected, Some("processors"))
        .seen(format!("/sys/devices/system/cpu: {counts}; ACPI MADT: {in_firmware}"));
    let says = |word: &str| log.iter().any(|line| line.starts_with("kmsg: ") && line.contains(word));
    let finding = if says(LIMIT) {
        finding.because(Reason::ProcessorLimit)
    } else if X2APIC.iter().any(|w| says(w)) || (online <= WITHOUT_X2APIC && expected > WITHOUT_X2APIC) {
        finding.because(Reason::NoX2apic)
    } else {
        finding
    };
    Judgement::by(finding.seen_all(log))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    fn cpus(possible: usize, present: usize, online: usize) -> Cpus {
        Cpus { possible, present, online }
    }

    #[test]
    fn equal_counts_pass_with_or_without_the_firmwares() {
        assert_eq!(judge(cpus(8, 8, 8), Some(8), vec![]).summary, "8 of 8 online");
        let said = judge(cpus(8, 8, 8), None, vec![]);
        assert_eq!((said.outcome(), &said.unchecked[..]), (Outcome::Pass, &[Code::CpusLost][..]));
    }

    #[test]
    fn each_count_that_differs_fails() {
        for (counts, firmware) in
            [(cpus(8, 8, 7), None), (cpus(9, 8, 8), None), (cpus(8, 8, 8), Some(9)), (cpus(8, 8, 7), Some(7))]
        {
            let said = judge(counts, firmware, vec![]);
            assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::CpusLost), "{counts:?}");
        }
    }

    #[test]
    fn empty_sockets_are_no_loss_when_the_firmware_reports_them() {
        assert_eq!(judge(cpus(258, 2, 2), Some(2), vec![]).outcome(), Outcome::Pass);
    }

    #[test]
    fn x2apic_is_named_as_the_cause_when_the_kernel_logs_it() {
        let line = "kmsg: CPU 1 has invalid APIC ID 100. Aborting bringup".to_owned();
        let said = judge(cpus(2, 2, 1), Some(2), vec![line.clone()]);
        assert_eq!(said.summary, "1 processors are online, expected 2");
        assert_eq!(said.findings[0].reason, Some(Reason::NoX2apic));
        assert!(said.findings[0].evidence.contains(&line));
    }

    #[test]
    fn an_unread_log_proves_nothing_about_x2apic() {
        let unread = vec!["kernel log not read: /dev/kmsg: denied".to_owned()];
        let said = judge(cpus(2, 2, 1), None, unread);
        assert_eq!(said.findings[0].reason, None);
    }

    #[test]
    fn processors_limited_to_255_imply_x2apic_without_a_log() {
        assert_eq!(judge(cpus(384, 384, 255), None, vec![]).findings[0].reason, Some(Reason::NoX2apic));
    }

    #[test]
    fn a_kernel_for_fewer_processors_is_distinguished_from_x2apic() {
        let line = "kmsg: APIC: NR_CPUS/possible_cpus limit of 8 reached. Processor 8/0x8 ignored.".to_owned();
        let said = judge(cpus(8, 8, 8), Some(16), vec![line]);
        assert_eq!(said.findings[0].reason, Some(Reason::ProcessorLimit));
    }
}
