//! The state of the GPUs around each test, as NVML reports it: once before this process uses them, and after
//! every test. The parent, which outlives a worker, judges what has changed and which other processes use the
//! GPUs.

use crate::suite::protocol::Message;
use crate::suite::{Group, Test, TestContext};
use gpu::{self, GpuSnapshot, GpuStatus, Nvml, Process};
use machine::host::own_processes;
use machine::host::own_processes::OwnProcesses;
use machine::pcie::model::{Bdf, Fabric};
use outcome::{Judgement, Outcome};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// The time limit after a test, when NVML answers in milliseconds; if it hangs, that must not hide the test's result.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// The time limit for a process that only queries the state, including NVML's start.
pub(in crate::suite) const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// The time limit for NVML's start, which also starts every GPU that no other program holds open. Each test that
/// queries NVML has a longer deadline.
pub(super) const START_LIMIT: Duration = Duration::from_secs(20);
/// So many corrected errors are no chance on any NVLink. Recorded: bursts of 50 to 57 on single links of four healthy H200,
/// while the other links counted none in 40 GiB each.
pub const MIN_CRC: u64 = 1000;
/// NVML's utilization figure covers up to a second. NVIDIA's driver also keeps a GPU busy while it starts it.
const UTILIZATION_PERIOD: Duration = Duration::from_millis(1200);

impl TestContext {
    /// The state of the GPUs before this process used them, which is also sent to the parent. The first call
    /// queries NVML.
    pub fn snapshot_before(&self) -> &GpuSnapshot {
        self.gpus.before.get_or_init(|| {
            self.doing("asking NVML for the state of the GPUs");
            let snapshot = self.first_snapshot();
            (self.send)(Message::Look(Some(snapshot.clone())));
            snapshot
        })
    }

    /// The first snapshot, taken again if a GPU is busy: NVML's utilization may cover an earlier moment.
    fn first_snapshot(&self) -> GpuSnapshot {
        let own = OwnProcesses::of_parent();
        let gpus = driver_gpus(self.fabric.as_ref().ok());
        let read = || Ok(self.nvml()?.gpu_status(&gpus, &|pid| own.has(pid)));
        let snapshot = GpuSnapshot {
            quiet: false,
            gpus: read().map_err(str::to_owned),
        };
        if !snapshot.is_busy() {
            return snapshot;
        }
        thread::sleep(UTILIZATION_PERIOD);
        GpuSnapshot {
            quiet: false,
            gpus: read().map_err(str::to_owned),
        }
    }

    /// The state of the GPUs after a test that used them; `None` if this process or the test did not use them.
    /// After a test that failed, this waits until the work of this run is over, so that a GPU that is still busy
    /// works for other programs; not while processes of this run are `starting`, which goes on.
    #[must_use]
    pub(in crate::suite) fn snapshot_after(
        &self,
        test: &Test,
        judgement: &Judgement,
        starting: bool,
    ) -> Option<GpuSnapshot> {
        let before = self
            .gpus
            .before
            .get()
            .filter(|_| test.group == Group::Gpu)?;
        let snapshot = || GpuSnapshot {
            quiet: false,
            gpus: self
                .status_now(before)
                .map(|gpus| self.with_own_marked(gpus, before)),
        };
        let now = snapshot();
        // If a GPU hangs, it may still be busy with our own work.
        let ours = gpu::is_cuda_lost() || starting;
        if ours || !matches!(judgement.outcome(), Outcome::Fail | Outcome::Error) {
            return Some(now);
        }
        if !now.is_busy() {
            return Some(GpuSnapshot { quiet: true, ..now });
        }
        thread::sleep(UTILIZATION_PERIOD);
        Some(GpuSnapshot {
            quiet: true,
            ..snapshot()
        })
    }

    /// NVML's error if it hangs. A thread queries it once, before anything else here calls NVML or CUDA: if NVML
    /// hangs, every call into the driver may hang as well.
    pub(in crate::suite) fn nvml_hang(&self) -> Option<&str> {
        let ask = || {
            self.doing("asking NVML whether it answers");
            let answer = query_status(START_LIMIT, driver_gpus(self.fabric.as_ref().ok()));
            answer.err().filter(|why| why.starts_with(NVML_HANGS))
        };
        self.gpus.nvml_hang.get_or_init(ask).as_deref()
    }

    /// The state of the GPUs now; that of each NVLink where their errors have risen since `before`.
    fn status_now(&self, before: &GpuSnapshot) -> Result<Vec<GpuStatus>, String> {
        let mut now = query_status(ANSWER_LIMIT, driver_gpus(self.fabric.as_ref().ok()))?;
        let risen = |gpu: &GpuStatus| {
            let earlier = before.known().iter().find(|earlier| earlier.gpu == gpu.gpu);
            earlier.is_some_and(|earlier| gpu.tallies.has_link_errors(&earlier.tallies, MIN_CRC))
        };
        if !now.iter().any(risen) {
            return Ok(now);
        }
        query_nvml(ANSWER_LIMIT, move |nvml| {
            nvml.add_links(&mut now);
            now
        })
    }

    fn with_own_marked(&self, mut gpus: Vec<GpuStatus>, before: &GpuSnapshot) -> Vec<GpuStatus> {
        if self.has_clique() {
            claim_unknown_pids(
                &mut gpus,
                before.known(),
                own_processes::own_id(),
                &own_processes::is_visible,
            );
        }
        gpus
    }
}

/// The present state of `gpus`, read by a separate thread.
///
/// # Errors
/// NVML's error, or that it does not answer in time.
pub(in crate::suite) fn query_status(
    limit: Duration,
    gpus: Vec<Bdf>,
) -> Result<Vec<GpuStatus>, String> {
    let own = OwnProcesses::of_parent();
    query_nvml(limit, move |nvml| {
        nvml.gpu_status(&gpus, &|pid| own.has(pid))
    })
}

/// The prefix of every error that means that NVML hangs.
pub const NVML_HANGS: &str = "NVML does not answer";

/// The result of `ask`, which runs in a separate thread, because calls of NVML may never return.
///
/// # Errors
/// NVML's error, or that it does not answer in time.
pub(super) fn query_nvml<T: Send + 'static>(
    limit: Duration,
    ask: impl FnOnce(&Nvml) -> T + Send + 'static,
) -> Result<T, String> {
    let (sender, answer) = channel();
    thread::spawn(move || {
        let result = Nvml::of_process().map(ask).map_err(str::to_owned);
        // The receiver may have given up.
        let _ = sender.send(result);
    });
    let late = || Err(format!("{NVML_HANGS} within {:.1} s", limit.as_secs_f64()));
    answer.recv_timeout(limit).unwrap_or_else(|_| late())
}

/// The GPUs bound to NVIDIA's driver, by address.
#[must_use]
pub(in crate::suite) fn driver_gpus(fabric: Option<&Fabric>) -> Vec<Bdf> {
    let Some(fabric) = fabric else {
        return Vec::new();
    };
    let nvidia = |bdf: &Bdf| {
        fabric
            .devices
            .iter()
            .any(|d| d.bdf == *bdf && d.driver.as_deref() == Some("nvidia"))
    };
    let mut gpus: Vec<Bdf> = fabric.gpus.iter().copied().filter(nvidia).collect();
    gpus.sort();
    gpus
}

/// In a container NVML may report process ids of the host. If this process uses a GPU and its own id is not in
/// the list, new ids that no process has in this namespace are attributed to this process.
fn claim_unknown_pids(
    gpus: &mut [GpuStatus],
    before: &[GpuStatus],
    own: u32,
    here: &dyn Fn(u32) -> bool,
) {
    let was_there = |gpu: Bdf, pid: u32| {
        let users = before
            .iter()
            .filter(|b| b.gpu == gpu)
            .flat_map(|b| b.users.as_deref().unwrap_or_default());
        users.into_iter().any(|p| p.pid == pid)
    };
    for GpuStatus { gpu, users, .. } in gpus {
        let Ok(users) = users else { continue };
        if users.iter().any(|p| p.pid == own) {
            continue;
        }
        for Process { pid, ours, .. } in users.iter_mut() {
            *ours |= !here(*pid) && !was_there(*gpu, *pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::Presence;

    const GPU: Bdf = Bdf {
        domain: 0,
        bus: 1,
        device: 0,
        function: 0,
    };

    fn status(pids: &[u32]) -> GpuStatus {
        let process = |pid: &u32| Process {
            pid: *pid,
            name: String::new(),
            bytes: None,
            compute: true,
            ours: false,
        };
        GpuStatus {
            users: Ok(pids.iter().map(process).collect()),
            ..GpuStatus::unknown(GPU, Presence::Here)
        }
    }

    fn strangers(now: &[u32], before: &[u32]) -> Vec<u32> {
        let mut gpus = [status(now)];
        claim_unknown_pids(&mut gpus, &[status(before)], 10, &|pid| pid < 1000);
        gpus[0].others().map(|p| p.pid).collect()
    }

    #[test]
    fn ids_of_another_namespace_are_ours_unless_they_were_there_before() {
        assert_eq!(strangers(&[4711], &[]), [0_u32; 0]);
        assert_eq!(strangers(&[4711, 5000], &[5000]), [5000]);
        // A process that exists in this namespace is not ours, whatever NVML reports.
        assert_eq!(strangers(&[4711, 77], &[]), [77]);
    }

    #[test]
    fn where_our_own_id_is_listed_the_others_are_strangers() {
        assert_eq!(strangers(&[10, 4711], &[]), [10, 4711]);
    }

    #[test]
    fn graphics_programs_count_when_they_are_large_or_the_gpu_is_busy() {
        let mut status = status(&[5]);
        let draws = |status: &mut GpuStatus, bytes| {
            for p in status.users.iter_mut().flatten() {
                (p.compute, p.bytes) = (false, Some(bytes));
            }
        };
        draws(&mut status, 4 << 20);
        assert_eq!(status.others().count(), 0);
        status.busy_percent = Some(60);
        assert_eq!(status.others().count(), 1);
        status.busy_percent = Some(3);
        draws(&mut status, 2 << 30);
        assert_eq!(status.others().count(), 1);
    }
}
