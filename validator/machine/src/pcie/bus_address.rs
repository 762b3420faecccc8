//! Addresses on the bus. `resource` files contain the addresses that processors use; registers contain those
//! of the bus. On PCs they are the same; elsewhere each window of a host bridge may add its own constant (on
//! a Raspberry Pi CM4 the bus's 0xc0000000 is the processor's 0x600000000). Pure.

use super::config_space::{self, ConfigSpace};
use super::model::Bar;
use crate::pcie::resource;
use crate::root::Root;

/// A bridge's window in processor addresses, and the offset that is subtracted from them to get bus addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusWindow {
    start: u64,
    bytes: u64,
    offset: u64,
}

/// The windows of a bridge for which kernel and registers show the same size.
pub fn windows(space: &ConfigSpace, resource: &str) -> Vec<BusWindow> {
    let kernel = resource::windows(resource);
    let seen = |register: &config_space::BridgeWindow| {
        let same = |w: &&resource::ResourceWindow| {
            w.prefetchable == register.prefetchable && w.bytes == register.bytes
        };
        let window = kernel.iter().find(same)?;
        let (start, bytes) = (window.start, window.bytes);
        Some(BusWindow {
            start,
            bytes,
            offset: start.wrapping_sub(register.base),
        })
    };
    space.windows.iter().filter_map(seen).collect()
}

/// The windows above every function of a running PC, whose host bridges add no offset. The registers of bridges are
/// not a better source: the kernel writes a window's registers later than it assigns addresses in it.
pub fn of_this_machine(root: &Root) -> Option<Vec<Vec<BusWindow>>> {
    let everything = BusWindow {
        start: 0,
        bytes: u64::MAX,
        offset: 0,
    };
    (std::env::consts::ARCH == "x86_64" && root.is_live()).then(|| vec![vec![everything]])
}

impl BusWindow {
    fn holds(&self, bar: &Bar) -> bool {
        let inside = bar
            .start
            .checked_sub(self.start)
            .and_then(|from| from.checked_add(bar.bytes));
        inside.is_some_and(|end| end <= self.bytes)
    }
}

/// The expected bus address of `bar`: from the window of the nearest bridge `above` that contains it,
/// otherwise from the function's `own` BARs, each with its register's content. One BAR at the processor's
/// address shows that nothing is added; otherwise the BARs must agree. `None` if it is unknown.
pub fn of(bar: &Bar, above: &[Vec<BusWindow>], own: &[(Bar, Option<u64>)]) -> Option<u64> {
    let window = above
        .iter()
        .flatten()
        .find(|window| window.holds(bar))
        .map(|window| window.offset);
    window
        .or_else(|| constant(own))
        .map(|offset| bar.start.wrapping_sub(offset))
}

/// The offset of all BARs that have an address, if at least two agree; 0 if one of them shows that nothing is
/// added.
fn constant(own: &[(Bar, Option<u64>)]) -> Option<u64> {
    let added = |(bar, register): &(Bar, Option<u64>)| {
        let register = register.filter(|address| *address != 0 && bar.start != 0)?;
        Some(bar.start.wrapping_sub(register))
    };
    let added: Vec<u64> = own.iter().filter_map(added).collect();
    match added[..] {
        _ if added.contains(&0) => Some(0),
        [first, _, ..] if added.iter().all(|one| *one == first) => Some(first),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 0x200;

    fn bar(index: u8, start: u64, bytes: u64) -> Bar {
        Bar {
            index,
            start,
            bytes,
            flags: MEMORY,
        }
    }

    /// The root port of a Raspberry Pi CM4.
    fn cm4() -> Vec<BusWindow> {
        let mut bytes = vec![0; 64];
        bytes[0x0e] = 1;
        bytes[0x20..0x24].copy_from_slice(&[0x00, 0xc0, 0xf0, 0xdf]);
        let none = "0x0 0x0 0x0\n".repeat(8);
        let resource = format!("{none}0x0000000600000000 0x000000061fffffff 0x0000000000000200\n");
        windows(&config_space::parse(&bytes), &resource)
    }

    #[test]
    fn a_bridges_window_shows_the_offset_of_its_host_bridge() {
        let above = [cm4()];
        assert_eq!(above[0].len(), 1);
        assert_eq!(
            of(&bar(1, 0x6_1000_0000, 256 << 20), &above, &[]),
            Some(0xd000_0000)
        );
        assert_eq!(
            of(&bar(1, 0x6_1000_0000, 512 << 20), &above, &[]),
            None,
            "it is larger than the window"
        );
        assert_eq!(
            of(&bar(1, 0x7_0000_0000, 1 << 20), &above, &[]),
            None,
            "it is elsewhere"
        );
    }

    #[test]
    fn a_window_with_different_sizes_is_ignored() {
        let mut bytes = vec![0; 64];
        bytes[0x0e] = 1;
        bytes[0x20..0x24].copy_from_slice(&[0x00, 0xc0, 0xf0, 0xcf]);
        let resource = "0x0 0x0 0x0\n".repeat(8) + "0x600000000 0x61fffffff 0x200\n";
        assert_eq!(windows(&config_space::parse(&bytes), &resource), []);
    }

    #[test]
    fn without_a_window_a_functions_own_bars_must_agree() {
        let (first, second) = (
            bar(0, 0x6_0000_0000, 1 << 24),
            bar(1, 0x6_1000_0000, 1 << 28),
        );
        let own = |a, b| [(first.clone(), a), (second.clone(), b)];
        let two = own(Some(0xc000_0000), Some(0xd000_0000));
        assert_eq!(of(&second, &[], &two), Some(0xd000_0000));
        assert_eq!(
            of(&second, &[], &own(Some(0xc000_0000), Some(0xd100_0000))),
            None
        );
        assert_eq!(of(&second, &[], &own(Some(0xc000_0000), None)), None);
        let moved = own(Some(0x6_0000_0000), Some(0xd100_0000));
        assert_eq!(
            of(&second, &[], &moved),
            Some(0x6_1000_0000),
            "the first shows that nothing is added"
        );
        assert_eq!(
            of(&second, &[], &own(Some(0), Some(0))),
            None,
            "a function after a reset"
        );
    }
}
