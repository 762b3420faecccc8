//! Where the configuration comes from, when it is refused, and where the report goes.

use super::CONFIG;
use super::namespace::Disk;
use super::namespace::{Down, Machine, PASS, json, scraper_lines};
use serde_json::json;
use std::fs;

#[test]
fn a_typo_stops_the_boot_with_every_line_that_is_wrong() {
    let config = format!("{CONFIG}[consle]\nscreen = \"keep\"\n");
    let m = Machine::new(PASS, &config).cmdline("firstlight.report.keep=many");
    let (down, m, console) = m.boot().down();
    assert_eq!(down, Down::Rebooted, "{console}");
    assert!(
        console.contains(
            "ERROR     INIT-CONFIG: /etc/firstlight/config.toml: consle: there is no such section; did you mean console?"
        ),
        "{console}"
    );
    assert!(
        console.contains("INIT-CONFIG: kernel word firstlight.report.keep: report.keep: read many; allowed: a whole number from 1 to 1000"),
        "{console}"
    );
    assert!(!m.path("run-outside/calls").exists(), "the validator ran");
    assert_eq!(scraper_lines(&console).len(), 1);
    assert_eq!(json(&m, "verdict.json")["failed"], json!(["config"]));
}

#[test]
fn without_a_configuration_it_holds_until_a_signal() {
    let m = Machine::new(PASS, CONFIG);
    fs::remove_file(m.path("etc/firstlight/config.toml")).unwrap();
    let mut running = m.boot();
    running.until("HOLD ");
    running.signal("TERM");
    let (down, _, console) = running.down();
    assert_eq!(down, Down::PoweredOff);
    assert!(
        console.contains("INIT-CONFIG: /etc/firstlight/config.toml: No such file"),
        "{console}"
    );
}

#[test]
fn a_data_partition_gives_configuration_and_keeps_the_report() {
    let content = tempfile::tempdir().unwrap();
    fs::write(
        content.path().join("config.toml"),
        "[policy]\non_pass = \"reboot\"\n",
    )
    .unwrap();
    let disk = Disk::of(content.path());
    let words = format!("firstlight.report.partition=/dev/{}", disk.name);
    let (down, _, console) = Machine::new(PASS, CONFIG)
        .device(&disk.name)
        .cmdline(&words)
        .boot()
        .down();
    assert_eq!(down, Down::Rebooted, "{console}");
    assert!(
        console.contains("some from the data partition"),
        "{console}"
    );
    assert!(
        console.contains("publish   kept as reports/000001-PASS.json "),
        "{console}"
    );
}

/// `disk` is a loop device, which is neither removable nor on USB. The helpers are run as process 1 runs them.
#[test]
fn a_built_in_disk_that_no_layer_names_gives_no_settings_and_gets_no_report() {
    let content = tempfile::tempdir().unwrap();
    fs::write(
        content.path().join("config.toml"),
        "[policy]\non_pass = \"reboot\"\n",
    )
    .unwrap();
    let disk = Disk::of(content.path());
    let at = format!("/dev/{}", disk.name);
    let ask = |request: serde_json::Value| format!("/init helper '{request}'; echo status $?\n");
    let on = |disks: &str| json!({ "place": at, "disks": disks });
    let fetch = |disks: &str| {
        ask(json!({ "fetch-config": { "partition": on(disks), "wait_s": 0, "signed": false } }))
    };
    let asked = ["removable-or-boot", "any"].map(fetch).concat();
    let words = ["publish", "report.json"];
    let publish =
        ask(json!({ "publish-on": { "partition": on("removable-or-boot"), "words": words } }));
    let m = Machine::new(&format!("{{ {asked}{publish}}} 2>&1\n{PASS}"), CONFIG).device(&disk.name);
    let (_, m, console) = m.workload("exit 0").boot().down();
    let uuid = console
        .split("partition=UUID=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .unwrap();
    let ignored = format!(
        "ignored {at} ({at}) is ignored: it is neither removable, nor on USB, nor the disk booted from; \
         firstlight.report.partition=UUID={uuid} uses it"
    );
    let absent = format!("{at}: on no disk that may be used\nstatus 3\n");
    let want = format!("{ignored}\n{absent}config.toml\nstatus 0\n{ignored}\n{absent}");
    assert!(console.contains(&want), "{want}{console}");
    let calls = fs::read_to_string(m.path("run-outside/calls")).unwrap();
    assert!(!calls.contains("publish report.json"), "{calls}");
}

// Made with minisign 0.11 and a key that exists for these tests only.
const KEY: &str = "[config]\nkey = \"RWSDbFQ9yZTA5iopg0fk1uSkMdQXIm16pP2pc0Nf+fA93zw87PAExNNY\"\n";
const SIGNED: &str = "[policy]\non_pass = \"reboot\"\n";
const SIGNATURE: &str = "untrusted comment: signature from minisign secret key
RUSDbFQ9yZTA5oe5Zn58qJqOuckgHEAaCaToWZphgaq7hlsaOnSPHcEPt4OXBvOjTYoCzPukrh3y80Rn5q99p1jjxxVti+iergA=
trusted comment: a file for tests
7r1qAjb3RMRzntI6C8M4CsVWto8uRiMwZeeedGihJuh6t4Mmf1SotKjY1Y0/ma6aLFOFtY0PjbUAIMce03pABA==
";

/// Boots an image that demands signatures with these files on its data partition, until it holds or ends.
fn with_files(files: &[(&str, &str)]) -> (Down, String) {
    let content = tempfile::tempdir().unwrap();
    files
        .iter()
        .for_each(|(name, text)| fs::write(content.path().join(name), text).unwrap());
    let disk = Disk::of(content.path());
    let words = format!("firstlight.report.partition=/dev/{}", disk.name);
    let m = Machine::new(PASS, &format!("{CONFIG}{KEY}"))
        .device(&disk.name)
        .cmdline(&words)
        .boot();
    let (down, _, console) = m.held_or_down();
    (down, console)
}

#[test]
fn an_image_with_a_key_takes_a_signed_file() {
    let (down, console) =
        with_files(&[("config.toml", SIGNED), ("config.toml.minisig", SIGNATURE)]);
    assert_eq!(down, Down::Rebooted, "{console}");
    assert!(
        console.contains("some from the data partition"),
        "{console}"
    );
    assert_eq!(
        scraper_lines(&console)[0].split(' ').nth(1),
        Some("verdict=PASS"),
        "{console}"
    );
}

#[test]
fn an_image_with_a_key_holds_at_a_file_that_is_not_signed_by_it() {
    let long = format!("{SIGNATURE}{}", "x".repeat(20_000));
    let changed = SIGNED.replace("reboot", "poweroff");
    for (files, why) in [
        (
            vec![("config.toml", SIGNED)],
            "config.toml: has no signature (.minisig), which config.key of this image demands",
        ),
        (
            vec![
                ("config.toml", changed.as_str()),
                ("config.toml.minisig", SIGNATURE),
            ],
            "config.toml: its signature (.minisig) does not fit its content",
        ),
        // It is not even parsed.
        (
            vec![
                ("config.toml", "[polcy]"),
                ("config.toml.minisig", SIGNATURE),
            ],
            "config.toml: its signature (.minisig) does not fit its content",
        ),
        (
            vec![
                ("config.toml", SIGNED),
                ("config.toml.minisig", long.as_str()),
            ],
            "config.toml.minisig: larger than 10240 bytes",
        ),
    ] {
        let (down, console) = with_files(&files);
        assert_eq!(down, Down::PoweredOff, "{console}");
        let errors: Vec<_> = console
            .lines()
            .filter(|line| line.starts_with("ERROR  "))
            .collect();
        assert!(
            matches!(&errors[..], [one] if one.ends_with(why)),
            "{why}: {console}"
        );
    }
}

#[test]
fn a_shell_that_the_image_does_not_allow_is_one_line_and_hold() {
    let shell = "#!/bin/sh\necho A SHELL, $*\n";
    let boot = |config: &str| {
        let m = Machine::new(PASS, config).program("usr/bin/busybox", shell);
        m.cmdline("firstlight.policy.on_pass=shell firstlight.policy.on_error=hold")
            .boot()
            .held_or_down()
            .2
    };
    let console = boot(CONFIG);
    assert!(!console.contains("A SHELL"), "{console}");
    let line = "ERROR     INIT-CONFIG: kernel word firstlight.policy.on_pass: policy.on_pass: read shell; allowed: ";
    assert_eq!(console.matches(line).count(), 1, "{console}");
    assert_eq!(
        scraper_lines(&console)[0].split(' ').nth(1),
        Some("verdict=ERROR"),
        "{console}"
    );
    let console = boot(&format!("{CONFIG}allow_shell = true\n"));
    assert!(console.contains("A SHELL, sh -l"), "{console}");
}

#[test]
fn a_file_that_is_named_after_no_node_stops_the_boot() {
    let content = tempfile::tempdir().unwrap();
    fs::create_dir(content.path().join("config.d")).unwrap();
    fs::write(
        content.path().join("config.d/mac-5254.toml"),
        "[policy]\non_pass = \"reboot\"\n",
    )
    .unwrap();
    let disk = Disk::of(content.path());
    let words = format!("firstlight.report.partition=/dev/{}", disk.name);
    let (_, _, console) = Machine::new(PASS, CONFIG)
        .device(&disk.name)
        .cmdline(&words)
        .boot()
        .down();
    let line = "config.d/mac-5254.toml: not the name of a node; allowed: mac-AABBCCDDEEFF.toml, serial-NAME.toml";
    assert!(
        console
            .lines()
            .any(|l| l.starts_with("ERROR") && l.contains(line)),
        "{console}"
    );
}

#[test]
fn a_report_that_is_to_be_sent_without_a_network_is_not_even_tried() {
    let words = "firstlight.report.url=http://192.0.2.1/r firstlight.network.timeout_s=1";
    let (down, m, console) = Machine::new(PASS, CONFIG)
        .workload("exit 0")
        .cmdline(words)
        .boot()
        .down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert!(
        console.contains("network   firstlight, warning: no network: no network card"),
        "{console}"
    );
    let calls = fs::read_to_string(m.path("run-outside/calls")).unwrap();
    let want = "publish /run/firstlight/report.json --verdict PASS --keep 20 --url http://192.0.2.1/r \
                --timeout 60 --offline no network: no network card\n";
    assert!(calls.ends_with(want), "{calls}");
    assert!(
        console.contains("post      sent to the script of the test"),
        "{console}"
    );
}

#[test]
fn a_layer_that_cannot_be_fetched_stops_the_boot_with_one_line() {
    let sum = "0".repeat(64);
    let words = format!(
        "firstlight.network.timeout_s=1 firstlight.config=http://192.0.2.1/n.toml#sha256={sum}"
    );
    let (down, _, console) = Machine::new(PASS, CONFIG).cmdline(&words).boot().down();
    assert_eq!(down, Down::Rebooted, "{console}");
    let line = "ERROR     INIT-CONFIG: kernel word firstlight.config: http://192.0.2.1/n.toml: no network: ";
    assert_eq!(console.matches(line).count(), 1, "{console}");
}
