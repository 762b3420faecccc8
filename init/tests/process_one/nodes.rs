//! The stage `nodes`: only where it is configured, with every way in which the meeting can end.

use super::CONFIG;
use super::namespace::{Machine, PASS, is_validated, json, scraper_lines};
use serde_json::{Value, json};
use std::fs;

/// The validator of these tests: the machine passes, and `nodes` does what the test wrote.
fn boot(nodes: &str, cmdline: &str) -> (Machine, String) {
    let report = "nodes() { echo '{\"schema\":\"firstlight.nodes/1\",\"verdict\":\"'$1'\",\
                  \"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"findings\":\
                  [{\"code\":\"'${2:-NODES-PATH}'\",\"severity\":\"fail\"}]}' > /run/firstlight/nodes.json; }";
    let validator =
        format!("{report}\ncase \"$*\" in *\"nodes --json\"*)\n{nodes}\n;; esac\n{PASS}");
    let config = format!("{CONFIG}on_degraded = \"workload\"\n[network]\ntimeout_s = 1\n");
    let m = Machine::new(&validator, &config)
        .workload("echo workload started: $FIRSTLIGHT_NODES_VERDICT")
        .cmdline(cmdline);
    let (_, m, console) = m.boot().down();
    assert_eq!(scraper_lines(&console).len(), 1, "{console}");
    (m, console)
}

const MARK: &str = "variables/FirstlightMark-6e0f3c1a-52d4-4b0e-9a77-c8d15b2f94e3";
const SIZE: &str = "firstlight.nodes.size=2";

fn nodes(m: &Machine) -> Value {
    json(m, "verdict.json")["nodes"].clone()
}

#[test]
fn without_a_size_there_is_no_stage_and_no_key() {
    let (m, console) = boot("echo never; exit 1", "firstlight.nodes.timeout_s=5");
    assert!(
        !console.contains("never") && !console.contains("\nnodes "),
        "{console}"
    );
    assert!(json(&m, "verdict.json").get("nodes").is_none());
    assert!(!scraper_lines(&console)[0].contains("nodes="), "{console}");
    let env = fs::read_to_string(m.path("run-outside/firstlight/env")).unwrap();
    assert!(!env.contains("FIRSTLIGHT_NODES_VERDICT"), "{env}");
    assert!(
        console.contains("workload started:") && is_validated(&m),
        "{console}"
    );
}

#[test]
fn nodes_that_pass_let_the_workload_start_and_it_knows() {
    let (m, console) = boot("nodes PASS; echo 'VERDICT  PASS'; exit 0", SIZE);
    assert!(console.contains("workload started: PASS"), "{console}");
    assert!(
        console.contains("nodes: VERDICT  PASS") && is_validated(&m),
        "{console}"
    );
    assert_eq!(
        (&nodes(&m)["verdict"], &nodes(&m)["nodes"]),
        (&json!("PASS"), &json!(["a", "b"]))
    );
    let line = "FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=0.1 nodes=PASS";
    assert_eq!(scraper_lines(&console), [line]);
}

/// The settings of nodes.json are requested if the verdict on the nodes is good.
#[test]
fn the_workload_gets_what_passed_between_the_nodes() {
    for (verdict, status, passed) in [("PASS", 0, true), ("DEGRADED", 3, true), ("FAIL", 1, false)]
    {
        let (m, console) = boot(&format!("nodes {verdict}; exit {status}"), SIZE);
        let env = fs::read_to_string(m.path("run-outside/firstlight/env")).unwrap();
        let has = env.lines().any(|line| line == "NCCL_IB_HCA==mlx5_0:1");
        assert_eq!(has, passed, "{verdict}: {env}\n{console}");
    }
}

/// A wide table would break the lines of a console.
#[test]
fn rows_are_shown_and_wide_tables_are_not() {
    let (_, console) = boot(
        &format!(
            "echo '  PASS   nodes-pairs'; echo '{}'; nodes PASS; exit 0",
            "0 ".repeat(60)
        ),
        SIZE,
    );
    assert!(
        console.contains("  PASS   nodes-pairs\n") && !console.contains("0 0 0 0"),
        "{console}"
    );
}

#[test]
fn a_node_that_meets_no_other_is_an_error_with_its_code() {
    let (m, console) = boot("nodes ERROR NODES-ABSENT; exit 2", SIZE);
    assert!(
        !console.contains("workload started") && !is_validated(&m),
        "{console}"
    );
    assert_eq!(
        (&nodes(&m)["verdict"], &nodes(&m)["codes"]),
        (&json!("ERROR"), &json!(["NODES-ABSENT"]))
    );
    assert_eq!(json(&m, "verdict.json")["verdict"], json!("PASS"));
    assert!(
        scraper_lines(&console)[0].ends_with(" nodes=ERROR"),
        "{console}"
    );
}

#[test]
fn the_machines_verdict_stays_and_the_policy_follows_the_worse_one() {
    let (m, console) = boot("nodes FAIL; exit 1", SIZE);
    assert!(
        !console.contains("workload started") && !is_validated(&m),
        "{console}"
    );
    assert!(
        console.contains("PASS, nodes FAIL: policy.on_fail = poweroff"),
        "{console}"
    );
    assert_eq!(json(&m, "verdict.json")["verdict"], json!("PASS"));
    let expected = json!({ "verdict": "FAIL", "cause": null, "codes": ["NODES-PATH"], "exit_status": 1, "nodes": ["a", "b"] });
    assert_eq!(nodes(&m), expected);
}

#[test]
fn whatever_is_no_verdict_is_an_error_with_its_cause() {
    for (does, cause) in [
        (
            "nodes PASS; kill -9 $$",
            "firstlight nodes was killed by signal 9",
        ),
        (
            "nodes FAIL; exit 0",
            "nodes.json has firstlight.nodes/1 FAIL, the exit status is that of PASS",
        ),
        (
            "echo broken > /run/firstlight/nodes.json; exit 0",
            "nodes.json: ",
        ),
        ("exit 0", "nodes.json: No such file"),
        (
            "echo the token is missing >&2; exit 64",
            "the token is missing",
        ),
    ] {
        let (m, console) = boot(does, SIZE);
        assert!(!console.contains("workload started"), "{console}");
        assert_eq!(nodes(&m)["verdict"], json!("ERROR"), "{console}");
        let said = nodes(&m)["cause"].as_str().unwrap_or_default().to_owned();
        assert!(said.contains(cause), "{said}\n{console}");
    }
}

#[test]
fn a_machine_that_fails_by_itself_does_not_meet_the_others() {
    let m = Machine::new(
        "case \"$*\" in *\"nodes --json\"*) echo never ;; esac\nreport FAIL fail\nexit 1",
        CONFIG,
    );
    let (_, m, console) = m
        .cmdline("firstlight.nodes.size=2 firstlight.network.timeout_s=1")
        .boot()
        .down();
    assert!(!console.contains("never"), "{console}");
    assert_eq!(nodes(&m)["cause"], json!("not run: this machine is FAIL"));
}

/// The GPUs of a machine that was reset during the tests between them are not used together again.
#[test]
fn a_machine_that_was_reset_does_not_meet_the_others() {
    let validator = format!("case \"$*\" in *\"nodes --json\"*) echo never ;; esac\n{PASS}");
    let m = Machine::new(&validator, CONFIG).variables();
    let mark = contract::mark::Mark {
        step: contract::mark::Step::PeerWrite,
        image: None,
        boot: None,
        finding: None,
        count: 0,
    };
    let bytes = [
        &contract::mark::ATTRIBUTES.to_le_bytes()[..],
        mark.text().as_bytes(),
    ]
    .concat();
    let m = m.file(MARK, bytes);
    let (_, m, console) = m
        .cmdline("firstlight.nodes.size=2 firstlight.network.timeout_s=1")
        .boot()
        .held_or_down();
    assert!(
        console.contains("RESET-DURING peer-write") && !console.contains("never"),
        "{console}"
    );
    assert_eq!(
        nodes(&m)["cause"],
        json!("not run: this machine is ERROR"),
        "{console}"
    );
}

#[test]
fn a_reset_while_the_nodes_work_together_is_named_and_they_do_not_meet_again() {
    let nodes = |does: &str| format!("case \"$*\" in *\"nodes --json\"*) {does} ;; esac\n{PASS}");
    let words = "firstlight.nodes.size=2 firstlight.network.timeout_s=1";
    let m = Machine::new(&nodes("sleep 600"), CONFIG)
        .variables()
        .cmdline(words);
    let firstlight = m.path("usr/bin/firstlight");
    let mut running = m.boot();
    running.until_file(MARK, "step=nodes ");
    let m = running.reset();
    let good = fs::read_to_string(&firstlight)
        .unwrap()
        .replace("sleep 600", "echo never");
    let (_, m, console) = m.program("usr/bin/firstlight", &good).boot().held_or_down();
    assert!(
        console.contains("RESET-DURING nodes") && !console.contains("never"),
        "{console}"
    );
    assert_eq!(
        self::nodes(&m)["cause"],
        json!("not run: this machine is ERROR"),
        "{console}"
    );
}
