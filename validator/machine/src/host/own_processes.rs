//! The processes of this run: the validator, its workers, and their children. NVML lists the processes on a
//! GPU by their ids, so the ids of this run must be recognized. Ids are always those of the live machine,
//! even if another root is read.

use crate::root::Root;
use rustix::process::{getpgrp, getpid, getppid};
use std::io;
use std::path::PathBuf;

/// Maximum depth of the search through parents.
const DEPTH: usize = 64;

/// The fields of a process's /proc/PID/stat that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    parent: u32,
    /// Its process group. A worker leads its own group, and its children stay in it.
    group: u32,
    /// Its start, in clock ticks since the kernel's start.
    started: u64,
}

/// The processes that belong to this run: recognizes them by their id.
#[derive(Debug)]
pub struct OwnProcesses {
    /// The process id of the validator, which started this process.
    validator: u32,
    since: u64,
    /// This process's group, if it is the group's leader: another group may be shared with foreign processes.
    group: Option<u32>,
    program: Option<PathBuf>,
}

impl OwnProcesses {
    /// The run whose validator is the parent process.
    #[must_use]
    pub fn of_parent() -> Self {
        let validator = getppid()
            .and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())
            .unwrap_or_default();
        let group = (getpgrp() == getpid()).then(std::process::id);
        let since = stat(validator).map_or(0, |t| t.started);
        Self {
            validator,
            since,
            group,
            program: program(std::process::id()),
        }
    }

    /// Whether `pid` belongs to this run. A process whose parent has ended is a child of process 1: it
    /// belongs to the run if it runs this program and started after the validator. A process that started
    /// after the validator and is exiting, so that its program can no longer be read, does not count as
    /// foreign either: the driver is still freeing its memory.
    #[must_use]
    pub fn has(&self, pid: u32) -> bool {
        let Some(first) = stat(pid) else { return false };
        if Some(first.group) == self.group || (first.started >= self.since && is_exiting(pid)) {
            return true;
        }
        let mut at = pid;
        for _ in 0..DEPTH {
            if at == 0 || at == self.validator || at == std::process::id() {
                return at != 0;
            }
            // Another run's worker.
            if at != pid && self.program.is_some() && program(at) == self.program {
                return false;
            }
            match stat(at) {
                Some(stat) if stat.parent > 1 || stat.parent == self.validator => at = stat.parent,
                _ => break,
            }
        }
        first.started >= self.since && self.program.is_some() && program(pid) == self.program
    }
}

/// This process's own id.
#[must_use]
pub fn own_id() -> u32 {
    std::process::id()
}

/// Whether a process with this id is visible.
#[must_use]
pub fn is_visible(pid: u32) -> bool {
    stat(pid).is_some()
}

fn program(pid: u32) -> Option<PathBuf> {
    read_program(pid).ok()
}

fn read_program(pid: u32) -> io::Result<PathBuf> {
    Root::new("/").link(format!("proc/{pid}/exe"))
}

/// True if it is exiting: a process that has released its memory no longer has a program (proc_pid_exe(5)).
fn is_exiting(pid: u32) -> bool {
    read_program(pid).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn stat(pid: u32) -> Option<ProcessStat> {
    parse(&Root::new("/").text(format!("proc/{pid}/stat")).ok()?)
}

/// `1234 (name) S 1230 ..`: the name may contain any character and ends at the last bracket. The parent is
/// the fourth field, the group the fifth, the start the 22nd (proc_pid_stat(5)).
fn parse(stat: &str) -> Option<ProcessStat> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let started = fields.nth(16)?.parse().ok()?;
    Some(ProcessStat {
        parent,
        group,
        started,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let line = "77 (a) b (c) S 12 76 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1000 1";
        assert_eq!(
            parse(line),
            Some(ProcessStat {
                parent: 12,
                group: 76,
                started: 4711
            })
        );
        assert_eq!((parse("77 (a) S 12"), parse("")), (None, None));
    }

    #[test]
    fn children_belong_to_the_run_and_other_processes_do_not() {
        let own = OwnProcesses::of_parent();
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        assert!(own.has(pid) && own.has(std::process::id()) && is_visible(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        // Its id may be reused later, but not this soon.
        assert!(!own.has(pid) && !is_visible(pid));
        assert!(!own.has(1) && !own.has(0) && !own.has(u32::MAX));
    }
}
