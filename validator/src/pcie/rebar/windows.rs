//! The address windows that a GPU's BAR1 has to fit into, for a finding's evidence: the root port's,
//! and the one of the root bus around it.

use super::state::unread;
use super::{DEVICES, Machine};
use crate::pcie::model::Bdf;
use crate::pcie::text::layout::size;

/// Memory and prefetchable, of the kernel's resource flags.
const WANTED: u64 = 0x2200;
/// BARs and the expansion ROM stand before a bridge's windows.
const NO_WINDOWS: usize = 7;

impl Machine<'_> {
    /// In words; what cannot be read is told as that.
    pub(super) fn windows(&self, port: Bdf) -> Vec<String> {
        let (own, map) = (format!("{DEVICES}/{port}/resource"), "proc/iomem".to_owned());
        let read = |file: &str| self.root.text(file).map_err(|e| vec![unread(file, e).to_string()]);
        let text = match read(&own) {
            Ok(text) => text,
            Err(why) => return why,
        };
        let windows: Vec<(u64, u64)> = text.lines().skip(NO_WINDOWS).filter_map(prefetchable).collect();
        let own = windows.iter().map(|(start, end)| format!("window of {port}: {}", words(*start, *end)));
        let around = read(&map).map(|map| {
            let found = windows.iter().filter_map(|(start, _)| outermost(&map, *start));
            found.map(|(start, end, name)| format!("in {name}: {}", words(start, end))).collect()
        });
        own.chain(around.unwrap_or_else(|why| why)).collect()
    }
}

fn prefetchable(line: &str) -> Option<(u64, u64)> {
    let mut numbers = line.split_whitespace().map(|n| u64::from_str_radix(n.strip_prefix("0x")?, 16).ok());
    let (start, end, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (flags & WANTED == WANTED && start != 0).then_some((start, end))
}

/// The line of /proc/iomem at the left edge that holds `address`.
fn outermost(map: &str, address: u64) -> Option<(u64, u64, &str)> {
    map.lines().filter(|line| !line.starts_with(' ')).find_map(|line| {
        let (range, name) = line.split_once(" : ")?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|n| u64::from_str_radix(n, 16).ok());
        (start?..=end?).contains(&address).then_some((start?, end?, name))
    })
}

fn words(start: u64, end: u64) -> String {
    let bytes = end.checked_sub(start).and_then(|b| b.checked_add(1));
    format!("{start:#x} to {end:#x}, {}", bytes.map_or_else(|| "no size".to_owned(), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_found_behind_the_bars() {
        let line = "0x0000004000000000 0x00000057ffffffff 0x000000000014220c";
        assert_eq!(prefetchable(line), Some((0x40_0000_0000, 0x57_ffff_ffff)));
        assert_eq!(words(0x40_0000_0000, 0x57_ffff_ffff), "0x4000000000 to 0x57ffffffff, 96 GiB");
        for other in ["0x1000 0x1fff 0x200", "0x0 0xfff 0x2200", "rubbish", ""] {
            assert_eq!(prefetchable(other), None, "{other}");
        }
    }

    #[test]
    fn the_window_around_it_stands_at_the_left_edge() {
        let map = "00001000-0009ffff : System RAM\n4000000000-57ffffffff : PCI Bus 0000:40\n  4000000000-47ffffffff : PCI Bus 0000:41";
        let found = outermost(map, 0x41_0000_0000);
        assert_eq!(found, Some((0x40_0000_0000, 0x57_ffff_ffff, "PCI Bus 0000:40")));
        assert_eq!(outermost(map, 0), None);
    }
}
