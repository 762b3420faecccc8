//! A small machine made of namespaces: `/init` runs as process 1 in its own root folder, with a validator, a workload and a
//! kernel command line that the test wrote, and with block devices. Needs root and unshare; without them the tests fail,
//! they are not skipped.

use std::any::Any;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What a validator must print and write to be accepted.
pub(crate) const PASS: &str = r#"report PASS pass
echo 'VERDICT  PASS   1 passed'
echo 'FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=0.1'
exit 0"#;

const REPORT_FUNCTION: &str = r#"#!/bin/sh
echo "$*" >> /run/calls
report() {
    echo '{"schema":"firstlight.report/1","verdict":"'$1'","scope":"machine","covers":"no GPU","root":"/","started":"2026-11-20T10:00:00Z",
    "machine":{"fingerprint":"'$(printf 'ab%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)'",
    "bound_to":{"kernel":"k"}},"tests":[{"id":"iommu","outcome":"'$2'"}]}' > /run/firstlight/report.json
}
case "$*" in
    *"fabric fix"*)
        echo '{"schema":"firstlight.fix/1","summary":"2 ports, redirect off"}' > /run/firstlight/fabric-fix.json
        exit 0 ;;
    env*)
        echo '# a reason'; echo NCCL_DEBUG=WARN
        case "$*" in *"--nodes /run/firstlight/nodes.json"*) echo NCCL_IB_HCA==mlx5_0:1 ;; esac
        exit 0 ;;
    publish*)
        case "$*" in *--partition*) echo "partition: kept as reports/000001-$4.json" ;; esac
        case "$*" in *--url*) echo "url: sent to the script of the test" ;; esac
        exit 0 ;;
esac
"#;

/// Mounts as in a container, then becomes `/init`: files that tests must not change on the host (/proc/sys) are
/// read-only, files that they read afterwards (/run, the console) are bind mounts.
const START: &str = r#"
set -e
cd "$1"
mount --make-rprivate /
mount --bind . . && cd "$1"
for d in lib lib64 bin sbin; do mkdir -p $d; if [ -e /$d ]; then mount --bind /$d $d; fi; done
# No test loads a module into the host's kernel.
if [ -d lib/modules ]; then mount -t tmpfs tmpfs lib/modules; fi
mount -t tmpfs tmpfs dev
for n in null zero full $EXTRA_DEVICES; do touch dev/$n; mount --bind /dev/$n dev/$n; done
touch dev/console; mount --bind console.txt dev/console
mount -t proc proc proc
mount --bind proc/sys proc/sys; mount -o remount,bind,ro proc/sys
mount --bind cmdline proc/cmdline
if [ -n "$SMALL_RUN" ]; then mount -t tmpfs -o size=256k tmpfs run; else mount --bind run-outside run; fi
if [ -n "$VARIABLES" ] || [ -d bus ]; then mount -t sysfs sysfs sys; fi
if [ -d bus ]; then mount --bind bus sys/bus; fi
if [ -n "$VARIABLES" ]; then
    mount -t tmpfs tmpfs sys/firmware; mkdir -p sys/firmware/efi/efivars
    mount --bind variables sys/firmware/efi/efivars
fi
if [ -n "$NO_DESCRIPTORS" ]; then
    umount dev/null; rm dev/null; exec chroot . /init <&- >&- 2>&-
fi
exec chroot . /init
"#;

/// The longest that any machine of these tests may take: two children that hang, one after the other.
const LIMIT: Duration = Duration::from_secs(110);

/// How the machine went down.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Down {
    PoweredOff,
    Rebooted,
}

/// The description of a machine.
pub(crate) struct Machine {
    dir: TempDir,
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Values that must live as long as the machine.
    kept: Vec<Box<dyn Any>>,
}

/// A running machine. It is ended when this is dropped, also by a failing test.
pub(crate) struct Running {
    child: Process,
    machine: Machine,
}

/// `unshare`, which takes process 1 with it.
struct Process(Child);

impl Process {
    fn end(&mut self) {
        let _has_ended = self.0.kill();
        let _is_reaped = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

impl Machine {
    /// A machine with this validator and configuration. The workload is `/workload`.
    pub(crate) fn new(validator: &str, config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for folder in [
            "dev",
            "proc",
            "sys",
            "run",
            "run-outside",
            "tmp",
            "usr/bin",
            "etc/firstlight/config.d",
            "newroot",
        ] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::copy(env!("CARGO_BIN_EXE_init"), at("init")).unwrap();
        for (path, text) in [
            ("console.txt", ""),
            ("cmdline", "quiet\n"),
            ("etc/firstlight/config.toml", config),
        ] {
            fs::write(at(path), text).unwrap();
        }
        let machine = Self {
            dir,
            environment: Vec::new(),
            kept: Vec::new(),
        };
        machine.program(
            "usr/bin/firstlight",
            &format!("{REPORT_FUNCTION}{validator}\n"),
        )
    }

    /// Adds a program, as a new file: a killed machine may still be starting the old one, which cannot be written.
    pub(crate) fn program(self, path: &str, text: &str) -> Self {
        let (path, new) = (self.path(path), self.path("tmp/program"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, path).unwrap();
        self
    }

    /// Adds a file of any content.
    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Adds a pipe.
    pub(crate) fn pipe(self, path: &str) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        self
    }

    /// Adds the workload, a shell script.
    pub(crate) fn workload(self, script: &str) -> Self {
        self.program("workload", &format!("#!/bin/sh\n{script}\n"))
    }

    /// Sets the kernel's command line.
    pub(crate) fn cmdline(self, words: &str) -> Self {
        fs::write(self.path("cmdline"), format!("{words}\n")).unwrap();
        self
    }

    /// Gives it a device of the host.
    pub(crate) fn device(mut self, name: &str) -> Self {
        self.environment.push(("EXTRA_DEVICES", name.to_owned()));
        self
    }

    /// Keeps something as long as the machine: a disk is detached when it is dropped.
    pub(crate) fn keeping(mut self, what: impl Any) -> Self {
        self.kept.push(Box::new(what));
        self
    }

    /// Makes /run a file system of 256 KiB.
    pub(crate) fn small_run(mut self) -> Self {
        self.environment.push(("SMALL_RUN", "1".to_owned()));
        self
    }

    /// Gives it a firmware with variables: a folder of the machine, which persists from boot to boot.
    pub(crate) fn variables(mut self) -> Self {
        self.environment.push(("VARIABLES", "1".to_owned()));
        fs::create_dir(self.path("variables")).unwrap();
        fs::write(
            self.path("variables/Boot0000-8be4df61-93ca-11d2-aa0d-00e098032b8c"),
            "x",
        )
        .unwrap();
        self
    }

    /// Removes what an earlier boot left in memory and on the console.
    pub(crate) fn again(self) -> Self {
        fs::remove_dir_all(self.path("run-outside")).unwrap();
        fs::create_dir(self.path("run-outside")).unwrap();
        fs::write(self.path("console.txt"), "").unwrap();
        self
    }

    /// Starts process 1 without any open descriptor and without /dev/null.
    pub(crate) fn without_descriptors(mut self) -> Self {
        self.environment.push(("NO_DESCRIPTORS", "1".to_owned()));
        self
    }

    /// Removes the validator.
    pub(crate) fn without_validator(self) -> Self {
        fs::remove_file(self.path("usr/bin/firstlight")).unwrap();
        self
    }

    /// The path of a file of the machine on the host. Files in /run are below `run-outside`.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Boots it.
    pub(crate) fn boot(self) -> Running {
        // A shell makes what it runs in the background ignore SIGINT and SIGQUIT; the kernel starts process 1 without that.
        let mut command = Command::new("env");
        command.args([
            "--default-signal",
            "unshare",
            "--pid",
            "--mount",
            "--net",
            "--uts",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            START,
            "sh",
        ]);
        command
            .arg(self.dir.path())
            .envs(self.environment.iter().map(|(k, v)| (k, v)));
        let out = fs::File::create(self.path("stdout.txt")).unwrap();
        let log = fs::File::create(self.path("stderr.txt")).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(log)
            .spawn()
            .unwrap();
        Running {
            child: Process(child),
            machine: self,
        }
    }
}

impl Running {
    /// The process whose network is the machine's.
    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Everything on the console so far.
    pub(crate) fn console(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.machine.path("console.txt")).unwrap()).into_owned()
    }

    /// Waits until the console has this text.
    pub(crate) fn until(&mut self, text: &str) {
        self.until_file("console.txt", text);
    }

    /// Waits until a file of the machine on the host contains this text.
    pub(crate) fn until_file(&mut self, path: &str, text: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        let path = self.machine.path(path);
        while !fs::read_to_string(&path).is_ok_and(|content| content.contains(text)) {
            let file = path.display();
            assert!(
                Instant::now() < until,
                "no {text:?} in {file}:\n{}",
                self.output()
            );
            let down = self.child.0.try_wait().unwrap();
            assert!(
                down.is_none(),
                "down without {text:?} in {file}:\n{}",
                self.output()
            );
            sleep(Duration::from_millis(20));
        }
    }

    /// Sends process 1 a signal from the host.
    pub(crate) fn signal(&self, name: &str) {
        assert!(self.try_signal(name));
    }

    /// As [`Running::signal`], unless it has ended.
    pub(crate) fn try_signal(&self, name: &str) -> bool {
        let id = self.id();
        let children =
            fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let mut kill = Command::new("kill");
        kill.args([&format!("-{name}"), children.trim()])
            .stderr(Stdio::null());
        kill.status().unwrap().success()
    }

    /// Ends it at once, as a reset does.
    pub(crate) fn reset(mut self) -> Machine {
        self.child.end();
        self.machine.again()
    }

    /// Waits until it holds or ends, ends it, and returns how it went down: a machine that holds is powered off.
    pub(crate) fn held_or_down(mut self) -> (Down, Machine, String) {
        if self.holds() {
            self.signal("TERM");
        }
        self.down()
    }

    /// Waits until it holds or ends; returns whether it holds.
    pub(crate) fn holds(&mut self) -> bool {
        let until = Instant::now() + LIMIT;
        while self.child.0.try_wait().unwrap().is_none() && Instant::now() < until {
            if self
                .console()
                .lines()
                .any(|line| line.starts_with("HOLD  "))
            {
                return true;
            }
            sleep(Duration::from_millis(20));
        }
        false
    }

    /// The names of its processes besides process 1.
    pub(crate) fn others(&self) -> Vec<String> {
        let space = |path: String| fs::read_link(path).ok();
        let ours = space(format!("/proc/{}/ns/pid_for_children", self.id()));
        let processes = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        let inside = processes
            .filter(|path| ours.is_some() && space(format!("{}/ns/pid", path.display())) == ours);
        let mut names: Vec<_> = inside
            .filter_map(|path| fs::read_to_string(path.join("comm")).ok())
            .collect();
        let first = names.iter().position(|name| name == "init\n");
        first.map(|at| names.swap_remove(at));
        names
    }

    /// Waits for its end. In a process id namespace power off kills process 1 with SIGINT, restart with
    /// SIGHUP.
    pub(crate) fn down(mut self) -> (Down, Machine, String) {
        let until = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.0.try_wait().unwrap() {
                break status;
            }
            if Instant::now() >= until {
                panic!("it does not go down:\n{}", self.output());
            }
            sleep(Duration::from_millis(20));
        };
        let down = match status.signal().or(status.code().map(|code| code - 128)) {
            Some(2) => Down::PoweredOff,
            Some(1) => Down::Rebooted,
            other => panic!("{status} ({other:?}):\n{}", self.output()),
        };
        let console = self.console();
        (down, self.machine, console)
    }

    fn output(&self) -> String {
        let stderr = fs::read_to_string(self.machine.path("stderr.txt")).unwrap();
        format!("{}\n-- stderr --\n{stderr}", self.console())
    }
}

/// A JSON file in /run/firstlight.
pub(crate) fn json(machine: &Machine, name: &str) -> serde_json::Value {
    let path = machine.path(&format!("run-outside/firstlight/{name}"));
    serde_json::from_slice(&fs::read(&path).unwrap()).unwrap()
}

/// Whether /run/firstlight/validated exists.
pub(crate) fn is_validated(machine: &Machine) -> bool {
    machine.path("run-outside/firstlight/validated").exists()
}

/// The lines for scrapers.
pub(crate) fn scraper_lines(console: &str) -> Vec<&str> {
    console
        .lines()
        .filter(|line| line.starts_with("FIRSTLIGHT "))
        .collect()
}

/// A block device with an ext4 file system made of a folder; detached when dropped.
pub(crate) struct Disk {
    /// Its name in /dev.
    pub(crate) name: String,
    _file: TempDir,
}

impl Disk {
    /// Makes it.
    pub(crate) fn of(folder: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("disk");
        fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
        let made = Command::new("mkfs.ext4")
            .args(["-q", "-d"])
            .args([folder, &file])
            .status()
            .unwrap();
        assert!(made.success());
        let out = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let path = String::from_utf8(out.stdout).unwrap();
        Self {
            name: path.trim().trim_start_matches("/dev/").to_owned(),
            _file: dir,
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        Command::new("losetup")
            .arg("--detach")
            .arg(format!("/dev/{}", self.name))
            .status()
            .unwrap();
    }
}
