//! Records of the kernel's log as /dev/kmsg gives them (Documentation/ABI/testing/dev-kmsg).

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A record is at most this long, bytes (`PRINTKRB_RECORD_MAX` and its dictionary).
pub const RECORD: usize = 8192;
/// The most that is read at once, bytes: the kernel's own log has at most 2 MiB in any sane configuration, and an endless file must
/// not fill the memory.
pub const MOST: usize = 16 << 20;

/// One line of the kernel's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Sequence number.
    pub seq: u64,
    /// Time since the kernel started.
    pub at: Duration,
    /// The message without its dictionary.
    pub text: String,
}

/// Records `prio,seq,usec,flag[,..];message`, each with dictionary lines that begin with a space.
/// Malformed lines are skipped.
#[must_use]
pub fn parse(bytes: &[u8]) -> Vec<Line> {
    String::from_utf8_lossy(bytes)
        .lines()
        .filter_map(record)
        .collect()
}

fn record(line: &str) -> Option<Line> {
    if line.starts_with(' ') {
        return None;
    }
    let (head, text) = line.split_once(';')?;
    let mut fields = head.split(',');
    let _priority: u32 = fields.next()?.parse().ok()?;
    let seq = fields.next()?.parse().ok()?;
    let at = Duration::from_micros(fields.next()?.parse().ok()?);
    Some(Line {
        seq,
        at,
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "6,339,5140900,-;NET: Registered protocol family 10\n\
        30,340,5690716,-,caller=T1;udevd[80]: starting version 181\n\
        \x20SUBSYSTEM=pci\n DEVICE=+pci:0000:00:00.0\n\
        4,341,6000000,c;NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.\n";

    #[test]
    fn records_are_lines_and_dictionaries_are_not() {
        let lines = parse(LOG.as_bytes());
        assert_eq!(
            lines.iter().map(|l| l.seq).collect::<Vec<_>>(),
            [339, 340, 341]
        );
        assert_eq!(lines[1].text, "udevd[80]: starting version 181");
        assert_eq!(lines[0].at, Duration::from_micros(5_140_900));
    }

    #[test]
    fn invalid_records_are_skipped() {
        for junk in [
            "",
            "\n\n",
            "no semicolon",
            "a,b,c;text",
            "6,1;cut",
            ";",
            "\u{fffd};",
            " 6,1,1,-;x",
        ] {
            assert_eq!(parse(junk.as_bytes()), [], "{junk}");
        }
        assert_eq!(parse(b"6,1,1,-;\xff\xfe").len(), 1);
    }
}
