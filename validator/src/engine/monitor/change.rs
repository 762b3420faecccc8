//! Findings from NVML's data about GPUs: changes since the last look, and conditions that persist. Pure.

use super::lost_gpu_finding;
use gpu::{ComputeMode, Counter, CounterValue, GpuStatus, Presence};
use machine::GpuId;
use machine::host::nvidia::xid;
use outcome::finding::{Code, Finding, Reason, Recovery, Severity, Subject};

/// The finding if the state of the GPUs is unknown.
pub(super) fn unknown_state_finding(why: &str) -> Finding {
    let message = format!("the state of the GPUs is unknown: {why}");
    Code::GpuUncounted.finding(Severity::Warn, Subject::Machine, message)
}

/// Whether a finding is about a persistent condition: it is reported once.
pub(super) fn persists(finding: &Finding) -> bool {
    const RISE: [Code; 4] = [
        Code::GpuEcc,
        Code::GpuThrottled,
        Code::NvlinkErrors,
        Code::PcieAer,
    ];
    !RISE.contains(&finding.code) && (!finding.is(Code::GpuRemap) || finding.unit.is_none())
}

/// Faults in the present state of GPUs, whatever the earlier states were.
pub(super) fn condition_findings(now: &[GpuStatus]) -> Vec<Finding> {
    let mut found: Vec<_> = now
        .iter()
        .flat_map(gpu_conditions)
        .chain(setting_findings(now))
        .collect();
    found.extend(uncounted_finding(now));
    found.extend(unknown_recovery_finding(now));
    found
}

fn gpu_conditions(gpu: &GpuStatus) -> Vec<Finding> {
    let mut found: Vec<_> = lost_gpu_finding(gpu).into_iter().collect();
    if let Presence::Unlisted(why) = &gpu.presence {
        let message = format!("{}: NVML does not know it: {why}", name(gpu));
        found.push(Code::GpuUncounted.finding(Severity::Warn, gpu.subject(), message));
    }
    for (counter, severity, text) in [
        (
            Counter::RemapPending,
            Severity::Warn,
            "a row of its memory will be replaced at the next reset",
        ),
        (
            Counter::RetirePending,
            Severity::Warn,
            "a page of its memory will be retired at the next start of the driver",
        ),
        (
            Counter::RemapFailed,
            Severity::Fail,
            "a bad row of its memory could not be replaced",
        ),
    ] {
        if matches!(gpu.counted.get(&counter), Some(CounterValue::At(1..))) {
            let message = format!("{}: {text}", name(gpu));
            let replace = (counter == Counter::RemapFailed).then_some(Recovery::Replace);
            let finding = Code::GpuRemap
                .finding(severity, gpu.subject(), message)
                .recovery(replace);
            found.push(finding.seen(format!("NVML: {counter:?}")));
        }
    }
    found.extend(recovery_finding(gpu));
    found
}

/// The finding if the driver reports that the GPU must be recovered before it can be relied on.
fn recovery_finding(gpu: &GpuStatus) -> Option<Finding> {
    let CounterValue::At(number @ 1..) = gpu.recovery else {
        return None;
    };
    let action = Recovery::of_driver(number);
    let asks = action.map_or(
        "the driver asks for an action that this version does not know",
        xid::demand,
    );
    let message = format!("{}: {asks}", name(gpu));
    let finding = Code::GpuNeedsRecovery.finding(Severity::Fail, gpu.subject(), message);
    let finding = finding.values(
        action.map_or_else(|| number.to_string(), |a| a.to_string()),
        "none",
        None,
    );
    let finding = finding
        .recovery(action)
        .seen(format!("NVML: GPU recovery action {number}"));
    Some(
        action
            .map(Reason::DriverAsks)
            .into_iter()
            .fold(finding, Finding::because),
    )
}

/// GPUs for which the driver does not report whether they must be recovered, in one finding.
fn unknown_recovery_finding(now: &[GpuStatus]) -> Option<Finding> {
    let here = || now.iter().filter(|gpu| gpu.presence == Presence::Here);
    if let Some((gpu, why)) = here().find_map(|gpu| {
        if let CounterValue::Unread(why) = &gpu.recovery {
            Some((gpu, why))
        } else {
            None
        }
    }) {
        let message = format!(
            "{}: whether it needs recovery could not be read: {why}",
            name(gpu)
        );
        return Some(Code::GpuNeedsRecovery.finding(Severity::Warn, gpu.subject(), message));
    }
    let old = here()
        .filter(|gpu| gpu.recovery == CounterValue::Unsupported)
        .map(GpuStatus::name);
    let gpus = old.collect::<Vec<_>>().join(", ");
    let message = format!("the driver does not report whether GPUs need recovery: {gpus}");
    (!gpus.is_empty())
        .then(|| Code::GpuNeedsRecovery.finding(Severity::Info, Subject::Machine, message))
}

/// Settings that prevent tests of GPUs, each with all GPUs that have it.
pub(super) fn setting_findings(now: &[GpuStatus]) -> Vec<Finding> {
    type Has = fn(&GpuStatus) -> bool;
    let kinds: [(Code, Has, &str); 3] = [
        (
            Code::GpuMig,
            |gpu| gpu.mig,
            "split into instances (MIG is on)",
        ),
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
    let of = |(code, has, text): (Code, Has, &str)| {
        let having: Vec<_> = now.iter().filter(|gpu| has(gpu)).collect();
        let be = if having.len() == 1 { "is" } else { "are" };
        let names = having
            .iter()
            .map(|gpu| gpu.name())
            .collect::<Vec<_>>()
            .join(", ");
        let numbers = having
            .iter()
            .map(|gpu| gpu.ordinal.map(GpuId::new))
            .collect::<Option<Vec<_>>>();
        let subject = numbers.map_or_else(
            || having.first().map_or(Subject::Machine, |gpu| gpu.subject()),
            Subject::gpus,
        );
        (!having.is_empty())
            .then(|| code.finding(Severity::Error, subject, format!("{names} {be} {text}")))
    };
    kinds.into_iter().filter_map(of).collect()
}

/// GPUs without memory error counters, in one finding.
fn uncounted_finding(now: &[GpuStatus]) -> Option<Finding> {
    let ecc = [Counter::VolatileUncorrected, Counter::AggregateUncorrected];
    let lacks = |gpu: &&GpuStatus| {
        ecc.iter()
            .all(|c| gpu.counted.get(c) == Some(&CounterValue::Unsupported))
    };
    let lacking: Vec<_> = now.iter().filter(lacks).map(GpuStatus::name).collect();
    let unread = now.iter().filter_map(|gpu| {
        let why = gpu.counted.values().find_map(|c| {
            if let CounterValue::Unread(why) = c {
                Some(why)
            } else {
                None
            }
        })?;
        Some((gpu, why))
    });
    if let Some((gpu, why)) = unread.into_iter().next() {
        let message = format!("{}: its memory errors could not be read: {why}", name(gpu));
        return Some(Code::GpuUncounted.finding(Severity::Warn, Subject::Machine, message));
    }
    let message = format!(
        "memory errors are not counted (no ECC): {}",
        lacking.join(", ")
    );
    (!lacking.is_empty())
        .then(|| Code::GpuUncounted.finding(Severity::Info, Subject::Machine, message))
}

/// The errors that GPUs have counted since `before`.
pub(super) fn increase_findings(before: &[GpuStatus], now: &[GpuStatus]) -> Vec<Finding> {
    let pairs = now
        .iter()
        .filter_map(|n| Some((before.iter().find(|b| b.gpu == n.gpu)?, n)));
    pairs
        .flat_map(|(before, now)| gpu_increases(before, now))
        .collect()
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
    (
        &[Counter::RemappedUncorrected],
        Code::GpuRemap,
        Severity::Fail,
        "rows remapped for uncorrected errors",
    ),
    (
        &[Counter::RemappedCorrected],
        Code::GpuRemap,
        Severity::Warn,
        "rows remapped for corrected errors",
    ),
];

fn gpu_increases(before: &GpuStatus, now: &GpuStatus) -> impl Iterator<Item = Finding> {
    KINDS.iter().filter_map(|(counters, code, severity, text)| {
        let rose =
            |counter: &&Counter| match (before.counted.get(counter)?, now.counted.get(counter)?) {
                (CounterValue::At(before), CounterValue::At(now)) => {
                    let more = now.checked_sub(*before).filter(|more| *more > 0)?;
                    Some((
                        more,
                        format!("NVML: {counter:?} {before} before, {now} now"),
                    ))
                }
                _ => None,
            };
        let rises: Vec<_> = counters.iter().filter_map(|c| rose(&c)).collect();
        let more = rises.iter().map(|(more, _)| *more).max()?;
        let message = format!(
            "{}: {more} {text} while the test ran, expected 0",
            name(now)
        );
        let finding =
            code.finding(*severity, now.subject(), message)
                .values(more, 0, Some("errors"));
        Some(finding.seen_all(rises.into_iter().map(|(_, line)| line).collect()))
    })
}

/// `GPU 1 (0000:41:00.0)`
fn name(gpu: &GpuStatus) -> String {
    format!("{} ({})", gpu.name(), gpu.gpu)
}
