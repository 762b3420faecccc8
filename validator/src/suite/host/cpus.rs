//! Whether all processors are in use. A kernel without x2APIC silently omits those with large APIC ids, which
//! happens on large AMD machines when the IOMMU is switched off.

use crate::suite::context::unreadable;
use crate::suite::{FILE_DEADLINE, Group, Test, TestContext};
use machine::host::cmdline::{self, Word};
use machine::host::cpu::Cpus;
use machine::host::madt;
use machine::root::Root;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use outcome::test;
use report::Level;
use std::io::ErrorKind;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::CPUS,
    title: "Processors",
    proves: "every processor that firmware and kernel know of is in use",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

/// Kernel messages about unusable processors (arch/x86/kernel/{apic,smpboot,cpu/topology}.c).
const X2APIC: &[&str] = &[
    "x2apic disabled",
    "x2apic: IRQ remapping doesn't",
    INVALID_ID,
];
const INVALID_ID: &str = "has invalid APIC ID";
const LIMITS: &[&str] = &[
    "NR_CPUS/possible_cpus limit",
    "APIC: CPU limit of",
    "CPU topo: CPU limit of",
];
/// Kernel words that limit the processors.
const LIMITING: &[&str] = &["nr_cpus", "maxcpus", "possible_cpus"];
/// Without x2APIC an APIC id has 8 bits, of which 255 means all processors: no more can be addressed.
const WITHOUT_X2APIC: usize = 255;

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let fabric = context.fabric()?;
    // Only root may read the table; without that permission one source is missing.
    let firmware = match madt::read(&context.root) {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => None,
        read => read.map_err(|e| unreadable("sys/firmware/acpi/tables/APIC", &e))?,
    };
    let words: Vec<_> = X2APIC.iter().chain(LIMITS).copied().collect();
    let chosen = Chosen::read(&context.root);
    Ok(judge(
        fabric.cpus,
        firmware.map(|madt| madt.enabled),
        &chosen,
        context.log_evidence(&words),
    ))
}

/// What the user chose about the processors.
#[derive(Debug, Default)]
struct Chosen {
    /// The kernel words that limit their number, and the limit.
    limits: Vec<(String, usize)>,
    /// What switches off all threads of a core but one.
    smt_off: Option<String>,
}

impl Chosen {
    fn read(root: &Root) -> Self {
        let words = cmdline::words(&cmdline::read(root).unwrap_or_default());
        Self::of(
            &words,
            root.text("sys/devices/system/cpu/smt/control")
                .ok()
                .as_deref(),
        )
    }

    fn of(words: &[Word], smt: Option<&str>) -> Self {
        let written = |word: &Word| match &word.value {
            Some(value) => format!("{}={value}", word.key),
            None => word.key.clone(),
        };
        let limits = words
            .iter()
            .filter(|word| LIMITING.iter().any(|key| word.has_key(key)));
        let limits = limits
            .filter_map(|word| Some((written(word), word.value.as_deref()?.parse().ok()?)))
            .collect();
        let nosmt = words
            .iter()
            .rev()
            .find(|word| word.has_key("nosmt"))
            .map(written);
        let control = smt.filter(|state| ["off", "forceoff"].contains(state));
        let by_control =
            control.map(|state| format!("/sys/devices/system/cpu/smt/control: {state}"));
        // A kernel without this file has no such switch; one that is on again says so in the file.
        Self {
            limits,
            smt_off: by_control.map(|by| nosmt.unwrap_or(by)),
        }
    }
}

fn judge(cpus: Cpus, firmware: Option<usize>, chosen: &Chosen, log: Vec<String>) -> Judgement {
    let Cpus {
        possible,
        present,
        online,
    } = cpus;
    let known = firmware.unwrap_or(possible);
    if online == present && known <= online {
        // The kernel need not count what it cannot use.
        let unchecked: &[Code] = if firmware.is_none() {
            &[Code::CpusLost]
        } else {
            &[]
        };
        return Judgement::of(format!("{online} of {online} online"), Vec::new())
            .without_checking(unchecked);
    }
    let expected = known.max(present);
    let in_firmware = firmware.map_or_else(|| "not read".to_owned(), |n| n.to_string());
    let counts = format!("possible {possible}, present {present}, online {online}");
    let says = |word: &str| {
        log.iter()
            .any(|line| line.starts_with("kmsg: ") && line.contains(word))
    };
    let limited = || LIMITS.iter().any(|limit| says(limit));
    // At most half of the threads are siblings; the kernel knows of all of them, and of no other reason.
    let siblings = present - online.min(present) <= present / 2 && known <= present;
    if let Some(by) = chosen
        .smt_off
        .as_deref()
        .filter(|_| siblings && !limited() && !says(INVALID_ID))
    {
        let message = format!(
            "{online} of {present} processors are online: the others are threads that {by} switches off"
        );
        let finding = Code::CpusLost.finding(Severity::Info, Subject::Machine, message.clone());
        let finding = finding
            .values(online, present, Some("processors"))
            .because(Reason::SmtOff(by.into()));
        return Judgement::of(message, vec![finding]);
    }
    let finding = Code::CpusLost
        .finding(
            Severity::Fail,
            Subject::Machine,
            format!("{online} processors are online, expected {expected}"),
        )
        .values(online, expected, Some("processors"))
        .seen(format!(
            "/sys/devices/system/cpu: {counts}; ACPI MADT: {in_firmware}"
        ));
    let finding = if let Some((word, _)) = chosen.limits.iter().find(|(_, limit)| *limit < expected)
    {
        finding
            .because(Reason::LimitedByWord(word.as_str().into()))
            .seen(format!("/proc/cmdline: {word}"))
    } else if limited() {
        finding.because(Reason::ProcessorLimit)
    } else if X2APIC.iter().any(|w| says(w))
        || (online <= WITHOUT_X2APIC && expected > WITHOUT_X2APIC)
    {
        finding.because(Reason::NoX2apic)
    } else {
        finding
    };
    Judgement::by(finding.seen_all(log))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcome::Outcome;

    fn judge(cpus: Cpus, firmware: Option<usize>, log: Vec<String>) -> Judgement {
        super::judge(cpus, firmware, &Chosen::default(), log)
    }

    fn chosen(line: &str, smt: Option<&str>) -> Chosen {
        Chosen::of(&cmdline::words(line), smt)
    }

    fn cpus(possible: usize, present: usize, online: usize) -> Cpus {
        Cpus {
            possible,
            present,
            online,
        }
    }

    #[test]
    fn equal_counts_pass_with_or_without_the_firmwares() {
        assert_eq!(
            judge(cpus(8, 8, 8), Some(8), vec![]).summary,
            "8 of 8 online"
        );
        let said = judge(cpus(8, 8, 8), None, vec![]);
        assert_eq!(
            (said.outcome(), &said.unchecked[..]),
            (Outcome::Pass, &[Code::CpusLost][..])
        );
    }

    #[test]
    fn each_count_that_differs_fails() {
        for (counts, firmware) in [
            (cpus(8, 8, 7), None),
            (cpus(9, 8, 8), None),
            (cpus(8, 8, 8), Some(9)),
            (cpus(8, 8, 7), Some(7)),
        ] {
            let said = judge(counts, firmware, vec![]);
            assert!(
                said.outcome() == Outcome::Fail && said.findings[0].is(Code::CpusLost),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn empty_sockets_are_no_loss_when_the_firmware_reports_them() {
        assert_eq!(
            judge(cpus(258, 2, 2), Some(2), vec![]).outcome(),
            Outcome::Pass
        );
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
        assert_eq!(
            judge(cpus(384, 384, 255), None, vec![]).findings[0].reason,
            Some(Reason::NoX2apic)
        );
    }

    #[test]
    fn a_kernel_for_fewer_processors_is_distinguished_from_x2apic() {
        let line = "kmsg: APIC: NR_CPUS/possible_cpus limit of 8 reached. Processor 8/0x8 ignored."
            .to_owned();
        let said = judge(cpus(8, 8, 8), Some(16), vec![line]);
        assert_eq!(said.findings[0].reason, Some(Reason::ProcessorLimit));
    }

    #[test]
    fn newer_kernels_words_about_a_limit_are_known() {
        for text in [
            "APIC: CPU limit of 8 reached",
            "CPU topo: CPU limit of 8 reached. Ignoring further CPUs",
        ] {
            let said = judge(cpus(8, 8, 8), Some(16), vec![format!("kmsg: {text}")]);
            assert_eq!(
                said.findings[0].reason,
                Some(Reason::ProcessorLimit),
                "{text}"
            );
        }
    }

    #[test]
    fn a_kernel_word_that_limits_the_processors_is_named() {
        for word in ["nr_cpus=8", "maxcpus=8", "possible_cpus=8"] {
            let said = super::judge(
                cpus(64, 64, 8),
                Some(64),
                &chosen(&format!("ro {word} quiet"), None),
                vec![],
            );
            assert_eq!(said.outcome(), Outcome::Fail);
            let (cause, remedy) = (
                said.findings[0].shown_cause(),
                said.findings[0].shown_remedy(),
            );
            assert!(
                cause.contains(word) && remedy.contains(&format!("remove `{word}`")),
                "{cause}; {remedy}"
            );
        }
    }

    #[test]
    fn a_limit_that_all_processors_fit_into_is_not_the_cause() {
        let said = super::judge(
            cpus(64, 64, 63),
            Some(64),
            &chosen("nr_cpus=512", None),
            vec![],
        );
        assert_eq!(said.findings[0].reason, None);
    }

    #[test]
    fn threads_that_are_switched_off_are_the_users_choice_and_other_missing_processors_are_not() {
        let off = |line, smt, counts, firmware| {
            super::judge(counts, firmware, &chosen(line, smt), vec![])
        };
        let said = off("ro nosmt", Some("off"), cpus(64, 64, 32), Some(64));
        assert_eq!(
            (said.outcome(), said.findings[0].severity),
            (Outcome::Pass, Severity::Info)
        );
        assert_eq!(
            said.summary,
            "32 of 64 processors are online: the others are threads that nosmt switches off"
        );
        assert_eq!(
            off("ro", Some("forceoff"), cpus(64, 64, 32), None).outcome(),
            Outcome::Pass
        );
        for (smt, counts, firmware) in [
            (Some("on"), cpus(64, 64, 32), Some(64)),
            (None, cpus(64, 64, 32), Some(64)),
            (Some("off"), cpus(64, 64, 31), Some(64)),
            (Some("off"), cpus(64, 64, 32), Some(128)),
        ] {
            assert_eq!(
                off("nosmt", smt, counts, firmware).outcome(),
                Outcome::Fail,
                "{smt:?} {counts:?} {firmware:?}"
            );
        }
    }
}
