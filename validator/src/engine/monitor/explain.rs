//! Explains failures by causes that the test could not see. One table per cause lists the findings that it
//! explains; all other findings are unchanged, especially wrong data. Pure.

use super::change;
use super::users::OtherUsers;
use crate::gpu::GpuStatus;
use crate::machine::GpuId;
use crate::outcome::finding::{Code, Finding, Recovery, Severity};
use crate::outcome::{Judgement, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of evidence lines.
const MAX_EVIDENCE: usize = 16;

/// Findings that a lost GPU explains: they are not open questions, because the machine has failed.
const AFTER_LOSS: &[Code] = &[
    Code::CudaStart,
    Code::CudaError,
    Code::GpuCountCuda,
    Code::GpuInUse,
    Code::NcclError,
    Code::NcclUnproven,
    Code::P2pChecker,
    Code::P2pNoisy,
    Code::TestCrashed,
    Code::TestTimeout,
];

/// Performance and progress findings that a load on the same GPU explains.
const BY_LOAD: &[Code] = &[
    Code::GpuThrottled,
    Code::HostSlow,
    Code::NcclHang,
    Code::NcclP2pSlower,
    Code::NcclSlow,
    Code::P2pAsymmetric,
    Code::P2pCollapse,
    Code::P2pHang,
    Code::P2pLatency,
    Code::P2pNoisy,
    Code::P2pSlow,
    Code::P2pStaged,
    Code::TestTimeout,
];

/// Findings that no load explains, whatever their text.
const NOT_BY_LOAD: &[Code] = &[
    Code::GpuEcc,
    Code::GpuGone,
    Code::GpuNeedsRecovery,
    Code::GpuXid,
    Code::HostWrongData,
    Code::NcclStray,
    Code::NcclWrongData,
    Code::P2pAtomics,
    Code::P2pOrder,
    Code::P2pStray,
    Code::P2pWrongData,
];

fn is_one_of(finding: &Finding, codes: &[Code]) -> bool {
    codes.iter().any(|code| finding.is(*code))
}

fn is_bad(finding: &Finding) -> bool {
    matches!(finding.severity, Severity::Fail | Severity::Error)
}

/// Whether a finding's text or evidence contains one of `words`, which are in lower case.
fn mentions(finding: &Finding, words: &[&str]) -> bool {
    let mut lines = finding.evidence.iter().chain([&finding.message]).map(|line| line.to_lowercase());
    lines.any(|line| words.iter().any(|word| line.contains(word)))
}

/// Whether it reports a lost GPU.
pub(super) fn is_loss(finding: &Finding) -> bool {
    finding.is(Code::GpuGone) && finding.severity == Severity::Fail
}

/// Whether it reports that work on the GPUs did not finish.
pub(super) fn is_hang(finding: &Finding) -> bool {
    is_one_of(finding, &[Code::P2pHang, Code::NcclHang, Code::TestTimeout])
}

/// An Xid error that programs can cause has an unknown origin, unless the test has failed: then it belongs to
/// that failure.
pub(super) fn attribute_xids(judgement: &Judgement, mut kernel: Vec<Finding>) -> Vec<Finding> {
    if judgement.outcome() == Outcome::Fail {
        for finding in kernel.iter_mut().filter(|f| f.is(Code::GpuXid) && f.severity == Severity::Error) {
            finding.severity = Severity::Fail;
        }
    }
    kernel
}

/// The judgement after a GPU was lost; `lost` gives each with the test during which it was noticed.
pub(super) fn by_loss(judgement: Judgement, lost: &BTreeMap<String, String>) -> Judgement {
    let gpus: Vec<_> = lost.iter().map(|(gpu, test)| format!("{gpu} was lost while {test} ran")).collect();
    let why = format!("GPU {}", gpus.join(", GPU "));
    let mut findings = judgement.findings.clone();
    for finding in findings.iter_mut().filter(|f| f.severity == Severity::Error && is_one_of(f, AFTER_LOSS)) {
        finding.severity = Severity::Fail;
        finding.cause.clone_from(&why);
        finding.remedy = Code::GpuGone.entry().remedy.to_owned();
        finding.recovery = Some(Recovery::RebootNode);
    }
    let reported = findings.iter().any(is_loss);
    let summary = if reported { judgement.summary.clone() } else { format!("{why}: {}", judgement.summary) };
    with_findings(judgement, summary, findings)
}

/// The judgement if a setting prevents tests of GPUs.
pub(super) fn by_setting(judgement: Judgement, gpus: &[GpuStatus]) -> Judgement {
    let settings = change::setting_findings(gpus);
    let unavailable = ["device_unavailable", "busy or unavailable"];
    // CUDA shows instances instead of the split GPU.
    let split = |f: &Finding| f.is(Code::GpuCountCuda) && gpus.iter().any(|g| g.mig && g.gpu.to_string() == f.subject);
    let explained = |f: &Finding| is_bad(f) && (f.is(Code::CudaStart) || split(f) || mentions(f, &unavailable));
    if settings.is_empty() || !judgement.findings.iter().any(explained) {
        return judgement;
    }
    let (hidden, mut findings): (Vec<_>, Vec<_>) = judgement.findings.iter().cloned().partition(explained);
    for mut setting in settings {
        if !findings.iter().any(|f| (&f.code, &f.subject) == (&setting.code, &setting.subject)) {
            setting.evidence = evidence_lines(&hidden);
            findings.push(setting);
        }
    }
    let worst = findings.iter().max_by_key(|f| f.severity).map_or_else(String::new, |f| f.message.clone());
    with_findings(judgement, worst, findings)
}

/// The judgement if other programs use GPUs: findings that a load explains become one finding that names the
/// programs. If a failure remains, that finding is only a warning, so that it does not hide the failure.
pub(super) fn by_users(judgement: Judgement, others: &OtherUsers) -> Judgement {
    // In a test that ran out of memory, that is also the reason for its failed calls.
    let short = judgement.findings.iter().any(|f| by_memory(f) && !in_use(f, others).is_empty());
    let follows = |f: &Finding| short && f.severity == Severity::Error && f.is(Code::CudaError);
    let by_others = |f: &Finding| (is_one_of(f, BY_LOAD) || by_memory(f)) && !in_use(f, others).is_empty();
    let explained = |f: &Finding| is_bad(f) && !is_one_of(f, NOT_BY_LOAD) && (by_others(f) || follows(f));
    if !judgement.findings.iter().any(explained) {
        return judgement;
    }
    let (hidden, mut findings): (Vec<_>, Vec<_>) = judgement.findings.iter().cloned().partition(explained);
    let gpus: BTreeSet<GpuId> = hidden.iter().flat_map(|f| in_use(f, others)).collect();
    let users = |gpu: &GpuId| {
        let names = others.on.get(gpu).into_iter().flatten().cloned().collect::<Vec<_>>().join(", ");
        format!("GPU {gpu} is in use by {names}")
    };
    let users = gpus.iter().map(users).collect::<Vec<_>>().join("; ");
    let first = hidden.first().map_or("", |f| f.message.as_str());
    let stays = findings.iter().any(|f| f.severity == Severity::Fail);
    let severity = if stays { Severity::Warn } else { Severity::Error };
    let message = format!("cannot be judged: {users}; seen: {first}");
    let subject = gpus.iter().map(|g| format!("GPU {g}")).collect::<Vec<_>>().join(", ");
    let summary = if stays { judgement.summary.clone() } else { message.clone() };
    findings.push(Code::GpuInUse.finding(severity, &subject, message).seen_all(evidence_lines(&hidden)));
    with_findings(judgement, summary, findings)
}

fn by_memory(finding: &Finding) -> bool {
    mentions(finding, &["out_of_memory", "out of memory"])
}

/// The GPUs of a finding that other programs use: those in its subject, or all if it names none.
fn in_use(finding: &Finding, others: &OtherUsers) -> BTreeSet<GpuId> {
    let named = named_gpus(&finding.subject);
    others.on.keys().copied().filter(|gpu| named.is_empty() || named.contains(gpu)).collect()
}

/// The GPUs that a subject names: `GPU 3`, `GPU 0 -> 1`, `GPU 0 -> GPU 1`, `GPU 0, GPU 1`.
fn named_gpus(subject: &str) -> BTreeSet<GpuId> {
    let Some((_, rest)) = subject.split_once("GPU ") else { return BTreeSet::new() };
    let words = rest.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.filter_map(|word| word.parse().ok().map(GpuId::new)).collect()
}

fn evidence_lines(findings: &[Finding]) -> Vec<String> {
    let line = |f: &Finding| format!("{} {}: {}", f.code, f.subject, f.message);
    let rest = findings.len().saturating_sub(MAX_EVIDENCE);
    let more = (rest > 0).then(|| format!("and {rest} more"));
    findings.iter().take(MAX_EVIDENCE).map(line).chain(more).collect()
}

/// The same judgement with other findings, whose severity decides the outcome.
fn with_findings(judgement: Judgement, summary: String, findings: Vec<Finding>) -> Judgement {
    let Judgement { matrices, tables, advice, effects, unchecked, .. } = judgement;
    let same = Judgement::of(summary, findings).showing(matrices).with_tables(tables);
    same.advising(advice).with_effects(effects).without_checking(&unchecked)
}
