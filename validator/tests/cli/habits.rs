//! What people type and see, whatever the command: where results go, what is refused before the first test, colors, names.

use super::machine::{Machine, Run, firstlight, run_of};
use serde_json::Value;
use std::fs;

fn with(words: &[&str]) -> Run {
    run_of(firstlight("").args(words).output().unwrap())
}

#[test]
fn json_without_a_file_is_all_of_standard_output() {
    let machine = Machine::modelled("epyc-8x4090");
    for words in [
        "validate --scope fabric --json",
        "fabric show --json",
        "fabric plan --json",
        "topo --json",
        "p2p --plan --json",
    ] {
        let run = machine.run(words);
        assert_eq!((run.status, run.err.as_str()), (0, ""), "{words}");
        assert!(
            serde_json::from_str::<Value>(&run.out).is_ok(),
            "{words}: {}",
            run.out
        );
    }
}

/// The report of an hour was lost by a misspelt folder.
#[test]
fn a_place_that_cannot_be_written_is_refused_before_anything_is_done_and_the_old_file_stays() {
    let machine = Machine::modelled("epyc-8x4090-before");
    let nowhere = machine.at("nowhere/r.json").display().to_string();
    let good = machine.at("good.json").display().to_string();
    fs::write(&good, "old").unwrap();
    for words in [
        format!("validate --json {nowhere}"),
        format!("validate --html {nowhere} --json {good}"),
        format!("validate --text {nowhere}"),
        "validate --json=".to_owned(),
        format!("fabric fix --json {nowhere}"),
        format!("p2p --json {nowhere}"),
        format!("p2p --html {nowhere} --json {good}"),
        format!("nccl all_reduce --json {nowhere}"),
        format!("record {nowhere}"),
    ] {
        let run = machine.run(&words);
        assert_eq!(
            (run.status, run.out.as_str()),
            (64, ""),
            "{words}: {}",
            run.err
        );
        assert!(
            run.err.contains("cannot be written") && run.err.lines().count() == 1,
            "{words}: {}",
            run.err
        );
    }
    assert_eq!(fs::read_to_string(&good).unwrap(), "old");
    assert!(
        !machine.at("run/firstlight/fabric.json").exists(),
        "fabric fix has begun"
    );
}

#[test]
fn validate_writes_three_forms_at_once_and_two_never_share_a_place() {
    let machine = Machine::modelled("narrow-link");
    let at = |name: &str| machine.at(name).display().to_string();
    let run = machine.run(&format!(
        "validate --scope fabric --json {} --text {} --html {}",
        at("r.json"),
        at("r.txt"),
        at("r.html")
    ));
    assert_eq!((run.status, run.out.as_str()), (3, ""), "{}", run.err);
    let read = |name: &str| fs::read_to_string(machine.at(name)).unwrap();
    assert!(read("r.html").contains("<title>firstlight: DEGRADED of fabric, "));
    assert!(
        read("r.txt").contains("\nVERDICT  DEGRADED")
            && read("r.json").contains("\"verdict\": \"DEGRADED\"")
    );
    let page = machine.run("validate --scope fabric --html -");
    assert!(
        page.out.starts_with("<!DOCTYPE html>") && page.out.trim_end().ends_with("</html>"),
        "{}",
        page.out
    );
    for words in [
        format!("--json {0} --html {0}", at("x")),
        "--json --html -".to_owned(),
    ] {
        let run = machine.run(&format!("validate --scope fabric {words}"));
        assert_eq!(run.status, 64, "{}", run.out);
        assert!(
            run.err.contains("--json") && run.err.contains("--html"),
            "{}",
            run.err
        );
    }
}

#[test]
fn p2p_writes_its_report_as_a_page_too() {
    let machine = Machine::modelled("epyc-8x4090");
    let at = |name: &str| machine.at(name).display().to_string();
    let run = machine.run(&format!(
        "p2p --json {} --html {}",
        at("r.json"),
        at("r.html")
    ));
    let page = fs::read_to_string(machine.at("r.html")).unwrap();
    assert!(
        page.contains("<title>firstlight: ERROR of only:cuda,p2p-capability,p2p-integrity,"),
        "{page}"
    );
    assert!(
        run.status == 2 && run.out.contains(&format!("report {}", at("r.json"))),
        "{}{}",
        run.out,
        run.err
    );
    let page = machine.run("p2p --html").out;
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"),
        "{page}"
    );
    for words in [
        format!("--json {0} --html {0}", at("x")),
        "--json --html".to_owned(),
        "--plan --html".to_owned(),
    ] {
        let run = machine.run(&format!("p2p {words}"));
        assert_eq!(
            (run.status, run.out.as_str(), run.err.lines().count()),
            (64, "", 1),
            "{words}: {}",
            run.err
        );
    }
    assert!(!machine.at("x").exists());
}

#[test]
fn a_report_is_rendered_by_the_name_of_the_file_and_never_over_itself() {
    let machine = Machine::modelled("epyc-8x4090");
    let at = |name: &str| machine.at(name).display().to_string();
    machine.run(&format!("validate --scope fabric --json {}", at("r.json")));
    assert_eq!(
        with(&["render", &at("r.json"), "-o", &at("r.html")]).status,
        0
    );
    assert!(
        fs::read_to_string(machine.at("r.html"))
            .unwrap()
            .contains("<title>firstlight: PASS")
    );
    let before = fs::read_to_string(machine.at("r.json")).unwrap();
    for words in [
        &["render", &at("r.json"), "--to", "html", "-o", &at("r.json")][..],
        &["render", &at("r.json"), "-o", &at("r.pdf")],
        &["compare", "--json", &at("r.json"), &at("r.json")],
    ] {
        let run = with(words);
        assert_eq!(
            (run.status, run.out.as_str(), run.err.lines().count()),
            (64, "", 1),
            "{}",
            run.err
        );
    }
    assert_eq!(fs::read_to_string(machine.at("r.json")).unwrap(), before);
}

#[test]
fn settings_count_on_both_sides_of_the_command() {
    let machine = Machine::modelled("epyc-8x4090");
    machine.write("a.toml", "[validate]\nlevel = \"full\"\n");
    let file = machine.at("a.toml").display().to_string();
    let level = |words: &str| {
        let out = machine.run(words).out;
        serde_json::from_str::<Value>(&out).unwrap_or_else(|e| panic!("{words}: {e}: {out}"))["level"].clone()
    };
    let run = "validate --scope fabric --skip image --json";
    assert_eq!(level(&format!("{run} --config {file}")), "full");
    assert_eq!(
        level(&format!("{run} --config {file} --set validate.level=quick")),
        "quick"
    );
    assert_eq!(
        level(&format!("--set validate.level=quick {run} --config {file}")),
        "quick"
    );
    let wrong = machine.run("validate --set validate.level=fast");
    assert_eq!(
        (wrong.status, wrong.out.as_str()),
        (64, ""),
        "{}",
        wrong.err
    );
}

#[test]
fn colors_are_for_terminals_or_asked_for() {
    let machine = Machine::modelled("epyc-8x4090");
    let plain = machine.run("validate --scope fabric");
    assert!(!plain.out.contains('\u{1b}'), "{}", plain.out);
    let colored = machine.run("validate --scope fabric --color always");
    for part in [
        "\u{1b}[32mPASS\u{1b}[0m",
        "\u{1b}[1mANSWER   \u{1b}[0m",
        "\u{1b}[1mVERDICT  \u{1b}[0m",
    ] {
        assert!(colored.out.contains(part), "{part:?}: {}", colored.out);
    }
    assert!(
        colored
            .out
            .lines()
            .last()
            .unwrap()
            .starts_with("FIRSTLIGHT verdict=PASS "),
        "{}",
        colored.out
    );
    let json = machine.run("validate --scope fabric --color always --json");
    assert!(!json.out.contains('\u{1b}') && machine.run("--color maybe validate").status == 64);
}

/// `GPU 3` of a finding is a card that somebody can pull.
#[test]
fn the_gpus_come_first_with_number_address_slot_and_model() {
    let machine = Machine::modelled("epyc-8x4090");
    let line = "  GPU 1  0000:25:00.0  slot 37   NVIDIA GeForce RTX 4090  GPU-00000000\n";
    for words in [
        "validate --scope fabric",
        "p2p",
        "fabric show",
        "fabric plan",
        "topo",
        "p2p --plan",
    ] {
        let out = machine.run(words).out;
        assert_eq!(out.matches(line).count(), 1, "{words}: {out}");
    }
    let machine = Machine::modelled("rtx5090-unbound");
    let unnamed = machine.run("fabric show").out;
    assert!(
        unnamed.contains("  GPU 0  ") && unnamed.contains("  NVIDIA GPU\n"),
        "{unnamed}"
    );
    machine.write(
        "usr/share/misc/pci.ids",
        "10de  NVIDIA Corporation\n\t2b85  GB202 [GeForce RTX 5090]\n",
    );
    for words in ["fabric show", "topo", "validate --scope fabric"] {
        let out = machine.run(words).out;
        assert!(
            out.contains("  NVIDIA GeForce RTX 5090\n"),
            "{words}: {out}"
        );
    }
}

#[test]
fn a_machine_without_a_gpu_is_told_so_by_every_command_that_needs_one() {
    let machine = Machine::small();
    for words in [
        "p2p",
        "p2p --gpus 0",
        "validate --gpus 0",
        "p2p --plan",
        "topo",
        "topo --json",
    ] {
        let run = machine.run(words);
        assert_eq!((run.status, run.out.as_str()), (2, ""), "{words}");
        assert_eq!(
            run.err, "firstlight: GPU-NONE: there is no NVIDIA GPU\n",
            "{words}"
        );
    }
    let show = machine.run("fabric show");
    assert!(
        show.status == 0 && show.err.contains("GPU-NONE"),
        "{}",
        show.err
    );
    let rows = machine.run("validate").out;
    assert!(rows.lines().any(|l| l.starts_with("  N/A    ")
        && l.contains(" tests ")
        && l.contains("no NVIDIA GPU: ")));
}

#[test]
fn a_root_of_nothing_is_wrong_use_and_a_recording_has_its_own_name() {
    for words in [
        "--root /nope validate",
        "fabric show --root /nope.txt",
        "p2p --root /nope",
    ] {
        let run = run_of(firstlight(words).output().unwrap());
        assert_eq!(
            (run.status, run.out.as_str(), run.err.lines().count()),
            (64, "", 1),
            "{}",
            run.err
        );
        assert!(
            run.err.contains("there is no such file or folder"),
            "{}",
            run.err
        );
    }
    let machine = Machine::modelled("epyc-8x4090");
    let file = machine.at("node7.txt").display().to_string();
    assert_eq!(machine.run(&format!("record {file}")).status, 0);
    for words in [
        &["fabric", "show"][..],
        &["fabric", "plan"],
        &["validate", "--scope", "fabric"],
    ] {
        let run = with(&[&["--root", file.as_str()], words].concat());
        let first = run.out.lines().next().unwrap_or_default().to_owned();
        assert!(
            first.ends_with(&format!("the machine in {file}")),
            "{first}"
        );
    }
}

#[test]
fn the_program_alone_prints_its_help_and_no_hidden_command() {
    let run = run_of(firstlight("").output().unwrap());
    assert_eq!((run.status, run.out.as_str()), (64, ""));
    assert!(
        run.err.contains("\nUsage: firstlight ") && run.err.contains("\n  validate "),
        "{}",
        run.err
    );
    for hidden in ["worker", "reducer", "verbs", "partner"] {
        assert!(!run.err.contains(hidden), "{}", run.err);
    }
    let manual = run_of(firstlight("man").output().unwrap()).out;
    for section in ["\"EXIT STATUS\"", "FILES", "ENVIRONMENT", "EXAMPLES"] {
        assert_eq!(
            manual
                .lines()
                .filter(|line| *line == format!(".SH {section}"))
                .count(),
            1,
            "{section}"
        );
    }
}
