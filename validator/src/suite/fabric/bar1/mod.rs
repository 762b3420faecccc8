//! Whether BAR1, the window into a GPU's memory, covers it. A GPU whose BAR was not resized has 256 MiB. The largest size
//! that a GPU offers shows how large BAR1 can be, not how much memory there is: the memory is known from the driver or from
//! the table of boards. Where it is not known, a BAR1 that peers use is not a pass.

mod fabric_pass;
mod memory;
mod no_room;
mod static_map;

use crate::suite::context::{TestContext, known};
use crate::suite::shared::peer_mechanism;
use crate::suite::shared::peer_mechanism::PeerMechanism;
use crate::suite::{Group, NVML_DEADLINE, Test};
use fabric::rebar::{self, DEFAULT_BAR1};
use machine::pcie::model::{Device, Fabric, Peers};
use memory::{Memory, MemoryByGpu};
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity};
use outcome::platform::MemorySource;
use outcome::test;
use outcome::text::count;
use outcome::text::size;
use report::Level;
pub(in crate::suite) use static_map::{MapObstruction, obstructions};
use std::collections::BTreeSet;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::BAR1,
    title: "BAR1",
    proves: "BAR1 covers the memory of every GPU whose peers reach it through BAR1",
    level: Level::Quick,
    deadline: NVML_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let fabric = context.fabric()?;
    if let Some(why) = no_gpu_peer(fabric, &context.host.peers) {
        return Ok(Judgement::not_applicable(why));
    }
    let mut gpus = peer_mechanism::mechanisms(fabric, known(&context.nvidia.gpus)?);
    gpus.retain(|(gpu, _)| context.host.peers.has_gpu(gpu.bdf, &fabric.gpus));
    // Without the log other sources are left.
    let lines = context.log.as_deref().unwrap_or_default();
    let (memory, silent) = memory::read(context, &gpus, lines);
    let by_pass = fabric_pass::read(&context.root);
    // The pass, which tries sizes itself, knows more about a BAR1 that is too small.
    let by_kernel = no_room::findings(
        &gpus,
        &memory,
        lines,
        by_pass.iter().any(|f| f.is(Code::RebarNoRoom)),
    );
    let mut judgement = judge(&gpus, &memory);
    for finding in judgement
        .findings
        .iter_mut()
        .filter(|finding| finding.is(Code::Bar1Unknown))
    {
        finding
            .evidence
            .extend(silent.iter().map(|why| format!("NVML: {why}")));
    }
    let judgement = fabric_pass::with_pass_findings(judgement.with(by_kernel), by_pass, &gpus);
    Ok(static_map::with_map_findings(
        judgement,
        static_map::findings(context, &gpus, &memory)?,
    ))
}

/// Why no GPU reaches another one.
fn no_gpu_peer(fabric: &Fabric, peers: &Peers) -> Option<String> {
    let any = fabric
        .gpus
        .iter()
        .any(|gpu| peers.has_gpu(*gpu, &fabric.gpus));
    let why = || {
        peers.none.map_or_else(
            || "no GPU exchanges data with another one directly".to_owned(),
            |why| why.to_string(),
        )
    };
    (!any).then(why)
}

fn judge(gpus: &[(&Device, PeerMechanism)], memory: &MemoryByGpu) -> Judgement {
    if gpus.is_empty() {
        return Judgement::not_applicable("no NVIDIA GPU");
    }
    // The test `fabric` reports a GPU that does not respond.
    let there: Vec<_> = gpus
        .iter()
        .filter(|(gpu, _)| !gpu.config.gone)
        .copied()
        .collect();
    if there.is_empty() {
        return Judgement::not_applicable(
            "no GPU answers, see the test fabric: nothing is known about BAR1",
        );
    }
    let findings: Vec<_> = there
        .iter()
        .filter_map(|(gpu, mechanism)| finding(gpu, *mechanism, memory.get(&gpu.bdf)))
        .collect();
    let worst = findings
        .iter()
        .rev()
        .filter(|f| f.severity > Severity::Info)
        .max_by_key(|f| f.severity);
    let summary = match worst {
        Some(worst) => worst.message.to_string(),
        None => format!("{}; {}", sizes(&there), covered(&there, memory)),
    };
    let unchecked: &[Code] = if there.len() < gpus.len() {
        &[Code::Bar1Small]
    } else {
        &[]
    };
    Judgement::of(summary, findings).without_checking(unchecked)
}

/// What BAR1 covers, where it covers the memory of all GPUs that peers reach through it.
fn covered(gpus: &[(&Device, PeerMechanism)], memory: &MemoryByGpu) -> String {
    let fits = |gpu: &Device| {
        let memory = memory.get(&gpu.bdf)?;
        (gpu.aperture()?.bytes >= memory.most).then_some(memory.source)
    };
    let known: Vec<_> = gpus
        .iter()
        .filter_map(|(gpu, mechanism)| Some((*mechanism, fits(gpu)?)))
        .collect();
    let through_bar1 = |(mechanism, _): &&(_, _)| *mechanism == PeerMechanism::Bar1;
    let sources = |known: Vec<&(PeerMechanism, MemorySource)>| {
        let sources: BTreeSet<_> = known.into_iter().map(|(_, source)| *source).collect();
        let other = |source: &&MemorySource| **source != MemorySource::Driver;
        let words: Vec<_> = sources
            .iter()
            .filter(other)
            .map(ToString::to_string)
            .collect();
        if words.is_empty() {
            String::new()
        } else {
            format!(" by {}", words.join(" and "))
        }
    };
    if known.len() == gpus.len() {
        return format!(
            "this covers all of their memory{}",
            sources(known.iter().collect())
        );
    }
    let needed: Vec<_> = known.iter().filter(through_bar1).collect();
    if needed.is_empty() {
        return "peers do not reach these GPUs through BAR1".to_owned();
    }
    format!(
        "this covers all memory of those that peers reach through BAR1{}",
        sources(needed)
    )
}

/// `8 GPUs: 32 GiB`
fn sizes(gpus: &[(&Device, PeerMechanism)]) -> String {
    let sizes: BTreeSet<_> = gpus
        .iter()
        .filter_map(|(gpu, _)| Some(gpu.aperture()?.bytes))
        .collect();
    let sizes: Vec<_> = sizes.into_iter().map(size).collect();
    format!("{}: {}", count(gpus.len(), "GPU"), sizes.join(", "))
}

fn finding(gpu: &Device, mechanism: PeerMechanism, memory: Option<&Memory>) -> Option<Finding> {
    // If the GPU's register and the kernel disagree about its size, it is unknown what BAR1 covers.
    if let Some(finding) = rebar::disagrees(gpu) {
        return Some(finding);
    }
    let seen = format!("/sys/bus/pci/devices/{}/resource", gpu.bdf);
    let Some(bar) = gpu.aperture().filter(|bar| bar.start != 0) else {
        // Then the driver cannot use the GPU, by whatever mechanism its peers reach it.
        let message = format!("BAR1 of {} has no address", gpu.bdf);
        return Some(
            Code::Bar1Small
                .finding(Severity::Fail, gpu.bdf, message)
                .seen(seen),
        );
    };
    if memory.is_some_and(|memory| bar.bytes >= memory.most) {
        return None;
    }
    let offered = gpu
        .rebar
        .iter()
        .find(|r| r.bar == bar.index)
        .and_then(|r| r.supported_bytes.last().copied());
    let has = format!("BAR1 of {} is {}", gpu.bdf, size(bar.bytes));
    let too_short = memory.filter(|memory| bar.bytes < memory.least);
    let (expected, wanted) = match (too_short, offered) {
        (Some(memory), _) => {
            let least = if memory.least == memory.most {
                "the"
            } else {
                "at least the"
            };
            (
                format!("{least} {} of memory{}", size(memory.least), memory.by()),
                Some(memory.least),
            )
        }
        (None, Some(offered)) if offered > bar.bytes => (
            format!("the {} that the GPU offers", size(offered)),
            Some(offered),
        ),
        // Only boards without Resizable BAR have so little memory.
        (None, _) if bar.bytes <= DEFAULT_BAR1 => ("more than 256 MiB".to_owned(), None),
        (None, _) if mechanism == PeerMechanism::Native => return None,
        (None, _) => {
            let message = format!("{has}; whether this covers its memory is unknown");
            return Some(
                Code::Bar1Unknown
                    .finding(Severity::Warn, gpu.bdf, message)
                    .seen(seen),
            );
        }
    };
    let severity = if mechanism == PeerMechanism::Bar1 {
        Severity::Fail
    } else {
        Severity::Info
    };
    let limit = rebar::limit(gpu, too_short.map(|memory| memory.least));
    let largest = if offered == Some(bar.bytes) {
        ", the largest size that it offers"
    } else {
        ""
    };
    let message = format!("{has}{largest}, expected {expected}");
    let finding = Code::Bar1Small.finding(severity, gpu.bdf, message);
    let finding = finding.values(bar.bytes, wanted, Some("bytes")).seen(seen);
    Some(match limit {
        Some(reason) => finding.because(reason),
        None => finding,
    })
}

#[cfg(test)]
mod tests {
    //! Sizes against the size of a GPU's memory, by the mechanism through which peers reach it.

    use super::*;
    use crate::suite::shared::fixture;
    use machine::pcie::model::{Bar, Rebar};
    use outcome::Outcome;
    use outcome::finding::Reason;
    use std::collections::BTreeMap;

    /// Two GPUs with a register BAR, BAR1 of `bytes`, and the offered sizes.
    fn machine(bytes: u64, offered: &[u64]) -> Fabric {
        let mut fabric = fixture::machine(2);
        for gpu in fabric.gpus.clone() {
            let gpu = fixture::device(&mut fabric, gpu);
            let bar = |index, bytes| Bar {
                index,
                start: 0x40_0000_0000,
                bytes,
                flags: 0x14220c,
            };
            gpu.bars = vec![bar(0, 16 << 20), bar(1, bytes)];
            let rebar = Rebar {
                bar: 1,
                current_bytes: bytes,
                supported_bytes: offered.to_vec(),
            };
            gpu.rebar = if offered.is_empty() {
                vec![]
            } else {
                vec![rebar]
            };
        }
        fabric
    }

    /// The memory of a GPU by this source, MiB.
    fn known(least: u64, most: u64, source: MemorySource) -> Memory {
        Memory {
            least: least * MIB,
            most: most * MIB,
            usable: None,
            source,
            board: None,
        }
    }

    fn by_driver(mib: u64) -> Option<Memory> {
        Some(known(mib, mib, MemorySource::Driver))
    }

    fn say(fabric: &Fabric, mechanism: PeerMechanism, memory: Option<&Memory>) -> Judgement {
        let gpus = fabric
            .devices
            .iter()
            .filter(|d| fabric.gpus.contains(&d.bdf))
            .map(|d| (d, mechanism));
        let of = fabric
            .gpus
            .iter()
            .filter_map(|gpu| Some((*gpu, memory?.clone())));
        judge(&gpus.collect::<Vec<_>>(), &of.collect())
    }

    const MIB: u64 = 1 << 20;
    const OFFERED: &[u64] = &[64 << 20, 256 << 20, 16 << 30, 32 << 30];
    /// As an RTX 4090 reports.
    const MEMORY: u64 = 24210;

    /// The outcome, the code and the reason of the first GPU of two with this id, with sizes in MiB.
    fn case(
        device: &str,
        offered: &[u64],
        present: u64,
        memory: Option<&Memory>,
    ) -> (Outcome, Option<(Code, Option<Reason>)>) {
        let offered: Vec<_> = offered.iter().map(|mib| mib * MIB).collect();
        let mut fabric = machine(present * MIB, &offered);
        for gpu in fabric.gpus.clone() {
            fixture::device(&mut fabric, gpu).device = device.into();
        }
        let said = say(&fabric, PeerMechanism::Bar1, memory);
        (
            said.outcome(),
            said.findings
                .first()
                .map(|finding| (finding.code, finding.reason.clone())),
        )
    }

    #[test]
    fn boards_by_what_they_offer_what_is_in_force_and_what_is_known_of_the_memory() {
        let (small, unknown) = (Code::Bar1Small, Code::Bar1Unknown);
        let of_table = |least, most| Some(known(least, most, MemorySource::Boards));
        let (vbios, board) = (Some(Reason::VbiosLimit), Some(Reason::BoardLimit));
        let pass = (Outcome::Pass, None);
        let fail = |reason: &Option<Reason>| (Outcome::Fail, Some((small, reason.clone())));
        let warn = (Outcome::Warn, Some((unknown, None)));
        for (device, offered, present, memory, expected) in [
            // RTX 3090, 24 GiB, without a driver and with one.
            (
                "0x2204",
                &[64, 128, 256][..],
                256,
                of_table(24576, 24576),
                fail(&vbios),
            ),
            (
                "0x2204",
                &[64, 128, 256],
                256,
                by_driver(24576),
                fail(&vbios),
            ),
            ("0x2204", &[], 256, of_table(24576, 24576), fail(&vbios)),
            (
                "0x2204",
                &[256, 32768],
                32768,
                of_table(24576, 24576),
                pass.clone(),
            ),
            (
                "0x2204",
                &[256, 32768],
                256,
                of_table(24576, 24576),
                fail(&None),
            ),
            (
                "0x2204",
                &[256, 32768],
                16384,
                by_driver(24576),
                fail(&None),
            ),
            ("0x2204", &[], 32768, by_driver(24576), pass.clone()),
            // RTX 4090 with 48 GiB: the driver is right, not the table.
            (
                "0x2684",
                &[256, 32768],
                32768,
                by_driver(49140),
                fail(&board),
            ),
            ("0x2684", &[256, 32768], 256, by_driver(49140), fail(&board)),
            ("0x2684", &[], 32768, by_driver(49140), fail(&board)),
            (
                "0x2684",
                &[256, 65536],
                32768,
                by_driver(49140),
                fail(&None),
            ),
            (
                "0x2684",
                &[256, 65536],
                65536,
                by_driver(49140),
                pass.clone(),
            ),
            // RTX 5060 Ti with 8 or 16 GiB under one id.
            ("0x2d04", &[], 16384, of_table(8151, 16311), pass.clone()),
            ("0x2d04", &[], 256, of_table(8151, 16311), fail(&vbios)),
            ("0x2d04", &[], 8192, of_table(8151, 16311), warn.clone()),
            (
                "0x2d04",
                &[256, 8192],
                8192,
                of_table(8151, 8151),
                pass.clone(),
            ),
            (
                "0x2d04",
                &[256, 16384],
                8192,
                of_table(16311, 16311),
                fail(&None),
            ),
            // A board that is not in the table, without a driver.
            ("0x2fff", &[256, 32768], 32768, None, warn.clone()),
            ("0x2fff", &[], 32768, None, warn),
            ("0x2fff", &[256, 32768], 16384, None, fail(&None)),
            ("0x2fff", &[256, 32768], 256, None, fail(&None)),
            ("0x2fff", &[256], 256, None, fail(&vbios)),
            ("0x2fff", &[], 256, None, fail(&vbios)),
            ("0x2fff", &[], 32768, by_driver(32607), pass),
        ] {
            assert_eq!(
                case(device, offered, present, memory.as_ref()),
                expected,
                "{device} {offered:?} {present} {memory:?}"
            );
        }
    }

    #[test]
    fn the_messages_name_the_sizes_and_their_source() {
        let said = say(&machine(32 << 30, OFFERED), PeerMechanism::Bar1, None);
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (
                Outcome::Warn,
                "BAR1 of 0000:10:00.0 is 32 GiB; whether this covers its memory is unknown"
            )
        );
        let said = say(&machine(256 << 20, OFFERED), PeerMechanism::Bar1, None);
        assert!(
            said.outcome() == Outcome::Fail
                && said.findings.len() == 2
                && said.findings[0].is(Code::Bar1Small)
        );
        assert_eq!(
            said.summary,
            "BAR1 of 0000:10:00.0 is 256 MiB, expected the 32 GiB that the GPU offers"
        );
        assert_eq!(said.findings[0].expected, 32_u64 << 30);
        for (source, words) in [
            (MemorySource::Driver, ""),
            (MemorySource::Log, " by the kernel log"),
            (MemorySource::Boards, " by the table of boards"),
        ] {
            let memory = Some(known(MEMORY, MEMORY, source));
            let said = say(
                &machine(32 << 30, &[64 << 30]),
                PeerMechanism::Bar1,
                memory.as_ref(),
            );
            assert_eq!(
                said.summary,
                format!("2 GPUs: 32 GiB; this covers all of their memory{words}")
            );
        }
        let said = say(
            &machine(16 << 30, &[16 << 30]),
            PeerMechanism::Bar1,
            by_driver(MEMORY).as_ref(),
        );
        let size = "BAR1 of 0000:10:00.0 is 16 GiB, the largest size that it offers, expected";
        assert_eq!(said.summary, format!("{size} the 24210 MiB of memory"));
        let memory = Some(known(20000, MEMORY, MemorySource::Boards));
        let said = say(
            &machine(16 << 30, &[16 << 30]),
            PeerMechanism::Bar1,
            memory.as_ref(),
        );
        assert_eq!(
            said.summary,
            format!("{size} at least the 20000 MiB of memory, by the table of boards")
        );
    }

    #[test]
    fn gpus_of_two_mechanisms_are_told_apart() {
        let mut fabric = machine(32 << 30, OFFERED);
        let gpu = fabric.gpus[1];
        fixture::device(&mut fabric, gpu).bars[1].bytes = 16 << 30;
        fixture::device(&mut fabric, gpu).rebar.clear();
        let both = [PeerMechanism::Bar1, PeerMechanism::Native];
        let gpus: Vec<_> = fabric
            .devices
            .iter()
            .filter(|d| fabric.gpus.contains(&d.bdf))
            .zip(both)
            .collect();
        let memory =
            BTreeMap::from([(fabric.gpus[0], known(MEMORY, MEMORY, MemorySource::Driver))]);
        let said = judge(&gpus, &memory);
        let words =
            "2 GPUs: 16 GiB, 32 GiB; this covers all memory of those that peers reach through BAR1";
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (Outcome::Pass, words)
        );
    }

    #[test]
    fn a_bar1_that_is_smaller_in_hardware_than_for_the_kernel_is_broken() {
        for mechanism in [PeerMechanism::Bar1, PeerMechanism::Native] {
            let mut fabric = machine(32 << 30, OFFERED);
            let gpu = fabric.gpus[1];
            fixture::device(&mut fabric, gpu).rebar[0].current_bytes = 256 << 20;
            let said = say(&fabric, mechanism, by_driver(MEMORY).as_ref());
            assert!(
                said.outcome() == Outcome::Fail && said.findings[0].is(Code::RebarBroken),
                "{said:?}"
            );
            assert_eq!(
                said.summary,
                "0000:11:00.0 has BAR1 of 256 MiB by its Resizable BAR control, the kernel believes 32 GiB"
            );
        }
    }

    #[test]
    fn a_gpu_with_its_own_mechanism_is_only_reported() {
        let said = say(&machine(256 << 20, OFFERED), PeerMechanism::Native, None);
        assert_eq!((said.outcome(), said.findings.len()), (Outcome::Pass, 2));
        assert_eq!(
            said.summary,
            "2 GPUs: 256 MiB; peers do not reach these GPUs through BAR1"
        );
    }

    #[test]
    fn without_offered_sizes_256_mib_fails_and_more_is_unknown_unless_the_memory_is_known() {
        assert_eq!(
            say(&machine(256 << 20, &[]), PeerMechanism::Bar1, None).outcome(),
            Outcome::Fail
        );
        let mut fabric = machine(32 << 30, &[]);
        for bytes in [4096, 256] {
            for device in &mut fabric.devices {
                device.config.bytes = bytes;
            }
            assert_eq!(
                say(&fabric, PeerMechanism::Bar1, None).outcome(),
                Outcome::Warn
            );
            assert_eq!(
                say(&fabric, PeerMechanism::Native, None).outcome(),
                Outcome::Pass
            );
            assert_eq!(
                say(&fabric, PeerMechanism::Bar1, by_driver(MEMORY).as_ref()).outcome(),
                Outcome::Pass
            );
        }
    }

    #[test]
    fn a_bar_without_an_address_fails_and_a_gpu_off_the_bus_is_left_to_other_tests() {
        let mut fabric = machine(32 << 30, OFFERED);
        let gpu = fabric.gpus[1];
        fixture::device(&mut fabric, gpu).bars[1].start = 0;
        for mechanism in [PeerMechanism::Bar1, PeerMechanism::Native] {
            let said = say(&fabric, mechanism, by_driver(MEMORY).as_ref());
            assert_eq!(
                (said.outcome(), said.summary.as_str()),
                (Outcome::Fail, "BAR1 of 0000:11:00.0 has no address")
            );
        }
        fixture::device(&mut fabric, gpu).config.gone = true;
        let said = say(&fabric, PeerMechanism::Bar1, by_driver(MEMORY).as_ref());
        assert_eq!(
            (said.outcome(), &said.unchecked[..]),
            (Outcome::Pass, &[Code::Bar1Small][..])
        );
        for gpu in fabric.gpus.clone() {
            fixture::device(&mut fabric, gpu).config.gone = true;
        }
        let said = say(&fabric, PeerMechanism::Bar1, None);
        assert_eq!(said.outcome(), Outcome::NotApplicable);
        assert!(
            said.summary.starts_with("no GPU answers"),
            "{}",
            said.summary
        );
    }

    #[test]
    fn without_a_second_gpu_nothing_reaches_bar1() {
        let of = |gpus| {
            let fabric = fixture::machine(gpus);
            no_gpu_peer(&fabric, &fabric.peers)
        };
        assert_eq!(of(2), None);
        assert_eq!(
            of(1).unwrap(),
            "one GPU, and no network card that exchanges data with it"
        );
        assert_eq!(of(0).unwrap(), "no NVIDIA GPU");
        let mut card = fixture::machine(1);
        card.peers.none = None;
        card.peers.pairs = vec![(card.gpus[0], fixture::port(0))];
        assert!(
            no_gpu_peer(&card, &card.peers)
                .unwrap()
                .starts_with("no GPU exchanges data")
        );
    }

    #[test]
    fn no_gpu_is_not_applicable() {
        assert_eq!(
            judge(&[], &BTreeMap::new()).outcome(),
            Outcome::NotApplicable
        );
    }
}
