//! Faults in the kernel log, judged by kind: NVIDIA driver messages about GPUs, PCIe errors, machine checks,
//! accesses that an IOMMU blocked, and the kernel's own faults; and the kernel's taint flags. Pure.

mod taint;

pub use taint::{Taint, tainted};

use crate::machine::host::kmsg::Line;
use crate::machine::host::nvidia::xid::TestPhase;
use crate::machine::host::nvidia::{log, xid};
use crate::outcome::finding::{Code, Finding, Reason, Recovery, Severity, Subject};

/// Maximum number of evidence lines in a finding.
const MOST: usize = 10;

/// Every fault in `lines`: one finding per GPU and Xid number, and one per kind of other faults.
#[must_use]
pub fn faults(lines: &[Line], when: TestPhase) -> Vec<Finding> {
    let mut found = xids(lines, when);
    found.extend(
        KINDS.iter().filter(|kind| when == TestPhase::During || kind.before).filter_map(|k| k.finding(lines, when)),
    );
    apply_driver_action(&mut found, lines);
    found
}

/// The newest action that the driver asks for applies to all errors of its GPU.
fn apply_driver_action(found: &mut [Finding], lines: &[Line]) {
    for xid in log::xids(lines) {
        let Some(action) = xid::changed_to(xid.line) else { continue };
        let gpu = subject(xid.gpu);
        let about = |f: &Finding| gpu.address().map_or(f.subject == gpu, |address| f.subject.is_at(address));
        for finding in found.iter_mut().filter(|f| f.recovery.is_some() && about(f)) {
            finding.recovery = Some(action);
            finding.reason = match finding.reason.take() {
                kept if action == Recovery::None => kept,
                Some(Reason::Xid(source, _)) => Some(Reason::Xid(source, Some(action))),
                _ => Some(Reason::DriverAsks(action)),
            };
        }
    }
}

/// What a line names: a PCI address with or without a function, or the machine.
fn subject(named: &str) -> Subject {
    let Ok(subject) = named.parse();
    subject
}

/// The finding if records of the log were overwritten before they could be read.
#[must_use]
pub fn lost(records: u64) -> Finding {
    let message = format!("{records} records of the kernel log were lost before they were read");
    Code::KmsgLost.finding(Severity::Warn, Subject::Machine, message).values(records, 0, Some("records"))
}

fn xids(lines: &[Line], when: TestPhase) -> Vec<Finding> {
    let mut groups: Vec<Vec<log::Xid<'_>>> = Vec::new();
    for xid in log::xids(lines) {
        let same = |g: &&mut Vec<log::Xid<'_>>| g.iter().any(|x| (x.gpu, x.number) == (xid.gpu, xid.number));
        match groups.iter_mut().find(same) {
            Some(group) => group.push(xid),
            None => groups.push(vec![xid]),
        }
    }
    groups.iter().filter_map(|group| of_one(group, when)).collect()
}

/// One finding per GPU and number, however often it occurred. A line without a number counts as the worst.
fn of_one(group: &[log::Xid<'_>], when: TestPhase) -> Option<Finding> {
    let first = group.first()?;
    let lines: Vec<_> = group.iter().map(|x| x.line).collect();
    let meaning = xid::meaning_of(first.number, &lines);
    let severity = if first.number == 0 { Severity::Fail } else { xid::severity(meaning.fault, when) };
    let times = if group.len() == 1 { String::new() } else { format!(", {} times", group.len()) };
    let words = if meaning.words.is_empty() { String::new() } else { format!(" ({})", meaning.words) };
    let message = format!("Xid {} on {}{words}{times}", first.number, first.gpu);
    let seen = group.iter().take(MOST).map(|x| format!("kmsg: {}", x.line)).collect();
    let finding = Code::GpuXid.finding(severity, subject(first.gpu), message).seen_all(seen);
    let finding = finding.values(group.len(), 0, Some("lines")).recovery(meaning.recovery);
    Some(finding.because(Reason::Xid(meaning.fault, meaning.recovery)))
}

/// A kind of fault that is recognized by words.
struct LogFaultKind {
    code: Code,
    /// Whether lines from before the tests count too.
    before: bool,
    /// The severity of a line; `None` if it is not of this kind.
    judge: fn(&str) -> Option<Severity>,
}

/// The words are those of NVIDIA's open kernel modules and of the kernel's drivers/pci/pcie/{aer,dpc}.c,
/// drivers/pci/hotplug/pciehp_ctrl.c, drivers/iommu/{amd,intel/dmar.c}, arch/x86/kernel/cpu/mce,
/// arch/x86/kernel/nmi.c, drivers/edac, drivers/acpi/apei/ghes.c, kernel/{hung_task,watchdog,panic}.c,
/// mm/page_alloc.c, mm/memory.c and kernel/rcu.
const KINDS: &[LogFaultKind] = &[
    LogFaultKind { code: Code::GpuGone, before: true, judge: gone },
    LogFaultKind {
        code: Code::GpuInit,
        before: true,
        judge: |l| has(l, &["RmInitAdapter failed"]).then_some(Severity::Fail),
    },
    LogFaultKind { code: Code::NvswitchSxid, before: true, judge: sxid },
    LogFaultKind { code: Code::DriverFault, before: false, judge: driver },
    LogFaultKind { code: Code::PcieAer, before: false, judge: pcie },
    LogFaultKind { code: Code::IommuFault, before: false, judge: iommu },
    LogFaultKind { code: Code::MachineCheck, before: false, judge: machine_check },
    LogFaultKind { code: Code::KernelFault, before: false, judge: kernel },
];

impl LogFaultKind {
    fn finding(&self, lines: &[Line], when: TestPhase) -> Option<Finding> {
        let bad = lines.iter().filter_map(|line| Some(((self.judge)(&line.text)?, &line.text)));
        let bad: Vec<_> = bad.filter(|(_, text)| when == TestPhase::During || !text.contains("NVRM: Xid")).collect();
        let severity = self.overall(bad.iter().map(|(severity, _)| *severity).max()?, &bad);
        let worst = bad.iter().find(|(s, _)| *s == severity).or(bad.first()).map(|(_, text)| *text)?;
        let during = if when == TestPhase::During { "while the test ran: " } else { "" };
        let subject = address(worst).map_or(Subject::Machine, subject);
        let finding = self.code.finding(severity, subject, format!("{during}kmsg: {worst}"));
        Some(finding.seen_all(bad.iter().take(MOST).map(|(_, text)| format!("kmsg: {text}")).collect()))
    }

    /// A machine check is reported in several lines, of which only some say that it was corrected.
    fn overall(&self, worst: Severity, lines: &[(Severity, &String)]) -> Severity {
        let any = |words: &[&str]| lines.iter().any(|(_, text)| has(&text.to_lowercase(), words));
        let bad = ["uncorrected", "fatal", "recoverable", "deferred", " ue ", "exception"];
        let corrected = self.code == Code::MachineCheck && any(&["corrected", " ce "]) && !any(&bad);
        if corrected { Severity::Warn } else { worst }
    }
}

fn has(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.contains(word))
}

fn gone(line: &str) -> Option<Severity> {
    has(line, &["fallen off the bus", "GPU is lost"]).then_some(Severity::Fail)
}

/// `nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 ..`
fn sxid(line: &str) -> Option<Severity> {
    let mild = has(&line.to_lowercase(), &["non-fatal", "correctable"]);
    line.contains("SXid (").then_some(if mild { Severity::Warn } else { Severity::Fail })
}

/// Assertions of the driver, and its messages about failing firmware (GSP). A failed check is less severe:
/// the driver continues in another way.
fn driver(line: &str) -> Option<Severity> {
    if !line.contains("NVRM") || line.contains("NVRM: Xid") {
        return None;
    }
    if has(line, &["nvAssert", "Assertion failed"]) {
        return Some(Severity::Fail);
    }
    let low = line.to_lowercase();
    let fails = ["timeout", "timed out", "crash", "halt", "panic", "exception", "error", "fail"];
    if line.contains("GSP") && has(&low, &fails) {
        return Some(Severity::Fail);
    }
    has(line, &["nvCheck", "Check failed"]).then_some(Severity::Warn)
}

fn pcie(line: &str) -> Option<Severity> {
    let reported = has(line, &["PCIe Bus Error:", "AER: ", "DPC: containment event"]) && !line.contains("AER: enabled");
    let dropped = line.contains("pciehp") && has(line, &["Link Down", "Card not present"]);
    let bad = has(line, &["ncorrect", "Fatal", "recovery failed", "DPC: "]) || dropped;
    (reported || dropped).then_some(if bad { Severity::Fail } else { Severity::Warn })
}

fn iommu(line: &str) -> Option<Severity> {
    has(line, &["IO_PAGE_FAULT", "DMAR: [DMA", "DMAR: DRHD: handling fault"]).then_some(Severity::Fail)
}

fn machine_check(line: &str) -> Option<Severity> {
    let edac = line.contains("EDAC") && has(line, &[" UE ", " CE "]);
    let reported = has(line, &["[Hardware Error]", "Machine check", "Machine Check"]);
    // The chipset reports a PCI or memory error by a non-maskable interrupt. One without a reason may be a
    // hardware error too, but it may also come from a performance counter or a button.
    let nmi = has(line, &["NMI: PCI system error (SERR)", "NMI: IOCK error"]);
    let unexplained = line.contains("NMI received for unknown reason");
    (edac || reported || nmi).then_some(Severity::Fail).or(unexplained.then_some(Severity::Warn))
}

fn kernel(line: &str) -> Option<Severity> {
    let words = [
        "blocked for more than",
        "soft lockup",
        "hard LOCKUP",
        "self-detected stall",
        "detected stalls on CPUs",
        "BUG: unable to handle",
        "BUG: kernel NULL pointer",
        "kernel BUG at",
        "Oops: ",
        "general protection fault, ",
        "BUG: Bad page state",
        "BUG: Bad page map",
    ];
    // One of the kernel's own checks failed and the kernel continues: "WARNING: CPU: 3 PID: 812 at ..".
    let warned = line.starts_with("WARNING: ") && has(line, &["CPU: ", "CPU#"]);
    has(line, &words).then_some(Severity::Fail).or(warned.then_some(Severity::Warn))
}

/// The first PCI address in a line: `0000:41:00.0`, or `0000:41:00` as in Xid lines.
fn address(line: &str) -> Option<&str> {
    let words = line.split(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.');
    let mut plain = words.map(|word| word.trim_matches([':', '.']));
    plain.find(|word| {
        let parts: Vec<_> = word.split([':', '.']).collect();
        word.matches(':').count() == 2 && matches!(parts[..], [d, b, ..] if d.len() >= 4 && b.len() == 2)
    })
}

#[cfg(test)]
mod tests;
