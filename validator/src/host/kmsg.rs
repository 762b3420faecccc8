//! The kernel's log: records of /dev/kmsg to lines, what is in them that a report must show, and
//! a cursor that tells what came in while something ran.

use crate::finding::{Code, Finding, Severity};
use crate::root::Root;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::time::Duration;

const FILE: &str = "dev/kmsg";
/// The kernel's own log holds 2 MiB at most in any sane configuration; a file that goes on and on
/// must not fill the memory.
const MOST: usize = 16 << 20;
/// A record is at most this long (`PRINTKRB_RECORD_MAX` and its dictionary).
const RECORD: usize = 8192;

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
/// Lines of another shape (cut off, foreign) are left out.
#[must_use]
pub fn parse(bytes: &[u8]) -> Vec<Line> {
    String::from_utf8_lossy(bytes).lines().filter_map(record).collect()
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
    Some(Line { seq, at, text: text.to_owned() })
}

/// The whole log since the kernel started, as far as it still holds it.
///
/// # Errors
/// What stands in the way, worded with the file's name.
pub fn read(root: &Root) -> Result<Vec<Line>, String> {
    Cursor::open(root, SeekFrom::Start(0))?.new_lines()
}

/// A place in the kernel's log.
#[derive(Debug)]
pub struct Cursor(File);

impl Cursor {
    /// The log's end: what comes in from now on.
    ///
    /// # Errors
    /// As [`read`].
    pub fn at_end(root: &Root) -> Result<Self, String> {
        Self::open(root, SeekFrom::End(0))
    }

    fn open(root: &Root, place: SeekFrom) -> Result<Self, String> {
        let open = || {
            let mut file = root.open_log(FILE)?;
            file.seek(place)?;
            Ok(file)
        };
        open().map(Self).map_err(|e: io::Error| format!("/{FILE}: {e}"))
    }

    /// What came in since the last time. Never waits.
    ///
    /// # Errors
    /// As [`read`].
    pub fn new_lines(&mut self) -> Result<Vec<Line>, String> {
        let mut all = Vec::new();
        let mut buffer = [0; RECORD];
        while all.len() < MOST {
            match self.0.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => all.extend_from_slice(buffer.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // EPIPE: records were overwritten before they were read; the next read goes on.
                Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                Err(e) => return Err(format!("/{FILE}: {e}")),
            }
        }
        Ok(foreign(parse(&all)))
    }
}

/// Without firstlight's own lines: init copies its console into the kernel's log, and what the report
/// quotes there happened once.
fn foreign(mut lines: Vec<Line>) -> Vec<Line> {
    lines.retain(|line| !line.text.starts_with("firstlight: "));
    lines
}

/// The lines that hold one of `words`, at most `most` of them, as evidence.
#[must_use]
pub fn mentioning(lines: &[Line], words: &[&str], most: usize) -> Vec<String> {
    let holds = |line: &&Line| words.iter().any(|w| line.text.contains(w));
    lines.iter().filter(holds).take(most).map(|l| format!("kmsg: {}", l.text)).collect()
}

/// Faults that the kernel saw, one finding per kind with its lines as evidence.
#[must_use]
pub fn faults(lines: &[Line]) -> Vec<Finding> {
    // The words are those of the NVIDIA driver, of drivers/pci/pcie/aer.c, drivers/iommu/amd and
    // drivers/iommu/intel/dmar.c.
    let kinds: [(Code, Severity, &[&str]); 3] = [
        (Code::GpuXid, Severity::Fail, &["NVRM: Xid"]),
        (Code::PcieAer, Severity::Warn, &["PCIe Bus Error:", "AER: "]),
        (Code::IommuFault, Severity::Fail, &["IO_PAGE_FAULT", "DMAR: [DMA", "DMAR: DRHD: handling fault"]),
    ];
    let found = kinds.into_iter().filter_map(|(code, severity, words)| {
        let evidence = mentioning(lines, words, 10);
        let first = evidence.first()?.clone();
        Some(code.finding(severity, "machine", format!("while the test ran: {first}")).seen_all(evidence))
    });
    found.collect()
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
        assert_eq!(lines.iter().map(|l| l.seq).collect::<Vec<_>>(), [339, 340, 341]);
        assert_eq!(lines[1].text, "udevd[80]: starting version 181");
        assert_eq!(lines[0].at, Duration::from_micros(5_140_900));
    }

    #[test]
    fn what_is_no_record_is_left_out() {
        for junk in ["", "\n\n", "no semicolon", "a,b,c;text", "6,1;cut", ";", "\u{fffd};", " 6,1,1,-;x"] {
            assert_eq!(parse(junk.as_bytes()), [], "{junk}");
        }
        assert_eq!(parse(b"6,1,1,-;\xff\xfe").len(), 1);
    }

    #[test]
    fn an_xid_during_a_test_is_a_failure_with_its_line() {
        let [finding] = &faults(&parse(LOG.as_bytes()))[..] else { panic!("one finding") };
        assert!(finding.is(Code::GpuXid) && finding.severity == Severity::Fail);
        assert!(finding.evidence[0].contains("fallen off the bus"));
    }

    #[test]
    fn quiet_lines_are_no_faults() {
        assert_eq!(faults(&parse(b"6,1,1,-;pci 0000:00:01.0: enabling AER\n6,2,2,-;AMD-Vi: off\n")), []);
    }

    #[test]
    fn faults_of_each_kind_are_told_apart() {
        let log = b"3,1,1,-;pcieport 0000:00:01.0: AER: Correctable error received\n\
            3,2,1,-;AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x1]\n\
            3,3,1,-;DMAR: [DMA Write NO_PASID] Request device [41:00.0] fault addr 0x0\n";
        let found = faults(&parse(log));
        assert_eq!(found.len(), 2);
        assert!(found[0].is(Code::PcieAer) && found[1].is(Code::IommuFault) && found[1].evidence.len() == 2);
    }

    #[test]
    fn a_cursor_tells_only_what_came_after() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        std::fs::write(dir.path().join(FILE), LOG).unwrap();
        let mut cursor = Cursor::at_end(&root).unwrap();
        assert_eq!(cursor.new_lines().unwrap(), []);
        std::fs::write(dir.path().join(FILE), format!("{LOG}6,342,7,-;new\n")).unwrap();
        assert_eq!(cursor.new_lines().unwrap().iter().map(|l| l.seq).collect::<Vec<_>>(), [342]);
        assert_eq!(read(&root).unwrap().len(), 4);
    }

    #[test]
    fn what_firstlight_quotes_did_not_happen_again() {
        let text = LOG.replace("NVRM:", "firstlight:   seen    kmsg: NVRM:");
        assert_eq!(foreign(parse(text.as_bytes())).len(), 2);
        assert_eq!(foreign(parse(LOG.as_bytes())).len(), 3);
    }

    #[test]
    fn a_missing_log_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(&Root::new(dir.path())).unwrap_err().starts_with("/dev/kmsg: "));
    }
}
