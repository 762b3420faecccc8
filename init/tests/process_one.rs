//! init as process 1 of a namespace: the stages, every way a validator can fail, policies, signals
//! and both hand-overs. What needs a kernel of its own is tested in QEMU, elsewhere.

#[cfg(test)]
mod machine;

#[cfg(test)]
mod tests {
    use super::machine::{Disk, Down, Machine, PASS, is_validated, json, scraper_lines};
    use serde_json::json;
    use std::fs;
    use std::process::Command;

    const CONFIG: &str = "[driver]\nload = false\n[report]\npartition = \"\"\n[console]\nserial = []\n\
                          [workload]\nmode = \"exec\"\nexec = [\"/workload\", \"a b\"]\nlock_modules = false\n\
                          [policy]\non_fail = \"poweroff\"\non_error = \"reboot\"\n";

    #[test]
    fn a_machine_that_passes_runs_its_workload_and_powers_off() {
        let workload = "echo \"workload <$1> $NCCL_DEBUG $HOME\"; ls /run/firstlight; grep SigBlk /proc/self/status; exit 3";
        let m = Machine::new(PASS, CONFIG).workload(workload).cmdline("firstlight.validate.level=quick");
        let (down, m, console) = m.boot().down();
        assert_eq!(down, Down::PoweredOff, "{console}");
        assert!(console.contains("workload <a b> WARN /\n"), "{console}");
        assert!(console.contains("workload  /workload exited with status 3 after "), "{console}");
        assert!(console.contains("SigBlk:\t0000000000000000"), "{console}");
        for file in ["report.json", "verdict.json", "env", "validated", "boot.log"] {
            assert!(console.lines().any(|line| line == file), "{file}: {console}");
        }
        assert_eq!(
            scraper_lines(&console),
            [
                "FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=0.1"
            ]
        );
        let verdict = json(&m, "verdict.json");
        assert_eq!((&verdict["verdict"], &verdict["cause"]), (&json!("PASS"), &json!(null)));
        // In a namespace standard output is a place of its own.
        let out = fs::read_to_string(m.path("stdout.txt")).unwrap();
        assert_eq!(scraper_lines(&out), scraper_lines(&console), "{out}");
        assert_eq!(verdict["bound_to"], json!({ "kernel": "k" }));
        assert_eq!(
            fs::read_to_string(m.path("etc/nccl.conf")).unwrap(),
            "# firstlight: a reason\nNCCL_DEBUG=WARN\n"
        );
        let calls = fs::read_to_string(m.path("run-outside/calls")).unwrap();
        let with = "--config /etc/firstlight/config.toml --set validate.level=quick";
        assert_eq!(
            calls,
            format!(
                "{with} fabric fix --journal /run/firstlight/fabric.json\n\
                 {with} validate --json /run/firstlight/report.json --text -\nenv /run/firstlight/report.json\n"
            )
        );
    }

    #[test]
    fn the_stages_print_one_line_each_in_order_within_80_columns() {
        let (_, _, console) = Machine::new(PASS, CONFIG).workload("exit 0").boot().down();
        let stages = [
            "mounts",
            "config",
            "screen",
            "fabric",
            "driver",
            "network",
            "decide",
            "publish",
            "lock down",
            "hand off",
        ];
        let lines: Vec<_> =
            console.lines().filter(|line| line.ends_with(" ms") && !line.starts_with("boot")).collect();
        let without_validate: Vec<_> = lines.iter().filter(|line| !line.starts_with("validate")).collect();
        assert_eq!(without_validate.len(), stages.len(), "{console}");
        for (line, stage) in without_validate.iter().zip(stages) {
            assert!(line.starts_with(stage), "{line} for {stage}");
        }
        // The line for scrapers is as long as its lists.
        let mut told = console.lines().filter(|line| !line.starts_with("FIRSTLIGHT "));
        assert!(told.all(|line| line.chars().count() <= 80), "{console}");
        assert!(console.contains("fabric    2 ports, redirect off"), "{console}");
        let boot = console.lines().find(|line| line.starts_with("boot ")).unwrap();
        assert!(
            boot.contains("kernel ") && boot.contains("init to verdict ") && boot.contains("init's own ")
        );
    }

    /// Boots with a validator that must not be believed; on_error reboots.
    fn refused(validator: &str) -> String {
        let m = Machine::new(validator, CONFIG).workload("echo WORKLOAD RUNS");
        let (down, m, console) = m.boot().down();
        assert_eq!(down, Down::Rebooted, "{console}");
        assert!(!console.contains("WORKLOAD RUNS"), "{console}");
        assert!(!is_validated(&m));
        assert_eq!(json(&m, "verdict.json")["verdict"], json!("ERROR"));
        let lines = scraper_lines(&console);
        assert_eq!(lines.len(), 1, "{console}");
        assert!(lines[0].starts_with("FIRSTLIGHT verdict=ERROR failed=validator "), "{console}");
        console
    }

    #[test]
    fn a_validator_that_crashes_after_a_fine_report_is_an_error() {
        let console = refused("report PASS pass\necho 'VERDICT  PASS'\necho last words >&2\nkill -SEGV $$");
        assert!(console.contains("VERDICT  ERROR   the validator was killed by signal 11"), "{console}");
        assert!(console.contains("  firstlight: last words"), "{console}");
        assert!(!console.contains("VERDICT  PASS"), "{console}");
    }

    #[test]
    fn a_validator_that_prints_a_pass_and_leaves_no_report_is_an_error() {
        let console = refused(
            "echo 'FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=0.1'\nexit 0",
        );
        assert!(console.contains("VERDICT  ERROR   /run/firstlight/report.json: No such file"), "{console}");
    }

    #[test]
    fn a_validator_whose_status_and_report_disagree_is_an_error() {
        let console = refused("report FAIL fail\nexit 0");
        assert!(console.contains("exit status says PASS, its report FAIL"), "{console}");
    }

    #[test]
    fn a_validator_that_hangs_past_its_deadline_is_killed_with_its_workers() {
        let config = format!("{CONFIG}[validate]\ntimeout_s = 1\n");
        let validator = "report PASS pass\ntrap '' TERM\nsetsid sleep 600 &\nwhile :; do sleep 1; done";
        let m = Machine::new(validator, &config).workload("echo WORKLOAD RUNS");
        let (down, m, console) = m.boot().down();
        assert_eq!(down, Down::Rebooted, "{console}");
        assert!(console.contains("did not end within 31 s and was killed"), "{console}");
        assert!(!is_validated(&m));
    }

    #[test]
    fn a_missing_validator_is_an_error_that_names_it() {
        let m = Machine::new("", CONFIG).without_validator().workload("echo WORKLOAD RUNS");
        let (down, m, console) = m.boot().down();
        assert_eq!(down, Down::Rebooted, "{console}");
        let cause = json(&m, "verdict.json")["cause"].as_str().unwrap().to_owned();
        assert!(
            cause.starts_with("fabric: firstlight fabric fix could not be started: No such file"),
            "{cause}"
        );
        assert!(!console.contains("WORKLOAD RUNS"), "{console}");
    }

    #[test]
    fn a_machine_that_fails_gets_on_fail_and_the_validators_own_lines() {
        let validator = "report FAIL fail\necho 'VERDICT  FAIL   1 failed'\n\
                         echo 'FIRSTLIGHT verdict=FAIL failed=iommu warned=none codes=none scope=machine host=node7 seconds=0.1'\nexit 1";
        let (down, m, console) = Machine::new(validator, CONFIG).workload("echo WORKLOAD RUNS").boot().down();
        assert_eq!(down, Down::PoweredOff, "{console}");
        assert_eq!(
            scraper_lines(&console),
            [
                "FIRSTLIGHT verdict=FAIL failed=iommu warned=none codes=none scope=machine host=node7 seconds=0.1"
            ]
        );
        assert_eq!(json(&m, "verdict.json")["failed"], json!(["iommu"]));
        assert!(!is_validated(&m) && !console.contains("WORKLOAD RUNS"), "{console}");
    }

    #[test]
    fn a_workload_without_p2p_is_told_so_in_both_places() {
        let m = Machine::new("report FAIL fail\nexit 1", CONFIG)
            .workload("echo p2p off $NCCL_P2P_DISABLE; cat /run/firstlight/env")
            .cmdline("firstlight.policy.on_fail=workload-without-p2p");
        let (_, m, console) = m.boot().down();
        let why = "the verdict is FAIL, and the policy for it workload-without-p2p";
        let env = format!("p2p off 1\n# a reason\nNCCL_DEBUG=WARN\n# {why}\nNCCL_P2P_DISABLE=1\n");
        assert!(console.contains(&env), "{console}");
        let conf = fs::read_to_string(m.path("etc/nccl.conf")).unwrap();
        let ours = "# firstlight: a reason\nNCCL_DEBUG=WARN\n";
        assert_eq!(conf, format!("{ours}# firstlight: {why}\nNCCL_P2P_DISABLE=1\n"));
        assert!(!is_validated(&m));
    }

    /// The figures that NCCL's own documents ask for; its `hostHash` is made of host name and boot id.
    #[test]
    fn validator_and_workload_get_what_nccl_needs_of_the_machine() {
        let needs = "echo needs files $(ulimit -n) most $(ulimit -H -n) locked $(ulimit -l) stack $(ulimit -s) \
                     host $(uname -n) loopback $(grep -c 127.0.0.1 /proc/net/fib_trie) \
                     boot $(wc -c < /proc/sys/kernel/random/boot_id) shm $(stat -f -c %T /dev/shm) \
                     net $(ls -d /sys/class/net/lo) half $(($(stat -f -c '%b * %S' /dev/shm) * 2 / 1024)) \
                     memory $(sed -n 's/MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo)";
        let m = Machine::new(&format!("{needs}\n{PASS}"), CONFIG).workload(needs);
        let (_, _, console) = m.boot().down();
        let said: Vec<_> = console.lines().filter(|l| l.starts_with("needs ")).collect();
        assert_eq!(said.len(), 2, "{console}");
        for line in said {
            let words: Vec<_> = line.split_whitespace().collect();
            let word = |name: &str| words[words.iter().position(|w| *w == name).unwrap() + 1];
            let number = |name| word(name).parse::<u64>().unwrap_or_else(|_| panic!("{name}: {line}"));
            // Whoever may not raise a limit says so; the shipped image's are asserted where it boots.
            let stays = |limit: &str| console.contains(&format!("the limit of {limit} stays: "));
            let files = number("files") >= 65_536 && number("most") >= 524_288;
            assert!(files != stays("open files"), "{line}");
            assert!((word("locked") == "unlimited") != stays("locked memory"), "{line}");
            assert_eq!((number("stack"), stays("stack")), (64 << 10, false), "{line}");
            assert!(word("host") == "firstlight" && number("loopback") > 0 && number("boot") == 37, "{line}");
            assert!(word("shm") == "tmpfs" && word("net") == "/sys/class/net/lo", "{line}");
            let (half, memory) = (number("half"), number("memory"));
            assert!(half.abs_diff(memory) < memory / 50, "/dev/shm is not half of the memory: {line}");
        }
    }

    #[test]
    fn a_typo_stops_the_boot_with_every_line_that_is_wrong() {
        let config = format!("{CONFIG}[consle]\nscreen = \"keep\"\n");
        let m = Machine::new(PASS, &config).cmdline("firstlight.report.keep=many");
        let (down, m, console) = m.boot().down();
        assert_eq!(down, Down::Rebooted, "{console}");
        assert!(
            console.contains(
                "ERROR     INIT-CONFIG: /etc/firstlight/config.toml: consle: read a section of that name"
            ),
            "{console}"
        );
        assert!(
            console.contains(
                "INIT-CONFIG: kernel word firstlight.report.keep: report.keep: read \"many\", allowed: 1 to 1000"
            ),
            "{console}"
        );
        assert!(!m.path("run-outside/calls").exists(), "the validator ran");
        assert_eq!(scraper_lines(&console).len(), 1);
        assert_eq!(json(&m, "verdict.json")["failed"], json!(["config"]));
    }

    #[test]
    fn the_validators_refusal_of_its_sections_is_a_configuration_error() {
        let m = Machine::new("", CONFIG);
        let m = m.program(
            "usr/bin/firstlight",
            "#!/bin/sh\necho 'config.toml: validate.levle: unknown' >&2; exit 64\n",
        );
        let (_, m, console) = m.boot().down();
        assert!(console.contains("ERROR     INIT-CONFIG: config.toml: validate.levle: unknown"), "{console}");
        assert_eq!(json(&m, "verdict.json")["failed"], json!(["config"]));
    }

    #[test]
    fn without_a_configuration_it_holds_until_it_is_told_to_go_down() {
        let m = Machine::new(PASS, CONFIG);
        fs::remove_file(m.path("etc/firstlight/config.toml")).unwrap();
        let mut running = m.boot();
        running.until("HOLD ");
        running.signal("TERM");
        let (down, _, console) = running.down();
        assert_eq!(down, Down::PoweredOff);
        assert!(console.contains("INIT-CONFIG: /etc/firstlight/config.toml: No such file"), "{console}");
    }

    #[test]
    fn a_kernel_that_opens_no_console_for_it_still_gets_a_verdict() {
        let (down, m, console) = Machine::new(PASS, CONFIG).without_descriptors().boot().down();
        assert_eq!(down, Down::Rebooted, "{console}");
        assert_eq!(json(&m, "verdict.json")["verdict"], json!("ERROR"));
        assert_eq!(scraper_lines(&console).len(), 1, "{console}");
    }

    #[test]
    fn ctrl_alt_del_in_a_hold_reboots() {
        let mut running = Machine::new(PASS, CONFIG).cmdline("firstlight.policy.on_pass=hold").boot();
        running.until("HOLD ");
        running.signal("INT");
        assert_eq!(running.down().0, Down::Rebooted);
    }

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
    fn a_workload_that_cannot_be_started_is_a_fault_followed_by_on_error() {
        let (down, _, console) = Machine::new(PASS, CONFIG).boot().down();
        assert_eq!(down, Down::Rebooted);
        assert!(
            console.contains("ERROR     INIT-HANDOFF: workload.exec /workload: No such file"),
            "{console}"
        );
        assert_eq!(scraper_lines(&console).len(), 1, "{console}");
    }

    #[test]
    fn a_missing_driver_module_is_in_the_report_that_the_validator_judges() {
        let m = Machine::new(PASS, CONFIG)
            .cmdline("firstlight.driver.load=true firstlight.driver.modules=nvidai")
            .workload("exit 0");
        let (down, m, console) = m.boot().down();
        assert_eq!(down, Down::PoweredOff, "{console}");
        assert!(console.contains("driver    nvidai: not loaded, DRIVER-MISSING"), "{console}");
        let driver = json(&m, "driver.json");
        assert_eq!((&driver["schema"], &driver["load"]), (&json!("firstlight.driver/1"), &json!(true)));
        assert_eq!((&driver["image"], &driver["held"]), (&json!(null), &json!([])));
        assert_eq!(driver["modules"][0]["outcome"], json!("not-tried"));
        let finding = &driver["findings"][0];
        assert_eq!((&finding["code"], &finding["subject"]), (&json!("DRIVER-MISSING"), &json!("nvidai")));
        let message = finding["message"].as_str().unwrap();
        assert!(message.starts_with("no driver image; "), "{message}");
    }

    #[test]
    fn without_a_driver_there_is_a_report_all_the_same() {
        let (_, m, console) = Machine::new(PASS, CONFIG).workload("exit 0").boot().down();
        assert!(console.contains("driver    driver.load = false: nothing loaded "), "{console}");
        let driver = json(&m, "driver.json");
        assert_eq!((&driver["load"], &driver["modules"]), (&json!(false), &json!([])));
    }

    #[test]
    fn a_damaged_driver_image_is_named() {
        let m = Machine::new(PASS, CONFIG).program("usr/lib/firstlight/driver.squashfs", "damaged");
        let (_, m, console) = m.workload("exit 0").boot().down();
        assert!(console.contains("nothing loaded, DRIVER-MISSING "), "{console}");
        let message = json(&m, "driver.json")["findings"][0]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("driver.squashfs: is no file system"), "{message}");
    }

    #[test]
    fn a_driver_that_hangs_is_given_up_and_the_boot_goes_on_to_an_error() {
        // Opening a pipe that nobody writes to waits for good.
        let m = Machine::new(PASS, CONFIG)
            .cmdline("firstlight.driver.load=true firstlight.driver.timeout_s=1")
            .pipe("usr/lib/firstlight/driver.squashfs");
        let (down, m, console) = m.boot().down();
        assert_eq!(down, Down::Rebooted, "{console}");
        let driver = json(&m, "driver.json");
        let finding = &driver["findings"][0];
        assert_eq!((&finding["code"], &finding["severity"]), (&json!("DRIVER-TIMEOUT"), &json!("error")));
        let cause = json(&m, "verdict.json")["cause"].as_str().unwrap().to_owned();
        assert!(cause.starts_with("driver: the driver's start did not end within "), "{cause}");
        assert!(cause.ends_with("while mounting the driver image"), "{cause}");
        assert_eq!(json(&m, "verdict.json")["failed"], json!(["driver"]));
    }

    #[test]
    fn a_full_run_is_an_error_and_no_old_verdict_is_left() {
        let validator = "report PASS pass\ncat /dev/zero > /run/full\nexit 0";
        let m = Machine::new(validator, CONFIG).small_run().workload("echo WORKLOAD RUNS");
        let (down, _, console) = m.boot().down();
        assert_eq!(down, Down::Rebooted, "{console}");
        assert!(
            console.contains("VERDICT  ERROR   publish: /run/firstlight/env: No space left"),
            "{console}"
        );
        assert!(!console.contains("WORKLOAD RUNS"), "{console}");
    }

    #[test]
    fn a_partition_that_is_named_and_absent_stops_the_boot() {
        let m = Machine::new(PASS, CONFIG).cmdline("firstlight.report.partition=/dev/none");
        let (_, _, console) = m.boot().down();
        assert!(
            console.contains(
                "INIT-CONFIG: report.partition /dev/none: /dev/none: no such file system on any disk"
            ),
            "{console}"
        );
    }

    #[test]
    fn a_data_partition_gives_configuration_and_keeps_the_report() {
        let content = tempfile::tempdir().unwrap();
        fs::write(content.path().join("config.toml"), "[policy]\non_pass = \"reboot\"\n").unwrap();
        let disk = Disk::of(content.path());
        let words = format!("firstlight.report.partition=/dev/{}", disk.name);
        let (down, _, console) = Machine::new(PASS, CONFIG).device(&disk.name).cmdline(&words).boot().down();
        assert_eq!(down, Down::Rebooted, "{console}");
        assert!(console.contains("some from the data partition"), "{console}");
        assert!(console.contains("publish   kept as reports/000001-PASS.json "), "{console}");
    }

    #[test]
    fn a_file_that_is_named_after_no_node_stops_the_boot() {
        let content = tempfile::tempdir().unwrap();
        fs::create_dir(content.path().join("config.d")).unwrap();
        fs::write(content.path().join("config.d/mac-5254.toml"), "[policy]\non_pass = \"reboot\"\n").unwrap();
        let disk = Disk::of(content.path());
        let words = format!("firstlight.report.partition=/dev/{}", disk.name);
        let (_, _, console) = Machine::new(PASS, CONFIG).device(&disk.name).cmdline(&words).boot().down();
        let line =
            "config.d/mac-5254.toml: a name of no node, allowed: mac-AABBCCDDEEFF.toml, serial-NAME.toml";
        assert!(console.lines().any(|l| l.starts_with("ERROR") && l.contains(line)), "{console}");
    }

    #[test]
    fn a_report_that_is_to_be_sent_without_a_network_is_not_even_tried() {
        let words = "firstlight.report.url=http://192.0.2.1/r firstlight.network.timeout_s=1";
        let (down, m, console) = Machine::new(PASS, CONFIG).workload("exit 0").cmdline(words).boot().down();
        assert_eq!(down, Down::PoweredOff, "{console}");
        assert!(console.contains("network   firstlight, warning: no network: no network card"), "{console}");
        let calls = fs::read_to_string(m.path("run-outside/calls")).unwrap();
        let want = "publish /run/firstlight/report.json --verdict PASS --keep 20 --url http://192.0.2.1/r \
                    --timeout 60 --offline no network: no network card\n";
        assert!(calls.ends_with(want), "{calls}");
        assert!(console.contains("post      sent to nobody"), "{console}");
    }

    #[test]
    fn a_layer_that_cannot_be_fetched_stops_the_boot_with_one_line() {
        let sum = "0".repeat(64);
        let words =
            format!("firstlight.network.timeout_s=1 firstlight.config=http://192.0.2.1/n.toml#sha256={sum}");
        let (down, _, console) = Machine::new(PASS, CONFIG).cmdline(&words).boot().down();
        assert_eq!(down, Down::Rebooted, "{console}");
        let line =
            "ERROR     INIT-CONFIG: kernel word firstlight.config: http://192.0.2.1/n.toml: no network: ";
        assert_eq!(console.matches(line).count(), 1, "{console}");
    }

    #[test]
    fn another_root_becomes_the_root_and_its_init_process_1() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["sbin", "bin", "etc"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        // What an earlier boot handed over, and what the site wrote.
        let old = "NCCL_P2P_DISABLE=0\nNCCL_SITE=1\n# firstlight: was fast\nNCCL_P2P_LEVEL=SYS\n";
        fs::write(root.path().join("etc/nccl.conf"), old).unwrap();
        // The new init is init again: that it finds no configuration proves that its / is another.
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
    fn new_root(root: &std::path::Path) -> std::path::PathBuf {
        fs::copy(env!("CARGO_BIN_EXE_init"), root.join("sbin/init")).unwrap();
        let libraries = Command::new("ldd").arg(root.join("sbin/init")).output().unwrap();
        for word in
            String::from_utf8(libraries.stdout).unwrap().split_whitespace().filter(|w| w.starts_with('/'))
        {
            let to = root.join(word.trim_start_matches('/'));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(word, to).unwrap();
        }
        root.to_owned()
    }

    #[test]
    fn a_root_without_an_init_is_a_fault_before_the_point_of_no_return() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::of(root.path());
        let m = Machine::new(PASS, CONFIG).device(&disk.name).cmdline(&format!(
            "firstlight.workload.mode=switch-root firstlight.workload.exec= firstlight.workload.root=/dev/{}",
            disk.name
        ));
        let (down, _, console) = m.boot().down();
        assert_eq!(down, Down::Rebooted, "{console}");
        assert!(console.contains("has none of /sbin/init, /usr/lib/systemd/systemd, /init"), "{console}");
    }
}
