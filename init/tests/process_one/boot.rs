//! A whole boot: its lines, and the environment and limits of the validator and the workload.

use super::CONFIG;
use super::namespace::{Down, Machine, PASS, json, scraper_lines};
use serde_json::json;
use std::fs;

#[test]
fn a_machine_that_passes_runs_its_workload_and_powers_off() {
    let workload = "echo \"workload <$1> $NCCL_DEBUG $HOME\"; ls /run/firstlight; grep SigBlk /proc/self/status; exit 3";
    let m = Machine::new(PASS, CONFIG)
        .workload(workload)
        .cmdline("firstlight.validate.level=quick");
    let (down, m, console) = m.boot().down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert!(console.contains("workload <a b> WARN /\n"), "{console}");
    assert!(
        console.contains("workload  /workload exited with status 3 after "),
        "{console}"
    );
    assert!(console.contains("SigBlk:\t0000000000000000"), "{console}");
    for file in [
        "report.json",
        "verdict.json",
        "env",
        "validated",
        "boot.log",
    ] {
        assert!(
            console.lines().any(|line| line == file),
            "{file}: {console}"
        );
    }
    assert_eq!(
        scraper_lines(&console),
        [
            "FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=0.1"
        ]
    );
    let verdict = json(&m, "verdict.json");
    assert_eq!(
        (&verdict["verdict"], &verdict["cause"]),
        (&json!("PASS"), &json!(null))
    );
    // In a namespace standard output is a separate output.
    let out = fs::read_to_string(m.path("stdout.txt")).unwrap();
    assert_eq!(scraper_lines(&out), scraper_lines(&console), "{out}");
    assert_eq!(verdict["bound_to"], json!({ "kernel": "k" }));
    assert_eq!(
        fs::read_to_string(m.path("etc/nccl.conf")).unwrap(),
        "# firstlight: a reason\nNCCL_DEBUG=WARN\n"
    );
    let calls = fs::read_to_string(m.path("run-outside/calls")).unwrap();
    let with = "--config /etc/firstlight/config.toml --set validate.level=quick";
    // The times of the stages differ from boot to boot.
    let stages: Vec<_> = calls
        .split(" --boot-stage ")
        .skip(1)
        .filter_map(|stage| stage.split('=').next())
        .collect();
    assert_eq!(
        (stages[0], &stages[1..]),
        ("kernel", &stages_of_boot()[..stages.len() - 1])
    );
    assert!(stages.contains(&"network"), "{stages:?}");
    let calls = calls
        .lines()
        .map(|call| call.split(" --boot-stage ").next().unwrap().to_owned() + "\n");
    assert_eq!(
        calls.collect::<String>(),
        format!(
            "{with} fabric fix --journal /run/firstlight/fabric.json \
             --json /run/firstlight/fabric-fix.json\n\
             {with} validate --json /run/firstlight/report.json --text -\n\
             env /run/firstlight/report.json --vllm /run/firstlight/vllm\n"
        )
    );
}

/// The stages of every boot, in order: those that `boot()` names.
fn stages_of_boot() -> Vec<&'static str> {
    include_str!("../../src/main.rs")
        .split(".stage(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect()
}

#[test]
fn the_stages_print_one_line_each_in_order_within_80_columns() {
    let (_, _, console) = Machine::new(PASS, CONFIG).workload("exit 0").boot().down();
    let stages: Vec<_> = stages_of_boot()
        .into_iter()
        .filter(|stage| *stage != "validate")
        .collect();
    assert!(
        stages.starts_with(&["mounts", "config"]) && stages.ends_with(&["lock down", "hand off"]),
        "{stages:?}"
    );
    let lines: Vec<_> = console
        .lines()
        .filter(|line| line.ends_with(" ms") && !line.starts_with("boot"))
        .collect();
    let without_validate: Vec<_> = lines
        .iter()
        .filter(|line| !line.starts_with("validate"))
        .collect();
    assert_eq!(without_validate.len(), stages.len(), "{console}");
    for (line, stage) in without_validate.iter().zip(stages) {
        assert!(line.starts_with(stage), "{line} for {stage}");
    }
    // The line for scrapers may be longer, because of its lists.
    let mut others = console
        .lines()
        .filter(|line| !line.starts_with("FIRSTLIGHT "));
    assert!(others.all(|line| line.chars().count() <= 80), "{console}");
    assert!(
        console.contains("fabric    2 ports, redirect off"),
        "{console}"
    );
    let boot = console
        .lines()
        .find(|line| line.starts_with("boot "))
        .unwrap();
    assert!(
        boot.contains("kernel ")
            && boot.contains("init to verdict ")
            && boot.contains("init's own ")
    );
}

/// The kernel makes a word of its command line that is no parameter a variable of process 1.
#[test]
fn nvlink_sharp_that_process_1_was_started_without_stays_off_in_validator_and_workload() {
    let says = "echo nvls ${NCCL_NVLS_ENABLE:-free} other ${NCCL_OTHER:-none}";
    for (value, expected) in [("0", "nvls 0 other none"), ("2", "nvls free other none")] {
        let mut m = Machine::new(&format!("{says}\n{PASS}"), CONFIG).workload(says);
        m.environment.extend([
            ("NCCL_NVLS_ENABLE", value.to_owned()),
            ("NCCL_OTHER", "1".to_owned()),
        ]);
        let (_, _, console) = m.boot().down();
        let said: Vec<_> = console
            .lines()
            .filter(|line| line.starts_with("nvls "))
            .collect();
        assert_eq!(said, [expected; 2], "{console}");
    }
}

/// The values that NCCL's documentation requires; its `hostHash` uses host name and boot id.
#[test]
fn validator_and_workload_get_what_nccl_needs_of_the_machine() {
    let needs = "echo needs files $(ulimit -n) most $(ulimit -H -n) locked $(ulimit -l) stack $(ulimit -s) \
                 host $(uname -n) loopback $(grep -c 127.0.0.1 /proc/net/fib_trie) \
                 boot $(wc -c < /proc/sys/kernel/random/boot_id) shm $(stat -f -c %T /dev/shm) \
                 net $(ls -d /sys/class/net/lo) half $(($(stat -f -c '%b * %S' /dev/shm) * 2 / 1024)) \
                 memory $(sed -n 's/MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo)";
    let m = Machine::new(&format!("{needs}\n{PASS}"), CONFIG).workload(needs);
    let (_, _, console) = m.boot().down();
    let said: Vec<_> = console
        .lines()
        .filter(|l| l.starts_with("needs "))
        .collect();
    assert_eq!(said.len(), 2, "{console}");
    for line in said {
        let words: Vec<_> = line.split_whitespace().collect();
        let word = |name: &str| words[words.iter().position(|w| *w == name).unwrap() + 1];
        let number = |name| {
            word(name)
                .parse::<u64>()
                .unwrap_or_else(|_| panic!("{name}: {line}"))
        };
        // A limit that cannot be raised is reported; tests of the shipped image check the limits
        // themselves.
        let stays = |limit: &str| console.contains(&format!("the limit of {limit} stays: "));
        let files = number("files") >= 65_536 && number("most") >= 524_288;
        assert!(files != stays("open files"), "{line}");
        assert!(
            (word("locked") == "unlimited") != stays("locked memory"),
            "{line}"
        );
        assert_eq!(
            (number("stack"), stays("stack")),
            (64 << 10, false),
            "{line}"
        );
        assert!(
            word("host") == "firstlight" && number("loopback") > 0 && number("boot") == 37,
            "{line}"
        );
        assert!(
            word("shm") == "tmpfs" && word("net") == "/sys/class/net/lo",
            "{line}"
        );
        let (half, memory) = (number("half"), number("memory"));
        assert!(
            half.abs_diff(memory) < memory / 50,
            "/dev/shm is not half of the memory: {line}"
        );
    }
}

#[test]
fn a_kernel_that_opens_no_console_for_it_still_gets_a_verdict() {
    let (down, m, console) = Machine::new(PASS, CONFIG)
        .without_descriptors()
        .boot()
        .held_or_down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert_eq!(json(&m, "verdict.json")["verdict"], json!("ERROR"));
    assert_eq!(scraper_lines(&console).len(), 1, "{console}");
}

#[test]
fn a_missing_driver_module_is_in_the_report_that_the_validator_judges() {
    let m = Machine::new(PASS, CONFIG)
        .cmdline("firstlight.driver.load=true firstlight.driver.modules=nvidai")
        .workload("exit 0");
    let (down, m, console) = m.boot().down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert!(
        console.contains("driver    nvidai: not loaded, DRIVER-MISSING"),
        "{console}"
    );
    let driver = json(&m, "driver.json");
    assert_eq!(
        (&driver["schema"], &driver["load"]),
        (&json!("firstlight.driver/1"), &json!(true))
    );
    assert_eq!(
        (&driver["image"], &driver["held"]),
        (&json!(null), &json!([]))
    );
    assert_eq!(driver["modules"][0]["outcome"], json!("not-tried"));
    let finding = &driver["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["subject"]),
        (&json!("DRIVER-MISSING"), &json!("nvidai"))
    );
    let message = finding["message"].as_str().unwrap();
    assert!(message.starts_with("no driver image; "), "{message}");
}

#[test]
fn without_a_driver_there_is_still_a_report() {
    let undecided = CONFIG.replacen("[driver]\nload = false\n", "", 1);
    assert_ne!(undecided, CONFIG);
    for config in [CONFIG, &*undecided] {
        let (down, m, console) = Machine::new(PASS, config).workload("exit 0").boot().down();
        assert_eq!(down, Down::PoweredOff, "{console}");
        assert!(
            console.contains("driver    this image carries no GPU driver: nothing loaded "),
            "{console}"
        );
        let driver = json(&m, "driver.json");
        assert_eq!(
            (&driver["load"], &driver["modules"]),
            (&json!(false), &json!([]))
        );
    }
}

#[test]
fn a_driver_that_is_there_is_loaded_unless_the_configuration_forbids_it() {
    let undecided = CONFIG.replacen("[driver]\nload = false\n", "", 1);
    for (config, load) in [(CONFIG, false), (&*undecided, true)] {
        let m = Machine::new(PASS, config).program("usr/lib/firstlight/driver.squashfs", "damaged");
        let (_, m, console) = m.workload("exit 0").boot().down();
        assert_eq!(json(&m, "driver.json")["load"], json!(load), "{console}");
    }
}

#[test]
fn a_damaged_driver_image_is_named() {
    let m = Machine::new(PASS, CONFIG).program("usr/lib/firstlight/driver.squashfs", "damaged");
    let (_, m, console) = m.workload("exit 0").boot().down();
    assert!(
        console.contains("nothing loaded, DRIVER-MISSING "),
        "{console}"
    );
    let message = json(&m, "driver.json")["findings"][0]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("driver.squashfs: holds no known file system"),
        "{message}"
    );
}

#[test]
fn a_driver_that_hangs_is_given_up_and_the_boot_continues_to_an_error() {
    // Opening a pipe without a writer waits forever.
    let m = Machine::new(PASS, CONFIG)
        .cmdline("firstlight.driver.load=true firstlight.driver.timeout_s=1")
        .pipe("usr/lib/firstlight/driver.squashfs");
    let (down, m, console) = m.boot().down();
    assert_eq!(down, Down::Rebooted, "{console}");
    let driver = json(&m, "driver.json");
    let finding = &driver["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["severity"]),
        (&json!("DRIVER-TIMEOUT"), &json!("error"))
    );
    let cause = json(&m, "verdict.json")["cause"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        cause.starts_with("driver: the driver's start did not end within "),
        "{cause}"
    );
    assert!(
        cause.ends_with("while mounting the driver image"),
        "{cause}"
    );
    assert_eq!(json(&m, "verdict.json")["failed"], json!(["driver"]));
}

/// It leaves the control group as well, where there is one.
#[test]
fn what_the_tests_leave_running_is_ended_before_the_verdict_is_written() {
    let forge = "echo 0 > /sys/fs/cgroup/cgroup.procs; trap '' TERM HUP; sleep 1; echo forged > /run/firstlight/verdict.json";
    let validator = format!("setsid sh -c \"{forge}\" > /dev/null 2>&1 &\nsleep 0.5\n{PASS}");
    let m = Machine::new(&validator, CONFIG)
        .workload("sleep 2; cat /run/firstlight/verdict.json; exit 0");
    let (down, m, console) = m.boot().down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert!(
        console.contains(" was left running by the tests, and is ended\n"),
        "{console}"
    );
    assert_eq!(
        json(&m, "verdict.json")["verdict"],
        json!("PASS"),
        "{console}"
    );
}

#[test]
fn a_test_that_fails_leaves_no_machine() {
    let m = Machine::new(PASS, CONFIG).workload("echo WORKLOAD; exec sleep 600");
    let mut running = m.boot();
    running.until("WORKLOAD");
    let space = std::fs::read_link(format!("/proc/{}/ns/pid_for_children", running.id())).unwrap();
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _still_runs = running;
        panic!("as an assertion does");
    }));
    assert!(failed.is_err());
    let left = || {
        let processes = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| entry.path().join("ns/pid"));
        processes
            .filter(|link| std::fs::read_link(link).is_ok_and(|own| own == space))
            .count()
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while left() > 0 {
        assert!(
            std::time::Instant::now() < until,
            "{} processes are left",
            left()
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
