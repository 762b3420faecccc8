//! What a shell and a manual get from the program: the script that completes words, and the pages.

use super::machine::{firstlight, said};
use std::process::Command;

/// The commands that `--help` shows.
fn commands() -> Vec<String> {
    let help = said(firstlight("--help").output().unwrap()).out;
    let rows =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<_> = rows.filter_map(|row| row.split_whitespace().next()).map(str::to_owned).collect();
    assert!(names.len() > 8, "{help}");
    names.into_iter().filter(|name| name != "help").collect()
}

/// What bash offers for the last of `words`, by the script of the program.
fn offered(words: &[&str]) -> Vec<String> {
    let script = said(firstlight("completions bash").output().unwrap()).out;
    let ask = r#"COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _firstlight firstlight "${@: -1}" "${@: -2:1}"; printf '%s\n' "${COMPREPLY[@]}""#;
    let code = format!("{script}\n{ask}");
    let output = Command::new("bash").args(["-c", &code, "bash", "firstlight"]).args(words).output().unwrap();
    said(output).out.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(offered(&["val"]), ["validate"]);
    assert_eq!(offered(&["fabric", "re"]), ["restore"]);
    assert_eq!(offered(&["validate", "--le"]), ["--level"]);
    assert_eq!(offered(&["validate", "--level", "f"]), ["full"]);
    assert_eq!(offered(&["validate", "--only", "acs"]), ["acs"]);
}

#[test]
fn bash_offers_the_commands_of_the_help_and_no_other() {
    let words: Vec<_> = offered(&[""]).into_iter().filter(|word| !word.starts_with('-')).collect();
    assert_eq!(words, commands());
}

#[test]
fn each_shell_has_a_script_without_the_hidden_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = said(firstlight(&format!("completions {shell}")).output().unwrap()).out;
        assert!(commands().iter().all(|command| script.contains(command)), "{shell}");
        assert!(!script.contains("partner") && !script.contains("beneath"), "{shell}");
    }
}

#[test]
fn the_manual_has_a_page_for_the_program_and_for_each_command() {
    let manual = said(firstlight("man").output().unwrap()).out;
    let titles: Vec<_> = manual.lines().filter_map(|line| line.strip_prefix(".TH ")).collect();
    let has = |name: &str| titles.iter().any(|title| title.split(' ').next() == Some(name));
    assert!(has("firstlight"), "{titles:?}");
    for command in commands() {
        assert!(has(&format!("firstlight-{command}")), "{command}: {titles:?}");
    }
    assert!(has("firstlight-fabric-restore") && !has("firstlight-worker"), "{titles:?}");
    assert!(manual.contains("exit status 0 PASS"), "{manual}");
}
