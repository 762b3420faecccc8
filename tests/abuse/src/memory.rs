//! A limit of a program's memory: a control group of the second or of the first version, or where neither can be made, a limit of
//! its address space.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};

/// A limited group of processes, removed at the end.
pub(crate) struct Limit {
    group: Option<(PathBuf, &'static str)>,
    mib: u64,
}

impl Limit {
    /// `mib`: with control groups. The address space gets four times as much, because threads reserve some of it.
    pub(crate) fn new(mib: u64) -> Self {
        let name = format!("firstlight-abuse-{}", id());
        let second = (
            Path::new("/sys/fs/cgroup").join(&name),
            "memory.max",
            "memory.peak",
        );
        let first = (
            Path::new("/sys/fs/cgroup/memory").join(&name),
            "memory.limit_in_bytes",
            "memory.max_usage_in_bytes",
        );
        let group = [second, first].into_iter().find_map(|(path, limit, peak)| {
            fs::create_dir(&path).ok()?;
            let set = path.join(limit).exists()
                && fs::write(path.join(limit), (mib << 20).to_string()).is_ok();
            if !set {
                let _ = fs::remove_dir(&path);
            }
            set.then_some((path, peak))
        });
        Self { group, mib }
    }

    /// How it limits.
    pub(crate) fn says(&self) -> String {
        match &self.group {
            Some((path, _)) if path.starts_with("/sys/fs/cgroup/memory") => {
                format!("{} MiB by a control group, version 1", self.mib)
            }
            Some(_) => format!("{} MiB by a control group, version 2", self.mib),
            None => format!("{} MiB of address space by ulimit -v", self.mib * 4),
        }
    }

    /// The most memory that it had, with the pages of files, if it is known.
    pub(crate) fn peak_mib(&self) -> Option<u64> {
        let (path, peak) = self.group.as_ref()?;
        fs::read_to_string(path.join(peak))
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
            .map(|bytes| bytes >> 20)
    }

    /// A command that runs within the limit.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        let script = match &self.group {
            Some((path, _)) => format!(
                "echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"",
                path.display()
            ),
            None => format!("ulimit -v {} && exec \"$0\" \"$@\"", self.mib * 4096),
        };
        command.args(["-c", &script]).arg(program);
        command
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.group {
            // It can be removed when its processes have been reaped, which takes a moment.
            for _ in 0..50 {
                if fs::remove_dir(path).is_ok() {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
    }
}

/// The most memory in KiB that a process had, without the pages of files that others share; of its status in /proc.
pub(crate) fn peak_kib(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
