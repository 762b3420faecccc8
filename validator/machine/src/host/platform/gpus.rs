//! Each GPU: its model and memory by the best source, its kind, and what a hypervisor or a guest has to do with it.

use crate::host::nvidia::gpus::Information;
use crate::host::nvidia::{board_kind, boards, chip};
use crate::pcie::config_space;
use crate::pcie::model::{Bdf, Device, Fabric};
use crate::pcie::tree::Tree;
use crate::root::Root;
use outcome::platform::{GpuId, HostGpu, Known, MemorySource};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// The GPUs of a fabric, in the order of their numbers. Their cliques and hot-plug ports are not in a fabric.
pub(super) fn of(
    fabric: &Fabric,
    known: &BTreeMap<String, Information>,
    memory: &BTreeMap<Bdf, Known<u64>>,
) -> Vec<HostGpu> {
    let tree = Tree::of(fabric);
    let there =
        GpuId::each(fabric.gpus.iter()).filter_map(|(number, bdf)| Some((number, tree.get(*bdf)?)));
    there
        .map(|(number, gpu)| {
            let name = known
                .get(&gpu.bdf.to_string())
                .and_then(|information| information.name.as_deref());
            let id = chip::number(&gpu.device);
            let boards = id.map_or_else(Vec::new, |id| boards::of(id, None));
            let possible =
                id.map_or_else(Vec::new, |id| boards::possible(id, largest_bar1_mib(gpu)));
            HostGpu {
                bdf: gpu.bdf,
                number,
                model: model(name, &boards),
                memory_bytes: memory
                    .get(&gpu.bdf)
                    .cloned()
                    .or_else(|| memory_of(&possible)),
                geforce: board_kind::geforce(id, name),
                integrated: board_kind::is_integrated(id, name),
                own_link: board_kind::has_own_link(id, name),
                passed_by: gpu.pass_through_driver().map(str::to_owned),
                hot_plug: None,
                clique: None,
                slot: tree.above(gpu.bdf).into_iter().find_map(|port| port.slot),
            }
        })
        .collect()
}

/// The clique in a GPU's configuration space.
pub(super) fn clique(root: &Root, gpu: Bdf) -> Option<u8> {
    config_space::clique(
        &root
            .read(format!("sys/bus/pci/devices/{gpu}/config"))
            .ok()?,
    )
}

/// The largest size that BAR1 offers.
fn largest_bar1_mib(gpu: &Device) -> Option<u64> {
    gpu.aperture_sizes()?
        .supported_bytes
        .last()
        .map(|bytes| bytes / MIB)
}

/// The driver's name, else the one name of the boards with this id.
fn model(name: Option<&str>, boards: &[boards::Board]) -> Option<Known<String>> {
    let by_driver = name.map(|name| Known {
        value: name.to_owned(),
        source: MemorySource::Driver,
    });
    by_driver.or_else(|| {
        let first = boards
            .first()
            .filter(|first| boards.iter().all(|board| board.name == first.name))?;
        Some(Known {
            value: format!("NVIDIA GeForce RTX {}", first.name),
            source: MemorySource::Boards,
        })
    })
}

/// The memory of the boards that it can be, if all of them have the same.
fn memory_of(boards: &[boards::Board]) -> Option<Known<u64>> {
    let first = boards.first().filter(|first| {
        boards
            .iter()
            .all(|board| board.memory_mib == first.memory_mib)
    })?;
    Some(Known {
        value: first.memory_mib * MIB,
        source: MemorySource::Boards,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcie::model::Rebar;
    use crate::pcie::sample;

    fn gpus(change: impl Fn(&mut Device), name: Option<&str>) -> Vec<HostGpu> {
        let mut fabric = sample::fabric(sample::two_gpus());
        fabric.devices[0].slot = Some(7);
        change(&mut fabric.devices[2]);
        let information = Information {
            name: name.map(str::to_owned),
            ..Information::default()
        };
        let known = BTreeMap::from([(fabric.gpus[0].to_string(), information)]);
        of(&fabric, &known, &BTreeMap::new())
    }

    #[test]
    fn a_board_is_known_by_its_id_and_better_by_its_driver() {
        let both = gpus(|_| (), Some("NVIDIA GeForce RTX 4090"));
        assert_eq!(
            (both[0].number, both[1].number),
            (GpuId::new(0), GpuId::new(1))
        );
        assert_eq!((both[0].slot, both[1].slot), (Some(7), None));
        let sources: Vec<_> = both
            .iter()
            .filter_map(|gpu| gpu.model.as_ref())
            .map(|m| m.source)
            .collect();
        assert_eq!(sources, [MemorySource::Driver, MemorySource::Boards]);
        assert_eq!(
            both[1].model.as_ref().unwrap().value,
            "NVIDIA GeForce RTX 4090"
        );
        let memory = Some(Known {
            value: 24564 * MIB,
            source: MemorySource::Boards,
        });
        assert_eq!(
            (&both[0].memory_bytes, both[0].geforce),
            (&memory, Some(true))
        );
    }

    #[test]
    fn two_boards_of_one_id_are_told_apart_by_the_largest_bar1() {
        let with = |supported: &[u64]| {
            let change = |gpu: &mut Device| {
                gpu.device = "0x2d04".into();
                gpu.rebar = vec![Rebar {
                    bar: 1,
                    current_bytes: 256 * MIB,
                    supported_bytes: supported.to_vec(),
                }];
            };
            gpus(change, None)[0].clone()
        };
        assert_eq!(with(&[]).memory_bytes, None);
        assert_eq!(
            with(&[256 * MIB, 8192 * MIB]).memory_bytes.unwrap().value,
            8151 * MIB
        );
        assert_eq!(
            with(&[16384 * MIB]).memory_bytes.unwrap().value,
            16311 * MIB
        );
        assert_eq!(
            with(&[256 * MIB]).memory_bytes,
            None,
            "the VBIOS offers less"
        );
        assert_eq!(with(&[]).model.unwrap().value, "NVIDIA GeForce RTX 5060 Ti");
    }

    #[test]
    fn a_board_that_offers_more_than_its_id_is_another_board_and_one_that_offers_less_is_not() {
        let with = |largest: u64| {
            let rebar = Rebar {
                bar: 1,
                current_bytes: 256 * MIB,
                supported_bytes: vec![largest * MIB],
            };
            gpus(|gpu| gpu.rebar = vec![rebar.clone()], None)[0]
                .memory_bytes
                .clone()
                .map(|memory| memory.value / MIB)
        };
        assert_eq!(
            [with(256), with(32768), with(65536)],
            [Some(24564), Some(24564), None]
        );
    }

    #[test]
    fn kinds_of_boards_and_a_guests_gpu_are_known() {
        let of = |device: &str| gpus(|gpu| gpu.device = device.into(), None)[0].clone();
        let (spark, grace, unknown) = (of("0x2e12"), of("0x2342"), of("0x3fff"));
        assert!(spark.integrated && !spark.own_link && spark.geforce == Some(false));
        assert!(grace.own_link && !grace.integrated);
        assert_eq!(
            (unknown.geforce, unknown.model, unknown.memory_bytes),
            (None, None, None)
        );
        for (driver, passed) in [
            ("vfio-pci", true),
            ("nvgrace-gpu-vfio-pci", true),
            ("nvidia", false),
        ] {
            let gpu = &gpus(|gpu| gpu.driver = Some(driver.into()), None)[0];
            assert_eq!(gpu.passed_by.as_deref(), passed.then_some(driver));
        }
    }
}
