//! Findings from NVML's data about GPUs: changes since the last look, and conditions that persist. Pure.

use super::gone;
use crate::gpu::{ComputeMode, Counted, Counter, Presence, Standing};
use crate::machine::host::nvidia::xid;
use crate::outcome::finding::{Code, Finding, Recovery, Severity};

/// The state of the GPUs is unknown.
pub(super) fn unseen(why: &str) -> Finding {
    let message = format!("the state of the GPUs is unknown: {why}");
    Code::GpuUncounted.finding(Severity::Warn, "machine", message)
}

/// Whether a finding is about a persistent condition: it is reported once.
pub(super) fn persists(finding: &Finding) -> bool {
    !finding.is(Code::GpuEcc) && (!finding.is(Code::GpuRemap) || finding.unit.is_none())
}

/// Faults in the present state of GPUs, whatever the earlier states were.
pub(super) fn conditions(now: &[Standing]) -> Vec<Finding> {
    let mut found: Vec<_> = now.iter().flat_map(of_one).chain(settings(now)).collect();
    found.extend(uncounted(now));
    found.extend(recovery_unknown(now));
    found
}

fn of_one(gpu: &Standing) -> Vec<Finding> {
    let mut found: Vec<_> = gone(gpu).into_iter().collect();
    if let Presence::Unlisted(why) = &gpu.presence {
        let message = format!("{}: NVML does not know it: {why}", name(gpu));
        found.push(Code::GpuUncounted.finding(Severity::Warn, &gpu.name(), message));
    }
    for (counter, severity, words) in [
        (Counter::RemapPending, Severity::Warn, "a row of its memory will be replaced at the next reset"),
        (
            Counter::RetirePending,
            Severity::Warn,
            "a page of its memory will be retired at the next start of the driver",
        ),
        (Counter::RemapFailed, Severity::Fail, "a bad row of its memory could not be replaced"),
    ] {
        if matches!(gpu.counted.get(&counter), Some(Counted::At(1..))) {
            let message = format!("{}: {words}", name(gpu));
            let replace = (counter == Counter::RemapFailed).then_some(Recovery::Replace);
            let finding = Code::GpuRemap.finding(severity, &gpu.name(), message).recovery(replace);
            found.push(finding.seen(format!("NVML: {counter:?}")));
        }
    }
    found.extend(needs_recovery(gpu));
    found
}

/// The driver reports that the GPU must be recovered before it can be relied on.
fn needs_recovery(gpu: &Standing) -> Option<Finding> {
    let Counted::At(number @ 1..) = gpu.recovery else { return None };
    let action = Recovery::of_driver(number);
    let asks = action.map_or("the driver asks for an action that this version does not know", xid::demand);
    let message = format!("{}: {asks}", name(gpu));
    let finding = Code::GpuNeedsRecovery.finding(Severity::Fail, &gpu.name(), message);
    let finding = finding.values(action.map_or_else(|| number.to_string(), |a| a.to_string()), "none", None);
    let finding = finding.recovery(action).seen(format!("NVML: GPU recovery action {number}"));
    Some(action.and_then(xid::remedy).into_iter().fold(finding, Finding::remedy))
}

/// GPUs for which the driver does not report whether they must be recovered, in one finding.
fn recovery_unknown(now: &[Standing]) -> Option<Finding> {
    let here = || now.iter().filter(|gpu| gpu.presence == Presence::Here);
    if let Some((gpu, why)) =
        here().find_map(|gpu| if let Counted::Unread(why) = &gpu.recovery { Some((gpu, why)) } else { None })
    {
        let message = format!("{}: whether it needs recovery could not be read: {why}", name(gpu));
        return Some(Code::GpuNeedsRecovery.finding(Severity::Warn, &gpu.name(), message));
    }
    let old = here().filter(|gpu| gpu.recovery == Counted::Unsupported).map(Standing::name);
    let gpus = old.collect::<Vec<_>>().join(", ");
    let message = format!("the driver does not report whether GPUs need recovery: {gpus}");
    (!gpus.is_empty()).then(|| Code::GpuNeedsRecovery.finding(Severity::Info, "machine", message))
}

/// Settings that prevent tests of GPUs, each with all GPUs that have it.
pub(super) fn settings(now: &[Standing]) -> Vec<Finding> {
    type Has = fn(&Standing) -> bool;
    let kinds: [(Code, Has, &str); 3] = [
        (Code::GpuMig, |gpu| gpu.mig, "split into instances (MIG is on)"),
        (
            Code::GpuComputeMode,
            |gpu| gpu.mode == ComputeMode::Exclusive,
            "set to serve one process at a time (compute mode EXCLUSIVE_PROCESS)",
        ),
        (
            Code::GpuComputeMode,
            |gpu| gpu.mode == ComputeMode::Prohibited,
            "set to serve no process (compute mode PROHIBITED)",
        ),
    ];
    let of = |(code, has, words): (Code, fn(&Standing) -> bool, &str)| {
        let gpus: Vec<_> = now.iter().filter(|gpu| has(gpu)).map(Standing::name).collect();
        let be = if gpus.len() == 1 { "is" } else { "are" };
        let gpus = gpus.join(", ");
        (!gpus.is_empty()).then(|| code.finding(Severity::Error, &gpus, format!("{gpus} {be} {words}")))
    };
    kinds.into_iter().filter_map(of).collect()
}

/// GPUs without memory error counters, in one finding.
fn uncounted(now: &[Standing]) -> Option<Finding> {
    let ecc = [Counter::VolatileUncorrected, Counter::AggregateUncorrected];
    let lacks = |gpu: &&Standing| ecc.iter().all(|c| gpu.counted.get(c) == Some(&Counted::Unsupported));
    let lacking: Vec<_> = now.iter().filter(lacks).map(Standing::name).collect();
    let unread = now.iter().filter_map(|gpu| {
        let why =
            gpu.counted.values().find_map(|c| if let Counted::Unread(why) = c { Some(why) } else { None })?;
        Some((gpu, why))
    });
    if let Some((gpu, why)) = unread.into_iter().next() {
        let message = format!("{}: its memory errors could not be read: {why}", name(gpu));
        return Some(Code::GpuUncounted.finding(Severity::Warn, "machine", message));
    }
    let message = format!("memory errors are not counted (no ECC): {}", lacking.join(", "));
    (!lacking.is_empty()).then(|| Code::GpuUncounted.finding(Severity::Info, "machine", message))
}

/// The errors that GPUs have counted since `before`.
pub(super) fn since(before: &[Standing], now: &[Standing]) -> Vec<Finding> {
    let pairs = now.iter().filter_map(|n| Some((before.iter().find(|b| b.gpu == n.gpu)?, n)));
    pairs.flat_map(|(before, now)| risen(before, now)).collect()
}

/// Kinds of errors: counters, code, severity and name.
const KINDS: [(&[Counter], Code, Severity, &str); 4] = [
    (
        &[Counter::VolatileUncorrected, Counter::AggregateUncorrected],
        Code::GpuEcc,
        Severity::Fail,
        "uncorrected memory errors",
    ),
    (
        &[Counter::VolatileCorrected, Counter::AggregateCorrected],
        Code::GpuEcc,
        Severity::Warn,
        "corrected memory errors",
    ),
    (&[Counter::RemappedUncorrected], Code::GpuRemap, Severity::Fail, "rows remapped for uncorrected errors"),
    (&[Counter::RemappedCorrected], Code::GpuRemap, Severity::Warn, "rows remapped for corrected errors"),
];

fn risen(before: &Standing, now: &Standing) -> impl Iterator<Item = Finding> {
    KINDS.iter().filter_map(|(counters, code, severity, words)| {
        let rose = |counter: &&Counter| match (before.counted.get(counter)?, now.counted.get(counter)?) {
            (Counted::At(before), Counted::At(now)) => {
                let more = now.checked_sub(*before).filter(|more| *more > 0)?;
                Some((more, format!("NVML: {counter:?} {before} before, {now} now")))
            }
            _ => None,
        };
        let rises: Vec<_> = counters.iter().filter_map(|c| rose(&c)).collect();
        let more = rises.iter().map(|(more, _)| *more).max()?;
        let message = format!("{}: {more} {words} while the test ran, expected 0", name(now));
        let finding = code.finding(*severity, &now.name(), message).values(more, 0, Some("errors"));
        Some(finding.seen_all(rises.into_iter().map(|(_, line)| line).collect()))
    })
}

/// `GPU 1 (0000:41:00.0)`
fn name(gpu: &Standing) -> String {
    format!("{} ({})", gpu.name(), gpu.gpu)
}
