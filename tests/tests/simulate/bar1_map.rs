//! Two simulated RTX 5090 with NVIDIA's own driver, on a modelled machine with the keys for peers through BAR1: the
//! driver's map of all memory, which a console keeps out of BAR1 or moves, is predicted and is the first cause; without
//! the console nothing is found. No such board has run these tests. `cargo test --test simulate bar1_map` runs them.

use harness::simgpu::{Scenario, ValidatorRun, validate};
use serde_json::Value;

/// The keys without and with the map forced.
const AUTO: &str = "ForceP2P=17;RMPcieP2PType=1";
const FORCED: &str = "ForceP2P=17;RMPcieP2PType=1;RMForceStaticBar1=1";
/// What programs map without the driver's map, MiB.
const LITTLE: i64 = 5;

/// The scenario on two such boards; `console`: the firmware's is on the first, of whose BAR1 NVML counts `used` MiB if
/// any are given.
fn two_5090(
    name: &str,
    (driver, keys): (&'static str, &'static str),
    console: bool,
    used: Option<i64>,
) -> Scenario {
    let addresses = vec!["0000:01:00.0".to_owned(), "0000:02:00.0".to_owned()];
    let (memory, kept) = (32_607_i64, 511_i64);
    let scenario = Scenario::named(name).unwrap().gpus(2).pair(0, 1);
    let scenario = scenario
        .machine("bdf", addresses)
        .machine("sockets", 1)
        .machine("name", "NVIDIA GeForce RTX 5090")
        .machine("driver", driver)
        .machine("capability", vec![12, 0])
        .machine("pci_ids", vec![0x2b85_10de_i64, 0x2057_10de])
        .machine("memory_mib", memory)
        .machine("reserved_mib", kept);
    let scenario = match used {
        Some(mib) => scenario.machine("bar1_used_mib", vec![mib, memory - kept]),
        None => scenario,
    };
    scenario.within(machines::stock_5090(driver, keys, console))
}

/// The run, the codes of its causes, and what was expected of a pair and why.
fn judged(scenario: &Scenario) -> (ValidatorRun, Vec<String>, String) {
    let judged = validate(scenario, &["--level", "quick"]).unwrap();
    let causes = judged.report.0["causes"].as_array().unwrap();
    let codes = causes
        .iter()
        .map(|cause| cause["code"].as_str().unwrap().to_owned())
        .collect();
    let tests = judged.report.0["tests"].as_array().unwrap();
    let capability = tests
        .iter()
        .find(|test| test["id"] == "p2p-capability")
        .unwrap();
    let row = &capability["tables"][0]["rows"][0];
    let expected = format!("{}: {}", row[1].as_str().unwrap(), row[4].as_str().unwrap());
    (judged, codes, expected)
}

fn remedy(judged: &ValidatorRun) -> &str {
    judged.report.0["causes"][0]["remedy"].as_str().unwrap()
}

#[test]
fn without_a_console_the_map_fits_and_peers_are_expected_and_work() {
    let (judged, codes, expected) = judged(&two_5090("healthy", ("595.45.04", AUTO), false, None));
    assert_eq!(
        expected,
        "access: through BAR1: driver, keys and static maps are as they must be"
    );
    for id in ["bar1", "bar1-static", "p2p-capability", "p2p-integrity"] {
        assert_eq!(judged.report.outcome(id), "pass", "{id}\n{}", judged.text);
    }
    assert!(
        !codes.iter().any(|code| code.starts_with("BAR1")),
        "{codes:?}\n{}",
        judged.text
    );
}

#[test]
fn a_console_without_room_for_the_map_is_the_first_cause_of_data_that_does_not_arrive() {
    let (judged, codes, expected) =
        judged(&two_5090("zeros", ("595.45.04", AUTO), true, Some(LITTLE)));
    assert_eq!(
        (judged.verdict(), codes[0].as_str()),
        ("FAIL", "BAR1-MAP-SHORT"),
        "{codes:?}\n{}",
        judged.text
    );
    assert!(
        expected
            .starts_with("claims without delivery: BAR1 of a GPU is at least 362 MiB too small"),
        "{expected}"
    );
    assert!(
        expected.contains("because a console takes its first 512 MiB"),
        "{expected}"
    );
    let remedy = remedy(&judged);
    assert!(
        remedy.contains("release it") && remedy.contains("RMForceStaticBar1=1"),
        "{remedy}"
    );
    let symptoms = judged.report.0["causes"][0]["symptoms"].as_array().unwrap();
    let has = |code: &str| symptoms.iter().any(|symptom| symptom["code"] == code);
    assert!(
        has("BAR1-NOT-STATIC") && has("P2P-WRONG-DATA"),
        "{symptoms:?}\n{}",
        judged.text
    );
}

#[test]
fn the_forced_map_fits_beside_a_console() {
    let (judged, codes, expected) = judged(&two_5090("healthy", ("595.45.04", FORCED), true, None));
    assert!(expected.starts_with("access: "), "{expected}");
    for id in ["bar1", "bar1-static", "p2p-capability", "p2p-integrity"] {
        assert_eq!(judged.report.outcome(id), "pass", "{id}\n{}", judged.text);
    }
    assert!(
        !codes.iter().any(|code| code.starts_with("BAR1")),
        "{codes:?}\n{}",
        judged.text
    );
}

#[test]
fn before_580_a_console_moves_the_map_to_where_the_driver_refuses_peers() {
    let (judged, codes, _) = judged(&two_5090(
        "enable-refused",
        ("575.64.05", FORCED),
        true,
        None,
    ));
    assert_eq!(
        (judged.verdict(), codes[0].as_str()),
        ("FAIL", "BAR1-MAP-MISALIGNED"),
        "{codes:?}\n{}",
        judged.text
    );
    let cause = &judged.report.0["causes"][0];
    assert!(
        cause["cause"].as_str().unwrap().contains("console fb0"),
        "{cause}"
    );
    assert!(
        cause["symptoms"]
            .as_array()
            .unwrap()
            .iter()
            .any(|s| s["code"] == "P2P-REFUSED"),
        "{cause}"
    );
    assert!(
        remedy(&judged).contains("release it") && remedy(&judged).contains("driver 580"),
        "{}",
        remedy(&judged)
    );
    // The same refusal without a console has another cause.
    let (judged, codes, _) = self::judged(&two_5090(
        "enable-refused",
        ("575.64.05", FORCED),
        false,
        None,
    ));
    assert_eq!(
        (judged.verdict(), codes[0].as_str()),
        ("FAIL", "P2P-REFUSED"),
        "{codes:?}\n{}",
        judged.text
    );
}

/// What is known of the versions is information, and a possible cause behind all others.
#[test]
fn a_known_problem_is_information_and_a_possible_cause_of_a_failure_alone() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let rows = "[[problem]]\nid = 'made-up'\nsays = 'data is lost between two of these GPUs'\n\
        thread = 'https://example.org/threads/1'\nread = '2026-11-27'\ngpus = ['RTX 5090']\n\
        driver = { from = '595', fixed = '595.50' }\ntests = ['p2p-integrity']\n";
    std::fs::write(file.path(), rows).unwrap();
    let set = [format!("validate.known_problems={}", file.path().display())];
    let run = |name: &str, driver| {
        validate(
            &two_5090(name, (driver, AUTO), false, None).set(&set),
            &["--level", "quick"],
        )
    };
    let known = |judged: &ValidatorRun| judged.report.0["known_problems"].clone();
    // Without the file, and with it: the same verdict, causes and tests.
    let plain = validate(
        &two_5090("healthy", ("595.45.04", AUTO), false, None),
        &["--level", "quick"],
    )
    .unwrap();
    let healthy = run("healthy", "595.45.04").unwrap();
    let of = |judged: &ValidatorRun| {
        let tests = judged.report.0["tests"].as_array().unwrap();
        let tests: Vec<_> = tests
            .iter()
            .map(|t| (t["id"].clone(), t["outcome"].clone()))
            .collect();
        let causes = judged.report.0["causes"].as_array().unwrap();
        let causes: Vec<_> = causes
            .iter()
            .map(|cause| (cause["code"].clone(), cause["remedy"].clone()))
            .collect();
        (judged.status, causes, tests)
    };
    assert_eq!((of(&plain), known(&plain)), (of(&healthy), Value::Null));
    assert_eq!(
        known(&healthy)[0]["seen"],
        "driver 595.45.04, Simulated NVIDIA GeForce RTX 5090"
    );
    let line = "KNOWN    driver 595.45.04, Simulated NVIDIA GeForce RTX 5090: data is lost";
    assert!(
        healthy.text.contains(line) && !plain.text.contains("KNOWN"),
        "{}",
        healthy.text
    );
    // A failure quotes it last, and its own cause and remedy stay first.
    let failed = run("zeros", "595.45.04").unwrap();
    let cause = &failed.report.0["causes"][0];
    assert_eq!(
        (&cause["code"], &cause["known_problems"][0]["id"]),
        (&"P2P-WRONG-DATA".into(), &"made-up".into()),
        "{cause}"
    );
    assert!(
        !cause["remedy"].to_string().contains("made-up")
            && !cause["cause"].to_string().contains("lost"),
        "{cause}"
    );
    assert!(
        failed
            .text
            .contains("known   possible, and not shown by any test: driver"),
        "{}",
        failed.text
    );
    // It has ended with the fix.
    assert_eq!(known(&run("zeros", "595.58.03").unwrap()), Value::Null);
}
