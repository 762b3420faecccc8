//! Unnamed files for an arm's processes to write to: they can be read while the writer runs and after it was
//! killed, and nothing remains of them on a disk.

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

/// The most bytes that are read: NCCL's output for 64 ranks is a tenth of it.
const MOST: u64 = 16 << 20;

/// One such file.
#[derive(Debug)]
pub(super) struct Output(File);

impl Output {
    /// An empty file that only this worker has open.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(
            memfd_create("firstlight-nccl", MemfdFlags::CLOEXEC)?.into(),
        ))
    }

    /// The file as a process's standard output.
    pub(super) fn stdio(&self) -> io::Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }

    /// The path under which a process that was started while it was inheritable can open it.
    pub(super) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }

    /// Whether processes started from now on inherit it, under the same number.
    pub(super) fn inherit(&self, yes: bool) -> io::Result<()> {
        let flags = if yes {
            FdFlags::empty()
        } else {
            FdFlags::CLOEXEC
        };
        Ok(fcntl_setfd(&self.0, flags)?)
    }

    /// The content so far. The writers' offset is not changed.
    pub(super) fn text(&self) -> String {
        let mut bytes = Vec::new();
        let mut room = vec![0; 64 << 10];
        while let Ok(n @ 1..) = self.0.read_at(&mut room, bytes.len() as u64) {
            bytes.extend_from_slice(room.get(..n).unwrap_or_default());
            if bytes.len() as u64 >= MOST {
                break;
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_output_of_a_killed_process_can_be_read() {
        let (said, dump) = (Output::new().unwrap(), Output::new().unwrap());
        dump.inherit(true).unwrap();
        let script = format!(
            "echo one; echo graph > {}; echo two; kill -KILL $$",
            dump.path()
        );
        let mut command = Command::new("sh");
        let mut child = command
            .args(["-c", &script])
            .stdout(said.stdio().unwrap())
            .spawn()
            .unwrap();
        dump.inherit(false).unwrap();
        assert!(!child.wait().unwrap().success());
        assert_eq!(
            (said.text().as_str(), dump.text().as_str()),
            ("one\ntwo\n", "graph\n")
        );
        // A second read gives the same: the offset did not move.
        assert_eq!(said.text(), "one\ntwo\n");
    }

    #[test]
    fn another_arms_process_does_not_inherit_it() {
        let dump = Output::new().unwrap();
        let script = format!("test ! -e {}", dump.path());
        assert!(
            Command::new("sh")
                .args(["-c", &script])
                .status()
                .unwrap()
                .success()
        );
    }
}
