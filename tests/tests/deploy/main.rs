//! Does the package for ordinary hosts work where it is installed, and do the examples of `docs/deploy/` work with the
//! programs that they are for? Needs the package, root, and what `./run package-tests` and `./run deploy-tests` install.
//! GPUs are simulated; the rest is real.

mod database;
mod monitoring;
mod package;
mod pipelines;
mod slurm;

use harness::simgpu::{Libraries, Scenario, lay_out, root};
use harness::workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The path of the packaged program.
fn firstlight() -> PathBuf {
    workspace().join("target/package/stage/usr/bin/firstlight")
}

/// Runs a shell script in a folder.
fn shell(at: &Path, script: &str) -> Output {
    Command::new("bash")
        .args(["-euc", script])
        .current_dir(at)
        .output()
        .unwrap()
}

/// Runs a shell script that must succeed, and returns what it prints.
#[track_caller]
fn sh(at: &Path, script: &str) -> String {
    let output = shell(at, script);
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{script}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// The folder of the Python packages that `./run deploy-tests` has installed.
fn wheels() -> PathBuf {
    workspace().join("target/deploy/python")
}

/// Runs Python with these packages; it must succeed. Returns what it prints.
#[track_caller]
fn python(at: &Path, words: &str) -> String {
    sh(
        at,
        &format!("PYTHONPATH={} python3 {words}", wheels().display()),
    )
}

/// The block of a page of `docs/deploy/` with a comment `FILE: ..` in its first or second line: what a user copies.
fn example(page: &str, file: &str) -> String {
    let text = fs::read_to_string(workspace().join("docs/deploy").join(page)).unwrap();
    let blocks: Vec<_> = text
        .split("\n```")
        .skip(1)
        .step_by(2)
        .map(|b| b.split_once('\n').unwrap().1)
        .collect();
    let title = format!("{file}:");
    let mut found = blocks
        .iter()
        .filter(|b| b.lines().take(2).any(|line| line.contains(&title)));
    let block = found
        .next()
        .unwrap_or_else(|| panic!("{page} has no block that names {file}"));
    assert!(
        found.next().is_none(),
        "{page} has more than one block that names {file}"
    );
    format!("{block}\n")
}

/// Lays out a scenario of two simulated GPUs in a folder, and writes the settings with which the program validates it; returns
/// their file. `seen_at` is the path at which the program sees the folder.
fn simulated(scenario: &str, folder: &Path, seen_at: &str) -> PathBuf {
    laid_out(&Scenario::named(scenario).unwrap().gpus(2), folder, seen_at)
}

/// The same for a scenario that already has its number of GPUs.
fn laid_out(gpus: &Scenario, folder: &Path, seen_at: &str) -> PathBuf {
    lay_out(gpus, Libraries::built().unwrap(), &folder.join("lib")).unwrap();
    root(gpus, &folder.join("root")).unwrap();
    let config = folder.join("config.toml");
    let shipped = fs::read_to_string(workspace().join("image/package/config.toml")).unwrap();
    let keys =
        format!("[validate]\nroot = \"{seen_at}/root\"\nlibrary_path = [\"{seen_at}/lib\"]\n");
    fs::write(&config, shipped.replace("[validate]\n", &keys)).unwrap();
    config
}

/// A folder with this scenario, and the report of the package's program at level `quick`, with all that identifies the
/// machine.
fn judged(scenario: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("sim");
    let config = simulated(scenario, &at, &at.display().to_string());
    let mut command = Command::new(firstlight());
    command.arg("--config").arg(config).args([
        "validate",
        "--quiet",
        "--identity",
        "full",
        "--json",
    ]);
    command
        .arg(dir.path().join("report.json"))
        .output()
        .unwrap();
    assert!(dir.path().join("report.json").exists());
    dir
}

/// Debian suites from old to new: a test uses the first one that this host's archive still has.
const SUITES: [&str; 3] = ["buster", "bullseye", "bookworm"];

/// A copy of a minimal Debian, which is made once below `target/deploy` from this host's archive: the oldest suite, or else
/// the suite of this host, with systemd.
fn debian(oldest: bool) -> TempDir {
    static MAKING: Mutex<()> = Mutex::new(());
    let guard = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let top = workspace().join("target/deploy");
    fs::create_dir_all(&top).unwrap();
    let script = format!(
        "set -o pipefail; source {}/image/lib/common.sh; source $REPO/image/lib/mirror.sh
         from=$(mirror_archive); [ -n \"$from\" ] || die 'there is no Debian archive among the apt sources of this host'
         name={}; extra={}
         if [ -e $name/etc/debian_version ]; then exit; fi
         # In a mount namespace: what it mounts, /dev/shm of this host among it, is gone with it, however it ends.
         for suite in {}; do
             if unshare --mount mmdebstrap --quiet --variant=essential --mode=root $extra $suite $name.part \"deb $from $suite main\"; then
                 mv $name.part $name; echo \"made a minimal Debian $suite\" >&2; exit
             fi
             rm -rf $name.part
         done
         die 'the archive has none of the suites'",
        workspace().display(),
        if oldest { "oldest" } else { "systemd" },
        if oldest { "" } else { "--include=systemd,systemd-sysv,dbus" },
        if oldest { SUITES.join(" ") } else { "$(. /etc/os-release && echo $VERSION_CODENAME)".into() },
    );
    sh(&top, &script);
    drop(guard);
    let copy = tempfile::tempdir_in(&top).unwrap();
    let from = top.join(if oldest { "oldest" } else { "systemd" });
    sh(
        &top,
        &format!("cp -a {}/. {}", from.display(), copy.path().display()),
    );
    copy
}

/// A program in the background; killed when dropped.
struct BackgroundProcess(Child);

impl BackgroundProcess {
    fn start(command: &mut Command) -> Self {
        Self(
            command
                .spawn()
                .unwrap_or_else(|e| panic!("{command:?}: {e}")),
        )
    }
}

impl Drop for BackgroundProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls `ask` until it returns an answer, for up to two minutes, because a test machine may be busy.
#[track_caller]
fn wait<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        sleep(Duration::from_millis(300));
    }
}
