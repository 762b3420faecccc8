//! If process 1 stays and supervises the workload: does the workload get the machine as promised, and what happens when
//! it ends?

use super::ext4_of;
use harness::boot::stages_of_boot;
use harness::{Boot, End};
use std::iter;
use std::process::Command;

#[test]
fn the_shipped_demo_runs_and_powers_off() {
    let booted = Boot::shipped()
        .entry("default")
        .unwrap()
        .append("firstlight.expect.gpus=0")
        .run()
        .unwrap();
    let verdict = booted.verdict();
    assert_eq!(
        (verdict.verdict.as_str(), verdict.failed.len()),
        ("PASS", 0),
        "{booted}"
    );
    booted.says("level standard");
    booted.says("6 of 6 required parameters");
    let after = booted
        .lines()
        .skip_while(|line| !line.starts_with("FIRSTLIGHT verdict"));
    let after: Vec<_> = after.collect();
    assert!(after.iter().any(|l| l.contains("workload")), "{booted}");
    assert!(
        after.iter().any(|l| l.contains("FIRSTLIGHT_VERDICT=PASS")),
        "{booted}"
    );
    booted.says("firmware  secure boot not offered\n");
    booted.ended(&End::PowerOff);
    // The lines that a person reads fit an 80-column screen.
    for line in booted
        .console
        .lines()
        .filter(|l| l.starts_with("  ") && l.contains(" PASS "))
    {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn the_workload_sees_the_verdict_a_clean_environment_and_a_locked_kernel() {
    let script = "
env > /run/kept/env
readlink /proc/1/exe > /run/kept/init
echo $PPID > /run/kept/parent
dmesg | grep -c 'firstlight: FIRSTLIGHT verdict=PASS' > /run/kept/kernel-log
grep '^SigBlk' /proc/self/status > /run/kept/blocked
cd /proc/sys && cat kernel/modules_disabled kernel/kexec_load_disabled user/max_user_namespaces kernel/kptr_restrict \
    net/core/bpf_jit_harden vm/mmap_rnd_bits fs/protected_symlinks > /run/kept/locked; cd /
cat /etc/nccl.conf > /run/kept/nccl.conf
ls /proc/self/fd > /run/kept/fds
cat /proc/self/limits > /run/kept/limits
df -k /dev/shm | tail -1 > /run/kept/shm
sed -n 's/MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo > /run/kept/memory
cat /sys/class/net/lo/operstate /sys/class/net/lo/flags > /run/kept/lo
hostname > /run/kept/hostname
touch /run/firstlight/mark && echo yes > /run/kept/writable";
    let booted = Boot::shipped()
        .append("firstlight.expect.gpus=0")
        .workload(script)
        .run()
        .unwrap();
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");

    let verdict = booted.json("firstlight/verdict.json");
    assert_eq!(
        (&verdict["verdict"], &verdict["exit_status"]),
        (&"PASS".into(), &0.into())
    );
    assert_eq!(verdict["schema"], "firstlight.verdict/1");
    let report = booted.report();
    assert_eq!(report.0["schema"], "firstlight.report/1");
    assert_eq!(
        (&report.0["root"], &report.0["verdict"]),
        (&"/".into(), &"PASS".into())
    );
    assert_eq!(verdict["fingerprint"], report.0["machine"]["fingerprint"]);
    // The stages before the tests, in order, with times of the kernel's clock.
    let stages = report.0["boot"].as_array().unwrap();
    let names: Vec<_> = stages
        .iter()
        .filter_map(|stage| stage["stage"].as_str())
        .collect();
    let before_validate = stages_of_boot()
        .into_iter()
        .take_while(|stage| stage != "validate");
    let expected: Vec<_> = iter::once("kernel".to_owned())
        .chain(before_validate)
        .collect();
    assert_eq!(names, expected);
    assert!(names.contains(&"network"), "{names:?}");
    let began: Vec<_> = stages
        .iter()
        .filter_map(|stage| stage["began"].as_f64())
        .collect();
    assert!(began.is_sorted() && began[1] > 0.0, "{began:?}");
    assert!(
        stages[0]["seconds"]
            .as_f64()
            .is_some_and(|kernel| kernel > 0.0 && kernel <= began[1]),
        "{stages:?}"
    );
    assert_eq!(
        verdict["fingerprint"].as_str().unwrap().len(),
        64,
        "{verdict}"
    );
    assert!(booted.find("firstlight/validated").is_some());
    assert!(booted.find("firstlight/boot.log").is_some());

    let env = booted.text("kept/env");
    for line in booted
        .text("firstlight/env")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        assert!(
            env.lines().any(|l| l == line),
            "{line} is not in the workload's environment:\n{env}"
        );
    }
    assert!(!booted.text("kept/nccl.conf").contains("P2P_DISABLE"));
    assert!(
        booted.text("kept/init").ends_with("init"),
        "{}",
        booted.text("kept/init")
    );
    assert_eq!(booted.text("kept/parent"), "1");
    // A workload that starts with SIGTERM blocked would ignore every request to stop.
    assert_eq!(
        booted.text("kept/blocked").split_whitespace().last(),
        Some("0000000000000000")
    );
    // If no console works, the kernel's log is the only record of the verdict.
    assert_eq!(
        booted.text("kept/kernel-log"),
        "1",
        "the verdict is not in the kernel's log"
    );
    let locked = booted
        .text("kept/locked")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(locked, "1 1 0 1 2 32 1");
    assert_eq!(booted.text("kept/writable"), "yes");
    assert!(
        booted.text("kept/lo").contains("0x9"),
        "loopback is not up: {}",
        booted.text("kept/lo")
    );
    // The limits that NCCL's and NVIDIA's guides recommend.
    let limits = booted.text("kept/limits");
    for (limit, least) in [
        ("Max locked memory", "unlimited unlimited"),
        ("Max open files", "65536 524288"),
        ("Max stack size", "67108864 unlimited"),
    ] {
        let line = limits
            .lines()
            .find(|l| l.starts_with(limit))
            .unwrap_or_default();
        let words: Vec<_> = line
            .trim_start_matches(limit)
            .split_whitespace()
            .take(2)
            .collect();
        assert_eq!(words.join(" "), least, "{limits}");
    }
    let shm: u64 = booted
        .text("kept/shm")
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let memory: u64 = booted.text("kept/memory").trim().parse().unwrap();
    assert!(
        (shm * 2).abs_diff(memory) < memory / 50,
        "/dev/shm has {shm} KiB of {memory}"
    );
    // Standard input, output and error, and the folder that `ls` reads.
    assert_eq!(
        booted.text("kept/fds").lines().count(),
        4,
        "{}",
        booted.text("kept/fds")
    );
    booted.ended(&End::PowerOff);
}

#[test]
fn ctrl_alt_del_asks_a_running_workload_to_end_first() {
    let script = "trap 'echo asked to end; exit 0' TERM INT
echo at work
while :; do sleep 1; done";
    let boot = Boot::shipped()
        .append("firstlight.expect.gpus=0")
        .workload(script);
    let booted = boot.ctrl_alt_del_at("at work").run().unwrap();
    booted.says("asked to end");
    booted.ended(&End::Reboot);
}

#[test]
fn ctrl_alt_del_restarts_a_machine_that_holds() {
    let booted = Boot::shipped()
        .ctrl_alt_del_at("FIRSTLIGHT verdict=ERROR")
        .run()
        .unwrap();
    assert_eq!(
        (booted.verdict().failed, booted.verdict().codes),
        (vec!["gpus".into()], vec!["GPU-NONE".into()])
    );
    booted.never_says("panic");
    booted.ended(&End::Reboot);
}

fn boot(on_exit: &str) -> Boot {
    let words = format!("firstlight.expect.gpus=0 firstlight.workload.on_exit={on_exit}");
    Boot::shipped().append(&words)
}

/// If the console were the controlling terminal of the workload's session, its unsent lines would be lost when it ends.
#[test]
fn the_last_lines_of_a_workload_and_its_status_appear_and_on_exit_applies() {
    let script = "for n in $(seq 60); do echo \"line $n of what a workload says before it ends\"; done; exit 7";
    let booted = boot("reboot").workload(script).run().unwrap();
    let lines: Vec<&str> = booted.lines().collect();
    let last = lines
        .iter()
        .position(|l| l.contains("line 60 of what a workload says"));
    let last = last.unwrap_or_else(|| panic!("the last line is lost\n{booted}"));
    assert!(
        lines[last..]
            .iter()
            .any(|l| l.starts_with("workload") && l.contains("status 7")),
        "{booted}"
    );
    booted.ended(&End::Reboot);
}

/// The machine keeps running after the workload ends, and process 1 reaps dead processes.
#[test]
fn a_workload_can_leave_the_machine_up_without_zombies() {
    let script = "
for n in 1 2 3; do ( ( exit 0 ) & ) ; done
sleep 1
echo zombies $(grep -l '^State:.Z' /proc/[0-9]*/status 2> /dev/null | wc -l)";
    let boot = boot("hold").workload(script);
    let booted = boot
        .stop_after("zombies", std::time::Duration::from_secs(5))
        .run()
        .unwrap();
    booted.says("zombies 0");
    booted.ended(&End::StillRunning);
}

/// The workload's mounts are unmounted, even if it leaves a program that writes there and ignores SIGTERM.
#[test]
fn disks_that_the_workload_wrote_to_are_clean_after_the_end() {
    let scratch = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let disk = ext4_of(files.path(), "WORK", 16, scratch.path().join("disk"));
    let script = "mkdir -p /data && mount -t ext4 /dev/vda /data && echo mounted
(trap '' TERM; while true; do date >>/data/log; sleep 0.1; done) &
mount --bind /data /tmp; echo kept >/data/kept; sleep 1";
    let booted = boot("poweroff").workload(script).disk(&disk).run().unwrap();
    booted.says("mounted");
    booted.never_says("stays mounted");
    booted.ended(&End::PowerOff);
    let output_of = |program: &str, words: &[&str]| {
        let output = Command::new(program)
            .args(words)
            .arg(&disk)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let header = output_of("dumpe2fs", &["-h"]);
    assert!(
        header.contains("Filesystem state:         clean"),
        "{header}"
    );
    assert!(!header.contains("needs_recovery"), "{header}");
    assert_eq!(output_of("debugfs", &["-R", "cat /kept"]), "kept\n");
}
