//! The address windows that limit a GPU's BAR1, for a finding's evidence: the root port's, and that of the
//! root bus around it.

use super::state::unread;
use super::{DEVICES, Machine};
use machine::pcie::model::Bdf;
use machine::pcie::resource;
use outcome::text::size;

impl Machine<'_> {
    /// The windows in words, including what cannot be read.
    pub(super) fn windows(&self, port: Bdf) -> Vec<String> {
        let (own, map) = (
            format!("{DEVICES}/{port}/resource"),
            "proc/iomem".to_owned(),
        );
        let read = |file: &str| {
            self.root
                .text(file)
                .map_err(|e| vec![unread(file, e).to_string()])
        };
        let text = match read(&own) {
            Ok(text) => text,
            Err(why) => return why,
        };
        let windows: Vec<_> = resource::windows(&text)
            .into_iter()
            .filter(|w| w.prefetchable)
            .collect();
        let end = |w: &resource::ResourceWindow| w.start.saturating_add(w.bytes.saturating_sub(1));
        let own = windows
            .iter()
            .map(|w| format!("window of {port}: {}", words(w.start, end(w))));
        let around = read(&map).map(|map| {
            let found = windows.iter().filter_map(|w| outermost(&map, w.start));
            found
                .map(|(start, end, name)| format!("in {name}: {}", words(start, end)))
                .collect()
        });
        own.chain(around.unwrap_or_else(|why| why)).collect()
    }
}

/// The line of /proc/iomem without indentation that contains `address`.
fn outermost(map: &str, address: u64) -> Option<(u64, u64, &str)> {
    map.lines()
        .filter(|line| !line.starts_with(' '))
        .find_map(|line| {
            let (range, name) = line.split_once(" : ")?;
            let (start, end) = range.split_once('-')?;
            let [start, end] = [start, end].map(|n| u64::from_str_radix(n, 16).ok());
            (start?..=end?)
                .contains(&address)
                .then_some((start?, end?, name))
        })
}

fn words(start: u64, end: u64) -> String {
    let bytes = end.checked_sub(start).and_then(|b| b.checked_add(1));
    format!(
        "{start:#x} to {end:#x}, {}",
        bytes.map_or_else(|| "no size".to_owned(), size)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_shown_with_its_size() {
        assert_eq!(
            words(0x40_0000_0000, 0x57_ffff_ffff),
            "0x4000000000 to 0x57ffffffff, 96 GiB"
        );
    }

    #[test]
    fn the_outer_window_is_the_line_without_indentation() {
        let map = "00001000-0009ffff : System RAM\n4000000000-57ffffffff : PCI Bus 0000:40\n  4000000000-47ffffffff : PCI Bus 0000:41";
        let found = outermost(map, 0x41_0000_0000);
        assert_eq!(
            found,
            Some((0x40_0000_0000, 0x57_ffff_ffff, "PCI Bus 0000:40"))
        );
        assert_eq!(outermost(map, 0), None);
    }
}
