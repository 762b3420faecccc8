//! How long the GPUs of each process have worked, in simulated time: what real links would have needed for the same work.
//! Each process keeps it in a file next to the libraries.

use crate::library_folder::ProcessFile;
use std::collections::BTreeSet;

/// The beginning of the files' names.
const PREFIX: &str = "work-time.";
/// Less than this is not worth a write, ns.
const STEP: f64 = 1e6;

/// What this process's GPUs have done.
#[derive(Debug, Default)]
pub struct WorkTime {
    gpus: BTreeSet<usize>,
    written: f64,
    file: ProcessFile,
}

impl WorkTime {
    /// This process uses a GPU.
    pub fn add_gpu(&mut self, gpu: usize) {
        self.gpus.insert(gpu);
    }

    /// Writes the number of GPUs that this process uses, and the simulated ns since its start, in two columns.
    pub fn write(&mut self, now: f64) {
        if now - self.written < STEP {
            return;
        }
        self.written = now;
        let line = format!("{:4} {now:20.0}\n", self.gpus.len());
        self.file.write(PREFIX, line.as_bytes());
    }
}
