//! Correct and wrong command lines.

use super::*;
use clap::CommandFactory;

fn of(line: &str) -> Result<Args, NoArgs> {
    parse(format!("firstlight {line}").split(' ').map(OsString::from))
}

fn wrong(line: &str) -> String {
    match of(line) {
        Err(NoArgs::Wrong(why)) => why,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_description_of_the_command_line_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn layers_go_on_both_sides_of_the_command_and_keep_their_order() {
    let args = of("--config a --config b --set x.y=1 validate --root /r --only acs,iommu --json -")
        .unwrap();
    assert_eq!(args.config, ["a", "b"].map(PathBuf::from));
    assert_eq!(
        (args.root, args.set),
        (Some("/r".into()), vec!["x.y=1".to_owned()])
    );
    let Command::Validate(validate) = args.command else {
        panic!()
    };
    assert_eq!(validate.only, ["acs", "iommu"]);
    assert_eq!(validate.json, Some(Place::Stdout));
    let args = of("--config a --set x.y=1 fabric --config b show --set x.z=2 --config c").unwrap();
    assert_eq!(args.config, ["a", "b", "c"].map(PathBuf::from));
    assert_eq!(args.set, ["x.y=1", "x.z=2"]);
    assert_eq!(of("topo --root /r").unwrap().root, Some("/r".into()));
    assert!(wrong("--root /a topo --root /b").contains("--root"));
    assert_eq!(of("topo --color never").unwrap().color, ColorChoice::Never);
    assert_eq!(
        of("--color always topo").unwrap().color,
        ColorChoice::Always
    );
}

#[test]
fn json_without_a_file_goes_to_standard_output_and_takes_no_argument() {
    let file = |path: &str| Some(Place::File(path.into()));
    let json = |line: &str| match of(line)
        .unwrap_or_else(|why| panic!("{line}: {why:?}"))
        .command
    {
        Command::Validate(asked) => asked.json,
        Command::Nccl(asked) => asked.json,
        Command::List { json, .. }
        | Command::Baseline {
            action: Baseline::Compare { json, .. },
        } => json,
        Command::Compare(asked) => asked.json,
        other => panic!("{other:?}"),
    };
    for line in [
        "validate --json",
        "validate --json --level quick",
        "list --json",
        "validate --json=-",
        "validate --json -",
    ] {
        assert_eq!(json(line), Some(Place::Stdout), "{line}");
    }
    for line in [
        "nccl --json all_reduce",
        "nccl -J all_reduce -g 2",
        "nccl all_reduce --json",
        "compare --json rack",
    ] {
        assert_eq!(json(line), Some(Place::Stdout), "{line}");
    }
    assert_eq!(json("baseline compare --json b r"), Some(Place::Stdout));
    assert!(wrong("nccl --json all_reduced").contains("'all_reduced' is not a collective"));
    assert!(wrong("nccl --json").contains("<COLLECTIVE>"));
    for line in [
        "validate --json x",
        "validate --json=x",
        "nccl --json x all_reduce",
        "nccl -J x all_reduce",
        "compare --json x r",
    ] {
        assert_eq!(json(line), file("x"), "{line}");
    }
}

#[test]
fn without_a_command_the_help_is_shown_and_hidden_commands_never() {
    for line in ["fabric", "baseline"] {
        assert!(
            matches!(of(line), Err(NoArgs::Unsaid(help)) if help.contains("Usage: firstlight")),
            "{line}"
        );
    }
    let Err(NoArgs::Unsaid(help)) = parse(["firstlight".into()]) else {
        panic!()
    };
    assert!(help.contains("  validate ") && !help.contains("worker"));
    for line in ["version", "verb", "work", "ranks", "--set x.y=1"] {
        let why = wrong(line);
        assert!(
            ["verbs", "worker", "rank'", "reducer", "fetch"]
                .iter()
                .all(|word| !why.contains(word)),
            "{why}"
        );
    }
}

#[test]
fn wrong_use_is_one_line_with_the_allowed_values() {
    for (line, parts) in [
        ("validat", &["validat", "validate"][..]),
        (
            "validate --level fast",
            &["'fast'", "quick, standard, full"],
        ),
        ("validate --only asc", &["'asc'", "acs"]),
        (
            "fabric fix --acs some",
            &["'some' is not an ACS policy; allowed are path, all, off"],
        ),
        ("fabric plan --rebar grow", &["'grow'", "fix, check"]),
        ("render", &["<REPORT>", "--to"]),
        ("render r -o r.pdf --without matrices --to", &["--to"]),
        ("nccl", &["<COLLECTIVE>"]),
        ("p2p --plan --level quick", &["--plan", "--level"]),
        ("validate --gpus 0,x", &["'x' is not a GPU", "0000:41:00.0"]),
        ("validate --scope gpu", &["'gpu'", "machine, fabric"]),
        ("validate --scope fabric --only acs", &["--scope", "--only"]),
        ("render r --to pdf", &["pdf", "text, json"]),
    ] {
        let why = wrong(line);
        assert!(parts.iter().all(|p| why.contains(p)), "{line}: {why}");
        assert!(
            !why.contains('\n') && !why.contains("Usage") && !why.starts_with("error"),
            "{why}"
        );
    }
}

#[test]
fn an_unknown_option_gets_the_tip_that_is_meant() {
    for (line, tip) in [
        ("validate --format json", "'--json'"),
        ("validate --format=json", "'--json'"),
        ("validate --format", "'--json'"),
        ("validate --output-format yaml", "'--json'"),
        ("validate --output HTML", "'--html'"),
        ("validate -o json", "'--json'"),
        ("p2p --format json --level quick", "'--json'"),
        ("nccl all_reduce --format json", "'--json'"),
        ("fabric show --format json", "'--json'"),
        ("--set x.y=1 topo -f json", "'--json'"),
        ("render r --format json", "'--to json'"),
        ("topo -p2p r", "`firstlight p2p`"),
        ("topo --p2p w", "`firstlight p2p`"),
        ("validate --gpu 0", "'--gpus'"),
        ("validate --levle quick", "'--level'"),
    ] {
        let why = wrong(line);
        let told = why.matches(tip).count() == 1 && why.matches("tip:").count() == 1;
        assert!(
            told && !why.contains("--short") && !why.contains('\n'),
            "{line}: {why}"
        );
    }
    assert_eq!(
        wrong("validate --format json"),
        "unexpected argument '--format' found tip: here it is '--json'"
    );
    assert!(
        wrong("topo -p2p r")
            .starts_with("unexpected argument '-p2p' found tip: type `firstlight p2p`: ")
    );
    // Nothing that no list shows, and nothing that only looks alike.
    for line in [
        "validate --formatt x",
        "validate --report r",
        "validate --xml",
        "validate -v",
        "topo -i 0",
    ] {
        let why = wrong(line);
        assert!(!why.contains("tip:"), "{line}: {why}");
    }
}

#[test]
fn help_is_not_an_error() {
    assert!(matches!(of("--help"), Err(NoArgs::Asked(text)) if text.contains("validate")));
    assert!(
        matches!(of("--version"), Err(NoArgs::Asked(text)) if text.contains(env!("CARGO_PKG_VERSION")))
    );
    assert!(matches!(of("--help"), Err(NoArgs::Asked(text)) if !text.contains("worker")));
}
