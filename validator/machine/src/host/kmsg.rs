//! The kernel log: a cursor that finds new records of /dev/kmsg and detects lost ones. `faults` and the tests interpret the lines.

use crate::root::Root;
pub use contract::kmsg::{Line, parse};
use contract::kmsg::{MOST, RECORD};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

/// The kernel log, below the root.
pub const FILE: &str = "dev/kmsg";

/// New lines of the log, and the number of records that were overwritten before they could be read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct NewLines {
    /// Lines that are not firstlight's own.
    pub lines: Vec<Line>,
    /// Records that are missing among them.
    pub lost: u64,
}

/// The whole log since the kernel started, as far as the log still contains it.
///
/// # Errors
/// The error, with the name of the file.
pub fn read(root: &Root) -> Result<NewLines, String> {
    Cursor::open(root)?.read_new()
}

/// A log of these lines, one a second from the kernel's start on.
#[cfg(any(test, feature = "samples"))]
#[must_use]
pub fn sample(texts: &[&str]) -> Vec<Line> {
    let line = |(seq, text): (u64, &&str)| Line {
        seq,
        at: std::time::Duration::from_secs(seq),
        text: (*text).to_owned(),
    };
    (0..).zip(texts).map(line).collect()
}

/// A position in the kernel log.
#[derive(Debug)]
pub struct Cursor {
    file: File,
    /// The number of the last record that was read.
    last: Option<u64>,
}

impl Cursor {
    /// A cursor at the end of the log: reads everything up to now, so that later losses are noticed by their
    /// record numbers.
    ///
    /// # Errors
    /// As [`read`].
    pub fn at_end(root: &Root) -> Result<Self, String> {
        let mut cursor = Self::open(root)?;
        cursor.read_new()?;
        Ok(cursor)
    }

    fn open(root: &Root) -> Result<Self, String> {
        let open = || {
            let mut file = root.open_log(FILE)?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        };
        let file = open().map_err(|e: io::Error| format!("/{FILE}: {e}"))?;
        Ok(Self { file, last: None })
    }

    /// The records that were added since the last call. Never waits.
    ///
    /// # Errors
    /// As [`read`].
    pub fn read_new(&mut self) -> Result<NewLines, String> {
        let (all, overrun) = records(&self.file).map_err(|e| format!("/{FILE}: {e}"))?;
        let lines = parse(&all);
        let lost = missing(self.last, &lines).max(u64::from(overrun));
        self.last = lines.last().map(|line| line.seq).or(self.last);
        Ok(NewLines {
            lines: foreign(lines),
            lost,
        })
    }
}

/// All records from the file's position to the end of the log, and whether some were overwritten before they could be
/// read. Never waits.
///
/// # Errors
/// The system's error.
pub fn records(mut file: &File) -> io::Result<(Vec<u8>, bool)> {
    let (mut all, mut buffer, mut overrun) = (Vec::new(), [0; RECORD], false);
    while all.len() < MOST {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            // EPIPE: records were overwritten before they were read; the next read continues.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => overrun = true,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok((all, overrun))
}

/// How many record numbers are missing between the last record and these, and among these.
fn missing(last: Option<u64>, lines: &[Line]) -> u64 {
    let numbers = last.into_iter().chain(lines.iter().map(|line| line.seq));
    let next = numbers.clone().skip(1);
    numbers
        .zip(next)
        .map(|(a, b)| b.saturating_sub(a).saturating_sub(1))
        .fold(0, u64::saturating_add)
}

/// The lines without firstlight's own: init copies its console into the kernel log, and lines that the report
/// quotes there are not new events.
fn foreign(mut lines: Vec<Line>) -> Vec<Line> {
    lines.retain(|line| !line.text.starts_with("firstlight: "));
    lines
}

/// At most `most` lines that contain one of `words`, as evidence.
#[must_use]
pub fn mentioning(lines: &[Line], words: &[&str], most: usize) -> Vec<String> {
    let holds = |line: &&Line| words.iter().any(|w| line.text.contains(w));
    lines
        .iter()
        .filter(holds)
        .take(most)
        .map(|l| format!("kmsg: {}", l.text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "6,339,5140900,-;NET: Registered protocol family 10\n\
        30,340,5690716,-,caller=T1;udevd[80]: starting version 181\n\
        \x20SUBSYSTEM=pci\n DEVICE=+pci:0000:00:00.0\n\
        4,341,6000000,c;NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.\n";

    #[test]
    fn a_cursor_returns_only_new_records() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        std::fs::write(dir.path().join(FILE), LOG).unwrap();
        let mut cursor = Cursor::at_end(&root).unwrap();
        assert_eq!(cursor.read_new().unwrap(), NewLines::default());
        std::fs::write(dir.path().join(FILE), format!("{LOG}6,342,7,-;new\n")).unwrap();
        let news = cursor.read_new().unwrap();
        assert_eq!(
            (
                news.lines.iter().map(|l| l.seq).collect::<Vec<_>>(),
                news.lost
            ),
            (vec![342], 0)
        );
        assert_eq!(read(&root).unwrap().lines.len(), 4);
    }

    #[test]
    fn missing_records_are_counted_and_own_ones_are_not_missing() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        std::fs::write(dir.path().join(FILE), LOG).unwrap();
        let mut cursor = Cursor::at_end(&root).unwrap();
        let more = format!("{LOG}6,342,7,-;firstlight: own\n6,346,8,-;new\n");
        std::fs::write(dir.path().join(FILE), more).unwrap();
        let news = cursor.read_new().unwrap();
        assert_eq!((news.lines.len(), news.lost), (1, 3));
        assert_eq!(read(&root).unwrap().lost, 3);
        let lines = parse(LOG.as_bytes());
        assert_eq!(
            (
                missing(None, &lines),
                missing(Some(300), &lines),
                missing(Some(500), &lines)
            ),
            (0, 38, 0)
        );
        assert_eq!(
            missing(
                None,
                &parse(b"6,1,1,-;a\n6,18446744073709551615,1,-;b\n6,0,1,-;c\n6,18446744073709551615,1,-;d\n")
            ),
            u64::MAX
        );
    }

    #[test]
    fn lines_quoted_by_firstlight_are_not_new_events() {
        let text = LOG.replace("NVRM:", "firstlight:   seen    kmsg: NVRM:");
        assert_eq!(foreign(parse(text.as_bytes())).len(), 2);
        assert_eq!(foreign(parse(LOG.as_bytes())).len(), 3);
    }

    #[test]
    fn a_missing_log_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        assert!(
            read(&Root::new(dir.path()))
                .unwrap_err()
                .starts_with("/dev/kmsg: ")
        );
    }
}
