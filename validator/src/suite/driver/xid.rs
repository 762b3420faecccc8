//! Whether the driver has logged errors since the machine started. Past Xid errors, GPUs that fell off the bus and
//! GPUs that could not be started appear only in the kernel's log. Errors that programs caused before the tests
//! are information, and so are failed starts that are over. Severe PCIe errors and blocked accesses of GPUs are information
//! too, or a warning if the loaded driver was already running. The kernel's taint flags show the kernel's own faults since
//! the start.

use crate::suite::{FILE_DEADLINE, Group, Test, TestContext};
use machine::host::faults;
use machine::host::faults::{Scene, Taint, faults, tainted};
use machine::host::kmsg::Line;
use machine::host::nvidia::log;
use machine::host::nvidia::xid::TestPhase;
use outcome::Judgement;
use outcome::finding::{Code, FaultSource, Finding, Reason, Severity};
use outcome::test;
use outcome::text::count;
use report::Level;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::XID,
    title: "Xid errors",
    proves: "as far back as the kernel's log goes, the driver lost no GPU and reported no Xid errors except those that programs cause",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: false,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    // Flags that cannot be read are reported by the watch that runs during all tests.
    let taint = Taint::read(&context.root)
        .ok()
        .and_then(|taint| tainted(taint, TestPhase::Before));
    Ok(with_taint(logged(context)?, taint))
}

fn logged(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    // Lines count even if no GPU is left on the bus: they show why.
    let judgement = judge(
        context.log.as_deref().unwrap_or_default(),
        context.log_lost,
        &scene(context),
    );
    if judgement.findings.is_empty() {
        if context.fabric()?.gpus.is_empty() {
            return Ok(Judgement::not_applicable("no NVIDIA GPU"));
        }
        context.log()?;
    }
    Ok(judgement)
}

/// Whose devices the lines may be about, and which GPUs work. The driver knows the identity of a GPU that it has started, and
/// NVML answers about one that runs; it is asked only if the log has a failed start.
fn scene(context: &TestContext) -> Scene {
    let loaded = context.nvidia.loaded.as_ref().is_ok_and(Option::is_some);
    let gpus = context.nvidia.gpus.iter().flatten();
    let known = gpus
        .filter(|(_, gpu)| gpu.uuid.is_some())
        .filter_map(|(address, _)| address.parse().ok());
    let failed = context
        .log
        .iter()
        .flatten()
        .any(|line| line.text.contains("RmInitAdapter failed"));
    let by_nvml = (failed && loaded).then(|| context.bar1_by_gpu());
    let by_nvml = by_nvml.as_deref().and_then(|answers| answers.as_ref().ok());
    let answers = by_nvml
        .into_iter()
        .flatten()
        .filter(|(_, bar1)| bar1.is_ok())
        .map(|(gpu, _)| *gpu)
        .collect();
    Scene::of(context.fabric.as_ref().ok()).with_driver(loaded, known.collect(), answers)
}

fn judge(lines: &[Line], missing: u64, scene: &Scene) -> Judgement {
    let mut findings = faults(lines, TestPhase::Before, scene);
    if missing > 0 {
        findings.push(faults::lost(missing));
    }
    let since = match log::begins(lines) {
        None => "since the machine started".to_owned(),
        Some(at) => format!(
            "since {} s after the start; older lines are gone",
            at.as_secs()
        ),
    };
    let summary = match findings.iter().max_by_key(|f| f.severity) {
        None => format!("none {since}"),
        Some(worst) if worst.severity == Severity::Info => {
            let of_program =
                |f: &&Finding| matches!(f.reason, Some(Reason::Xid(FaultSource::Program, _)));
            let by_programs = findings.iter().filter(of_program).count();
            let other = findings.len() - by_programs;
            let earlier = format!("{} that may be over", count(other, "other event"));
            match (by_programs, other) {
                (_, 0) => format!(
                    "{} caused by programs, no other {since}",
                    count(by_programs, "Xid error")
                ),
                (0, _) => format!("no Xid error, {earlier}, {since}"),
                _ => format!(
                    "{} caused by programs, and {earlier}, {since}",
                    count(by_programs, "Xid error")
                ),
            }
        }
        Some(worst) => worst.message.to_string(),
    };
    let whole = missing == 0 && !lines.is_empty() && log::begins(lines).is_none();
    Judgement::of(summary, findings).without_checking(if whole { &[] } else { &[Code::GpuXid] })
}

/// Adds the taint finding; the summary names the worst finding of both.
fn with_taint(judgement: Judgement, taint: Option<Finding>) -> Judgement {
    let Some(taint) = taint else { return judgement };
    let worst = judgement.findings.iter().map(|f| f.severity).max();
    let is_worst = taint.severity > worst.unwrap_or(Severity::Info).max(Severity::Info);
    if !is_worst {
        return judgement.with(vec![taint]);
    }
    let summary = taint.message.to_string();
    let mut worse = judgement.with(vec![taint]);
    worse.summary = summary;
    worse
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcome::Outcome;
    use outcome::finding::Subject;
    use std::time::Duration;

    fn say(first: u64, texts: &[&str]) -> Judgement {
        let line = |(seq, text): (u64, &&str)| Line {
            seq,
            at: Duration::from_secs(seq),
            text: (*text).into(),
        };
        judge(
            &(first..).zip(texts).map(line).collect::<Vec<_>>(),
            0,
            &Scene::default(),
        )
    }

    #[test]
    fn a_quiet_log_passes_and_says_how_far_back_it_goes() {
        assert_eq!(
            say(0, &["NVRM: loading NVIDIA UNIX Open Kernel Module"]).summary,
            "none since the machine started"
        );
        assert_eq!(
            say(512, &["x"]).summary,
            "none since 512 s after the start; older lines are gone"
        );
    }

    #[test]
    fn a_log_without_its_beginning_rules_no_earlier_error_out() {
        assert_eq!(say(0, &["x"]).unchecked, [] as [Code; 0]);
        for part in [
            say(512, &["x"]),
            judge(&[], 0, &Scene::default()),
            judge(&[], 3, &Scene::default()),
        ] {
            assert_eq!(with_taint(part, None).unchecked, [Code::GpuXid]);
        }
        let taint = Code::KernelTainted.finding(Severity::Warn, "machine", "an oops");
        assert_eq!(
            with_taint(say(512, &["x"]), Some(taint)).unchecked,
            [Code::GpuXid]
        );
    }

    #[test]
    fn earlier_errors_of_programs_are_information_and_hardware_errors_fail() {
        let line = "NVRM: Xid (PCI:0000:01:00): 31, pid=1, name=train, MMU Fault";
        let said = say(0, &[line]);
        assert_eq!((said.outcome(), said.findings.len()), (Outcome::Pass, 1));
        assert_eq!(
            said.summary,
            "1 Xid error caused by programs, no other since the machine started"
        );
        let said = say(
            0,
            &[
                line,
                "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
            ],
        );
        assert_eq!((said.outcome(), said.findings.len()), (Outcome::Fail, 2));
        assert!(
            said.summary.starts_with("Xid 79 on 0000:01:00"),
            "{}",
            said.summary
        );
        assert_eq!(
            say(0, &["NVRM: Xid (PCI:0000:01:00): 9999, x"]).outcome(),
            Outcome::Warn
        );
    }

    #[test]
    fn an_earlier_fault_of_the_kernel_warns_and_a_mark_of_less_is_information() {
        let taint =
            |severity| Some(Code::KernelTainted.finding(severity, Subject::Machine, "an oops"));
        let quiet = || say(0, &["NVRM: loading NVIDIA UNIX Open Kernel Module"]);
        let said = with_taint(quiet(), taint(Severity::Warn));
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (Outcome::Warn, "an oops")
        );
        let said = with_taint(quiet(), taint(Severity::Info));
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (Outcome::Pass, "none since the machine started")
        );
        let lost = say(
            0,
            &["NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."],
        );
        let said = with_taint(lost, taint(Severity::Warn));
        assert!(
            said.outcome() == Outcome::Fail && said.summary.starts_with("Xid 79"),
            "{}",
            said.summary
        );
        assert_eq!(with_taint(quiet(), None), quiet());
    }

    #[test]
    fn a_log_with_a_gap_is_not_a_pass() {
        let said = judge(&[], 3, &Scene::default());
        assert_eq!(said.outcome(), Outcome::Warn);
        assert!(said.findings[0].is(Code::KmsgLost) && !said.summary.starts_with("none"));
    }

    #[test]
    fn a_gpu_off_the_bus_or_never_started_has_its_own_code() {
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
        assert_eq!(
            say(0, &["NVRM: Xid something new"]).outcome(),
            Outcome::Fail
        );
    }
}
