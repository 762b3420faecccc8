//! The state of the GPUs around each test, as NVML reports it: once before this process uses them, and after
//! every test. The parent, which outlives a worker, judges what has changed and which other processes use the
//! GPUs.

use crate::gpu::{self, Look, Nvml, Process, Standing};
use crate::machine::host::kin;
use crate::machine::host::kin::Kin;
use crate::machine::pcie::model::{Bdf, Fabric};
use crate::outcome::{Judgement, Outcome};
use crate::suite::protocol::Message;
use crate::suite::{Group, Machine, Test};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// The time limit after a test, when NVML answers in milliseconds; if it hangs, that must not hide the test's result.
const ANSWER: Duration = Duration::from_secs(3);
/// The time limit for a process that only queries the state, including NVML's start.
pub(in crate::suite) const PROBE: Duration = Duration::from_secs(10);
/// The time limit for NVML's start, which also starts every GPU that no other program holds open. Each test that
/// queries NVML has a longer deadline.
pub(super) const FIRST: Duration = Duration::from_secs(20);
/// NVML's utilization figure covers up to a second. NVIDIA's driver also keeps a GPU busy while it starts it.
const SAMPLE: Duration = Duration::from_millis(1200);

impl Machine {
    /// The state of the GPUs before this process used them, which is also sent to the parent. The first call
    /// queries NVML.
    pub fn before(&self) -> &Look {
        self.gpus.before.get_or_init(|| {
            self.doing("asking NVML for the state of the GPUs");
            let look = self.first_look();
            (self.tell)(Message::Look(Some(look.clone())));
            look
        })
    }

    fn first_look(&self) -> Look {
        let kin = Kin::of_parent();
        let gpus = held(self.fabric.as_ref().ok());
        let read = || Ok(self.nvml()?.standing(&gpus, &|pid| kin.has(pid)));
        let look = Look { quiet: false, gpus: read().map_err(str::to_owned) };
        if !look.is_busy() {
            return look;
        }
        thread::sleep(SAMPLE);
        Look { quiet: false, gpus: read().map_err(str::to_owned) }
    }

    /// The state of the GPUs after a test that used them; `None` if this process or the test did not use them.
    /// After a test that failed, this waits until the work of this run is over, so that a GPU that is still busy
    /// works for other programs.
    #[must_use]
    pub fn after(&self, test: &Test, judgement: &Judgement) -> Option<Look> {
        let before = self.gpus.before.get().filter(|_| test.group == Group::Gpu)?;
        let look = || Look { quiet: false, gpus: self.ask().map(|gpus| self.without_own(gpus, before)) };
        let now = look();
        // If a GPU hangs, it may still be busy with our own work.
        if gpu::is_spoiled() || !matches!(judgement.outcome(), Outcome::Fail | Outcome::Error) {
            return Some(now);
        }
        if !now.is_busy() {
            return Some(Look { quiet: true, ..now });
        }
        thread::sleep(SAMPLE);
        Some(Look { quiet: true, ..look() })
    }

    /// NVML's error if it hangs. A thread queries it once, before anything else here calls NVML or CUDA: if NVML
    /// hangs, every call into the driver may hang as well.
    pub(in crate::suite) fn hangs(&self) -> Option<&str> {
        let ask = || {
            self.doing("asking NVML whether it answers");
            let answer = within(FIRST, held(self.fabric.as_ref().ok()));
            answer.err().filter(|why| why.starts_with(LATE))
        };
        self.gpus.hangs.get_or_init(ask).as_deref()
    }

    fn ask(&self) -> Result<Vec<Standing>, String> {
        within(ANSWER, held(self.fabric.as_ref().ok()))
    }

    fn without_own(&self, mut gpus: Vec<Standing>, before: &Look) -> Vec<Standing> {
        if self.has_clique() {
            own_by_other_names(&mut gpus, before.known(), kin::own_id(), &kin::is_here);
        }
        gpus
    }
}

/// The present state of `gpus`, read by a separate thread.
///
/// # Errors
/// NVML's error, or that it does not answer in time.
pub(in crate::suite) fn within(limit: Duration, gpus: Vec<Bdf>) -> Result<Vec<Standing>, String> {
    let kin = Kin::of_parent();
    asked(limit, move |nvml| nvml.standing(&gpus, &|pid| kin.has(pid)))
}

/// The prefix of every error that means that NVML hangs.
pub const LATE: &str = "NVML does not answer";

/// The result of `ask`, which runs in a separate thread, because calls of NVML may never return.
///
/// # Errors
/// NVML's error, or that it does not answer in time.
pub(super) fn asked<T: Send + 'static>(
    limit: Duration,
    ask: impl FnOnce(&Nvml) -> T + Send + 'static,
) -> Result<T, String> {
    let (sender, answer) = channel();
    thread::spawn(move || {
        let result = Nvml::start().map(|nvml| ask(&nvml));
        // The receiver may have given up.
        let _ = sender.send(result);
    });
    let late = || Err(format!("{LATE} within {:.1} s", limit.as_secs_f64()));
    answer.recv_timeout(limit).unwrap_or_else(|_| late())
}

/// The GPUs bound to NVIDIA's driver, by address.
#[must_use]
pub(in crate::suite) fn held(fabric: Option<&Fabric>) -> Vec<Bdf> {
    let Some(fabric) = fabric else { return Vec::new() };
    let nvidia =
        |bdf: &Bdf| fabric.devices.iter().any(|d| d.bdf == *bdf && d.driver.as_deref() == Some("nvidia"));
    let mut gpus: Vec<Bdf> = fabric.gpus.iter().copied().filter(nvidia).collect();
    gpus.sort();
    gpus
}

/// In a container NVML may report process ids of the host. If this process uses a GPU and its own id is not in
/// the list, new ids that no process has in this namespace are attributed to this process.
fn own_by_other_names(gpus: &mut [Standing], before: &[Standing], own: u32, here: &dyn Fn(u32) -> bool) {
    let was_there = |gpu: Bdf, pid: u32| {
        let users =
            before.iter().filter(|b| b.gpu == gpu).flat_map(|b| b.users.as_deref().unwrap_or_default());
        users.into_iter().any(|p| p.pid == pid)
    };
    for Standing { gpu, users, .. } in gpus {
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
    use crate::gpu::Presence;

    const GPU: Bdf = Bdf { domain: 0, bus: 1, device: 0, function: 0 };

    fn standing(pids: &[u32]) -> Standing {
        let process =
            |pid: &u32| Process { pid: *pid, name: String::new(), bytes: None, compute: true, ours: false };
        Standing { users: Ok(pids.iter().map(process).collect()), ..Standing::unknown(GPU, Presence::Here) }
    }

    fn strangers(now: &[u32], before: &[u32]) -> Vec<u32> {
        let mut gpus = [standing(now)];
        own_by_other_names(&mut gpus, &[standing(before)], 10, &|pid| pid < 1000);
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
        let mut standing = standing(&[5]);
        let draws = |standing: &mut Standing, bytes| {
            for p in standing.users.iter_mut().flatten() {
                (p.compute, p.bytes) = (false, Some(bytes));
            }
        };
        draws(&mut standing, 4 << 20);
        assert_eq!(standing.others().count(), 0);
        standing.busy_percent = Some(60);
        assert_eq!(standing.others().count(), 1);
        standing.busy_percent = Some(3);
        draws(&mut standing, 2 << 30);
        assert_eq!(standing.others().count(), 1);
    }
}
