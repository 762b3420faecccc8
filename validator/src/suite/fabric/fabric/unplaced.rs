//! BARs of GPUs without an address, from the kernel's log: it shows those of which the kernel keeps nothing else, and it is the
//! evidence for those that reading the fabric has found.

use machine::host::faults::{NoRoom, no_room};
use machine::host::kmsg::Line;
use machine::pcie::model::{Device, Fabric};
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use outcome::text::size;

/// Maximum number of lines of the log.
const MOST: usize = 8;

/// Adds the lines to the finding about their GPU, or a finding where there is none.
pub(super) fn add(findings: &mut Vec<Finding>, fabric: &Fabric, lines: &[Line]) {
    let all = no_room(lines);
    let gpus = fabric
        .devices
        .iter()
        .filter(|device| fabric.gpus.contains(&device.bdf) && !device.config.gone);
    for gpu in gpus {
        let own: Vec<_> = all
            .iter()
            .filter(|line| line.concerns(gpu) && !line.has_address(gpu))
            .collect();
        let Some(first) = own.first() else { continue };
        let seen = own
            .iter()
            .take(MOST)
            .map(|line| format!("kmsg: {}", line.line));
        let about = Subject::from(gpu.bdf);
        let known = findings
            .iter_mut()
            .find(|finding| finding.is(Code::RebarNoRoom) && finding.subject == about);
        if let Some(known) = known {
            known.evidence.extend(seen);
        } else {
            findings.push(finding(gpu, first, &own).seen_all(seen.collect()));
        }
    }
}

fn finding(gpu: &Device, first: &NoRoom<'_>, own: &[&NoRoom<'_>]) -> Finding {
    let same = || own.iter().filter(|line| line.bar() == first.bar());
    let bytes = same().filter_map(|line| line.bytes()).max();
    let wanted = bytes.map_or_else(String::new, |bytes| format!(" ({})", size(bytes)));
    let message = format!(
        "{} has no address for BAR{}{wanted}: kmsg: {}",
        gpu.bdf,
        first.bar(),
        first.line
    );
    let finding = Code::RebarNoRoom.finding(Severity::Fail, gpu.bdf, message);
    if same().any(|line| line.is_plain()) {
        finding.because(Reason::PlainBarUnplaced(bytes))
    } else {
        finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use machine::host::kmsg::sample as log;
    use machine::pcie::model::Bar;

    const PLAIN: &str = "pci 0000:10:00.0: BAR 0 [mem size 0x04000000]: can't assign; no space";
    const WIDE: &str =
        "pci 0000:10:00.0: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space";
    const DRIVER: &str = "NVRM: BAR0 is 0M @ 0x0 (PCI:0000:10:00.0)";

    fn said(lines: &[&str], start: u64) -> Vec<Finding> {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, gpu).bars = [0, 1]
            .map(|index| Bar {
                index,
                start,
                bytes: 64 << 30,
                flags: 0x200,
            })
            .to_vec();
        let mut findings = Vec::new();
        add(&mut findings, &fabric, &log(lines));
        findings
    }

    #[test]
    fn a_gpu_alone_without_an_address_for_its_registers_fails_with_the_word_for_that_window() {
        let found = said(&[PLAIN, DRIVER], 0);
        let [finding] = &found[..] else {
            panic!("{found:?}")
        };
        assert!(finding.is(Code::RebarNoRoom) && finding.severity == Severity::Fail);
        assert_eq!(
            finding.reason,
            Some(Reason::PlainBarUnplaced(Some(64 << 20)))
        );
        assert_eq!(finding.evidence.len(), 2);
        assert!(
            finding
                .message
                .starts_with("0000:10:00.0 has no address for BAR0 (64 MiB): ")
        );
        let remedy = finding.shown_remedy();
        assert!(
            remedy.contains("pci=realloc=off") && !remedy.contains("hpmmiopref"),
            "{remedy}"
        );
    }

    #[test]
    fn a_prefetchable_bar_has_the_usual_remedy_and_a_placed_one_no_finding() {
        assert_eq!(said(&[WIDE], 0)[0].reason, None);
        assert_eq!(said(&[PLAIN, WIDE, DRIVER], 0xe000_0000), []);
    }

    #[test]
    fn the_lines_are_the_evidence_of_what_is_found_already() {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, gpu).bars = vec![];
        let mut findings = vec![Code::RebarNoRoom.finding(Severity::Fail, gpu, "known")];
        add(&mut findings, &fabric, &log(&[PLAIN]));
        assert!(
            findings.len() == 1 && findings[0].evidence.len() == 1,
            "{findings:?}"
        );
    }
}
