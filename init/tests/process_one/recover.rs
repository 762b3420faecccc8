//! GPUs that no longer work: every rung of the recovery succeeds once and fails once, a reboot happens once, and none of it
//! leads to PASS or to peer-to-peer.

use super::CONFIG;
use super::namespace::{Down, Machine, json};
use serde_json::{Value, json};
use std::fs;

const GPU: &str = "bus/pci/devices/0000:01:00.0";
const MARK: &str = "variables/FirstlightMark-6e0f3c1a-52d4-4b0e-9a77-c8d15b2f94e3";

/// A validator whose tests find a GPU that needs the recovery WORD, and whose tests of each GPU by itself end with the
/// status in /alone.
const WEDGED: &str = r#"case "$*" in
    *--without-peers*)
        printf '%s\n' "$*" >> /run/alone
        cd /run/firstlight; [ ! -e report.json ] || mv report.json first.json; report PASS pass
        case "$*" in *recovery-report*) mv report.json recovery-report.json; mv first.json report.json ;; esac
        exit $(cat /alone) ;;
esac
report FAIL fail
sed -i 's/"outcome":"fail"/"outcome":"fail","findings":[{"code":"P2P-HANG","severity":"fail","recovery":"WORD"}]/' /run/firstlight/report.json
exit 1"#;

/// A machine with a GPU that needs `word`, and that may be recovered as far as `recover` allows.
pub(crate) fn machine(recover: &str, word: &str, alone: i32) -> Machine {
    let config = CONFIG
        .replace(
            "on_fail = \"poweroff\"",
            &format!("on_fail = \"workload\"\nrecover = \"{recover}\""),
        )
        .replace("on_error = \"reboot\"", "on_error = \"workload\"");
    let m = Machine::new(&WEDGED.replace("WORD", word), &config)
        .workload("echo WORKLOAD $NCCL_P2P_DISABLE");
    fs::create_dir_all(m.path(GPU)).unwrap();
    for (file, text) in [
        ("vendor", "0x10de\n"),
        ("class", "0x030000\n"),
        ("device", "0x2684\n"),
        ("reset_method", "flr bus\n"),
        ("reset", ""),
    ] {
        fs::write(m.path(&format!("{GPU}/{file}")), text).unwrap();
    }
    fs::write(m.path(&format!("{GPU}/config")), [0xde, 0x10]).unwrap();
    fs::write(m.path("bus/pci/rescan"), "").unwrap();
    fs::write(m.path("alone"), format!("{alone}\n")).unwrap();
    m
}

/// The rungs in the journal, those that failed with a minus, and its result.
fn climbed(m: &Machine) -> (Vec<String>, Value) {
    let journal = json(m, "recovery.json");
    assert_eq!(
        (&journal["schema"], &journal["trying"]),
        (&json!("firstlight.recovery/1"), &Value::Null)
    );
    let rung = |tried: &Value| {
        let sign = if tried["done"] == json!(true) {
            ""
        } else {
            "-"
        };
        format!("{sign}{}", tried["rung"].as_str().unwrap())
    };
    (
        journal["tried"]
            .as_array()
            .unwrap()
            .iter()
            .map(rung)
            .collect(),
        journal["result"].clone(),
    )
}

const FREE: &[&str] = &["end-processes", "close-devices", "unload-modules"];
const AGAIN: &[&str] = &["fabric", "load-driver", "test-without-p2p"];

#[test]
fn gpus_that_work_after_a_reset_get_a_workload_without_peer_to_peer() {
    let (down, m, console) = machine("gpu", "reset-gpu", 0).boot().held_or_down();
    assert_eq!(down, Down::PoweredOff, "{console}");
    assert_eq!(
        climbed(&m),
        (
            strings(&[FREE, &["reset-functions"], AGAIN]),
            json!("recovered")
        ),
        "{console}"
    );
    let verdict = json(&m, "verdict.json");
    assert_eq!(
        (&verdict["verdict"], &verdict["codes"]),
        (&json!("FAIL"), &json!(["P2P-HANG"]))
    );
    assert!(console.contains("WORKLOAD 1"), "{console}");
    assert!(
        console.contains("decide    FAIL: workload-without-p2p, after a recovery"),
        "{console}"
    );
    let alone = fs::read_to_string(m.path("run-outside/alone")).unwrap();
    assert!(alone.contains("--without-peers"), "{alone}");
    // The report that showed the fault is the one that counts.
    assert_eq!(json(&m, "report.json")["verdict"], json!("FAIL"));
}

#[test]
fn each_rung_that_fails_is_followed_as_the_ladder_says() {
    let no_flr = strings(&[FREE, &["-reset-functions", "reset-buses"], AGAIN]);
    let none = strings(&[FREE, &["-reset-functions", "-reset-buses"]]);
    let mut both = [
        FREE,
        &["reset-functions"],
        &AGAIN[..2],
        &["-test-without-p2p"],
    ]
    .concat();
    both.extend([FREE, &["reset-buses"], &AGAIN[..2], &["-test-without-p2p"]].concat());
    // A file of the GPU that is damaged or removed.
    for (name, bytes, alone, rungs) in [
        ("reset_method", Some(&b"bus\n"[..]), 0, no_flr),
        ("reset_method", Some(b"\n"), 0, none.clone()),
        ("reset_method", None, 0, none.clone()),
        ("config", Some(b"\xff\xff"), 0, none),
        ("config", Some(b"\xde\x10"), 1, strings(&[&both])),
    ] {
        let m = machine("gpu", "reset-gpu", alone);
        let file = m.path(&format!("{GPU}/{name}"));
        bytes
            .map_or_else(|| fs::remove_file(&file), |bytes| fs::write(&file, bytes))
            .unwrap();
        let (_, m, console) = m.boot().held_or_down();
        let recovered = !rungs.last().unwrap().starts_with('-');
        let result = if recovered { "recovered" } else { "gave-up" };
        assert_eq!(climbed(&m), (rungs, json!(result)), "{name}: {console}");
        assert_eq!(console.contains("WORKLOAD"), recovered, "{name}: {console}");
        let verdict = json(&m, "verdict.json");
        let word = if recovered { "FAIL" } else { "ERROR" };
        assert_eq!(verdict["verdict"], json!(word), "{name}: {console}");
        assert_eq!(
            verdict["codes"][0] == json!("RECOVERY-FAILED"),
            !recovered,
            "{name}: {verdict}"
        );
    }
}

#[test]
fn a_fabric_pass_that_fails_ends_in_the_other_reset_and_then_gives_up() {
    let m = machine("gpu", "reset-gpu", 0);
    let firstlight = m.path("usr/bin/firstlight");
    let script = fs::read_to_string(&firstlight).unwrap();
    // The pass works during the boot and fails after it.
    let fails = "*\"fabric fix\"*) [ -e /run/passed ] && exit 2; touch /run/passed;";
    let m = m.program(
        "usr/bin/firstlight",
        &script.replacen("*\"fabric fix\"*)", fails, 1),
    );
    let (_, m, console) = m.boot().held_or_down();
    let rungs = strings(&[
        FREE,
        &["reset-functions", "-fabric"],
        FREE,
        &["reset-buses", "-fabric"],
    ]);
    assert_eq!(climbed(&m), (rungs, json!("gave-up")), "{console}");
}

#[test]
fn nothing_is_tried_where_it_is_not_allowed_or_of_no_use() {
    for (recover, word, code) in [
        ("off", "reset-gpu", "P2P-HANG"),
        ("gpu", "restart-program", "P2P-HANG"),
        ("gpu", "reboot", "RECOVERY-FAILED"),
        ("reboot", "replace", "RECOVERY-FAILED"),
    ] {
        let (_, m, console) = machine(recover, word, 0).variables().boot().held_or_down();
        assert_eq!(
            json(&m, "verdict.json")["codes"][0],
            json!(code),
            "{recover} {word}: {console}"
        );
        assert_eq!(
            fs::read_to_string(m.path(&format!("{GPU}/reset"))).unwrap(),
            "",
            "{recover} {word}"
        );
        assert!(!m.path(MARK).exists(), "{recover} {word}: {console}");
    }
}

#[test]
fn one_reboot_is_counted_and_the_machine_continues_without_peer_to_peer() {
    for (alone, code, workload) in [(0, "RECOVERED", true), (1, "RECOVERY-FAILED", false)] {
        let m = machine("reboot", "reboot", alone).variables();
        let (down, m, console) = m.boot().down();
        assert_eq!(down, Down::Rebooted, "{console}");
        let verdict = json(&m, "verdict.json");
        assert_eq!(
            (&verdict["verdict"], &verdict["codes"][0]),
            (&json!("ERROR"), &json!("RECOVERY-FAILED"))
        );
        assert!(
            console.contains("decide    ERROR: reboot, after a recovery"),
            "{console}"
        );
        let mut m = m.again();
        for _ in 0..2 {
            let (down, after, console) = m.boot().held_or_down();
            assert_eq!(down, Down::PoweredOff, "{console}");
            assert!(
                console.contains("reset     rebooted once after P2P-HANG"),
                "{console}"
            );
            assert_eq!(console.contains("WORKLOAD 1"), workload, "{console}");
            let verdict = json(&after, "verdict.json");
            assert_eq!(
                (&verdict["verdict"], &verdict["codes"]),
                (&json!("ERROR"), &json!([code])),
                "{console}"
            );
            let mark = fs::read_to_string(after.path(MARK)).unwrap();
            assert!(mark.contains("step=recover "), "{mark}");
            m = after.again();
        }
        let (_, m, console) = m.cmdline("firstlight.reset=clear").boot().down();
        assert_eq!(
            json(&m, "verdict.json")["codes"][0],
            json!("RECOVERY-FAILED"),
            "{console}"
        );
        assert!(
            console.contains("reset     firstlight.reset=clear: no mark is left"),
            "{console}"
        );
    }
}

#[test]
fn a_machine_that_cannot_count_its_reboots_is_not_rebooted() {
    // The tests put a folder in the place of the mark, to simulate a firmware that no longer accepts writes.
    let m = machine("reboot", "reboot", 0).variables();
    let script = fs::read_to_string(m.path("usr/bin/firstlight")).unwrap();
    let place = "/sys/firmware/efi/efivars/FirstlightMark-6e0f3c1a-52d4-4b0e-9a77-c8d15b2f94e3";
    let spoilt = script.replace(
        "report FAIL fail\n",
        &format!("report FAIL fail\nrm {place}; mkdir -p {place}/x\n"),
    );
    let unwritable = m.program("usr/bin/firstlight", &spoilt);
    for (m, why) in [
        (
            machine("reboot", "reboot", 0),
            "not rebooted, because there is no place for a mark",
        ),
        (
            unwritable,
            "not rebooted, because the mark could not be written",
        ),
    ] {
        let (down, m, console) = m.boot().held_or_down();
        assert_eq!(down, Down::PoweredOff, "{console}");
        let cause = json(&m, "verdict.json")["cause"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(cause.contains(why), "{cause}");
        assert_eq!(climbed(&m), (Vec::new(), json!("gave-up")), "{console}");
        assert!(!console.contains("WORKLOAD"), "{console}");
    }
}

fn strings(parts: &[&[&str]]) -> Vec<String> {
    parts
        .concat()
        .iter()
        .map(|word| (*word).to_owned())
        .collect()
}
