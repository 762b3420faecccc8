//! The files that NCCL's processes share and that a killed process leaves: `/dev/shm/nccl-XXXXXX`, made by
//! `mkstemp` (NCCL's `src/misc/shmutils.cc`, `src/proxy.cc`). Files are removed if they were made since a run
//! began, belong to us and are used by no process; all others, and those of unknown use, stay.

use machine::root::Root;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::getuid;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const FOLDER: &str = "dev/shm";
/// How long the kernel may take to clean up a killed process and to release its files.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

/// Removes NCCL's shared memory files that did not exist when a run began.
#[derive(Debug)]
pub struct Leftovers {
    root: Root,
    /// The files at that time; `None` if they are unknown: then nothing is removed.
    before: Option<BTreeSet<String>>,
}

impl Leftovers {
    /// Records the files that exist now.
    #[must_use]
    pub fn before(root: Root) -> Self {
        let before = files(&root).ok();
        Self { root, before }
    }

    /// Removes new files once no process uses them; returns the removed names. Returns immediately if there
    /// are none, and within seconds if a process keeps using them.
    #[must_use]
    pub fn remove(&self) -> Vec<String> {
        self.remove_within(RELEASE_TIMEOUT)
    }

    fn remove_within(&self, patience: Duration) -> Vec<String> {
        let due = Instant::now() + patience;
        let mut removed = Vec::new();
        loop {
            let new_files = self.new_files();
            if new_files.is_empty() {
                return removed;
            }
            // If the users are unknown, all files count as used.
            let in_use = files_in_use(&self.root, &new_files).unwrap_or_else(|_| new_files.clone());
            for name in new_files.difference(&in_use) {
                let path = Path::new(FOLDER).join(name);
                let shown = self.root.join(&path);
                match self.root.remove(&path) {
                    Ok(()) => {
                        log::warn!(
                            "removed {}, which a killed process left behind",
                            shown.display()
                        );
                        removed.push(name.clone());
                    }
                    Err(error) => log::warn!("{} stays: {error}", shown.display()),
                }
            }
            if Instant::now() >= due {
                return removed;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Our files that did not exist before.
    fn new_files(&self) -> BTreeSet<String> {
        let Some(before) = &self.before else {
            return BTreeSet::new();
        };
        let now = files(&self.root).unwrap_or_default();
        let ours = |name: &String| {
            let stat = self.root.stat(Path::new(FOLDER).join(name));
            let file = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
            stat.is_ok_and(|stat| file(stat.st_mode) && stat.st_uid == getuid().as_raw())
        };
        now.difference(before)
            .filter(|name| ours(name))
            .cloned()
            .collect()
    }
}

/// `nccl-` and the six letters and digits of `mkstemp`.
fn is_nccl_file(name: &str) -> bool {
    let made = name.strip_prefix("nccl-");
    made.is_some_and(|made| made.len() == 6 && made.bytes().all(|b| b.is_ascii_alphanumeric()))
}

fn files(root: &Root) -> io::Result<BTreeSet<String>> {
    let names = root
        .names(FOLDER)?
        .into_iter()
        .filter_map(|name| name.into_string().ok());
    Ok(names.filter(|name| is_nccl_file(name)).collect())
}

/// Those of the named files that any process has mapped or open.
fn files_in_use(root: &Root, names: &BTreeSet<String>) -> io::Result<BTreeSet<String>> {
    let mut in_use = BTreeSet::new();
    for process in root.names("proc")?.iter().filter(|name| is_number(name)) {
        let process = Path::new("proc").join(process);
        match files_used_by(root, &process, names) {
            Ok(used) => in_use.extend(used),
            Err(error) if is_gone(&error) || is_other_users(root, &process) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(in_use)
}

fn files_used_by(
    root: &Root,
    process: &Path,
    names: &BTreeSet<String>,
) -> io::Result<BTreeSet<String>> {
    let maps = root.read(process.join("maps"))?;
    let maps = String::from_utf8_lossy(&maps);
    let mapped = |name: &&String| maps.contains(name.as_str());
    let mut used: BTreeSet<_> = names.iter().filter(mapped).cloned().collect();
    let folder = process.join("fd");
    for number in root.names(&folder)? {
        let Some(target) = open_file(root, &folder.join(number))? else {
            continue;
        };
        used.extend(
            target
                .file_name()
                .and_then(|n| names.get(n.to_str()?))
                .cloned(),
        );
    }
    Ok(used)
}

/// The target of a descriptor; `None` for one that was closed in the meantime.
fn open_file(root: &Root, descriptor: &Path) -> io::Result<Option<PathBuf>> {
    match root.link(descriptor) {
        Ok(target) => Ok(Some(target)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_number(name: &OsString) -> bool {
    name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::SRCH)
}

/// True for a process of another user, which cannot open our files: `mkstemp` makes them accessible to their
/// owner only. This occurs for non-root users only, because root can read all processes.
fn is_other_users(root: &Root, process: &Path) -> bool {
    root.stat(process)
        .is_ok_and(|stat| stat.st_uid != getuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A folder used as `/`, with one process.
    fn machine() -> (TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for folder in [FOLDER, "proc/71/fd", "proc/sys"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        fs::write(dir.path().join("proc/71/maps"), "").unwrap();
        let root = Root::new(dir.path());
        (dir, root)
    }

    fn make(root: &Root, names: &[&str]) {
        for name in names {
            fs::write(root.join(FOLDER).join(name), "").unwrap();
        }
    }

    fn there(root: &Root) -> Vec<OsString> {
        root.names(FOLDER).unwrap()
    }

    const SOON: Duration = Duration::from_millis(120);

    #[test]
    fn only_leftovers_of_killed_processes_are_removed() {
        let (_dir, root) = machine();
        make(&root, &["nccl-before", "nccl-Before"]);
        let leftovers = Leftovers::before(root.clone());
        make(
            &root,
            &[
                "nccl-aB3dE9",
                "nccl-longer1",
                "nccl-a.b-c_",
                "sem.nccl-x",
                "other",
            ],
        );
        symlink("other", root.join(FOLDER).join("nccl-symlin")).unwrap();
        assert_eq!(leftovers.remove(), ["nccl-aB3dE9"]);
        let kept = [
            "nccl-Before",
            "nccl-a.b-c_",
            "nccl-before",
            "nccl-longer1",
            "nccl-symlin",
            "other",
            "sem.nccl-x",
        ];
        assert_eq!(there(&root), kept);
        assert!(leftovers.remove().is_empty());
    }

    #[test]
    fn files_in_use_stay_until_the_process_is_gone() {
        let (dir, root) = machine();
        let leftovers = Leftovers::before(root.clone());
        make(&root, &["nccl-mapped", "nccl-opened", "nccl-unused"]);
        let map = "7f00-7f01 rw-s 00000000 00:1a 77 /dev/shm/nccl-mapped\n";
        fs::write(dir.path().join("proc/71/maps"), map).unwrap();
        symlink("/dev/shm/nccl-opened", dir.path().join("proc/71/fd/9")).unwrap();
        let start = Instant::now();
        assert_eq!(leftovers.remove_within(SOON), ["nccl-unused"]);
        assert!(start.elapsed() < Duration::from_secs(50));
        assert_eq!(there(&root), ["nccl-mapped", "nccl-opened"]);
        fs::remove_dir_all(dir.path().join("proc/71")).unwrap();
        assert_eq!(leftovers.remove_within(SOON).len(), 2);
    }

    #[test]
    fn a_process_that_dies_during_the_wait_releases_its_files() {
        let (dir, root) = machine();
        let leftovers = Leftovers::before(root.clone());
        make(&root, &["nccl-mapped"]);
        let process = dir.path().join("proc/71");
        fs::write(process.join("maps"), "/dev/shm/nccl-mapped").unwrap();
        let dying = thread::spawn(move || {
            thread::sleep(SOON);
            fs::remove_dir_all(process).unwrap();
        });
        assert_eq!(leftovers.remove(), ["nccl-mapped"]);
        dying.join().unwrap();
    }

    #[test]
    fn an_unreadable_process_may_use_all_files() {
        let (dir, root) = machine();
        let leftovers = Leftovers::before(root.clone());
        make(&root, &["nccl-aB3dE9"]);
        // A folder in place of a file cannot be read by any user.
        fs::remove_file(dir.path().join("proc/71/maps")).unwrap();
        fs::create_dir(dir.path().join("proc/71/maps")).unwrap();
        assert!(leftovers.remove_within(SOON).is_empty());
        assert_eq!(there(&root), ["nccl-aB3dE9"]);
    }

    #[test]
    fn without_an_initial_record_nothing_is_removed() {
        let (_dir, root) = machine();
        let unread = Leftovers {
            root: root.clone(),
            before: None,
        };
        make(&root, &["nccl-aB3dE9"]);
        assert!(unread.remove().is_empty());
        assert_eq!(there(&root).len(), 1);
    }
}
