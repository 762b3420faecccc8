//! What the program says of itself: do the pages show what it lists, does the table of findings hold what it can find, and
//! what do a shell and a manual get: the script that completes words, and the pages?

use super::machine::{firstlight, said};
use firstlight::outcome::finding::Code;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)).unwrap()
}

/// A page shows every test, as the validator itself lists them.
#[test]
fn docs_show_the_list_of_tests() {
    let block = format!(
        "<!-- tests -->\n```\n{}```\n<!-- /tests -->\n",
        said(firstlight("list").output().unwrap()).out
    );
    assert!(block.lines().count() > 20, "{block}");
    assert!(page("tests.md").contains(&block), "docs/tests.md lacks what `firstlight list` prints:\n{block}");
}

/// A page shows every finding, as the validator itself lists them.
#[test]
fn docs_show_the_table_of_findings() {
    let table = said(firstlight("list --findings").output().unwrap()).out;
    assert!(table.lines().count() > 10, "{table}");
    let page = page("findings.md");
    for line in table.lines() {
        assert!(
            page.lines().any(|l| l == line),
            "docs/findings.md lacks this line; run `firstlight list --findings`:\n{line}"
        );
    }
    let shown = page.lines().filter(|l| l.starts_with("| `") && l.matches(" | ").count() == 3).count();
    let listed = table.lines().filter(|l| l.starts_with("| `")).count();
    assert_eq!(shown, listed, "docs/findings.md has findings that do not exist");
}

fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(sources(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

/// The product's part of a file: the lines before its tests.
fn product(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.split("#[cfg(test)]").next().unwrap_or_default().to_owned())
}

#[test]
fn every_code_is_made_somewhere() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = sources(&src).unwrap().into_iter();
    let files = files.filter(|p| !p.ends_with("tests.rs") && !p.ends_with("finding/code.rs"));
    let text: String = files.map(|p| product(&p).unwrap()).collect();
    // init has its findings by the names of the shared vocabulary.
    let init = Path::new(env!("CARGO_MANIFEST_DIR")).join("../init/src");
    let of_init: String = sources(&init).unwrap().iter().map(|p| product(p).unwrap()).collect();
    for code in Code::ALL {
        let shared = format!("code::{}", code.entry().code.replace('-', "_"));
        let is_made = text.contains(&format!("Code::{code:?}")) || of_init.contains(&shared);
        assert!(is_made, "{} is never made", code.entry().code);
    }
    assert!(!text.contains("Code::NoSuchFinding"));
}

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
