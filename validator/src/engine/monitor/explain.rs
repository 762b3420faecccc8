//! Explains failures by causes that the test could not see. One table per cause lists the findings that it
//! explains; all other findings are unchanged, especially wrong data. Pure.

use super::change;
use super::users::OtherUsers;
use gpu::GpuStatus;
use machine::GpuId;
use machine::pcie::model::Bdf;
use outcome::finding::{
    ByLoad, Code, Finding, Lack, Reason, Recovery, Severity, Subject, lost_text,
};
use outcome::{Judgement, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of evidence lines.
const MAX_EVIDENCE: usize = 16;

fn is_bad(finding: &Finding) -> bool {
    matches!(finding.severity, Severity::Fail | Severity::Error)
}

/// Whether it reports a lost GPU.
pub(super) fn is_loss(finding: &Finding) -> bool {
    finding.is(Code::GpuGone) && finding.severity == Severity::Fail
}

/// Whether it reports that work on the GPUs did not finish.
pub(super) fn is_hang(finding: &Finding) -> bool {
    matches!(
        finding.code,
        Code::P2pHang | Code::NcclHang | Code::TestTimeout
    )
}

/// An Xid error that programs can cause has an unknown origin, unless the test has failed: then it belongs to
/// that failure.
pub(super) fn attribute_xids(judgement: &Judgement, mut kernel: Vec<Finding>) -> Vec<Finding> {
    if judgement.outcome() == Outcome::Fail {
        for finding in kernel
            .iter_mut()
            .filter(|f| f.is(Code::GpuXid) && f.severity == Severity::Error)
        {
            finding.severity = Severity::Fail;
        }
    }
    kernel
}

/// The judgement after a GPU was lost; `lost` gives each with the test during which it was noticed.
pub(super) fn by_loss(judgement: Judgement, lost: &BTreeMap<Bdf, String>) -> Judgement {
    let lost: Vec<_> = lost
        .iter()
        .map(|(gpu, test)| (*gpu, test.clone()))
        .collect();
    let mut findings = judgement.findings.clone();
    for finding in findings
        .iter_mut()
        .filter(|f| f.severity == Severity::Error && f.code.row().after_loss)
    {
        finding.severity = Severity::Fail;
        finding.reason = Some(Reason::GpuLost(lost.clone()));
        finding.recovery = Some(Recovery::RebootNode);
    }
    let reported = findings.iter().any(is_loss);
    let summary = if reported {
        judgement.summary.clone()
    } else {
        format!("{}: {}", lost_text(&lost), judgement.summary)
    };
    with_findings(judgement, summary, findings)
}

/// The judgement if a setting prevents tests of GPUs.
pub(super) fn by_setting(judgement: Judgement, gpus: &[GpuStatus]) -> Judgement {
    let settings = change::setting_findings(gpus);
    // CUDA shows instances instead of the split GPU.
    let split = |f: &Finding| {
        f.is(Code::GpuCountCuda)
            && gpus
                .iter()
                .any(|g| g.mig && f.subject == Subject::from(g.gpu))
    };
    let explained = |f: &Finding| {
        is_bad(f) && (f.is(Code::CudaStart) || split(f) || f.lacks == Some(Lack::Device))
    };
    if settings.is_empty() || !judgement.findings.iter().any(explained) {
        return judgement;
    }
    let (hidden, mut findings): (Vec<_>, Vec<_>) =
        judgement.findings.iter().cloned().partition(explained);
    for mut setting in settings {
        if !findings
            .iter()
            .any(|f| (f.code, &f.subject) == (setting.code, &setting.subject))
        {
            setting.evidence = evidence_lines(&hidden);
            findings.push(setting);
        }
    }
    let worst = findings
        .iter()
        .max_by_key(|f| f.severity)
        .map_or_else(String::new, |f| f.message.to_string());
    with_findings(judgement, worst, findings)
}

/// The judgement if other programs use GPUs: findings that a load explains become one finding that names the
/// programs. If a failure remains, that finding is only a warning, so that it does not hide the failure.
pub(super) fn by_users(judgement: Judgement, others: &OtherUsers) -> Judgement {
    // In a test that ran out of memory, that is also the reason for its failed calls.
    let short = judgement
        .findings
        .iter()
        .any(|f| by_memory(f) && !in_use(f, others).is_empty());
    let follows = |f: &Finding| short && f.severity == Severity::Error && f.is(Code::CudaError);
    let possible = |f: &Finding| match f.code.row().by_load {
        ByLoad::Possible => true,
        ByLoad::OnlyMemory => by_memory(f),
        ByLoad::Never => false,
    };
    let explained =
        |f: &Finding| is_bad(f) && (possible(f) && !in_use(f, others).is_empty() || follows(f));
    if !judgement.findings.iter().any(explained) {
        return judgement;
    }
    let (hidden, mut findings): (Vec<_>, Vec<_>) =
        judgement.findings.iter().cloned().partition(explained);
    let gpus: BTreeSet<GpuId> = hidden.iter().flat_map(|f| in_use(f, others)).collect();
    let users = |gpu: &GpuId| {
        let names = others
            .on
            .get(gpu)
            .into_iter()
            .flatten()
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        format!("GPU {gpu} is in use by {names}")
    };
    let users = gpus.iter().map(users).collect::<Vec<_>>().join("; ");
    let first = hidden
        .first()
        .map(|f| f.message.to_string())
        .unwrap_or_default();
    let stays = findings.iter().any(|f| f.severity == Severity::Fail);
    let severity = if stays {
        Severity::Warn
    } else {
        Severity::Error
    };
    let message = format!("cannot be judged: {users}; seen: {first}");
    let summary = if stays {
        judgement.summary.clone()
    } else {
        message.clone()
    };
    findings.push(
        Code::GpuInUse
            .finding(severity, Subject::gpus(gpus), message)
            .seen_all(evidence_lines(&hidden)),
    );
    with_findings(judgement, summary, findings)
}

fn by_memory(finding: &Finding) -> bool {
    finding.lacks == Some(Lack::Memory)
}

/// The GPUs of a finding that other programs use: those in its subject, or all if it names none.
fn in_use(finding: &Finding, others: &OtherUsers) -> BTreeSet<GpuId> {
    let named = finding.subject.numbers();
    others
        .on
        .keys()
        .copied()
        .filter(|gpu| named.is_empty() || named.contains(gpu))
        .collect()
}

fn evidence_lines(findings: &[Finding]) -> Vec<String> {
    let line = |f: &Finding| format!("{} {}: {}", f.code, f.subject, f.message);
    let rest = findings.len().saturating_sub(MAX_EVIDENCE);
    let more = (rest > 0).then(|| format!("and {rest} more"));
    findings
        .iter()
        .take(MAX_EVIDENCE)
        .map(line)
        .chain(more)
        .collect()
}

/// The same judgement with other findings, whose severity decides the outcome.
fn with_findings(judgement: Judgement, summary: String, findings: Vec<Finding>) -> Judgement {
    let Judgement {
        matrices,
        tables,
        advice,
        effects,
        unchecked,
        ..
    } = judgement;
    let same = Judgement::of(summary, findings)
        .showing(matrices)
        .with_tables(tables);
    same.advising(advice)
        .with_effects(effects)
        .without_checking(&unchecked)
}
