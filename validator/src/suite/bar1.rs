//! Does BAR1, the window into a GPU's memory, cover it? 256 MiB is what a GPU has whose BAR nobody
//! resized. How much memory a GPU has is known where the driver logged how much of it BAR1 shows;
//! elsewhere BAR1 is held against the largest size that the GPU offers, which covers its memory. Where
//! neither is known, a BAR1 that peers go through is no pass.

mod pass;

use super::machine::{Machine, known};
use super::peer::{self, Way};
use super::{Group, READING, Test};
use crate::config::Level;
use crate::finding::{Code, Finding, Severity};
use crate::host::kmsg::Line;
use crate::host::nvidia::log;
use crate::outcome::Judgement;
use crate::pcie::model::Device;
use crate::pcie::rebar;
use crate::pcie::text::layout::size;
use std::collections::BTreeMap;

pub(super) const TEST: Test = Test {
    id: "bar1",
    title: "BAR1",
    proves: "BAR1 covers the memory of every GPU whose peers reach it through BAR1",
    level: Level::Quick,
    deadline: READING,
    mandatory: true,
    group: Group::Host,
    run,
};

/// BAR1 without Resizable BAR.
const SMALL: u64 = 256 << 20;
/// The whole configuration space, which holds the sizes on offer.
const WHOLE: usize = 4096;

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    let fabric = machine.fabric()?;
    let gpus = peer::ways(fabric, known(&machine.nvidia.gpus)?);
    // Without the log there are still the sizes on offer.
    let memory = memory(&gpus, machine.log.as_deref().unwrap_or_default());
    Ok(pass::explained(judge(&gpus, &memory), pass::read(&machine.root), &gpus))
}

/// The memory of GPUs as the driver logged it: by address, or for all where all are of one kind.
fn memory(gpus: &[(&Device, Way)], lines: &[Line]) -> BTreeMap<String, u64> {
    let alike = gpus.iter().all(|(gpu, _)| gpus.first().is_some_and(|(first, _)| first.device == gpu.device));
    let of_all = log::static_maps(lines).into_iter().max().filter(|_| alike);
    let of_all = gpus.iter().filter_map(|(gpu, _)| Some((gpu.bdf.to_string(), of_all?)));
    let mut memory: BTreeMap<_, _> = of_all.collect();
    memory.extend(log::bar1_peers(lines).iter().filter_map(|line| Some((line.gpu.to_owned(), line.memory?))));
    memory
}

fn judge(gpus: &[(&Device, Way)], memory: &BTreeMap<String, u64>) -> Judgement {
    if gpus.is_empty() {
        return Judgement::not_applicable("no NVIDIA GPU");
    }
    // One that does not answer is told by the test `fabric`.
    let there: Vec<_> = gpus.iter().filter(|(gpu, _)| !gpu.config.gone).copied().collect();
    let of = |gpu: &Device| memory.get(&gpu.bdf.to_string()).copied();
    let findings: Vec<_> = there.iter().filter_map(|(gpu, way)| finding(gpu, *way, of(gpu))).collect();
    let worst = findings.iter().rev().filter(|f| f.severity > Severity::Info).max_by_key(|f| f.severity);
    let summary = match worst {
        Some(worst) => worst.message.clone(),
        None => format!("{}; {}", sizes(&there), compared(&there, memory, findings.is_empty())),
    };
    Judgement::of(summary, findings)
}

/// What the sizes were held against.
fn compared(gpus: &[(&Device, Way)], memory: &BTreeMap<String, u64>, all: bool) -> &'static str {
    let known = gpus.iter().filter(|(gpu, _)| memory.contains_key(&gpu.bdf.to_string())).count();
    let offering = gpus.iter().filter(|(gpu, _)| !gpu.rebar.is_empty()).count();
    match () {
        () if !all => "peers do not reach these GPUs through it",
        () if known == gpus.len() => "that is all of their memory",
        () if offering == gpus.len() => "the largest size that each offers",
        () => "more than 256 MiB; no other size is offered",
    }
}

/// `8 GPUs: 32 GiB`
fn sizes(gpus: &[(&Device, Way)]) -> String {
    let mut all: Vec<_> = gpus.iter().filter_map(|(gpu, _)| Some(gpu.aperture()?.bytes)).collect();
    all.sort_unstable();
    all.dedup();
    let all: Vec<_> = all.into_iter().map(size).collect();
    format!("{} GPUs: {}", gpus.len(), all.join(", "))
}

fn finding(gpu: &Device, way: Way, memory: Option<u64>) -> Option<Finding> {
    // Then nobody can say what BAR1 covers.
    if let Some(finding) = rebar::disagrees(gpu) {
        return Some(finding);
    }
    let severity = if way == Way::Bar1 { Severity::Fail } else { Severity::Info };
    let told = |severity, found: Option<u64>, wanted: Option<u64>, message: String| {
        let finding =
            Code::Bar1Small.finding(severity, &gpu.bdf, message).values(found, wanted, Some("bytes"));
        Some(finding.seen(format!("/sys/bus/pci/devices/{}/resource", gpu.bdf)))
    };
    let Some(bar) = gpu.aperture().filter(|bar| bar.start != 0) else {
        return told(severity, None, None, format!("BAR1 of {} has no address", gpu.bdf));
    };
    let offered =
        gpu.rebar.iter().find(|r| r.bar == bar.index).and_then(|r| r.supported_bytes.last().copied());
    let (wanted, what) = match (memory, offered) {
        (Some(memory), _) => (memory, "of memory"),
        (None, Some(offered)) => (offered, "that the GPU offers"),
        (None, None) if bar.bytes <= SMALL => (SMALL + 1, "more than 256 MiB"),
        (None, None) if way == Way::Native => return None,
        // A hypervisor may hide the sizes on offer, and a fixed size need not be large enough.
        (None, None) => {
            let why = if gpu.config.bytes >= WHOLE {
                "it offers no sizes, and how much memory it has is not known"
            } else {
                "which sizes it offers cannot be read, nor how much memory it has"
            };
            let message = format!("BAR1 of {} is {}; {why}", gpu.bdf, size(bar.bytes));
            return told(Severity::Error, Some(bar.bytes), None, message);
        }
    };
    if bar.bytes >= wanted {
        return None;
    }
    let expected = if wanted == SMALL + 1 { what.to_owned() } else { format!("the {} {what}", size(wanted)) };
    let message = format!("BAR1 of {} is {}, expected {expected}", gpu.bdf, size(bar.bytes));
    told(severity, Some(bar.bytes), (wanted != SMALL + 1).then_some(wanted), message)
}

#[cfg(test)]
mod tests;
