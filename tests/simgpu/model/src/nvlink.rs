//! The bytes that cross NVLinks. Each process keeps what it has moved in a file next to the libraries; the simulated NVML adds
//! up all of them, so that the counters outlive a process, as a GPU's do.

use crate::library_folder::{self, ProcessFile};
use crate::scenario::Scenario;
use std::path::PathBuf;

/// The beginning of the files' names.
const PREFIX: &str = "nvlink.";

/// Bytes that left a GPU by its NVLinks, and that reached it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Left it.
    pub sent: u64,
    /// Reached it.
    pub received: u64,
}

/// What this process has moved.
#[derive(Debug, Default)]
pub struct NvLinkBytes {
    gpus: Vec<Moved>,
    changed: bool,
    file: ProcessFile,
}

impl NvLinkBytes {
    /// Adds bytes that went from one GPU to another.
    pub fn add(&mut self, from: usize, to: usize, bytes: u64) {
        let last = from.max(to);
        if self.gpus.len() <= last {
            self.gpus.resize(last + 1, Moved::default());
        }
        if let Some(moved) = self.gpus.get_mut(from) {
            moved.sent += bytes;
        }
        if let Some(moved) = self.gpus.get_mut(to) {
            moved.received += bytes;
        }
        self.changed = true;
    }

    /// Writes what has changed.
    pub fn write(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let bytes: Vec<u8> = self
            .gpus
            .iter()
            .flat_map(|m| [m.sent, m.received])
            .flat_map(u64::to_le_bytes)
            .collect();
        self.file.write(PREFIX, &bytes);
    }
}

/// What all processes have moved from and to a GPU.
#[must_use]
pub fn moved(gpu: usize) -> Moved {
    let files = library_folder::folder().and_then(|folder| std::fs::read_dir(folder).ok());
    let files = files.into_iter().flatten().flatten();
    let of_links = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with(PREFIX))
    };
    let mut all = Moved::default();
    for path in files.map(|entry| entry.path()).filter(of_links) {
        let bytes = std::fs::read(path).unwrap_or_default();
        let words = bytes.as_chunks::<8>().0;
        let word = |n: usize| words.get(n).map_or(0, |b| u64::from_le_bytes(*b));
        all.sent += word(2 * gpu);
        all.received += word(2 * gpu + 1);
    }
    all
}

impl Scenario {
    /// Whether NVLinks carry the data of two GPUs: both have some that are up.
    #[must_use]
    pub fn is_on_nvlink(&self, from: usize, to: usize) -> bool {
        let links = self.machine.nvlink.map_or(0, |nvlink| nvlink.links);
        [from, to]
            .into_iter()
            .all(|gpu| self.nvlinks_down(gpu) < links)
    }

    /// The CRC errors that NVLink `link` of a GPU has counted after `moved`: some before, and 3 to 7 for each 100 GiB, as
    /// on four healthy H200, unless the machine has a worse link there.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive number"
    )]
    pub fn nvlink_crc(&self, gpu: usize, link: u32, moved: Moved) -> u64 {
        let hash = crate::pattern::word((gpu as u64) << 32 | u64::from(link), 7);
        let bad = self
            .machine
            .nvlink_crc
            .iter()
            .find(|bad| bad.gpu == gpu && bad.link == link);
        let each = bad.map_or(
            0.03 + 0.04 * f64::from(hash >> 16) / f64::from(1 << 16),
            |bad| bad.per_gib,
        );
        let gib = (moved.sent + moved.received) as f64 / f64::from(1 << 30);
        u64::from(5 + hash % 150) + (gib * each) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_at_both_ends() {
        let mut bytes = NvLinkBytes::default();
        bytes.add(0, 2, 100);
        bytes.add(2, 0, 1);
        assert_eq!(
            bytes.gpus,
            [
                Moved {
                    sent: 100,
                    received: 1
                },
                Moved::default(),
                Moved {
                    sent: 1,
                    received: 100
                }
            ]
        );
    }
}
