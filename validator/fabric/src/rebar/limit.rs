//! Whether BAR1 of a board can cover its memory at all: no setting of the machine makes it larger than the board offers. Pure.

use machine::host::nvidia::boards;
use machine::host::nvidia::chip::{self, Family};
use machine::pcie::model::{Device, Undetermined};
use outcome::finding::Reason;

/// The whole configuration space, which contains the offered sizes.
const CONFIG_SPACE_BYTES: usize = 4096;
/// BAR1 without Resizable BAR. Each board with Resizable BAR has more memory.
pub const DEFAULT_BAR1: u64 = 256 << 20;
/// The first device id of Ampere (GA100).
const AMPERE: u16 = 0x20b0;

/// Why the largest BAR1 that `gpu` offers does not cover its memory of `memory` bytes, or more than 256 MiB if its memory is
/// unknown; `None` if it does, or if the offered sizes cannot be read.
#[must_use]
pub fn limit(gpu: &Device, memory: Option<u64>) -> Option<Reason> {
    let needed = memory.unwrap_or(DEFAULT_BAR1 + 1);
    let present = gpu
        .aperture()
        .filter(|bar| bar.start != 0)
        .map(|bar| bar.bytes);
    let offered = gpu
        .aperture_sizes()
        .and_then(|rebar| rebar.supported_bytes.last().copied());
    let largest = offered.max(present)?;
    if largest >= needed {
        return None;
    }
    let id = chip::number(&gpu.device);
    let model = id.and_then(boards::largest_bar1_mib).map(|mib| mib << 20);
    // Memory was added to the board: the model's VBIOS is for less.
    let added = memory
        .zip(model)
        .is_some_and(|(memory, model)| memory > model);
    if added {
        return Some(Reason::BoardLimit);
    }
    let readable = gpu.config.bytes >= CONFIG_SPACE_BYTES
        && !gpu.config.undetermined.contains(&Undetermined::Rebar);
    if offered.is_none() && !readable {
        return None;
    }
    // No VBIOS gives a larger BAR1 to boards from before Ampere; the ids of TU116 are above those of GA100.
    let turing = |id| chip::of(id).is_some_and(|chip| chip.family == Family::Turing);
    let old = id.is_some_and(|id| id < AMPERE || turing(id));
    let newer_may_offer = model.is_some() || largest <= DEFAULT_BAR1;
    Some(if newer_may_offer && !old {
        Reason::VbiosLimit
    } else {
        Reason::BoardLimit
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::pcie::model::{Bar, Rebar};
    use machine::pcie::sample;

    const MIB: u64 = 1 << 20;

    fn gpu(device: &str, present: u64, offered: &[u64]) -> Device {
        let mut gpu = sample::gpu("0000:01:00.0", "0000:00:01.0");
        gpu.device = device.into();
        gpu.config.bytes = CONFIG_SPACE_BYTES;
        gpu.bars = vec![Bar {
            index: 1,
            start: 1 << 40,
            bytes: present * MIB,
            flags: 0,
        }];
        let supported_bytes = offered.iter().map(|mib| mib * MIB).collect();
        let rebar = Rebar {
            bar: 1,
            current_bytes: present * MIB,
            supported_bytes,
        };
        gpu.rebar = if offered.is_empty() {
            vec![]
        } else {
            vec![rebar]
        };
        gpu
    }

    #[test]
    fn a_board_that_could_offer_more_needs_a_vbios_and_one_with_added_memory_has_no_remedy() {
        let (vbios, board) = (Some(Reason::VbiosLimit), Some(Reason::BoardLimit));
        for (device, present, offered, memory, expected) in [
            // RTX 3090: an old VBIOS, without and with the capability, a newer one, and one that was not used.
            ("0x2204", 256, &[64, 128, 256][..], Some(24576), &vbios),
            ("0x2204", 256, &[], Some(24576), &vbios),
            ("0x2204", 32768, &[256, 32768], Some(24576), &None),
            ("0x2204", 256, &[256, 32768], Some(24576), &None),
            ("0x2204", 256, &[256, 16384], Some(24576), &vbios),
            // RTX 4090 with 48 GiB: in a guest that hides the sizes too; and with a VBIOS for so much.
            ("0x2684", 32768, &[256, 32768], Some(49140), &board),
            ("0x2684", 256, &[256, 32768], Some(49140), &board),
            ("0x2684", 256, &[256], Some(49140), &board),
            ("0x2684", 32768, &[], Some(49140), &board),
            ("0x2684", 32768, &[256, 65536], Some(49140), &None),
            // A board that is not in the table.
            ("0x2fff", 256, &[256], None, &vbios),
            ("0x2fff", 256, &[], None, &vbios),
            ("0x2fff", 32768, &[32768], None, &None),
            ("0x2fff", 32768, &[32768], Some(49140), &board),
            ("0x2fff", 256, &[32768], Some(24576), &None),
            // A board from before Resizable BAR.
            ("0x1e04", 256, &[64, 256], Some(11264), &board),
            ("0x1e04", 256, &[], None, &board),
            ("0x2182", 256, &[256], None, &board),
            ("0x20b0", 256, &[256], None, &vbios),
        ] {
            let said = limit(
                &gpu(device, present, offered),
                memory.map(|mib: u64| mib * MIB),
            );
            assert_eq!(&said, expected, "{device} {present} {offered:?} {memory:?}");
        }
    }

    #[test]
    fn sizes_that_cannot_be_read_are_no_limit() {
        let mut hidden = gpu("0x2204", 256, &[]);
        hidden.config.bytes = 256;
        assert_eq!(limit(&hidden, Some(24576 * MIB)), None);
        hidden.config.bytes = 4096;
        hidden.config.undetermined = vec![Undetermined::Rebar];
        assert_eq!(limit(&hidden, Some(24576 * MIB)), None);
        let mut without = gpu("0x2204", 256, &[]);
        without.bars.clear();
        assert_eq!(
            limit(&without, Some(24576 * MIB)),
            None,
            "it has no address, which is another fault"
        );
    }
}
