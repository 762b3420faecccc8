//! The `resource` file: one line per BAR with start, end and flags, then the expansion ROM and a
//! bridge's windows, which are left out.

use super::attributes::quoted;
use crate::pcie::model::Bar;

/// BARs come first.
const BARS: u8 = 6;

/// The BARs that have a size. An error names the line.
pub(crate) fn parse(text: &str) -> Result<Vec<Bar>, String> {
    let lines = (0..BARS).zip(text.lines());
    lines.filter_map(|(index, line)| bar(index, line).transpose()).collect()
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
    let bytes = bytes
        .ok_or_else(|| format!("line {} is '{}': the end is before the start", index + 1, quoted(line)))?;
    Ok(Some(Bar { index, start: *start, bytes, flags: *flags }))
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
    fn a_line_that_makes_no_sense_is_named() {
        assert_eq!(
            parse("0x0 0x0 0x0\nrubbish").unwrap_err(),
            "line 2 is 'rubbish', expected start, end and flags in hexadecimal"
        );
        assert!(parse("0x10 0x1 0x200").unwrap_err().contains("before the start"));
        assert!(parse("0x0 0xffffffffffffffff 0x200").is_err());
    }
}
