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
fn layers_go_before_the_command_and_keep_their_order() {
    let args = of("--config a --config b --set x.y=1 validate --root /r --only acs,iommu --json -").unwrap();
    assert_eq!(args.config, ["a", "b"].map(PathBuf::from));
    assert_eq!((args.root, args.set), (Some("/r".into()), vec!["x.y=1".to_owned()]));
    let Command::Validate(validate) = args.command else { panic!() };
    assert_eq!(validate.only, ["acs", "iommu"]);
    assert_eq!(validate.json, Some(Place::Stdout));
    // If it were allowed on both sides of the command, one of the two would silently be lost.
    assert!(wrong("--config a validate --config b").contains("--config"));
}

#[test]
fn wrong_use_is_one_line_with_the_allowed_values() {
    for (line, parts) in [
        ("validat", &["validat", "validate"][..]),
        ("validate --level fast", &["'fast'", "quick, standard, full"]),
        ("validate --only asc", &["'asc'", "acs"]),
        ("fabric fix --acs some", &["'some' is not an ACS policy; allowed are path, all, off"]),
        ("fabric plan --rebar grow", &["'grow'", "fix, check"]),
        ("render", &["<REPORT>", "--to"]),
        ("nccl", &["<COLLECTIVE>"]),
        ("p2p --plan --level quick", &["--plan", "--level"]),
        ("validate --gpus 0,x", &["'x' is not a GPU", "0000:41:00.0"]),
        ("validate --scope gpu", &["'gpu'", "machine, fabric"]),
        ("validate --scope fabric --only acs", &["--scope", "--only"]),
        ("render r --to pdf", &["pdf", "text, json"]),
    ] {
        let why = wrong(line);
        assert!(parts.iter().all(|p| why.contains(p)), "{line}: {why}");
        assert!(!why.contains('\n') && !why.contains("Usage") && !why.starts_with("error"), "{why}");
    }
}

#[test]
fn help_is_not_an_error() {
    assert!(matches!(of("--help"), Err(NoArgs::Asked(text)) if text.contains("validate")));
    assert!(matches!(of("--version"), Err(NoArgs::Asked(text)) if text.contains(env!("CARGO_PKG_VERSION"))));
    assert!(matches!(of("--help"), Err(NoArgs::Asked(text)) if !text.contains("worker")));
}
