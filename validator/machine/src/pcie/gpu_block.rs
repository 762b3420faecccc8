//! The block of GPUs at the start of every command that speaks of GPUs: number, address, slot, model, and the first part
//! of the UUID, so that `GPU 3` in a finding is a card that somebody can pull. Pure.

use super::model::{Bdf, Device, Fabric, UNNAMED};
use super::tree::Tree;
use crate::host::nvidia::gpus::Information;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The digits of a UUID that tell cards apart.
const UUID: usize = 12;

/// One GPU of the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuLine {
    /// Its number: its place among the GPUs by address.
    pub number: usize,
    /// Its address.
    pub bdf: Bdf,
    /// The slot that the firmware names.
    pub slot: Option<u16>,
    /// The model.
    pub name: String,
    /// The whole UUID; only a running driver knows it.
    pub uuid: Option<String>,
}

/// One line for each GPU; what no GPU has is no column.
#[must_use]
pub fn gpu_block(gpus: &[GpuLine]) -> String {
    let widest = |width: fn(&GpuLine) -> usize| gpus.iter().map(width).max().unwrap_or_default();
    let digits = widest(|gpu| gpu.number.to_string().len());
    let slot = |gpu: &GpuLine| {
        gpu.slot
            .map(|slot| format!("slot {slot}"))
            .unwrap_or_default()
    };
    let slots = gpus
        .iter()
        .map(|gpu| slot(gpu).len())
        .max()
        .unwrap_or_default();
    let names = widest(|gpu| gpu.name.chars().count());
    let mut text = String::new();
    for gpu in gpus {
        let mut line = format!("  GPU {:<digits$}  {}", gpu.number, gpu.bdf);
        // Writing into a String cannot fail, here and below.
        if slots > 0 {
            let _ = write!(line, "  {:<slots$}", slot(gpu));
        }
        let uuid: String = gpu
            .uuid
            .iter()
            .flat_map(|uuid| uuid.chars())
            .take(UUID)
            .collect();
        let _ = write!(line, "  {:<names$}  {uuid}", gpu.name);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The block of a fabric. The driver's names, by address, are preferred to those of the system's `pci.ids`.
#[must_use]
pub fn fabric_block<F>(fabric: &Fabric<F>, known: &BTreeMap<String, Information>) -> String {
    let tree = Tree::of(fabric);
    let lines = fabric.gpus.iter().enumerate().map(|(number, bdf)| {
        let known = known.get(&bdf.to_string());
        let listed = || {
            tree.get(*bdf)
                .map_or(UNNAMED, Device::model_name)
                .to_owned()
        };
        let name = known
            .and_then(|known| known.name.clone())
            .unwrap_or_else(listed);
        let uuid = known.and_then(|known| known.uuid.clone());
        GpuLine {
            number,
            bdf: *bdf,
            slot: tree.slot(*bdf),
            name,
            uuid,
        }
    });
    gpu_block(&lines.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gpu_is_a_line_and_what_is_unknown_is_no_column() {
        let bdf = |bus| Bdf {
            domain: 0,
            bus,
            device: 0,
            function: 0,
        };
        let gpu = |number, bus, slot, uuid: Option<&str>| GpuLine {
            number,
            bdf: bdf(bus),
            slot,
            name: "NVIDIA H200".into(),
            uuid: uuid.map(str::to_owned),
        };
        let full = gpu_block(&[
            gpu(0, 1, Some(3), Some("GPU-3a5c0f12-0000-0000")),
            gpu(1, 0x41, None, None),
        ]);
        assert_eq!(
            full,
            "  GPU 0  0000:01:00.0  slot 3  NVIDIA H200  GPU-3a5c0f12\n  GPU 1  0000:41:00.0          NVIDIA H200\n"
        );
        assert_eq!(
            gpu_block(&[gpu(0, 1, None, None)]),
            "  GPU 0  0000:01:00.0  NVIDIA H200\n"
        );
        assert_eq!(gpu_block(&[]), "");
    }
}
