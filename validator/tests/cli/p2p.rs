//! `p2p` as a command: the plan of a modelled machine, and that no figures come from one.

use super::machine::Machine;
use serde_json::Value;

#[test]
fn the_plan_of_a_modelled_machine_needs_no_driver() {
    let plan = Machine::modelled("switch-acs").run("p2p --plan");
    assert_eq!(plan.status, 0, "{}", plan.err);
    // ACS sends every pair up to the root port.
    assert!(plan.out.contains("each direction alone: 6 pairs of 3 GPUs in 6 rounds\n"), "{}", plan.out);
    assert!(plan.out.contains("\n  all pairs share 0000:00:02.0\n"), "{}", plan.out);
    assert!(plan.out.lines().all(|l| l.chars().count() <= 80), "{}", plan.out);
}

#[test]
fn the_plan_is_data_too() {
    let out = Machine::modelled("epyc-8x4090").run("p2p --plan --json -").out;
    let plan: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(plan["schema"], "firstlight.p2p-plan/1");
    assert_eq!(plan["ordered"]["rounds"].as_array().unwrap().len(), 56);
    assert_eq!(plan["unordered"]["shared"][0]["resource"], "the interconnect between NUMA nodes");
}

#[test]
fn a_modelled_machine_proves_nothing_about_its_gpus() {
    let run = Machine::modelled("epyc-8x4090").run("p2p");
    assert_eq!(run.status, 2, "{}", run.err);
    assert!(!run.out.contains("P2P Connectivity Matrix"), "{}", run.out);
}
