//! The memory of GPUs, by the best source: NVML, then the driver's lines in the kernel's log, then the table of boards.

use super::PeerMechanism;
use crate::suite::TestContext;
use crate::suite::shared::bar1_mapping::Bar1ByGpu;
use machine::host::kmsg::Line;
use machine::host::nvidia::{boards, chip, log};
use machine::pcie::model::{Bdf, Device};
use outcome::platform::MemorySource;
use std::collections::{BTreeMap, BTreeSet};

/// A GPU's memory, bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Memory {
    /// The least that it can be.
    pub(super) least: u64,
    /// The most that it can be.
    pub(super) most: u64,
    /// The part that programs can use, if known.
    pub(super) usable: Option<u64>,
    /// Where it is from.
    pub(super) source: MemorySource,
    /// The name of the board, where the source is the table.
    pub(super) board: Option<&'static str>,
}

impl Memory {
    /// `, by the table of boards`; empty if it is the driver's.
    pub(super) fn by(&self) -> String {
        if self.source == MemorySource::Driver {
            String::new()
        } else {
            format!(", by {}", self.source)
        }
    }
}

/// The memory of GPUs by address; those of which it is unknown are not in it.
pub(super) type MemoryByGpu = BTreeMap<Bdf, Memory>;

/// The memory of these GPUs, and why NVML did not say it. NVML is asked where a driver is loaded and a peer uses BAR1.
pub(super) fn read(
    context: &TestContext,
    gpus: &[(&Device, PeerMechanism)],
    lines: &[Line],
) -> (MemoryByGpu, Option<String>) {
    let loaded = context.nvidia.loaded.as_ref().is_ok_and(Option::is_some);
    let needed = gpus
        .iter()
        .any(|(gpu, mechanism)| *mechanism == PeerMechanism::Bar1 && !gpu.config.gone);
    let asked = (loaded && needed).then(|| context.bar1_by_gpu());
    let asked = asked.as_deref().map(Result::as_ref);
    let why = asked.and_then(Result::err).cloned();
    (by_gpu(gpus, asked.and_then(Result::ok), lines), why)
}

fn by_gpu(
    gpus: &[(&Device, PeerMechanism)],
    nvml: Option<&Bar1ByGpu>,
    lines: &[Line],
) -> MemoryByGpu {
    let mut memory: MemoryByGpu = gpus
        .iter()
        .filter_map(|(gpu, _)| Some((gpu.bdf, of_board(gpu)?)))
        .collect();
    memory.extend(logged(gpus, lines));
    memory.extend(
        gpus.iter()
            .filter_map(|(gpu, _)| Some((gpu.bdf, reported(nvml?, gpu.bdf)?))),
    );
    memory
}

/// What NVML reports about a GPU. Some virtual machines report 0.
fn reported(nvml: &Bar1ByGpu, gpu: Bdf) -> Option<Memory> {
    let window = nvml
        .get(&gpu)?
        .as_ref()
        .ok()
        .filter(|window| window.memory > 0)?;
    let all = window.memory;
    Some(Memory {
        least: all,
        most: all,
        usable: Some(window.usable),
        source: MemorySource::Driver,
        board: None,
    })
}

/// What the driver logged: for each GPU, or for all where all are of the same model. It is the part that programs can use.
fn logged(gpus: &[(&Device, PeerMechanism)], lines: &[Line]) -> MemoryByGpu {
    let of = |least, most| {
        let usable = (least == most).then_some(least);
        Memory {
            least,
            most,
            usable,
            source: MemorySource::Log,
            board: None,
        }
    };
    let models: BTreeSet<_> = gpus.iter().map(|(gpu, _)| &gpu.device).collect();
    let maps = log::static_maps(lines);
    let of_all = maps
        .iter()
        .min()
        .zip(maps.iter().max())
        .filter(|_| models.len() == 1);
    let of_all = of_all.map(|(least, most)| of(*least, *most));
    let mut memory: MemoryByGpu = gpus
        .iter()
        .filter_map(|(gpu, _)| Some((gpu.bdf, of_all.clone()?)))
        .collect();
    let own = log::bar1_peers(lines)
        .into_iter()
        .filter_map(|line| Some((line.gpu.parse::<Bdf>().ok()?, line.memory?)));
    memory.extend(
        own.filter(|(gpu, _)| gpus.iter().any(|(own, _)| own.bdf == *gpu))
            .map(|(gpu, it)| (gpu, of(it, it))),
    );
    memory
}

/// The range of the boards that it can be.
pub(super) fn of_board(gpu: &Device) -> Option<Memory> {
    let offered = gpu
        .aperture_sizes()
        .and_then(|rebar| rebar.supported_bytes.last().copied());
    let all = boards::possible(chip::number(&gpu.device)?, offered.map(|bytes| bytes >> 20));
    let sizes = || all.iter().map(|board| board.memory_mib << 20);
    let usable = all
        .first()
        .filter(|_| all.len() == 1)
        .and_then(|board| board.usable_mib)
        .map(|mib| mib << 20);
    Some(Memory {
        least: sizes().min()?,
        most: sizes().max()?,
        usable,
        source: MemorySource::Boards,
        board: all.first().map(|board| board.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use gpu::Bar1Memory;
    use machine::pcie::model::{Fabric, Rebar};

    const MIB: u64 = 1 << 20;

    fn gpus(fabric: &Fabric) -> Vec<(&Device, PeerMechanism)> {
        fabric
            .devices
            .iter()
            .filter(|d| fabric.gpus.contains(&d.bdf))
            .map(|d| (d, PeerMechanism::Bar1))
            .collect()
    }

    fn line(text: &str) -> Line {
        Line {
            seq: 0,
            at: std::time::Duration::ZERO,
            text: text.into(),
        }
    }

    /// The least and the most of each GPU, MiB, with the source.
    fn say(
        fabric: &Fabric,
        nvml: Option<&Bar1ByGpu>,
        lines: &[&str],
    ) -> Vec<(u64, u64, MemorySource)> {
        let lines: Vec<_> = lines.iter().map(|text| line(text)).collect();
        let memory = by_gpu(&gpus(fabric), nvml, &lines);
        memory
            .values()
            .map(|memory| (memory.least / MIB, memory.most / MIB, memory.source))
            .collect()
    }

    const OURS: &str = "BAR1 peer-to-peer of 0000:10:00.0 possible: video memory 0x5e9200000, BAR1 0x800000000 at 0x0";
    const THEIRS: &str = "Static bar1 mapped offset 0x0 size 0x100000000";
    const OTHERS: &str = "Static bar1 mapped offset 0x0 size 0x200000000";

    #[test]
    fn nvml_is_better_than_the_log_and_the_log_is_better_than_the_table() {
        let fabric = fixture::machine(2);
        let board = (24564, 24564, MemorySource::Boards);
        assert_eq!(say(&fabric, None, &[]), [board, board]);
        let logged = (24210, 24210, MemorySource::Log);
        assert_eq!(say(&fabric, None, &[OURS]), [logged, board]);
        assert_eq!(
            say(&fabric, None, &[OURS, THEIRS]),
            [logged, (4096, 4096, MemorySource::Log)]
        );
        let range = (4096, 8192, MemorySource::Log);
        assert_eq!(
            say(&fabric, None, &[OTHERS, THEIRS]),
            [range, range],
            "it is unknown which is whose"
        );
        let asked = |memory| Bar1Memory {
            bar1: 32 << 30,
            mapped: 0,
            memory,
            usable: memory / 2,
        };
        let nvml = BTreeMap::from([
            (fabric.gpus[0], Ok(asked(49140 * MIB))),
            (fabric.gpus[1], Ok(asked(0))),
            ("0000:99:00.0".parse().unwrap(), Err("lost".to_owned())),
        ]);
        assert_eq!(
            say(&fabric, Some(&nvml), &[OURS]),
            [(49140, 49140, MemorySource::Driver), board]
        );
    }

    #[test]
    fn a_line_without_an_address_is_about_no_gpu_of_a_mixed_machine() {
        let mut fabric = fixture::machine(2);
        for gpu in fabric.gpus.clone() {
            fixture::device(&mut fabric, gpu).device = "0x2fff".into();
        }
        assert_eq!(say(&fabric, None, &[THEIRS]).len(), 2);
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, gpu).device = "0x2ffe".into();
        assert_eq!(say(&fabric, None, &[THEIRS]), []);
    }

    #[test]
    fn boards_of_one_id_give_a_range_unless_the_offered_sizes_tell_them_apart() {
        let with = |device: &str, offered: Option<u64>| {
            let mut fabric = fixture::machine(1);
            let gpu = fabric.gpus[0];
            let gpu = fixture::device(&mut fabric, gpu);
            gpu.device = device.into();
            let rebar = |mib: u64| Rebar {
                bar: 1,
                current_bytes: mib * MIB,
                supported_bytes: vec![mib * MIB],
            };
            gpu.rebar = offered.map(rebar).into_iter().collect();
            of_board(gpu).map(|memory| (memory.least / MIB, memory.most / MIB))
        };
        assert_eq!(with("0x2d04", None), Some((8151, 16311)));
        assert_eq!(with("0x2d04", Some(256)), Some((8151, 16311)));
        assert_eq!(with("0x2d04", Some(8192)), Some((8151, 8151)));
        assert_eq!(
            (with("0x2204", Some(256)), with("0x2204", Some(65536))),
            (Some((24576, 24576)), None)
        );
        assert_eq!((with("0x2fff", Some(256)), with("odd", None)), (None, None));
    }
}
