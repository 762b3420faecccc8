//! From the validator's results to a verdict, the policy's action, and what follows it: signals, the workload as a child, and
//! another root.

use super::CONFIG;
use super::namespace::Disk;
use super::namespace::{Down, Machine, PASS, is_validated, json, scraper_lines};
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
    let m = Machine::new(PASS, CONFIG)
        .workload("trap '' TERM INT; echo LISTENING; while :; do sleep 0.1; done");
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
    let m = Machine::new("report FAIL fail\nexit 1", CONFIG)
        .device(&disk.name)
        .cmdline(&format!(
            "firstlight.workload.mode=switch-root firstlight.workload.exec=/sbin/init,x \
         firstlight.workload.root=/dev/{} firstlight.policy.on_fail=workload-without-p2p",
            disk.name
        ));
    let mut running = m.boot();
    running.until("HOLD ");
    running.signal("TERM");
    let (down, _, console) = running.down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert!(
        console.contains("switch    /sbin/init x becomes process 1 of /dev/"),
        "{console}"
    );
    assert!(
        console.contains("ERROR     INIT-CONFIG: /etc/firstlight/config.toml: No such file"),
        "{console}"
    );
    let device = format!("/dev/{}", disk.name);
    let conf = Command::new("debugfs")
        .args(["-R", "cat /etc/nccl.conf", &device])
        .output()
        .unwrap();
    let conf = String::from_utf8(conf.stdout).unwrap();
    assert_eq!(
        conf,
        "NCCL_SITE=1\n# firstlight: a reason\nNCCL_DEBUG=WARN\n\
         # firstlight: the verdict is FAIL, and the policy for it workload-without-p2p\nNCCL_P2P_DISABLE=1\n"
    );
}

/// Puts init and the C library it needs into the folder.
pub(crate) fn new_root(root: &Path) -> PathBuf {
    fs::copy(env!("CARGO_BIN_EXE_init"), root.join("sbin/init")).unwrap();
    let libraries = Command::new("ldd")
        .arg(root.join("sbin/init"))
        .output()
        .unwrap();
    for word in String::from_utf8(libraries.stdout)
        .unwrap()
        .split_whitespace()
        .filter(|w| w.starts_with('/'))
    {
        let to = root.join(word.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(word, to).unwrap();
    }
    root.to_owned()
}

/// The daemon has left its session and its process group, and would overwrite the decision of process 1.
#[test]
fn a_daemon_of_the_validator_ends_with_it() {
    let daemon = "while :; do echo forged > /run/firstlight/verdict.json; sleep 0.05; done";
    let validator = format!(
        "setsid sh -c '{daemon}' > /dev/null 2>&1 < /dev/null &\nsleep 0.3\nreport PASS pass\nexit 0"
    );
    let script = "sleep 0.5; echo \"left: $(grep -c forged /run/firstlight/verdict.json)\"";
    let m = Machine::new(&validator, CONFIG).workload(script);
    let (_, m, console) = m.boot().down();
    assert!(console.contains("left: 0"), "{console}");
    assert_eq!(json(&m, "verdict.json")["verdict"], json!("PASS"));
}

#[test]
fn a_machine_that_fails_gets_on_fail_and_the_validators_own_lines() {
    let validator = "report FAIL fail\necho 'VERDICT  FAIL   1 failed'\n\
                     echo 'FIRSTLIGHT verdict=FAIL failed=iommu warned=none codes=none scope=machine host=node7 seconds=0.1'\nexit 1";
    let (down, m, console) = Machine::new(validator, CONFIG)
        .workload("echo WORKLOAD RUNS")
        .boot()
        .down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert_eq!(
        scraper_lines(&console),
        [
            "FIRSTLIGHT verdict=FAIL failed=iommu warned=none codes=none scope=machine host=node7 seconds=0.1"
        ]
    );
    assert_eq!(json(&m, "verdict.json")["failed"], json!(["iommu"]));
    assert!(
        !is_validated(&m) && !console.contains("WORKLOAD RUNS"),
        "{console}"
    );
}

#[test]
fn a_workload_without_p2p_gets_the_setting_in_both_files() {
    let m = Machine::new("report FAIL fail\nexit 1", CONFIG)
        .workload("echo p2p off $NCCL_P2P_DISABLE; cat /run/firstlight/env")
        .cmdline("firstlight.policy.on_fail=workload-without-p2p");
    let (_, m, console) = m.boot().down();
    let why = "the verdict is FAIL, and the policy for it workload-without-p2p";
    let vllm = [
        "VLLM_CACHE_ROOT=/run/firstlight/vllm/none",
        "VLLM_SKIP_P2P_CHECK=0",
    ];
    let off: String = ["NCCL_P2P_DISABLE=1"]
        .iter()
        .chain(&vllm)
        .map(|set| format!("# {why}\n{set}\n"))
        .collect();
    let env = format!("p2p off 1\n# a reason\nNCCL_DEBUG=WARN\n{off}");
    assert!(console.contains(&env), "{console}");
    let conf = fs::read_to_string(m.path("etc/nccl.conf")).unwrap();
    let ours = "# firstlight: a reason\nNCCL_DEBUG=WARN\n";
    assert_eq!(
        conf,
        format!("{ours}# firstlight: {why}\nNCCL_P2P_DISABLE=1\n")
    );
    assert!(!is_validated(&m));
}

#[test]
fn a_full_run_is_an_error_and_no_old_verdict_is_left() {
    let validator = "report PASS pass\ncat /dev/zero > /run/full\nexit 0";
    let m = Machine::new(validator, CONFIG)
        .small_run()
        .workload("echo WORKLOAD RUNS");
    let (down, _, console) = m.boot().down();
    assert_eq!(down, Down::Rebooted, "{console}");
    assert!(
        console.contains("VERDICT  ERROR   publish: /run/firstlight/env: No space left"),
        "{console}"
    );
    assert!(!console.contains("WORKLOAD RUNS"), "{console}");
}

#[test]
fn a_watchdog_that_the_configuration_demands_must_be_there_and_that_of_a_host_is_not_taken() {
    let why = "a watchdog outlives a process id namespace, so none is used in one";
    for mode in ["hardware", "software"] {
        let m = Machine::new(PASS, CONFIG).workload("echo WORKLOAD RUNS");
        let (down, m, console) = m
            .cmdline(&format!("firstlight.watchdog.mode={mode}"))
            .boot()
            .down();
        assert_eq!(down, Down::Rebooted, "{console}");
        let verdict = json(&m, "verdict.json");
        assert_eq!(
            (&verdict["verdict"], &verdict["failed"]),
            (&json!("ERROR"), &json!(["watchdog"]))
        );
        assert_eq!(
            (&verdict["codes"], &verdict["watchdog"]),
            (&json!(["WATCHDOG-NONE"]), &json!(null))
        );
        let cause = verdict["cause"].as_str().unwrap();
        assert!(
            cause.starts_with(&format!("watchdog: watchdog.mode = {mode}: ")),
            "{cause}"
        );
        assert!(cause.ends_with(why), "{cause}");
        let line = format!("watchdog  ERROR: no {mode} watchdog: ");
        assert!(
            console.contains(&line) && !console.contains("WORKLOAD RUNS"),
            "{console}"
        );
    }
}

#[test]
fn without_any_watchdog_the_default_is_a_warning_and_off_asks_for_none() {
    for (mode, line) in [
        ("auto", "watchdog  warning: none: "),
        ("off", "watchdog  off: watchdog.mode = off "),
    ] {
        let m = Machine::new(PASS, CONFIG).workload("echo \"WORKLOAD RUNS $FIRSTLIGHT_WATCHDOG.\"");
        let words = format!("firstlight.watchdog.mode={mode}");
        let (down, m, console) = m.cmdline(&words).boot().down();
        assert_eq!(down, Down::PoweredOff, "{console}");
        assert!(
            console.contains(line) && console.contains("WORKLOAD RUNS .\n"),
            "{console}"
        );
        assert_eq!(json(&m, "verdict.json")["verdict"], json!("PASS"));
    }
}
