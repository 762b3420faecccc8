//! Control groups (Documentation/admin-guide/cgroup-v2.rst): one for each child, so that every process which the child has
//! started ends with it, even one that left its session, and so that no child uses up all memory, process ids or processor time.

use super::kernel::since_boot;
use rustix::process::getpid;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where the hierarchy is mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// The most process and thread ids of a child: NCCL starts some threads for each pair of GPUs and channel.
const PIDS: u64 = 32_768;
/// The fewest, on a machine with little memory, which has few GPUs.
const FEWEST_PIDS: u64 = 1024;
/// The memory for each id: what the kernel keeps for a process (page tables, stack, descriptors) is a few hundred KiB.
const MEMORY_PER_PID: u64 = 1 << 20;
/// The part of the memory that children cannot use, so that process 1 can keep running: one part in this many.
const KEPT_FREE: u64 = 16;
/// How long killed processes may take to leave.
const PATIENCE: Duration = Duration::from_millis(500);

/// The group of one child; there is none without cgroup2.
#[derive(Debug)]
pub struct ControlGroup {
    at: PathBuf,
    /// The file to which the ids of the members are written.
    members: OwnedFd,
}

impl ControlGroup {
    /// Makes a group, with limits if the kernel has these controllers.
    #[must_use]
    pub fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !getpid().is_init() {
            return None;
        }
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        if nth == 0 {
            // Refused if another process 1 has its own groups; then there are no limits.
            let _others = fs::write(format!("{ROOT}/cgroup.subtree_control"), "+pids +memory");
            // All processes of a child together get as much processor time as process 1, however many they are.
            let _no_controller = fs::write(format!("{ROOT}/cgroup.subtree_control"), "+cpu");
        }
        // In namespaces, several processes 1 may share one hierarchy.
        Self::at(
            Path::new(ROOT),
            &format!("firstlight.{}.{nth}", since_boot().as_nanos()),
        )
        .ok()
    }

    fn at(root: &Path, name: &str) -> io::Result<Self> {
        let at = root.join(name);
        fs::create_dir(&at)?;
        // In a folder that is not of cgroup2 there is no such file.
        let members = File::options()
            .write(true)
            .open(at.join("cgroup.procs"))
            .inspect_err(|_| {
                let _empty = fs::remove_dir(&at);
            })?;
        let _no_controller = fs::write(at.join("pids.max"), pids(memory()).to_string());
        if let Some(bytes) = memory() {
            let _no_controller = fs::write(
                at.join("memory.max"),
                (bytes - bytes / KEPT_FREE).to_string(),
            );
        }
        Ok(Self {
            at,
            members: members.into(),
        })
    }

    /// Makes the command start in this group.
    ///
    /// # Errors
    /// As dup(2).
    pub fn confine(&self, command: &mut Command) -> io::Result<()> {
        let members = self.members.try_clone()?;
        let setup = move || Ok(rustix::io::write(members.as_fd(), b"0").map(|_| ())?);
        #[expect(
            unsafe_code,
            reason = "std has no safe way to start a child in a control group"
        )]
        // SAFETY: between fork and exec the closure makes one system call and touches no memory that
        // another thread could have locked; init has no other thread.
        unsafe {
            command.pre_exec(setup);
        }
        Ok(())
    }

    /// Kills every process of the group at once, also one that is being started meanwhile. Returns whether the kernel can do this.
    #[must_use]
    pub fn kill(&self) -> bool {
        let file = File::options()
            .write(true)
            .open(self.at.join("cgroup.kill"));
        file.and_then(|mut file| file.write_all(b"1")).is_ok()
    }

    /// Kills every process that is left in the group, and removes the group.
    pub fn end(self) {
        let _older_kernel = self.kill();
        let until = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.at).is_err_and(|e| e.kind() == io::ErrorKind::ResourceBusy)
            && Instant::now() < until
        {
            // Process 1 reaps them later; a group is empty when they have ended.
            sleep(Duration::from_millis(1));
        }
    }
}

/// How many ids a child gets on a machine with this memory, bytes.
fn pids(memory: Option<u64>) -> u64 {
    memory.map_or(PIDS, |bytes| {
        (bytes / MEMORY_PER_PID).clamp(FEWEST_PIDS, PIDS)
    })
}

/// The machine's memory in bytes.
fn memory() -> Option<u64> {
    let info = rustix::system::sysinfo();
    info.totalram.checked_mul(u64::from(info.mem_unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_machine_gives_a_child_fewer_ids() {
        let of_gib = |gib: u64| pids(Some(gib << 30));
        assert_eq!(
            [of_gib(0), of_gib(2), of_gib(64), of_gib(1024), pids(None)],
            [1024, 2048, 32_768, 32_768, 32_768]
        );
    }
}
