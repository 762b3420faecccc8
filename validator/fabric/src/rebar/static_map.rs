//! Whether the driver's static map of a GPU's memory fits into BAR1, and whether peers can use it there, computed as
//! NVIDIA's open modules from 570 on compute it (kern_bus_tu102.c, kern_bus_gm107.c, kern_bus_gh100.c) but before they
//! are loaded. The map begins after the console and the mailboxes of peers, if there are any, and BAR1 holds it less one
//! page of 2 MiB. A value that only the driver knows is a range, and a result that depends on such a value is unknown.
//! Pure.

use machine::host::nvidia::keys::StaticMap;

/// The driver maps peers only at addresses that are multiples of this, MiB (`_kbusCreateStaticBar1IOMMUMapping`). BAR1
/// itself begins at a multiple of its size.
const ALIGNMENT: u64 = 512;
/// From this version on the map begins at such a multiple (`kbusInitBar1`). Before, it begins on the next page.
const ALIGNED_SINCE: u32 = 580;
/// The most that a console and mailboxes take, MiB: a console of 7680 x 4320 pixels has 127.
const TAKEN: u64 = 128;
/// The pages of the map, MiB; the last one of BAR1 is not used.
const PAGE: u64 = 2;
/// What AUTO needs in addition to the memory, MiB: two registers of 64 KiB, and 1 MiB of user registers for
/// the channels of each run list, of which GPUs have 8 to 30.
const BESIDES: (u64, u64) = (8, 32);
/// The driver keeps between a hundredth and a twentieth of the memory for itself: 1.4 % of an RTX 4090's 24 GiB,
/// 2.5 % of a board with 8 GiB.
const KEPT: (u64, u64) = (100, 20);

/// A GPU's memory, MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The total: the least and the most that it can be.
    pub all: (u64, u64),
    /// The part that programs can use, if known.
    pub usable: Option<u64>,
}

/// Where the map begins in BAR1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At 0: nothing is before it.
    Zero,
    /// At 512 MiB, behind a console that is kept or behind mailboxes.
    Aligned,
    /// Directly behind these: 4 MiB on one machine with a console.
    Behind,
}

impl Start {
    /// The start for a driver of this version; `first_taken`: a console that is kept, or mailboxes, are at the start of
    /// BAR1.
    #[must_use]
    pub const fn of(version: u32, first_taken: bool) -> Self {
        match (first_taken, version >= ALIGNED_SINCE) {
            (false, _) => Self::Zero,
            (true, true) => Self::Aligned,
            (true, false) => Self::Behind,
        }
    }

    /// Whether the driver maps peers of a map that begins here.
    #[must_use]
    pub const fn is_aligned(self) -> bool {
        !matches!(self, Self::Behind)
    }

    /// The least and the most MiB.
    const fn mib(self) -> (u64, u64) {
        match self {
            Self::Zero => (0, 0),
            Self::Aligned => (ALIGNMENT, ALIGNMENT),
            Self::Behind => (PAGE, TAKEN),
        }
    }
}

/// The room for the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The size of BAR1, MiB.
    pub bar1: u64,
    /// Where the map begins.
    pub start: Start,
}

/// Whether the map fits into BAR1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It fits.
    Fits,
    /// It does not fit.
    Short {
        /// The least that the map needs, MiB.
        needed: u64,
        /// The space that BAR1 has for it, MiB.
        there: u64,
    },
    /// It depends on a value that only the driver knows.
    Unknown,
}

/// The result for the map that `RMForceStaticBar1` selects: `Forced` maps the memory that programs can use,
/// `Auto` needs room for all memory and for what the driver maps in addition.
#[must_use]
pub fn fit(memory: Memory, room: Room, map: StaticMap) -> Fit {
    let there = room.bar1.saturating_sub(PAGE);
    let (least, most) = match map {
        StaticMap::Off => return Fit::Fits,
        StaticMap::Forced => match memory.usable {
            Some(usable) => (usable / PAGE * PAGE, usable / PAGE * PAGE),
            None => (
                memory.all.0 - memory.all.0 / KEPT.1,
                memory.all.1 - memory.all.1 / KEPT.0,
            ),
        },
        StaticMap::Auto => {
            let pages = |mib: u64| mib.next_multiple_of(PAGE);
            (
                pages(memory.all.0) + BESIDES.0,
                pages(memory.all.1) + BESIDES.1,
            )
        }
    };
    let (first, last) = room.start.mib();
    match (first + least, last + most) {
        (_, most) if most <= there => Fit::Fits,
        (least, _) if least > there => Fit::Short {
            needed: least,
            there,
        },
        _ => Fit::Unknown,
    }
}

#[cfg(test)]
mod tests {
    //! Boards that are described in public threads.

    use super::*;

    fn of(memory: u64, usable: Option<u64>, bar1: u64, console: bool, map: StaticMap) -> Fit {
        let memory = Memory {
            all: (memory, memory),
            usable,
        };
        fit(
            memory,
            Room {
                bar1,
                start: Start::of(595, console),
            },
            map,
        )
    }

    #[test]
    fn a_5090_loses_the_automatic_map_to_a_console_and_keeps_the_forced_one() {
        assert_eq!(of(32607, None, 32768, false, StaticMap::Auto), Fit::Fits);
        let result = of(32607, None, 32768, true, StaticMap::Auto);
        assert_eq!(
            result,
            Fit::Short {
                needed: 33128,
                there: 32766
            }
        );
        // 511 MiB of its memory are not available to programs: 512 + 32096 fit.
        assert_eq!(
            of(32607, Some(32096), 32768, true, StaticMap::Forced),
            Fit::Fits
        );
        assert_eq!(
            of(32607, None, 32768, true, StaticMap::Forced),
            Fit::Unknown
        );
    }

    #[test]
    fn a_board_whose_memory_is_all_of_bar1_has_no_automatic_map_at_all() {
        // An RTX 4080 has 16376 MiB; boards with 16303 MiB leave 79 for what the driver maps in addition.
        let result = of(16376, None, 16384, false, StaticMap::Auto);
        assert_eq!(
            result,
            Fit::Short {
                needed: 16384,
                there: 16382
            }
        );
        assert_eq!(of(16303, None, 16384, false, StaticMap::Auto), Fit::Fits);
    }

    #[test]
    fn a_console_takes_the_forced_map_of_a_board_that_leaves_too_much_to_programs() {
        let result = of(16303, Some(15872), 16384, true, StaticMap::Forced);
        assert_eq!(
            result,
            Fit::Short {
                needed: 16384,
                there: 16382
            }
        );
        assert_eq!(
            of(16303, Some(15872), 16384, false, StaticMap::Forced),
            Fit::Fits
        );
        assert_eq!(
            of(16303, None, 16384, true, StaticMap::Forced),
            Fit::Unknown
        );
    }

    #[test]
    fn a_bar1_with_room_to_spare_fits_whatever_is_in_it() {
        for map in [StaticMap::Auto, StaticMap::Forced, StaticMap::Off] {
            assert_eq!(of(24564, Some(24210), 32768, true, map), Fit::Fits);
        }
        for map in [StaticMap::Auto, StaticMap::Forced] {
            assert!(matches!(
                of(24564, None, 256, false, map),
                Fit::Short { there: 254, .. }
            ));
        }
    }

    #[test]
    fn two_sizes_of_memory_give_a_result_only_if_it_is_the_same_for_both() {
        let fit = |bar1, map| {
            let memory = Memory {
                all: (8151, 16311),
                usable: None,
            };
            fit(
                memory,
                Room {
                    bar1,
                    start: Start::Zero,
                },
                map,
            )
        };
        assert_eq!(fit(32768, StaticMap::Auto), Fit::Fits);
        assert_eq!(
            fit(256, StaticMap::Auto),
            Fit::Short {
                needed: 8160,
                there: 254
            }
        );
        assert_eq!(fit(8192, StaticMap::Auto), Fit::Unknown);
    }

    #[test]
    fn up_to_575_a_console_leaves_room_for_the_map_of_a_5090_and_puts_it_where_no_peer_is_mapped() {
        for version in [570, 575] {
            let start = Start::of(version, true);
            assert_eq!((start, start.is_aligned()), (Start::Behind, false));
            let memory = |usable| Memory {
                all: (32607, 32607),
                usable,
            };
            let fit = |usable, map| fit(memory(usable), Room { bar1: 32768, start }, map);
            assert_eq!(fit(Some(32096), StaticMap::Forced), Fit::Fits);
            assert_eq!(
                fit(None, StaticMap::Auto),
                Fit::Unknown,
                "it depends on the size of the console"
            );
            assert!(Start::of(version, false).is_aligned());
        }
        for version in [580, 590, 595] {
            assert_eq!(Start::of(version, true), Start::Aligned);
            assert!(Start::of(version, true).is_aligned());
        }
    }
}
