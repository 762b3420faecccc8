//! Where the configuration comes from, what refuses it, and where the report goes.

use super::CONFIG;
use super::namespace::{Disk, Down, Machine, PASS, json, scraper_lines};
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
        console.contains(
            "INIT-CONFIG: kernel word firstlight.report.keep: report.keep: read many; allowed: 1 to 1000"
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
fn without_a_configuration_it_holds_until_a_signal() {
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
fn a_partition_that_is_named_and_absent_stops_the_boot() {
    let m = Machine::new(PASS, CONFIG).cmdline("firstlight.report.partition=/dev/none");
    let (_, _, console) = m.boot().down();
    assert!(
        console
            .contains("INIT-CONFIG: report.partition /dev/none: /dev/none: no such file system on any disk"),
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
        "config.d/mac-5254.toml: not the name of a node; allowed: mac-AABBCCDDEEFF.toml, serial-NAME.toml";
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
    assert!(console.contains("post      sent to the script of the test"), "{console}");
}

#[test]
fn a_layer_that_cannot_be_fetched_stops_the_boot_with_one_line() {
    let sum = "0".repeat(64);
    let words =
        format!("firstlight.network.timeout_s=1 firstlight.config=http://192.0.2.1/n.toml#sha256={sum}");
    let (down, _, console) = Machine::new(PASS, CONFIG).cmdline(&words).boot().down();
    assert_eq!(down, Down::Rebooted, "{console}");
    let line = "ERROR     INIT-CONFIG: kernel word firstlight.config: http://192.0.2.1/n.toml: no network: ";
    assert_eq!(console.matches(line).count(), 1, "{console}");
}
