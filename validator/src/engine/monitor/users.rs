//! Other users of the GPUs: programs that NVML names, and, if it names none, memory and load that are not
//! ours. Pure.

use gpu::{GpuStatus, Process};
use machine::GpuId;
use outcome::finding::{Code, Finding, Severity};
use std::collections::{BTreeMap, BTreeSet};

/// Memory that is in use before this run uses any, and that indicates another program, bytes: the driver itself uses less.
const MIN_UNNAMED_BYTES: u64 = 1 << 30;

/// Observations of other users, by the GPU's number.
#[derive(Debug, Default)]
pub(super) struct UserHistory {
    /// Before this run used the GPUs, when no process on them was ours.
    first: BTreeMap<GpuId, BTreeSet<String>>,
    /// In the last snapshot, and in all snapshots since the last test was judged.
    last: BTreeMap<GpuId, BTreeSet<String>>,
    since: BTreeMap<GpuId, BTreeSet<String>>,
    gpus: usize,
    /// The processes that were seen on each GPU.
    processes: BTreeMap<GpuId, BTreeSet<u32>>,
}

/// Other programs on GPUs while a test ran.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OtherUsers {
    /// The programs, by the GPU's number.
    pub(super) on: BTreeMap<GpuId, BTreeSet<String>>,
    /// How many GPUs there are.
    pub(super) gpus: usize,
}

impl UserHistory {
    /// Adds a snapshot of the GPUs; `quiet`: the present load is not ours; `first`: nothing on the GPUs is ours.
    pub(super) fn add_snapshot(&mut self, now: &[GpuStatus], quiet: bool, first: bool) {
        let seen = now
            .iter()
            .filter_map(|g| Some((GpuId::new(g.ordinal?), users_of(g, quiet, first))));
        let seen: BTreeMap<_, _> = seen.collect();
        self.gpus = now.len();
        if first {
            self.first = seen;
            return;
        }
        for (gpu, names) in &seen {
            self.since
                .entry(*gpu)
                .or_default()
                .extend(names.iter().cloned());
        }
        self.last = seen;
    }

    /// The programs that have started on a GPU since the last snapshot: information, because they change nothing unless a test
    /// fails. Of the programs before the first snapshot the test `cuda` reports.
    pub(super) fn started(&mut self, now: &[GpuStatus]) -> Vec<Finding> {
        let mut found = Vec::new();
        for gpu in now {
            let Some(number) = gpu.ordinal.map(GpuId::new) else {
                continue;
            };
            let is_first = !self.processes.contains_key(&number);
            let known = self.processes.entry(number).or_default();
            let new: Vec<_> = gpu
                .others()
                .filter(|process| known.insert(process.pid))
                .map(process_text)
                .collect();
            if !is_first && !new.is_empty() {
                let message = format!(
                    "GPU {number}: while the test ran, a program started on it: {}",
                    new.join(", ")
                );
                found.push(Code::GpuInUse.finding(Severity::Info, number, message));
            }
        }
        found
    }

    /// All users at the beginning, or around this test.
    pub(super) fn take(&mut self) -> OtherUsers {
        let mut on = self.first.clone();
        for (gpu, names) in std::mem::replace(&mut self.since, self.last.clone()) {
            on.entry(gpu).or_default().extend(names);
        }
        on.retain(|_, names| !names.is_empty());
        OtherUsers {
            on,
            gpus: self.gpus,
        }
    }
}

fn users_of(gpu: &GpuStatus, quiet: bool, first: bool) -> BTreeSet<String> {
    let mut names: BTreeSet<_> = gpu.others().map(process_text).collect();
    if !names.is_empty() {
        return names;
    }
    let listed: u64 = gpu.users.iter().flatten().filter_map(|p| p.bytes).sum();
    let unnamed_bytes = gpu.used_bytes.map_or(0, |used| used.saturating_sub(listed));
    if first && unnamed_bytes > MIN_UNNAMED_BYTES {
        names.insert(format!(
            "programs that NVML does not name ({} MiB)",
            unnamed_bytes >> 20
        ));
    } else if (first || quiet) && gpu.is_busy() {
        let percent = gpu.busy_percent.unwrap_or_default();
        names.insert(format!(
            "programs that NVML does not name ({percent} % busy)"
        ));
    }
    names
}

/// `/usr/bin/train (process 4242, 18432 MiB)`
pub(super) fn process_text(process: &Process) -> String {
    let memory = process
        .bytes
        .map_or(String::new(), |bytes| format!(", {} MiB", bytes >> 20));
    let name = if process.name.is_empty() {
        "a program"
    } else {
        &process.name
    };
    format!("{name} (process {}{memory})", process.pid)
}
