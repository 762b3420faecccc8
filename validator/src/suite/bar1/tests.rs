//! Sizes against what is known of a GPU's memory, by the way that its peers reach it.

use super::super::fixture;
use super::*;
use crate::outcome::Outcome;
use crate::pcie::model::{Bar, Fabric, Rebar};

/// Two GPUs with a register BAR, BAR1 of `bytes`, and the sizes they offer.
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

fn say(fabric: &Fabric, way: Way, memory: Option<u64>) -> Judgement {
    let gpus = fabric.devices.iter().filter(|d| fabric.gpus.contains(&d.bdf)).map(|d| (d, way));
    let of = fabric.gpus.iter().filter_map(|gpu| Some((gpu.to_string(), memory?)));
    judge(&gpus.collect::<Vec<_>>(), &of.collect())
}

const OFFERED: &[u64] = &[64 << 20, 256 << 20, 16 << 30, 32 << 30];
/// 24210 MiB, as an RTX 4090 shows it.
const MEMORY: u64 = 0x5_e920_0000;

#[test]
fn the_largest_size_passes_and_256_mib_is_the_failure() {
    let said = say(&machine(32 << 30, OFFERED), Way::Bar1, None);
    assert_eq!(
        (said.outcome(), said.summary.as_str()),
        (Outcome::Pass, "2 GPUs: 32 GiB; the largest size that each offers")
    );
    let said = say(&machine(256 << 20, OFFERED), Way::Bar1, None);
    assert!(
        said.outcome() == Outcome::Fail && said.findings.len() == 2 && said.findings[0].is(Code::Bar1Small)
    );
    assert_eq!(said.summary, "BAR1 of 0000:10:00.0 is 256 MiB, expected the 32 GiB that the GPU offers");
    assert_eq!(said.findings[0].expected, 32_u64 << 30);
}

#[test]
fn known_memory_decides_over_what_is_offered() {
    let said = say(&machine(32 << 30, &[64 << 30]), Way::Bar1, Some(MEMORY));
    assert_eq!(said.summary, "2 GPUs: 32 GiB; that is all of their memory");
    let said = say(&machine(16 << 30, &[16 << 30]), Way::Bar1, Some(MEMORY));
    assert_eq!(said.summary, "BAR1 of 0000:10:00.0 is 16 GiB, expected the 24210 MiB of memory");
}

#[test]
fn a_bar1_that_is_smaller_in_the_hardware_than_for_the_kernel_is_broken() {
    for way in [Way::Bar1, Way::Native] {
        let mut fabric = machine(32 << 30, OFFERED);
        let gpu = fabric.gpus[1];
        fixture::device(&mut fabric, gpu).rebar[0].current_bytes = 256 << 20;
        let said = say(&fabric, way, Some(MEMORY));
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::RebarBroken), "{said:?}");
        assert_eq!(
            said.summary,
            "0000:11:00.0 has BAR1 of 256 MiB by its Resizable BAR control, the kernel believes 32 GiB"
        );
    }
}

#[test]
fn half_of_what_is_offered_is_not_enough() {
    assert_eq!(say(&machine(16 << 30, OFFERED), Way::Bar1, None).outcome(), Outcome::Fail);
}

#[test]
fn a_gpu_with_a_way_of_its_own_is_only_told_about() {
    let said = say(&machine(256 << 20, OFFERED), Way::Native, None);
    assert_eq!((said.outcome(), said.findings.len()), (Outcome::Pass, 2));
    assert_eq!(said.summary, "2 GPUs: 256 MiB; peers do not reach these GPUs through it");
}

#[test]
fn without_sizes_on_offer_256_mib_fails_and_more_is_an_error_unless_the_memory_is_known() {
    assert_eq!(say(&machine(256 << 20, &[]), Way::Bar1, None).outcome(), Outcome::Fail);
    let mut fabric = machine(32 << 30, &[]);
    let said = say(&fabric, Way::Bar1, None);
    assert_eq!(
        (said.outcome(), said.summary.as_str()),
        (
            Outcome::Error,
            "BAR1 of 0000:10:00.0 is 32 GiB; it offers no sizes, and how much memory it has is not known"
        )
    );
    assert_eq!(say(&fabric, Way::Native, None).outcome(), Outcome::Pass);
    assert_eq!(say(&fabric, Way::Bar1, Some(MEMORY)).outcome(), Outcome::Pass);
    for device in &mut fabric.devices {
        device.config.bytes = 256;
    }
    assert_eq!(say(&fabric, Way::Bar1, None).outcome(), Outcome::Error);
    assert_eq!(say(&fabric, Way::Native, None).outcome(), Outcome::Pass);
    assert_eq!(say(&fabric, Way::Bar1, Some(MEMORY)).outcome(), Outcome::Pass);
}

#[test]
fn a_bar_without_an_address_fails_and_a_gpu_off_the_bus_is_left_to_others() {
    let mut fabric = machine(32 << 30, OFFERED);
    let gpu = fabric.gpus[1];
    fixture::device(&mut fabric, gpu).bars[1].start = 0;
    let said = say(&fabric, Way::Bar1, None);
    assert_eq!(
        (said.outcome(), said.summary.as_str()),
        (Outcome::Fail, "BAR1 of 0000:11:00.0 has no address")
    );
    fixture::device(&mut fabric, gpu).config.gone = true;
    assert_eq!(say(&fabric, Way::Bar1, None).outcome(), Outcome::Pass);
}

#[test]
fn without_a_gpu_there_is_nothing_to_cover() {
    assert_eq!(judge(&[], &BTreeMap::new()).outcome(), Outcome::NotApplicable);
}

#[test]
fn memory_is_what_the_driver_logged_of_each_gpu() {
    let fabric = machine(32 << 30, OFFERED);
    let gpus: Vec<_> =
        fabric.devices.iter().filter(|d| fabric.gpus.contains(&d.bdf)).map(|d| (d, Way::Bar1)).collect();
    let line = |text: &str| Line { seq: 0, at: std::time::Duration::ZERO, text: text.into() };
    let ours =
        line("BAR1 peer-to-peer of 0000:10:00.0 possible: video memory 0x5e9200000, BAR1 0x800000000 at 0x0");
    let theirs = line("Static bar1 mapped offset 0x0 size 0x100000000");
    assert_eq!(memory(&gpus, std::slice::from_ref(&ours)).get("0000:10:00.0"), Some(&MEMORY));
    assert_eq!(memory(&gpus, &[ours, theirs.clone()]).get("0000:11:00.0"), Some(&(4 << 30)));
    let mut mixed = fabric.clone();
    let gpu = mixed.gpus[0];
    fixture::device(&mut mixed, gpu).device = "0x2204".into();
    let gpus: Vec<_> =
        mixed.devices.iter().filter(|d| mixed.gpus.contains(&d.bdf)).map(|d| (d, Way::Bar1)).collect();
    assert_eq!(memory(&gpus, &[theirs]), BTreeMap::new(), "nobody knows whose it is");
}
