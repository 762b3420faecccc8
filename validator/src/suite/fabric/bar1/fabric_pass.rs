//! The findings of the Resizable BAR pass about each GPU, from the fabric pass's journal: why BAR1 is small,
//! or that the pass enlarged it.

use super::PeerMechanism;
use fabric::journal::{Journal, KeptFinding};
use machine::pcie::model::Device;
use machine::root::Root;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::{Judgement, Outcome};

/// The pass's findings about BARs. Without a journal the pass did not run.
pub(super) fn read(root: &Root) -> Vec<Finding> {
    match Journal::of(root) {
        Ok(journal) => {
            let kept = journal.map(|j| j.findings).unwrap_or_default();
            kept.into_iter()
                .filter_map(KeptFinding::into_finding)
                .collect()
        }
        Err(why) => {
            let message = format!("the results of the fabric pass are unknown: {why}");
            vec![Code::SysUnreadable.finding(Severity::Warn, Subject::Machine, message)]
        }
    }
}

/// Adds the pass's findings to the judgement. Where peers do not use BAR1, its size is not a fault; a GPU whose BAR1 has no
/// address, or whose registers the pass could not repair, always fails.
pub(super) fn with_pass_findings(
    judgement: Judgement,
    findings: Vec<Finding>,
    gpus: &[(&Device, PeerMechanism)],
) -> Judgement {
    let native = |f: &Finding| {
        let placed = |gpu: &Device| gpu.aperture().is_some_and(|bar| bar.start != 0);
        let harmless =
            |(gpu, mechanism): &(&Device, _)| *mechanism == PeerMechanism::Native && placed(gpu);
        gpus.iter()
            .any(|gpu| harmless(gpu) && Subject::from(gpu.0.bdf) == f.subject)
    };
    let weighed = findings.into_iter().map(|mut finding| {
        if native(&finding) && !finding.is(Code::RebarBroken) {
            finding.severity = Severity::Info;
        }
        finding
    });
    let more: Vec<_> = weighed.collect();
    let worst = more
        .iter()
        .rev()
        .filter(|f| f.severity > Severity::Info)
        .max_by_key(|f| f.severity);
    let summary = worst
        .filter(|_| judgement.outcome() == Outcome::Pass)
        .map(|f| f.message.to_string());
    let mut judgement = judgement.with(more);
    judgement.summary = summary.unwrap_or(judgement.summary);
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use machine::host::nvidia::fixture::machine;
    use machine::pcie::model::Bdf;

    fn findings(code: Code, severity: Severity) -> Vec<Finding> {
        vec![code.finding(
            severity,
            Bdf {
                domain: 0,
                bus: 0x10,
                device: 0,
                function: 0,
            },
            "said",
        )]
    }

    fn after(findings: Vec<Finding>, mechanism: PeerMechanism) -> Judgement {
        let fabric = fixture::machine(1);
        let gpus: Vec<_> = fabric
            .devices
            .iter()
            .filter(|d| fabric.gpus.contains(&d.bdf))
            .map(|d| (d, mechanism))
            .collect();
        with_pass_findings(Judgement::of("1 GPU: 32 GiB", vec![]), findings, &gpus)
    }

    #[test]
    fn the_passs_findings_are_added_to_the_measured_ones() {
        let said = after(
            findings(Code::RebarResized, Severity::Info),
            PeerMechanism::Bar1,
        );
        assert_eq!(
            (said.outcome(), said.findings.len(), said.summary.as_str()),
            (Outcome::Pass, 1, "1 GPU: 32 GiB")
        );
        let said = after(
            findings(Code::RebarNoRoom, Severity::Fail),
            PeerMechanism::Bar1,
        );
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (Outcome::Fail, "said")
        );
    }

    #[test]
    fn without_peers_through_bar1_only_a_broken_gpu_counts() {
        assert_eq!(
            after(
                findings(Code::RebarNoRoom, Severity::Fail),
                PeerMechanism::Native
            )
            .outcome(),
            Outcome::Pass
        );
        assert_eq!(
            after(
                findings(Code::RebarBroken, Severity::Error),
                PeerMechanism::Native
            )
            .outcome(),
            Outcome::Error
        );
    }

    #[test]
    fn a_bar1_without_an_address_counts_whatever_the_mechanism() {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, gpu).bars.clear();
        let gpus: Vec<_> = fabric
            .devices
            .iter()
            .filter(|d| d.bdf == gpu)
            .map(|d| (d, PeerMechanism::Native))
            .collect();
        let passed = Judgement::of("1 GPU: 32 GiB", vec![]);
        let said = with_pass_findings(passed, findings(Code::RebarNoRoom, Severity::Fail), &gpus);
        assert_eq!(said.outcome(), Outcome::Fail);
    }

    #[test]
    fn the_journal_is_read_and_a_damaged_one_warns() {
        let dir = machine(&[("run/firstlight/fabric.json", "{")]);
        let root = Root::new(dir.path());
        let [finding] = &read(&root)[..] else {
            panic!("one")
        };
        assert!(finding.is(Code::SysUnreadable) && finding.severity == Severity::Warn);
        let findings = findings(Code::RebarNoRoom, Severity::Warn);
        let journal = Journal {
            findings: findings.iter().map(KeptFinding::of).collect(),
            ..Journal::new(root.path())
        };
        journal.save(&Journal::place(&root).unwrap()).unwrap();
        assert_eq!(read(&root), findings);
        assert_eq!(read(&Root::new(machine(&[]).path())), vec![]);
    }
}
