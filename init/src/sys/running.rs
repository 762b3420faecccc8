//! The processes that run, by /proc, and those among them that a child has left behind.

use super::process::{Pid, end, pidfd};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// A process, which its id and the time of its start name until the machine goes down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub id: u32,
    /// Its parent's id.
    pub parent: u32,
    /// When it started, in ticks of the kernel since the machine's start.
    pub started: u64,
    /// The name of its program.
    pub name: String,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, self.name)
    }
}

/// All processes besides process 1 that run a program. `proc` is /proc.
///
/// # Errors
/// As readdir(3).
pub fn running(proc: &Path) -> io::Result<Vec<Process>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(proc)? {
        let entry = entry?;
        let id = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok());
        let Some(id) = id.filter(|id| *id != 1) else {
            continue;
        };
        if std::fs::read_link(entry.path().join("exe")).is_ok() {
            // The process may have ended since.
            let stat = std::fs::read(entry.path().join("stat")).unwrap_or_default();
            all.extend(process_of(id, &String::from_utf8_lossy(&stat)));
        }
    }
    Ok(all)
}

/// The process of /proc/ID/stat (proc_pid_stat(5)): the name stands in parentheses and may contain any character.
fn process_of(id: u32, stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut words = after.split_ascii_whitespace();
    let (parent, started) = (words.nth(1)?.parse().ok()?, words.nth(17)?.parse().ok()?);
    Some(Process {
        id,
        parent,
        started,
        name: name.to_owned(),
    })
}

/// Those of `now` that were not there `before`, and that none of those has started.
#[must_use]
pub fn strays<'a>(before: &[Process], now: &'a [Process]) -> Vec<&'a Process> {
    let was_there = |one: &Process| {
        before
            .iter()
            .any(|old| (old.id, old.started) == (one.id, one.started))
    };
    let is_stray = |one: &&Process| {
        let mut at = Some(*one);
        // A chain of parents is no longer than the list; ids that are used again could make a ring of it.
        for _ in 0..=now.len() {
            match at {
                Some(process) if was_there(process) => return false,
                Some(process) => at = now.iter().find(|parent| parent.id == process.parent),
                None => return true,
            }
        }
        true
    };
    now.iter().filter(is_stray).collect()
}

/// Ends a process at once, unless its id belongs to another one by now. Returns whether it has ended after `limit` at most.
#[must_use]
pub fn end_stray(stray: &Process, limit: Duration) -> bool {
    let Some(pid) = i32::try_from(stray.id).ok().and_then(Pid::from_raw) else {
        return false;
    };
    // The descriptor keeps naming the process that had the id when it was opened.
    let Ok(process) = pidfd(pid) else { return true };
    let is_same =
        |stat: String| process_of(stray.id, &stat).is_some_and(|now| now.started == stray.started);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", stray.id));
    if stat.is_ok_and(is_same) {
        end(process.as_fd(), limit)
    } else {
        true
    }
}

/// The processes besides process 1 and this one, as `412 (name)`. Kernel threads and processes that have ended run no
/// program and do not count. `proc` is /proc.
///
/// # Errors
/// As readdir(3).
pub fn others(proc: &Path) -> io::Result<Vec<String>> {
    let this = std::process::id();
    let others = running(proc)?
        .into_iter()
        .filter(|process| process.id != this);
    Ok(others.map(|process| process.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u32, parent: u32, started: u64) -> Process {
        Process {
            id,
            parent,
            started,
            name: "x".to_owned(),
        }
    }

    #[test]
    fn a_name_may_hold_anything() {
        let rest = "S 7 412 412 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 2 3";
        let want = Process {
            id: 412,
            parent: 7,
            started: 98_765,
            name: ") (S 1".to_owned(),
        };
        assert_eq!(
            process_of(412, &format!("412 () (S 1) {rest}\n")),
            Some(want)
        );
        for bad in ["", "412 (x", "412 (x) S", "412 (x) S y"] {
            assert_eq!(process_of(412, bad), None, "{bad}");
        }
    }

    #[test]
    fn this_process_is_found_with_its_parent() {
        let all = running(Path::new("/proc")).unwrap();
        let this = all
            .iter()
            .find(|process| process.id == std::process::id())
            .unwrap();
        assert_eq!(this.parent, std::os::unix::process::parent_id());
    }

    #[test]
    fn what_was_there_and_what_that_has_started_is_no_stray() {
        let before = [process(10, 1, 5), process(11, 1, 6)];
        let now = [
            process(10, 1, 5),
            process(20, 10, 50),
            process(21, 20, 51),
            // An orphan of the child, and what it has started.
            process(30, 1, 52),
            process(31, 30, 53),
            // An id that is used again.
            process(11, 1, 54),
            // Parents that form a ring, and one that is gone.
            process(40, 41, 55),
            process(41, 40, 56),
            process(42, 99, 57),
        ];
        let ids: Vec<_> = strays(&before, &now)
            .iter()
            .map(|process| process.id)
            .collect();
        assert_eq!(ids, [30, 31, 11, 40, 41, 42]);
    }

    #[test]
    fn a_stray_is_ended_unless_its_id_names_another_process() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let all = running(Path::new("/proc")).unwrap();
        let stray = all
            .into_iter()
            .find(|process| process.id == child.id())
            .unwrap();
        assert!(end_stray(
            &Process {
                started: stray.started + 1,
                ..stray.clone()
            },
            Duration::ZERO
        ));
        assert!(child.try_wait().unwrap().is_none());
        assert!(end_stray(&stray, Duration::from_secs(60)));
        assert!(!child.wait().unwrap().success());
    }
}
