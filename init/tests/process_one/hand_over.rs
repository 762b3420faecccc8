//! Signals, the workload as a child, and another root.

use super::CONFIG;
use super::disk::Disk;
use super::namespace::{Down, Machine, PASS, json, scraper_lines};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn ctrl_alt_del_while_validating_ends_the_boot_with_an_error() {
    let mut running = Machine::new("echo waiting; sleep 600", CONFIG).boot();
    running.until("waiting");
    running.signal("INT");
    let (down, m, console) = running.down();
    assert_eq!(down, Down::Rebooted);
    assert_eq!(scraper_lines(&console).len(), 1, "{console}");
    assert_eq!(json(&m, "verdict.json")["failed"], json!(["interrupted"]));
}

#[test]
fn sigterm_reaches_the_workload_and_then_powers_off() {
    let m = Machine::new(PASS, CONFIG)
        .workload("trap 'echo got TERM; exit 0' TERM; echo LISTENING; while :; do sleep 0.1; done")
        .cmdline("firstlight.workload.on_exit=hold");
    let mut running = m.boot();
    running.until("LISTENING");
    running.signal("TERM");
    let (down, _, console) = running.down();
    assert_eq!(down, Down::PoweredOff);
    assert!(console.contains("got TERM"), "{console}");
}

#[test]
fn a_workload_that_ignores_ctrl_alt_del_is_killed_and_the_machine_reboots() {
    let m =
        Machine::new(PASS, CONFIG).workload("trap '' TERM INT; echo LISTENING; while :; do sleep 0.1; done");
    let mut running = m.boot();
    running.until("LISTENING");
    running.signal("INT");
    let (down, _, console) = running.down();
    assert_eq!(down, Down::Rebooted);
    assert!(console.contains("was killed by signal 9"), "{console}");
}

#[test]
fn orphans_are_reaped_while_the_workload_runs() {
    let m = Machine::new(PASS, CONFIG).workload(
        "for i in 1 2 3; do (sleep 0.1 &); done; sleep 1\n\
         echo zombies $(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ')",
    );
    let (_, _, console) = m.boot().down();
    assert!(console.contains("zombies 0\n"), "{console}");
}

#[test]
fn another_root_becomes_the_root_and_its_init_process_1() {
    let root = tempfile::tempdir().unwrap();
    for folder in ["sbin", "bin", "etc"] {
        fs::create_dir(root.path().join(folder)).unwrap();
    }
    // Lines of an earlier boot, and lines of the site.
    let old = "NCCL_P2P_DISABLE=0\nNCCL_SITE=1\n# firstlight: was fast\nNCCL_P2P_LEVEL=SYS\n";
    fs::write(root.path().join("etc/nccl.conf"), old).unwrap();
    // The new init is this init again: it finds no configuration, which proves that its / is another.
    let disk = Disk::of(&new_root(root.path()));
    let m = Machine::new("report FAIL fail\nexit 1", CONFIG).device(&disk.name).cmdline(&format!(
        "firstlight.workload.mode=switch-root firstlight.workload.exec=/sbin/init,x \
         firstlight.workload.root=/dev/{} firstlight.policy.on_fail=workload-without-p2p",
        disk.name
    ));
    let mut running = m.boot();
    running.until("HOLD ");
    running.signal("TERM");
    let (down, _, console) = running.down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert!(console.contains("switch    /sbin/init x becomes process 1 of /dev/"), "{console}");
    assert!(
        console.contains("ERROR     INIT-CONFIG: /etc/firstlight/config.toml: No such file"),
        "{console}"
    );
    let device = format!("/dev/{}", disk.name);
    let conf = Command::new("debugfs").args(["-R", "cat /etc/nccl.conf", &device]).output().unwrap();
    let conf = String::from_utf8(conf.stdout).unwrap();
    assert_eq!(
        conf,
        "NCCL_SITE=1\n# firstlight: a reason\nNCCL_DEBUG=WARN\n\
         # firstlight: the verdict is FAIL, and the policy for it workload-without-p2p\nNCCL_P2P_DISABLE=1\n"
    );
}

/// Puts init and the C library it needs into the folder.
fn new_root(root: &Path) -> PathBuf {
    fs::copy(env!("CARGO_BIN_EXE_init"), root.join("sbin/init")).unwrap();
    let libraries = Command::new("ldd").arg(root.join("sbin/init")).output().unwrap();
    for word in String::from_utf8(libraries.stdout).unwrap().split_whitespace().filter(|w| w.starts_with('/'))
    {
        let to = root.join(word.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(word, to).unwrap();
    }
    root.to_owned()
}
