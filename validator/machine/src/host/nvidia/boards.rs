//! GeForce boards by PCI device id, and the memory that `nvidia-smi` shows for them. BAR1 can be as large as
//! the next power of two. Ids and names as in NVIDIA's table of names (g_nv_name_released.h). A board that is
//! not listed is unknown. Pure.

/// One board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Board {
    /// PCI device id of vendor 10de.
    pub device: u16,
    /// Its name, after `GeForce RTX`.
    pub name: &'static str,
    /// Its memory, MiB.
    pub memory_mib: u64,
    /// The part of it that the driver leaves to programs, MiB, if it was measured.
    pub usable_mib: Option<u64>,
}

/// Boards with two sizes of memory under one id have two rows.
const BOARDS: &[Board] = &[
    board(0x2203, "3090 Ti", 24564),
    board(0x2204, "3090", 24576),
    board(0x2206, "3080", 10240),
    board(0x220a, "3080", 12288),
    board(0x2208, "3080 Ti", 12288),
    board(0x2216, "3080", 10240),
    board(0x2482, "3070 Ti", 8192),
    board(0x2484, "3070", 8192),
    board(0x2488, "3070", 8192),
    board(0x2486, "3060 Ti", 8192),
    board(0x2489, "3060 Ti", 8192),
    board(0x2503, "3060", 12288),
    board(0x2504, "3060", 12288),
    // The usable memory is as the driver logged it when it made the map.
    Board {
        usable_mib: Some(24210),
        ..board(0x2684, "4090", 24564)
    },
    board(0x2685, "4090 D", 24564),
    board(0x2702, "4080 SUPER", 16376),
    board(0x2704, "4080", 16376),
    board(0x2705, "4070 Ti SUPER", 16376),
    board(0x2782, "4070 Ti", 12282),
    board(0x2783, "4070 SUPER", 12282),
    board(0x2786, "4070", 12282),
    board(0x2803, "4060 Ti", 8188),
    board(0x2805, "4060 Ti", 16380),
    board(0x2882, "4060", 8188),
    board(0x2b85, "5090", 32607),
    board(0x2b87, "5090 D", 32607),
    board(0x2c02, "5080", 16303),
    board(0x2c05, "5070 Ti", 16303),
    board(0x2f04, "5070", 12227),
    board(0x2d04, "5060 Ti", 16311),
    board(0x2d04, "5060 Ti", 8151),
    board(0x2d05, "5060", 8151),
];

const fn board(device: u16, name: &'static str, memory_mib: u64) -> Board {
    Board {
        device,
        name,
        memory_mib,
        usable_mib: None,
    }
}

impl Board {
    /// The largest BAR1 that it offers, MiB.
    #[must_use]
    pub const fn largest_bar1_mib(&self) -> u64 {
        self.memory_mib.next_power_of_two()
    }
}

/// The boards with a device id; if `largest_bar1_mib` is known, only those whose largest BAR1 has this size.
#[must_use]
pub fn of(device: u16, largest_bar1_mib: Option<u64>) -> Vec<Board> {
    let fits = |board: &&Board| largest_bar1_mib.is_none_or(|mib| board.largest_bar1_mib() == mib);
    BOARDS
        .iter()
        .filter(|board| board.device == device)
        .filter(fits)
        .copied()
        .collect()
}

/// The boards that a GPU with this device id can be. The largest BAR1 that it offers tells boards of several sizes apart, and
/// one that is larger than that of any such board shows that it is another board. A smaller one shows nothing: the board's
/// VBIOS may offer less than its memory needs.
#[must_use]
pub fn possible(device: u16, largest_bar1_mib: Option<u64>) -> Vec<Board> {
    let exact = of(device, largest_bar1_mib);
    if !exact.is_empty() {
        return exact;
    }
    let mut all = of(device, None);
    all.retain(|board| largest_bar1_mib.is_none_or(|mib| mib <= board.largest_bar1_mib()));
    all
}

/// The largest BAR1 that boards with this device id offer, MiB; `None` if there is no such board.
#[must_use]
pub fn largest_bar1_mib(device: u16) -> Option<u64> {
    of(device, None).iter().map(Board::largest_bar1_mib).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_of_bar1_tell_boards_of_one_id_apart() {
        assert_eq!(of(0x2d04, None).len(), 2);
        let small = of(0x2d04, Some(8192));
        assert_eq!((small.len(), small[0].memory_mib), (1, 8151));
        assert_eq!(of(0x2b85, Some(32768))[0].name, "5090");
        // A size that the board does not offer belongs to a board that is not in the table.
        assert_eq!(
            (of(0x2b85, Some(65536)), of(0x1234, None)),
            (vec![], vec![])
        );
    }

    #[test]
    fn a_vbios_that_offers_less_leaves_all_boards_of_the_id_possible() {
        let sizes = |device, mib| {
            possible(device, mib)
                .iter()
                .map(|board| board.memory_mib)
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes(0x2204, Some(256)), [24576]);
        assert_eq!(sizes(0x2204, Some(32768)), [24576]);
        assert!(
            possible(0x2204, Some(65536)).is_empty(),
            "it is another board"
        );
        assert_eq!(
            (sizes(0x2d04, Some(256)), sizes(0x2d04, None)),
            (vec![16311, 8151], vec![16311, 8151])
        );
        assert_eq!(
            (sizes(0x2d04, Some(8192)), sizes(0x2d04, Some(16384))),
            (vec![8151], vec![16311])
        );
        assert_eq!(
            (largest_bar1_mib(0x2d04), largest_bar1_mib(0x1234)),
            (Some(16384), None)
        );
    }

    #[test]
    fn memory_is_below_bar1_and_programs_have_less() {
        for board in BOARDS {
            let bar1 = board.largest_bar1_mib();
            assert!(
                board.memory_mib <= bar1 && board.memory_mib > bar1 / 2,
                "{board:?}"
            );
            assert!(
                board.usable_mib.is_none_or(|mib| mib < board.memory_mib),
                "{board:?}"
            );
        }
    }
}
