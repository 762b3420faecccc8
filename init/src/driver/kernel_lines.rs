//! The kernel's log: new records since a position, the lines about a driver, and how long unpacking the
//! initrd took.

use crate::sys::kernel::open_log;
use crate::sys::terminal::printable;
use contract::kmsg::{self, Line, MOST, RECORD};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

/// The kernel's log.
pub const KMSG: &str = "/dev/kmsg";

/// How many of the first and last lines are kept as evidence; the cause is among the first.
const FIRST: usize = 16;
const LAST: usize = 8;
/// Maximum characters of one line.
const LONGEST: usize = 300;

/// The records, each with its text on one line that can be shown.
#[must_use]
pub fn parse(bytes: &[u8]) -> Vec<Line> {
    kmsg::parse(bytes)
        .into_iter()
        .map(|line| Line {
            text: on_one_line(&line.text),
            ..line
        })
        .collect()
}

/// The driver writes several lines at once; the kernel shows line ends as \x0a.
fn on_one_line(text: &str) -> String {
    let text = printable(text.as_bytes());
    let parts = text.split("\\x0a").map(|part| part.trim());
    let parts = parts.enumerate().map(|(n, part)| {
        if n == 0 {
            part
        } else {
            part.trim_start_matches("NVRM: ")
        }
    });
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A read position in the kernel's log.
#[derive(Debug)]
pub struct LogCursor(Result<File, String>);

impl LogCursor {
    /// The beginning of the log, as far as the kernel still has it.
    #[must_use]
    pub fn at_start(log: &Path) -> Self {
        Self::at(log, SeekFrom::Start(0))
    }

    /// The end of the log: only records from now on.
    #[must_use]
    pub fn at_end(log: &Path) -> Self {
        Self::at(log, SeekFrom::End(0))
    }

    fn at(log: &Path, place: SeekFrom) -> Self {
        let opened = open_log(log).and_then(|mut file| file.seek(place).map(|_| file));
        Self(opened.map_err(|e| format!("{}: {e}", log.display())))
    }

    /// Takes the cursor out, so that another function can use it.
    #[must_use]
    pub fn take(&mut self) -> Self {
        Self(std::mem::replace(
            &mut self.0,
            Err("another function reads it".to_owned()),
        ))
    }

    /// Returns the records since the last call; never waits.
    ///
    /// # Errors
    /// A line with the reason why the log cannot be read.
    pub fn new_lines(&mut self) -> Result<Vec<Line>, String> {
        let file = self.0.as_mut().map_err(|why| why.clone())?;
        let (mut bytes, mut record) = (Vec::new(), vec![0; RECORD]);
        while bytes.len() < MOST {
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(size) => bytes.extend(record.get(..size).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // EPIPE: records were overwritten before they were read; the next read continues after
                // them.
                Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                Err(e) => return Err(format!("reading the kernel's log: {e}")),
            }
        }
        Ok(parse(&bytes))
    }

    /// The lines since the last call about a driver or `module`, as evidence; or why they cannot be read.
    pub fn evidence(&mut self, module: &str) -> Vec<String> {
        match self.new_lines() {
            Ok(lines) => about_driver(&lines, module),
            Err(why) => vec![format!("no kernel log: {why}")],
        }
    }
}

/// The lines about a driver or `module`, marked as the kernel's and limited in number and length.
#[must_use]
pub fn about_driver(lines: &[Line], module: &str) -> Vec<String> {
    let wanted = |text: &str| {
        let words = [
            "NVRM", "nvidia", "NVIDIA", "irmware", "Xid", "Lockdown", "nvswitch",
        ];
        words.iter().any(|word| text.contains(word))
            || (!module.is_empty() && text.contains(module))
    };
    // Lines that init itself wrote to the log are not evidence.
    let lines = lines
        .iter()
        .filter(|line| !line.text.starts_with("firstlight: ") && wanted(&line.text));
    let cut = |line: &Line| {
        format!(
            "kernel: {}",
            line.text.chars().take(LONGEST).collect::<String>()
        )
    };
    let mut all: Vec<_> = lines.map(cut).collect();
    if all.len() > FIRST + LAST {
        let left_out = all.len() - FIRST - LAST;
        all.splice(
            FIRST..FIRST + left_out,
            [format!("({left_out} kernel lines left out)")],
        );
    }
    all
}

/// How long the kernel took to unpack the initrd; `None` when its log does not show it.
#[must_use]
pub fn initrd_unpack_time(lines: &[Line]) -> Option<Duration> {
    let is_begin = |text: &str| {
        text.starts_with("Unpacking initramfs") || text.starts_with("Trying to unpack rootfs")
    };
    let begin = lines.iter().position(|line| is_begin(&line.text))?;
    let rest = lines.get(begin..)?;
    let end = rest
        .iter()
        .find(|line| line.text.starts_with("Freeing initrd memory"))?;
    end.at.checked_sub(rest.first()?.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const LOG: &[u8] = b"6,10,500000,-;Unpacking initramfs...\n SUBSYSTEM=x\n6,11,812345,-;Freeing initrd memory: 13000K\n\
        garbage\n3,12,2000000,-;NVRM: The NVIDIA GPU 0000:01:00.0\\x0aNVRM: (PCI ID: 10de:2684) installed in this system has\\x0aNVRM: fallen off the bus.\\x0a\n\
        6,13,2000001,-;firstlight: driver    nvidia\n6,14,2000002,c;usb 1-1: new device\n4,x,1,-;NVRM\n";

    #[test]
    fn a_record_is_one_line_and_others_are_none() {
        let lines = parse(LOG);
        assert_eq!(lines.len(), 5);
        assert_eq!(
            about_driver(&lines, ""),
            [
                "kernel: NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2684) installed in this system has fallen off the bus."
            ]
        );
        assert_eq!(about_driver(&lines, "usb").len(), 2);
    }

    #[test]
    fn the_time_to_unpack_is_between_two_lines() {
        assert_eq!(
            initrd_unpack_time(&parse(LOG)),
            Some(Duration::from_micros(312_345))
        );
        let text = String::from_utf8_lossy(LOG);
        assert_eq!(
            initrd_unpack_time(&parse(text.replace("Freeing", "freeing").as_bytes())),
            None
        );
        assert_eq!(
            initrd_unpack_time(&parse(text.replace("Unpacking", "unpacking").as_bytes())),
            None
        );
        assert_eq!(
            initrd_unpack_time(&parse(text.replace("812345", "412345").as_bytes())),
            None
        );
    }

    #[test]
    fn a_flood_is_cut_in_the_middle_and_the_cut_is_marked() {
        let flood: String = (0..100)
            .map(|n| format!("4,{n},{n},-;NVRM: {n} {}\n", "x".repeat(1000)))
            .collect();
        let shown = about_driver(&parse(flood.as_bytes()), "");
        assert_eq!(shown.len(), FIRST + LAST + 1);
        assert!(
            shown[0].starts_with("kernel: NVRM: 0 x") && shown[24].starts_with("kernel: NVRM: 99 ")
        );
        assert_eq!(shown[FIRST], "(76 kernel lines left out)");
        assert!(shown.iter().all(|line| line.len() < 320));
    }

    #[test]
    fn a_cursor_returns_new_records_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kmsg");
        std::fs::write(&path, LOG).unwrap();
        let mut cursor = LogCursor::at_end(&path);
        assert_eq!(cursor.new_lines().unwrap(), []);
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"4,15,3000000,-;NVRM: new\n").unwrap();
        assert_eq!(cursor.evidence(""), ["kernel: NVRM: new"]);
        assert_eq!(cursor.evidence(""), [""; 0]);
        assert_eq!(LogCursor::at_start(&path).new_lines().unwrap().len(), 6);
        assert!(
            LogCursor::at_end(Path::new("/none")).evidence("")[0]
                .starts_with("no kernel log: /none: ")
        );
    }
}
