//! The program on simulated GPUs, on this host: does each scenario and each class of faults get its verdict?
//! Needs only cargo. `cargo test --test simulate NAME` runs the tests whose names contain NAME.

mod bar1_map;
mod nodes;
mod rdma;
mod scenarios;
mod verdict;

use harness::workspace;
use std::process::{Command, Output};

/// A part of the matrix of faults and healthy machines: each class of faults once, at the lowest level that claims to
/// find it, by the tests that find it alone, and the smaller healthy machines. `./run matrix` runs all of it.
mod matrix {
    use harness::matrix::{Selection, cases, counts, run, table};

    #[test]
    fn in_a_part_of_the_matrix_no_fault_passes_and_no_healthy_machine_fails() {
        let cases = cases(&Selection {
            part: true,
            ..Selection::default()
        })
        .unwrap();
        assert!(cases.len() >= 50, "only {} cases", cases.len());
        let results = run(&cases, 2, |_, _| {});
        let wrong: Vec<_> = results
            .iter()
            .filter(|r| !r.assessment.is_right())
            .map(|r| &r.text)
            .collect();
        let counts = counts(&results);
        assert!(
            counts.all_right(),
            "{}\n{counts}\n{wrong:#?}",
            table(&results)
        );
    }
}

fn simulate(words: &[&str]) -> Output {
    Command::new(workspace().join("tests/simulate.sh"))
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn a_scenario_is_judged_and_the_exit_status_is_that_of_the_verdict() {
    for (words, status, verdict) in [
        (["healthy", "quick"], 0, "PASS"),
        (["zeros", "quick"], 1, "FAIL"),
    ] {
        let output = simulate(&words);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            text.starts_with(&format!("Simulated: scenario {}: ", words[0])),
            "{text}"
        );
        assert!(text.contains("x Simulated NVIDIA"), "{text}");
        assert!(
            text.lines()
                .last()
                .unwrap()
                .starts_with(&format!("FIRSTLIGHT verdict={verdict} ")),
            "{text}"
        );
    }
}

#[test]
fn an_unknown_scenario_gives_one_line_with_the_nearest_names() {
    let output = simulate(&["helthy"]);
    let text = String::from_utf8_lossy(&output.stderr);
    let expected = "simulate: there is no scenario 'helthy'; the nearest are healthy, ";
    assert!(text.lines().last().unwrap().starts_with(expected), "{text}");
    assert_eq!(
        (output.status.code(), output.stdout),
        (Some(64), Vec::new())
    );
}

#[test]
fn an_unknown_level_is_a_usage_error() {
    assert_eq!(simulate(&["healthy", "fast"]).status.code(), Some(64));
}

#[test]
fn the_list_has_every_scenario_with_its_description() {
    let text = String::from_utf8(simulate(&["list"]).stdout).unwrap();
    assert!(text.lines().count() > 50, "{text}");
    assert!(
        text.contains("\nhealthy              The reference machine, with nothing wrong: PASS.\n"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.split_whitespace().count() > 3),
        "{text}"
    );
}
