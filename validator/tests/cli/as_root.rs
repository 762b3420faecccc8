//! Tests that need root: `publish` to a mounted disk, for which an image file is used, and workers that hang or die
//! while the real program waits for them. The kernel asks the test (through fanotify) before the ACPI table is
//! opened. The worker does that once when it starts, which is allowed, and in the test `cpus`, to which there is no answer.
//! (A pipe instead of the table would not be a regular file, and no program would wait for it.)

use crate::machine::{Machine, Run, codes, firstlight, run_of, standard, test};
use crate::publish::{REPORT, Workspace, names};
use nix::errno::Errno;
use nix::sys::fanotify::{
    EventFFlags, Fanotify, FanotifyResponse, InitFlags, MarkFlags, MaskFlags, Response,
};
use rustix::fs::CWD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[test]
fn a_full_partition_is_one_line_and_keeps_what_it_has() {
    let place = Workspace::new();
    let disk = Disk::of(&place);
    let at = disk.at.clone();
    assert_eq!(place.publish(&["--partition", &at]).status, 0);
    let fill = Command::new("dd")
        .args(["if=/dev/zero", &format!("of={at}/rest"), "bs=512"])
        .output()
        .unwrap();
    assert!(!fill.status.success());
    let long = REPORT.replacen('{', &format!("{{\"x\":\"{}\",", "x".repeat(4000)), 1);
    fs::write(place.path("report.json"), &long).unwrap();
    let done = place.publish(&["--partition", &at, "--keep", "1"]);
    let line = format!(
        "partition: not kept: reports/: no room for {} bytes; nothing was removed: delete files there\n",
        long.len()
    );
    assert_eq!((done.out, done.status), (line, 2));
    assert_eq!(
        names(format!("{at}/reports")),
        ["000001-20261120T100000Z-FAIL.json"]
    );
    assert_eq!(
        fs::read_to_string(format!("{at}/reports/000001-20261120T100000Z-FAIL.json")).unwrap(),
        REPORT
    );
}

/// A small mounted file system; unmounted when dropped. Needs root.
struct Disk {
    at: String,
}

impl Disk {
    fn of(place: &Workspace) -> Self {
        let (file, at) = (place.path("disk"), place.path("mounted"));
        fs::create_dir(&at).unwrap();
        let options = ["-q", "-t", "ext4", "-O", "^has_journal", "-b", "1024"];
        let made = Command::new("mke2fs")
            .args(options)
            .args([&file, "512k"])
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let mounted = Command::new("mount")
            .args(["-o", "loop", &file, &at])
            .output()
            .unwrap();
        assert!(
            mounted.status.success(),
            "{}",
            String::from_utf8_lossy(&mounted.stderr)
        );
        Self { at }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.at).status();
    }
}

#[test]
fn a_mounted_device_is_found_by_its_name() {
    let place = Workspace::new();
    let disk = Disk::of(&place);
    let (mounts, at) = (
        fs::read_to_string("/proc/self/mounts").unwrap(),
        fs::canonicalize(&disk.at).unwrap(),
    );
    let device = mounts
        .lines()
        .find(|l| l.split(' ').nth(1) == at.to_str())
        .unwrap();
    let device = device.split(' ').next().unwrap();
    let done = place.publish(&["--partition", device]);
    assert_eq!(done.status, 0, "{}", done.out);
    assert_eq!(names(format!("{}/reports", disk.at)).len(), 1);
    drop(disk);
    let done = place.publish(&["--partition", "/dev/null"]);
    assert!(
        done.out.contains("/dev/null and not mounted: mount it"),
        "{}",
        done.out
    );
}

/// The ACPI table.
const TABLE: &str = "sys/firmware/acpi/tables/APIC";

/// A machine on which `cpus` never ends while the fanotify group exists.
fn hanging() -> (Machine, Fanotify) {
    let machine = Machine::small();
    machine.write(TABLE, "");
    let flags = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
    let group = Fanotify::init(flags, EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC).unwrap();
    let table = machine.at(TABLE);
    group
        .mark(
            MarkFlags::FAN_MARK_ADD,
            MaskFlags::FAN_OPEN_PERM,
            CWD,
            Some(&table),
        )
        .unwrap();
    (machine, group)
}

fn start(machine: &Machine, words: &str) -> Child {
    let mut command = machine.program(&format!("--set expect.gpus=0 {words} validate --json -"));
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The next process that wants to open the table, once the kernel reports it; `allowed`, or left to wait.
fn asked(group: &Fanotify, allowed: bool) -> i32 {
    let due = Instant::now() + Duration::from_secs(8);
    loop {
        match group.read_events() {
            Ok(events) if !events.is_empty() => {
                if allowed {
                    let answer =
                        FanotifyResponse::new(events[0].fd().unwrap(), Response::FAN_ALLOW);
                    group.write_response(answer).unwrap();
                }
                return events[0].pid();
            }
            Ok(_) | Err(Errno::EAGAIN) => assert!(Instant::now() < due, "no worker reads"),
            Err(e) => panic!("{e}"),
        }
        sleep(Duration::from_millis(2));
    }
}

/// The worker once it hangs.
fn hang(group: &Fanotify, parent: &Child) -> Pid {
    asked(group, true);
    let worker = asked(group, false);
    let children: Vec<_> = processes()
        .filter(|(_, parent_of)| *parent_of == parent.id())
        .collect();
    let &[(child, _)] = &children[..] else {
        panic!("one worker: {children:?}")
    };
    assert_eq!(u32::try_from(worker), Ok(child));
    Pid::from_raw(worker).unwrap()
}

/// Every process and its parent.
fn processes() -> impl Iterator<Item = (u32, u32)> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid = entry.unwrap().file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // `1234 (name) S 1230 ..`: the name may contain anything; the last parenthesis ends it.
        let parent = stat
            .rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()?;
        Some((pid, parent))
    })
}

fn end(child: Child) -> (Run, Value) {
    let run = run_of(child.wait_with_output().unwrap());
    let report = serde_json::from_str(&run.out).unwrap();
    (run, report)
}

fn outcome<'a>(report: &'a Value, id: &str) -> &'a str {
    test(report, id)["outcome"].as_str().unwrap()
}

#[test]
fn a_worker_killed_by_a_signal_is_an_error_of_its_test_and_the_others_go_on() {
    let (machine, group) = hanging();
    let child = start(&machine, "");
    let worker = hang(&group, &child);
    kill_process(worker, Signal::ABORT).unwrap();
    drop(group);
    let (run, report) = end(child);
    assert_eq!((run.status, report["verdict"].as_str()), (2, Some("ERROR")));
    assert_eq!(codes(&report, "cpus"), ["TEST-CRASHED"]);
    assert!(
        test(&report, "cpus")["summary"]
            .as_str()
            .unwrap()
            .contains("SIGABRT"),
        "{report}"
    );
    for id in ["fabric", "cmdline", "gpus", "drivers"] {
        assert_eq!(outcome(&report, id), "pass", "{id}");
    }
    assert_eq!(report["tests"].as_array().unwrap().len(), standard().len());
}

#[test]
fn a_worker_that_hangs_is_stopped_and_what_did_not_start_is_an_error_too() {
    let start = Instant::now();
    let (machine, group) = hanging();
    let report = std::thread::scope(|scope| {
        scope.spawn(|| asked(&group, true));
        machine.report_within(1)
    });
    assert!(
        start.elapsed() < Duration::from_secs(50),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(codes(&report, "cpus"), ["TEST-TIMEOUT"]);
    assert_eq!(
        (outcome(&report, "cmdline"), outcome(&report, "gpus")),
        ("pass", "error")
    );
    assert!(
        test(&report, "gpus")["summary"]
            .as_str()
            .unwrap()
            .starts_with("not started"),
        "{report}"
    );
}

#[test]
fn a_fault_that_the_kernel_logs_while_tests_run_is_in_the_report_once() {
    let (machine, group) = hanging();
    let child = start(&machine, "");
    let worker = hang(&group, &child);
    let mut log = fs::OpenOptions::new()
        .append(true)
        .open(machine.at("dev/kmsg"))
        .unwrap();
    writeln!(
        log,
        "3,2,9,-;NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus."
    )
    .unwrap();
    kill_process(worker, Signal::KILL).unwrap();
    drop(group);
    let (_, report) = end(child);
    // Which test reports it depends on how much the parent had read. The test `xid` reads the whole log, so it
    // reports it as well.
    let has_xid = |id: &&str| *id != "xid" && codes(&report, id).contains(&"GPU-XID".to_owned());
    let with: Vec<_> = standard().into_iter().filter(has_xid).collect();
    assert_eq!(with.len(), 1, "{report}");
    assert_ne!(outcome(&report, with[0]), "pass");
    assert_eq!(
        (outcome(&report, "gpus"), outcome(&report, "xid")),
        ("pass", "fail")
    );
}

#[test]
fn a_worker_does_not_outlive_its_parent() {
    let (machine, group) = hanging();
    let mut child = start(&machine, "");
    let worker = hang(&group, &child);
    child.kill().unwrap();
    child.wait().unwrap();
    gone_soon(worker.as_raw_nonzero().get().try_into().unwrap());
}

/// Whether a process exists and is not a zombie.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[track_caller]
fn gone_soon(pid: u32) {
    let due = Instant::now() + Duration::from_secs(50);
    while lives(pid) {
        assert!(Instant::now() < due, "{pid} lives on");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_ends_the_worker_and_the_report_is_written_all_the_same() {
    for (signal, name, status) in [(Signal::INT, "SIGINT", 130), (Signal::TERM, "SIGTERM", 143)] {
        let (machine, group) = hanging();
        let file = machine.at("report.json");
        let words = format!(
            "--set expect.gpus=0 validate --json {} --text -",
            file.display()
        );
        let mut command = machine.program(&words);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let worker = hang(&group, &child);
        let begun = Instant::now();
        kill_process(
            Pid::from_raw(child.id().try_into().unwrap()).unwrap(),
            signal,
        )
        .unwrap();
        let run = run_of(child.wait_with_output().unwrap());
        drop(group);
        assert!(
            begun.elapsed() < Duration::from_secs(50),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(run.status, status, "{}{}", run.out, run.err);
        gone_soon(worker.as_raw_nonzero().get().try_into().unwrap());
        let report: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(report["verdict"], "ERROR");
        for (id, doing) in [
            ("cpus", "not ended"),
            ("gpus", "not started"),
            ("nccl", "not started"),
        ] {
            assert_eq!(codes(&report, id), ["INTERRUPTED"], "{id}");
            let summary = format!("{doing}: {name} ended the run");
            assert_eq!(test(&report, id)["summary"], summary.as_str());
        }
        assert_eq!(outcome(&report, "cmdline"), "pass");
        assert_eq!(report["tests"].as_array().unwrap().len(), standard().len());
        let last = run.out.lines().last().unwrap();
        assert!(
            last.starts_with("FIRSTLIGHT verdict=ERROR failed=cpus,gpus,")
                && last.contains(" codes=INTERRUPTED ")
        );
    }
}

#[test]
fn a_worker_that_is_asked_nonsense_says_so_and_ends() {
    let mut child = firstlight("worker");
    let mut child = child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"{\"root\":3}")
        .unwrap();
    let run = run_of(child.wait_with_output().unwrap());
    assert_eq!(
        (run.status, run.out.as_str(), run.err.lines().count()),
        (2, "", 1),
        "{}",
        run.err
    );
}

impl Machine {
    fn report_within(&self, seconds: u32) -> Value {
        end(start(self, &format!("--set validate.timeout_s={seconds}"))).1
    }
}
