//! Has the driver complained since the machine started? Xid errors, GPUs that fell off the bus and
//! GPUs that could not be started stand in the kernel's log, and nowhere else once they are over.

use super::{Group, Machine, READING, Test};
use crate::config::Level;
use crate::finding::{Code, Finding, Severity};
use crate::host::kmsg::{self, Line};
use crate::host::nvidia::log;
use crate::outcome::Judgement;

pub(super) const TEST: Test = Test {
    id: "xid",
    title: "Xid errors",
    proves: "as far back as the kernel's log goes, the driver reported no Xid error and lost no GPU",
    level: Level::Quick,
    deadline: READING,
    mandatory: false,
    group: Group::Host,
    run,
};

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    // Lines count also where no GPU is left on the bus: they say where it went.
    let said = judge(machine.log.as_deref().unwrap_or_default());
    if said.findings.is_empty() {
        if machine.fabric()?.gpus.is_empty() {
            return Ok(Judgement::not_applicable("no NVIDIA GPU"));
        }
        machine.log()?;
    }
    Ok(said)
}

/// Other lines than Xids that tell of a lost or a stillborn GPU, with their code. The first comes
/// in several pieces: `.. installed in this system has\x0aNVRM: fallen off the bus`.
const OTHERS: &[(Code, &str)] =
    &[(Code::GpuGone, "fallen off the bus"), (Code::GpuInit, "RmInitAdapter failed")];

fn judge(lines: &[Line]) -> Judgement {
    let mut findings = by_gpu_and_number(lines);
    for (code, words) in OTHERS {
        let lines: Vec<_> = lines.iter().filter(|l| !l.text.contains("NVRM: Xid")).cloned().collect();
        let evidence = kmsg::mentioning(&lines, &[words], 8);
        let Some(first) = evidence.first() else { continue };
        findings.push(code.finding(Severity::Fail, "nvidia", first.clone()).seen_all(evidence));
    }
    let since = match log::begins(lines) {
        None => "since the machine started".to_owned(),
        Some(at) => format!("since {} s after the start; older lines are gone", at.as_secs()),
    };
    let summary = findings.first().map_or_else(|| format!("none {since}"), |first| first.message.clone());
    Judgement::of(summary, findings)
}

/// One finding for each GPU and number, however often it came.
fn by_gpu_and_number(lines: &[Line]) -> Vec<Finding> {
    let mut groups: Vec<Vec<log::Xid<'_>>> = Vec::new();
    for xid in log::xids(lines) {
        let same = |g: &&mut Vec<log::Xid<'_>>| g.iter().any(|x| (x.gpu, x.number) == (xid.gpu, xid.number));
        match groups.iter_mut().find(same) {
            Some(group) => group.push(xid),
            None => groups.push(vec![xid]),
        }
    }
    groups.iter().filter_map(|group| finding(group)).collect()
}

fn finding(group: &[log::Xid<'_>]) -> Option<Finding> {
    let first = group.first()?;
    let times = if group.len() == 1 { String::new() } else { format!(", {} times", group.len()) };
    let message = format!("Xid {} on {}{times}", first.number, first.gpu);
    let seen = group.iter().take(8).map(|x| format!("kmsg: {}", x.line)).collect();
    let finding = Code::GpuXid.finding(Severity::Fail, first.gpu, message).seen_all(seen);
    Some(finding.values(group.len(), 0, Some("lines")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use std::time::Duration;

    fn say(first: u64, texts: &[&str]) -> Judgement {
        let line =
            |(seq, text): (u64, &&str)| Line { seq, at: Duration::from_secs(seq), text: (*text).into() };
        judge(&(first..).zip(texts).map(line).collect::<Vec<_>>())
    }

    #[test]
    fn a_quiet_log_passes_and_says_how_far_back_it_goes() {
        assert_eq!(
            say(0, &["NVRM: loading NVIDIA UNIX Open Kernel Module"]).summary,
            "none since the machine started"
        );
        assert_eq!(say(512, &["x"]).summary, "none since 512 s after the start; older lines are gone");
    }

    #[test]
    fn each_gpu_and_number_is_one_finding() {
        let said = say(
            0,
            &[
                "NVRM: Xid (PCI:0000:01:00): 31, pid=1, MMU Fault",
                "NVRM: Xid (PCI:0000:01:00): 31, pid=2, MMU Fault",
                "NVRM: Xid (PCI:0000:41:00): 31, pid=1, MMU Fault",
                "NVRM: Xid (PCI:0000:01:00): 43, pid=1",
            ],
        );
        assert_eq!(said.outcome(), Outcome::Fail);
        let told: Vec<_> = said.findings.iter().map(|f| f.message.as_str()).collect();
        assert_eq!(told, ["Xid 31 on 0000:01:00, 2 times", "Xid 31 on 0000:41:00", "Xid 43 on 0000:01:00"]);
        assert_eq!(said.findings[0].evidence.len(), 2);
    }

    #[test]
    fn a_gpu_off_the_bus_or_never_started_is_told_by_its_own_code() {
        let said = say(
            0,
            &[
                "NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.",
                "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x40:2426)",
            ],
        );
        let codes: Vec<_> = said.findings.iter().map(|f| f.code.as_str()).collect();
        assert_eq!(codes, ["GPU-GONE", "GPU-INIT"]);
    }

    #[test]
    fn a_line_that_cannot_be_understood_still_counts() {
        assert_eq!(say(0, &["NVRM: Xid something new"]).outcome(), Outcome::Fail);
    }
}
