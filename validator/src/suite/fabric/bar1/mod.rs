//! Whether BAR1, the window into a GPU's memory, covers it. A GPU whose BAR was not resized has 256 MiB. The
//! size of a GPU's memory is known where the driver logged how much of it BAR1 shows; elsewhere BAR1 is
//! compared with the largest size that the GPU offers, which covers its memory. Where neither is known, a
//! BAR1 that peers use is not a pass.

mod fabric_pass;
mod no_room;
mod static_map;

use crate::config::Level;
use crate::fabric::rebar;
use crate::machine::host::kmsg::Line;
use crate::machine::host::nvidia::log;
use crate::machine::pcie::model::{Device, Fabric, Peers};
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::suite::machine::{Machine, known};
use crate::suite::shared::peer_mechanism;
use crate::suite::shared::peer_mechanism::PeerMechanism;
use crate::suite::{Group, NVML_DEADLINE, Test};
use crate::text::count;
use crate::text::size;
use std::collections::BTreeMap;

pub(in crate::suite) const TEST: Test = Test {
    id: "bar1",
    title: "BAR1",
    proves: "BAR1 covers the memory of every GPU whose peers reach it through BAR1",
    level: Level::Quick,
    deadline: NVML_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

/// BAR1 without Resizable BAR.
const DEFAULT_BAR1: u64 = 256 << 20;
/// The whole configuration space, which contains the offered sizes.
const CONFIG_SPACE_BYTES: usize = 4096;

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    let fabric = machine.fabric()?;
    if let Some(why) = no_gpu_peer(fabric, &machine.host.peers) {
        return Ok(Judgement::not_applicable(why));
    }
    let mut gpus = peer_mechanism::mechanisms(fabric, known(&machine.nvidia.gpus)?);
    gpus.retain(|(gpu, _)| machine.host.peers.has_gpu(gpu.bdf, &fabric.gpus));
    // Without the log the offered sizes are still known.
    let lines = machine.log.as_deref().unwrap_or_default();
    let memory = logged_memory(&gpus, lines);
    let by_pass = fabric_pass::read(&machine.root);
    // The pass, which tries sizes itself, knows more about a BAR1 that is too small.
    let by_kernel = no_room::findings(&gpus, &memory, lines, by_pass.iter().any(|f| f.is(Code::RebarNoRoom)));
    let judgement = judge(&gpus, &memory).with(by_kernel);
    let judgement = fabric_pass::with_pass_findings(judgement, by_pass, &gpus);
    Ok(static_map::with_map_findings(judgement, static_map::findings(machine, &gpus)?))
}

/// Why no GPU reaches another one.
fn no_gpu_peer(fabric: &Fabric, peers: &Peers) -> Option<String> {
    let any = fabric.gpus.iter().any(|gpu| peers.has_gpu(*gpu, &fabric.gpus));
    let why = || {
        peers.none.map_or_else(|| "no GPU exchanges data with another one directly".to_owned(), |why| why.to_string())
    };
    (!any).then(why)
}

/// The memory of GPUs as the driver logged it: by address, or for all where all are of the same model.
fn logged_memory(gpus: &[(&Device, PeerMechanism)], lines: &[Line]) -> BTreeMap<String, u64> {
    let alike = gpus.iter().all(|(gpu, _)| gpus.first().is_some_and(|(first, _)| first.device == gpu.device));
    let of_all = log::static_maps(lines).into_iter().max().filter(|_| alike);
    let of_all = gpus.iter().filter_map(|(gpu, _)| Some((gpu.bdf.to_string(), of_all?)));
    let mut memory: BTreeMap<_, _> = of_all.collect();
    memory.extend(log::bar1_peers(lines).iter().filter_map(|line| Some((line.gpu.to_owned(), line.memory?))));
    memory
}

fn judge(gpus: &[(&Device, PeerMechanism)], memory: &BTreeMap<String, u64>) -> Judgement {
    if gpus.is_empty() {
        return Judgement::not_applicable("no NVIDIA GPU");
    }
    // The test `fabric` reports a GPU that does not respond.
    let there: Vec<_> = gpus.iter().filter(|(gpu, _)| !gpu.config.gone).copied().collect();
    if there.is_empty() {
        return Judgement::not_applicable("no GPU answers, see the test fabric: nothing is known about BAR1");
    }
    let of = |gpu: &Device| memory.get(&gpu.bdf.to_string()).copied();
    let findings: Vec<_> = there.iter().filter_map(|(gpu, mechanism)| finding(gpu, *mechanism, of(gpu))).collect();
    let worst = findings.iter().rev().filter(|f| f.severity > Severity::Info).max_by_key(|f| f.severity);
    let summary = match worst {
        Some(worst) => worst.message.to_string(),
        None => format!("{}; {}", sizes(&there), compared(&there, memory, findings.is_empty())),
    };
    let unchecked: &[Code] = if there.len() < gpus.len() { &[Code::Bar1Small] } else { &[] };
    Judgement::of(summary, findings).without_checking(unchecked)
}

/// What the sizes were compared with.
fn compared(gpus: &[(&Device, PeerMechanism)], memory: &BTreeMap<String, u64>, all: bool) -> &'static str {
    let known = gpus.iter().filter(|(gpu, _)| memory.contains_key(&gpu.bdf.to_string())).count();
    let offering = gpus.iter().filter(|(gpu, _)| !gpu.rebar.is_empty()).count();
    match () {
        () if !all => "peers do not reach these GPUs through BAR1",
        () if known == gpus.len() => "this covers all of their memory",
        () if offering == gpus.len() => "the largest size that each offers",
        () => "more than 256 MiB; no other size is offered",
    }
}

/// `8 GPUs: 32 GiB`
fn sizes(gpus: &[(&Device, PeerMechanism)]) -> String {
    let mut all: Vec<_> = gpus.iter().filter_map(|(gpu, _)| Some(gpu.aperture()?.bytes)).collect();
    all.sort_unstable();
    all.dedup();
    let all: Vec<_> = all.into_iter().map(size).collect();
    format!("{}: {}", count(gpus.len(), "GPU"), all.join(", "))
}

fn finding(gpu: &Device, mechanism: PeerMechanism, memory: Option<u64>) -> Option<Finding> {
    // If the GPU's register and the kernel disagree about its size, it is unknown what BAR1 covers.
    if let Some(finding) = rebar::disagrees(gpu) {
        return Some(finding);
    }
    let severity = if mechanism == PeerMechanism::Bar1 { Severity::Fail } else { Severity::Info };
    let too_small = |severity, found: Option<u64>, wanted: Option<u64>, message: String| {
        let finding = Code::Bar1Small.finding(severity, &gpu.bdf, message).values(found, wanted, Some("bytes"));
        Some(finding.seen(format!("/sys/bus/pci/devices/{}/resource", gpu.bdf)))
    };
    let Some(bar) = gpu.aperture().filter(|bar| bar.start != 0) else {
        return too_small(severity, None, None, format!("BAR1 of {} has no address", gpu.bdf));
    };
    let offered = gpu.rebar.iter().find(|r| r.bar == bar.index).and_then(|r| r.supported_bytes.last().copied());
    let (wanted, what) = match (memory, offered) {
        (Some(memory), _) => (memory, "of memory"),
        (None, Some(offered)) => (offered, "that the GPU offers"),
        (None, None) if bar.bytes <= DEFAULT_BAR1 => (DEFAULT_BAR1 + 1, "more than 256 MiB"),
        (None, None) if mechanism == PeerMechanism::Native => return None,
        // A hypervisor may hide the offered sizes, and a fixed size need not be large enough.
        (None, None) => {
            let why = if gpu.config.bytes >= CONFIG_SPACE_BYTES {
                "it offers no sizes, and the size of its memory is unknown"
            } else {
                "neither the sizes that it offers nor the size of its memory can be read"
            };
            let message = format!("BAR1 of {} is {}; {why}", gpu.bdf, size(bar.bytes));
            return too_small(Severity::Error, Some(bar.bytes), None, message);
        }
    };
    if bar.bytes >= wanted {
        return None;
    }
    let expected = if wanted == DEFAULT_BAR1 + 1 { what.to_owned() } else { format!("the {} {what}", size(wanted)) };
    let message = format!("BAR1 of {} is {}, expected {expected}", gpu.bdf, size(bar.bytes));
    too_small(severity, Some(bar.bytes), (wanted != DEFAULT_BAR1 + 1).then_some(wanted), message)
}

#[cfg(test)]
mod tests {
    //! Sizes against the size of a GPU's memory, by the mechanism through which peers reach it.

    use super::*;
    use crate::machine::pcie::model::{Bar, Rebar};
    use crate::outcome::Outcome;
    use crate::suite::shared::fixture;

    /// Two GPUs with a register BAR, BAR1 of `bytes`, and the offered sizes.
    fn machine(bytes: u64, offered: &[u64]) -> Fabric {
        let mut fabric = fixture::machine(2);
        for gpu in fabric.gpus.clone() {
            let gpu = fixture::device(&mut fabric, gpu);
            let bar = |index, bytes| Bar { index, start: 0x40_0000_0000, bytes, flags: 0x14220c };
            gpu.bars = vec![bar(0, 16 << 20), bar(1, bytes)];
            let rebar = Rebar { bar: 1, current_bytes: bytes, supported_bytes: offered.to_vec() };
            gpu.rebar = if offered.is_empty() { vec![] } else { vec![rebar] };
        }
        fabric
    }

    fn say(fabric: &Fabric, mechanism: PeerMechanism, memory: Option<u64>) -> Judgement {
        let gpus = fabric.devices.iter().filter(|d| fabric.gpus.contains(&d.bdf)).map(|d| (d, mechanism));
        let of = fabric.gpus.iter().filter_map(|gpu| Some((gpu.to_string(), memory?)));
        judge(&gpus.collect::<Vec<_>>(), &of.collect())
    }

    const OFFERED: &[u64] = &[64 << 20, 256 << 20, 16 << 30, 32 << 30];
    /// 24210 MiB, as an RTX 4090 reports.
    const MEMORY: u64 = 0x5_e920_0000;

    #[test]
    fn the_largest_size_passes_and_256_mib_is_the_failure() {
        let said = say(&machine(32 << 30, OFFERED), PeerMechanism::Bar1, None);
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (Outcome::Pass, "2 GPUs: 32 GiB; the largest size that each offers")
        );
        let said = say(&machine(256 << 20, OFFERED), PeerMechanism::Bar1, None);
        assert!(said.outcome() == Outcome::Fail && said.findings.len() == 2 && said.findings[0].is(Code::Bar1Small));
        assert_eq!(said.summary, "BAR1 of 0000:10:00.0 is 256 MiB, expected the 32 GiB that the GPU offers");
        assert_eq!(said.findings[0].expected, 32_u64 << 30);
    }

    #[test]
    fn known_memory_overrides_the_offered_sizes() {
        let said = say(&machine(32 << 30, &[64 << 30]), PeerMechanism::Bar1, Some(MEMORY));
        assert_eq!(said.summary, "2 GPUs: 32 GiB; this covers all of their memory");
        let said = say(&machine(16 << 30, &[16 << 30]), PeerMechanism::Bar1, Some(MEMORY));
        assert_eq!(said.summary, "BAR1 of 0000:10:00.0 is 16 GiB, expected the 24210 MiB of memory");
    }

    #[test]
    fn a_bar1_that_is_smaller_in_hardware_than_for_the_kernel_is_broken() {
        for mechanism in [PeerMechanism::Bar1, PeerMechanism::Native] {
            let mut fabric = machine(32 << 30, OFFERED);
            let gpu = fabric.gpus[1];
            fixture::device(&mut fabric, gpu).rebar[0].current_bytes = 256 << 20;
            let said = say(&fabric, mechanism, Some(MEMORY));
            assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::RebarBroken), "{said:?}");
            assert_eq!(
                said.summary,
                "0000:11:00.0 has BAR1 of 256 MiB by its Resizable BAR control, the kernel believes 32 GiB"
            );
        }
    }

    #[test]
    fn half_of_the_offered_size_is_not_enough() {
        assert_eq!(say(&machine(16 << 30, OFFERED), PeerMechanism::Bar1, None).outcome(), Outcome::Fail);
    }

    #[test]
    fn a_gpu_with_its_own_mechanism_is_only_reported() {
        let said = say(&machine(256 << 20, OFFERED), PeerMechanism::Native, None);
        assert_eq!((said.outcome(), said.findings.len()), (Outcome::Pass, 2));
        assert_eq!(said.summary, "2 GPUs: 256 MiB; peers do not reach these GPUs through BAR1");
    }

    #[test]
    fn without_offered_sizes_256_mib_fails_and_more_is_an_error_unless_the_memory_is_known() {
        assert_eq!(say(&machine(256 << 20, &[]), PeerMechanism::Bar1, None).outcome(), Outcome::Fail);
        let mut fabric = machine(32 << 30, &[]);
        let said = say(&fabric, PeerMechanism::Bar1, None);
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (
                Outcome::Error,
                "BAR1 of 0000:10:00.0 is 32 GiB; it offers no sizes, and the size of its memory is unknown"
            )
        );
        assert_eq!(say(&fabric, PeerMechanism::Native, None).outcome(), Outcome::Pass);
        assert_eq!(say(&fabric, PeerMechanism::Bar1, Some(MEMORY)).outcome(), Outcome::Pass);
        for device in &mut fabric.devices {
            device.config.bytes = 256;
        }
        assert_eq!(say(&fabric, PeerMechanism::Bar1, None).outcome(), Outcome::Error);
        assert_eq!(say(&fabric, PeerMechanism::Native, None).outcome(), Outcome::Pass);
        assert_eq!(say(&fabric, PeerMechanism::Bar1, Some(MEMORY)).outcome(), Outcome::Pass);
    }

    #[test]
    fn a_bar_without_an_address_fails_and_a_gpu_off_the_bus_is_left_to_other_tests() {
        let mut fabric = machine(32 << 30, OFFERED);
        let gpu = fabric.gpus[1];
        fixture::device(&mut fabric, gpu).bars[1].start = 0;
        let said = say(&fabric, PeerMechanism::Bar1, None);
        assert_eq!((said.outcome(), said.summary.as_str()), (Outcome::Fail, "BAR1 of 0000:11:00.0 has no address"));
        fixture::device(&mut fabric, gpu).config.gone = true;
        let said = say(&fabric, PeerMechanism::Bar1, None);
        assert_eq!((said.outcome(), &said.unchecked[..]), (Outcome::Pass, &[Code::Bar1Small][..]));
        for gpu in fabric.gpus.clone() {
            fixture::device(&mut fabric, gpu).config.gone = true;
        }
        let said = say(&fabric, PeerMechanism::Bar1, None);
        assert_eq!(said.outcome(), Outcome::NotApplicable);
        assert!(said.summary.starts_with("no GPU answers"), "{}", said.summary);
    }

    #[test]
    fn without_a_second_gpu_nothing_reaches_bar1() {
        let of = |gpus| {
            let fabric = fixture::machine(gpus);
            no_gpu_peer(&fabric, &fabric.peers)
        };
        assert_eq!(of(2), None);
        assert_eq!(of(1).unwrap(), "one GPU, and no network card that exchanges data with it");
        assert_eq!(of(0).unwrap(), "no NVIDIA GPU");
        let mut card = fixture::machine(1);
        card.peers.none = None;
        card.peers.pairs = vec![(card.gpus[0], fixture::port(0))];
        assert!(no_gpu_peer(&card, &card.peers).unwrap().starts_with("no GPU exchanges data"));
    }

    #[test]
    fn no_gpu_is_not_applicable() {
        assert_eq!(judge(&[], &BTreeMap::new()).outcome(), Outcome::NotApplicable);
    }

    #[test]
    fn memory_is_what_the_driver_logged_of_each_gpu() {
        let fabric = machine(32 << 30, OFFERED);
        let gpus: Vec<_> =
            fabric.devices.iter().filter(|d| fabric.gpus.contains(&d.bdf)).map(|d| (d, PeerMechanism::Bar1)).collect();
        let line = |text: &str| Line { seq: 0, at: std::time::Duration::ZERO, text: text.into() };
        let ours =
            line("BAR1 peer-to-peer of 0000:10:00.0 possible: video memory 0x5e9200000, BAR1 0x800000000 at 0x0");
        let theirs = line("Static bar1 mapped offset 0x0 size 0x100000000");
        assert_eq!(logged_memory(&gpus, std::slice::from_ref(&ours)).get("0000:10:00.0"), Some(&MEMORY));
        assert_eq!(logged_memory(&gpus, &[ours, theirs.clone()]).get("0000:11:00.0"), Some(&(4 << 30)));
        let mut mixed = fabric.clone();
        let gpu = mixed.gpus[0];
        fixture::device(&mut mixed, gpu).device = "0x2204".into();
        let gpus: Vec<_> =
            mixed.devices.iter().filter(|d| mixed.gpus.contains(&d.bdf)).map(|d| (d, PeerMechanism::Bar1)).collect();
        assert_eq!(logged_memory(&gpus, &[theirs]), BTreeMap::new(), "the line's GPU is unknown");
    }
}
