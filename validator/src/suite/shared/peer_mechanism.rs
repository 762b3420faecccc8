//! How peers reach a GPU's memory over PCIe: through BAR1, which must then cover all of it, or by another
//! mechanism (NVLink, the mailbox of workstation and data-center boards).

use machine::host::nvidia::board_kind;
use machine::host::nvidia::chip::{self, Family};
use machine::host::nvidia::gpus::Information;
use machine::pcie::model::{Device, Fabric};
use std::collections::BTreeMap;

/// The mechanism by which peers reach a GPU's memory over PCIe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum PeerMechanism {
    /// Through BAR1: GeForce from Ampere on.
    Bar1,
    /// The driver has another mechanism.
    Native,
}

/// The first device id of GA102. Older GeForce GPUs have no Resizable BAR, so BAR1 can never cover their
/// memory; the ids between theirs and this one belong to GA100.
const FIRST_WITH_BAR1: u32 = 0x2200;

/// The mechanism that a GPU uses. If neither its name nor its id is known, a board with display outputs (class 0300) counts as
/// a GeForce, because an unknown board must not pass.
pub(in crate::suite) fn mechanism(gpu: &Device, known: Option<&Information>) -> PeerMechanism {
    let name = known.and_then(|information| information.name.as_deref());
    let geforce = board_kind::geforce(chip::number(&gpu.device), name);
    let consumer = geforce.unwrap_or_else(|| gpu.class.starts_with("0x0300"));
    if consumer && id(gpu) >= FIRST_WITH_BAR1 {
        PeerMechanism::Bar1
    } else {
        PeerMechanism::Native
    }
}

/// Whether this is one of AD102 to AD107, the only GPUs for which firstlight's own patches change the driver.
pub(in crate::suite) fn is_ada(gpu: &Device) -> bool {
    chip::number(&gpu.device)
        .and_then(chip::of)
        .is_some_and(|chip| chip.family == Family::Ada)
}

/// Whether this is a GeForce RTX 30, by its device id.
pub(in crate::suite) fn is_geforce_ampere(gpu: &Device) -> bool {
    let device = chip::number(&gpu.device);
    let ampere = device
        .and_then(chip::of)
        .is_some_and(|chip| chip.family == Family::Ampere);
    ampere && board_kind::geforce(device, None) == Some(true)
}

fn id(gpu: &Device) -> u32 {
    // An id that is not a number is not an old GPU either.
    chip::number(&gpu.device).map_or(u32::MAX, u32::from)
}

/// The GPUs of a machine, each with its mechanism.
pub(in crate::suite) fn mechanisms<'a>(
    fabric: &'a Fabric,
    known: &BTreeMap<String, Information>,
) -> Vec<(&'a Device, PeerMechanism)> {
    let gpus = fabric
        .devices
        .iter()
        .filter(|d| fabric.gpus.contains(&d.bdf));
    gpus.map(|d| (d, mechanism(d, known.get(&d.bdf.to_string()))))
        .collect()
}

/// The GPUs that are reached through BAR1.
pub(in crate::suite) fn through_bar1<'a>(
    fabric: &'a Fabric,
    known: &BTreeMap<String, Information>,
) -> Vec<&'a Device> {
    mechanisms(fabric, known)
        .into_iter()
        .filter(|(_, mechanism)| *mechanism == PeerMechanism::Bar1)
        .map(|(gpu, _)| gpu)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn of(device: &str, class: &str, name: Option<&str>) -> PeerMechanism {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        let gpu = fixture::device(&mut fabric, gpu);
        (gpu.device, gpu.class) = (device.into(), class.into());
        let known = Information {
            name: name.map(str::to_owned),
            ..Information::default()
        };
        mechanism(gpu, Some(&known))
    }

    #[test]
    fn geforce_from_ampere_on_goes_through_bar1_and_other_boards_do_not() {
        assert_eq!(
            of("0x2684", "0x030000", Some("NVIDIA GeForce RTX 4090")),
            PeerMechanism::Bar1
        );
        assert_eq!(
            of("0x2b85", "0x030000", Some("NVIDIA GeForce RTX 5090")),
            PeerMechanism::Bar1
        );
        assert_eq!(
            of("0x1e04", "0x030000", Some("NVIDIA GeForce RTX 2080 Ti")),
            PeerMechanism::Native
        );
        assert_eq!(
            of("0x26b1", "0x030000", Some("NVIDIA RTX 6000 Ada Generation")),
            PeerMechanism::Native
        );
        assert_eq!(
            of("0x2335", "0x030200", Some("NVIDIA H200")),
            PeerMechanism::Native
        );
    }

    #[test]
    fn only_ada_is_ada() {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        for (device, ada) in [
            ("0x2684", true),
            ("0x28ff", true),
            ("0x2204", false),
            ("0x2900", false),
            ("x", false),
        ] {
            let gpu = fixture::device(&mut fabric, gpu);
            gpu.device = device.into();
            assert_eq!(is_ada(gpu), ada, "{device}");
        }
    }

    #[test]
    fn only_geforce_boards_of_ampere_are_rtx_30() {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        let boards = [
            ("0x2204", true),
            ("0x2503", true),
            ("0x2230", false),
            ("0x2237", false),
            ("0x20b2", false),
        ];
        for (device, is) in
            boards
                .into_iter()
                .chain([("0x2684", false), ("0x22ff", false), ("x", false)])
        {
            let gpu = fixture::device(&mut fabric, gpu);
            gpu.device = device.into();
            assert_eq!(is_geforce_ampere(gpu), is, "{device}");
        }
    }

    #[test]
    fn a_gpu_without_a_name_is_judged_by_its_id_and_an_unknown_one_by_its_display_outputs() {
        assert_eq!(of("0x2684", "0x030000", None), PeerMechanism::Bar1);
        assert_eq!(of("0x2335", "0x030200", None), PeerMechanism::Native);
        assert_eq!(
            of("0x2230", "0x030000", None),
            PeerMechanism::Native,
            "RTX A6000"
        );
        assert_eq!(of("0x2fff", "0x030000", None), PeerMechanism::Bar1);
        assert_eq!(of("0x2fff", "0x030200", None), PeerMechanism::Native);
    }
}
