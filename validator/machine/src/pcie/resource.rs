//! The `resource` file: one line per BAR with start, end and flags, then the expansion ROM and a bridge's
//! windows. Addresses are those that processors use.

use crate::pcie::model::Bar;
use outcome::text::quoted;

/// BARs come first.
const BARS: u8 = 6;
/// BARs and the expansion ROM come before a bridge's windows.
const NO_WINDOWS: usize = 7;
/// The kernel's resource flags (include/linux/ioport.h).
const MEMORY: u64 = 0x200;
const PREFETCHABLE: u64 = 0x2000;

/// The BARs that have a size. An error names the line.
pub fn parse(text: &str) -> Result<Vec<Bar>, String> {
    let lines = (0..BARS).zip(text.lines());
    lines
        .filter_map(|(index, line)| bar(index, line).transpose())
        .collect()
}

fn bar(index: u8, line: &str) -> Result<Option<Bar>, String> {
    let numbers: Option<Vec<u64>> = line.split_whitespace().map(number).collect();
    let Some([start, end, flags]) = numbers.as_deref() else {
        return Err(format!(
            "line {} is '{}', expected start, end and flags in hexadecimal",
            index + 1,
            quoted(line)
        ));
    };
    if *flags == 0 {
        return Ok(None);
    }
    let bytes = end.checked_sub(*start).and_then(|b| b.checked_add(1));
    let bytes = bytes.ok_or_else(|| {
        format!(
            "line {} is '{}': the end is before the start",
            index + 1,
            quoted(line)
        )
    })?;
    Ok(Some(Bar {
        index,
        start: *start,
        bytes,
        flags: *flags,
    }))
}

/// A memory window of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceWindow {
    /// Its first address.
    pub start: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// Whether it is the prefetchable one.
    pub prefetchable: bool,
}

/// The open memory windows of a bridge; malformed lines are skipped.
pub fn windows(text: &str) -> Vec<ResourceWindow> {
    text.lines().skip(NO_WINDOWS).filter_map(window).collect()
}

fn window(line: &str) -> Option<ResourceWindow> {
    let mut numbers = line.split_whitespace().map(number);
    let (start, end, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let bytes = end.checked_sub(start)?.checked_add(1)?;
    let open = flags & MEMORY != 0 && start != 0;
    open.then_some(ResourceWindow {
        start,
        bytes,
        prefetchable: flags & PREFETCHABLE != 0,
    })
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_with_a_size_are_listed_under_their_index() {
        let text = "0x00000000b2000000 0x00000000b2ffffff 0x0000000000040200\n\
                    0x0000028800000000 0x0000028fffffffff 0x000000000014220c\n\
                    0x0000000000000000 0x0000000000000000 0x0000000000000000";
        let bars = parse(text).unwrap();
        assert_eq!(
            bars.iter().map(|b| (b.index, b.bytes)).collect::<Vec<_>>(),
            [(0, 16 << 20), (1, 32 << 30)]
        );
    }

    #[test]
    fn an_unassigned_bar_keeps_its_size_at_address_zero() {
        let bars = parse("0x0 0x00000007ffffffff 0x2014220c").unwrap();
        assert_eq!((bars[0].start, bars[0].bytes), (0, 32 << 30));
    }

    #[test]
    fn a_window_is_found_after_the_bars() {
        let none = "0x0 0x0 0x0\n".repeat(8);
        let at = |line: &str| windows(&format!("{none}{line}\n"));
        let found = at("0x0000004000000000 0x00000057ffffffff 0x000000000014220c");
        assert_eq!(
            found,
            [ResourceWindow {
                start: 0x40_0000_0000,
                bytes: 96 << 30,
                prefetchable: true
            }]
        );
        assert!(!at("0xb2000000 0xb2ffffff 0x200")[0].prefetchable);
        for other in [
            "0x1000 0x1fff 0x100",
            "0x0 0xfff 0x2200",
            "0x2000 0x1000 0x200",
            "rubbish",
            "",
        ] {
            assert_eq!(at(other), [], "{other}");
        }
    }

    #[test]
    fn a_malformed_line_is_named() {
        assert_eq!(
            parse("0x0 0x0 0x0\nrubbish").unwrap_err(),
            "line 2 is 'rubbish', expected start, end and flags in hexadecimal"
        );
        assert!(
            parse("0x10 0x1 0x200")
                .unwrap_err()
                .contains("before the start")
        );
        assert!(parse("0x0 0xffffffffffffffff 0x200").is_err());
    }
}
