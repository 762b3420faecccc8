//! The program's own documentation and wrong use: the pages show what it lists, the table of findings contains all
//! that it can find, and completions and manual are complete. Wrong use and rejected configuration cause exit status
//! 64 and one line that says what is allowed.

use super::machine::{Machine, firstlight, run_of};
use outcome::finding::Code;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

fn page(name: &str) -> String {
    fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../docs")
            .join(name),
    )
    .unwrap()
}

/// A page shows every test, as the validator itself lists them.
#[test]
fn docs_show_the_list_of_tests() {
    let block = format!(
        "<!-- tests -->\n```\n{}```\n<!-- /tests -->\n",
        run_of(firstlight("list").output().unwrap()).out
    );
    assert!(block.lines().count() > 20, "{block}");
    assert!(
        page("tests.md").contains(&block),
        "docs/tests.md lacks what `firstlight list` prints:\n{block}"
    );
}

/// A page shows every finding, as the validator itself lists them.
#[test]
fn docs_show_the_table_of_findings() {
    let table = run_of(firstlight("list --findings").output().unwrap()).out;
    assert!(table.lines().count() > 10, "{table}");
    let page = page("findings.md");
    for line in table.lines() {
        assert!(
            page.lines().any(|l| l == line),
            "docs/findings.md lacks this line; run `firstlight list --findings`:\n{line}"
        );
    }
    let shown = page
        .lines()
        .filter(|l| l.starts_with("| `") && l.matches(" | ").count() == 3)
        .count();
    let listed = table.lines().filter(|l| l.starts_with("| `")).count();
    assert_eq!(
        shown, listed,
        "docs/findings.md has findings that do not exist"
    );
}

/// A page shows every known problem, as the validator itself lists them.
#[test]
fn docs_show_the_table_of_known_problems() {
    let table = run_of(firstlight("list --known-problems").output().unwrap()).out;
    let block = format!("<!-- known-problems -->\n{table}<!-- /known-problems -->\n");
    assert!(
        page("known-problems.md").contains(&block),
        "docs/known-problems.md lacks this table:\n{block}"
    );
}

fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// The product's part of a file: the lines before its tests.
fn product(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?
        .split("#[cfg(test)]")
        .next()
        .unwrap_or_default()
        .to_owned())
}

/// The sources of the validator's crates.
fn validator() -> impl Iterator<Item = PathBuf> {
    let crates = ["", "outcome", "machine", "fabric", "gpu", "report", "setup"];
    let folders = crates.map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join(name).join("src"));
    folders
        .into_iter()
        .flat_map(|folder| sources(&folder).unwrap())
}

#[test]
fn every_code_is_made_somewhere() {
    let files = validator();
    let files = files.filter(|p| !p.ends_with("tests.rs") && !p.ends_with("finding/table.rs"));
    let text: String = files.map(|p| product(&p).unwrap()).collect();
    // init names its findings by the constants of the shared vocabulary.
    let init = Path::new(env!("CARGO_MANIFEST_DIR")).join("../init/src");
    let of_init: String = sources(&init)
        .unwrap()
        .iter()
        .map(|p| product(p).unwrap())
        .collect();
    for code in Code::ALL {
        let shared = format!("code::{}", code.as_str().replace('-', "_"));
        let is_made = text.contains(&format!("Code::{code:?}")) || of_init.contains(&shared);
        assert!(is_made, "{} is never made", code.as_str());
    }
    assert!(!text.contains("Code::NoSuchFinding"));
}

/// A finding that no test causes may never be found.
#[test]
fn every_code_is_expected_by_a_test() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let ends = |path: &PathBuf, end: &str| path.extension().is_some_and(|e| e == end);
    // Files that consist of tests, and the tests at the end of product files.
    let whole = [
        "init/tests",
        "validator/tests",
        "validator/fabric/tests",
        "tests/tests",
        "tests/simgpu/scenarios",
        "tests/simgpu/matrix",
    ];
    let whole = whole
        .iter()
        .flat_map(|folder| sources(&top.join(folder)).unwrap());
    let whole = whole.filter(|path| ends(path, "rs") || ends(path, "toml"));
    let mut text: String = whole
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let sources = validator().chain(sources(&top.join("init/src")).unwrap());
    for path in &sources.filter(|path| ends(path, "rs")).collect::<Vec<_>>() {
        let file = fs::read_to_string(path).unwrap();
        let is_test = path.ends_with("tests.rs")
            || path
                .parent()
                .is_some_and(|folder| folder.ends_with("tests"));
        let product = if is_test {
            String::new()
        } else {
            product(path).unwrap()
        };
        text += file.strip_prefix(&product).unwrap();
    }
    let words: BTreeSet<_> = text
        .split(|c: char| !c.is_alphanumeric() && c != '-')
        .collect();
    let unseen = Code::ALL
        .iter()
        .map(|code| (code.as_str(), format!("{code:?}")));
    let unseen =
        unseen.filter(|(name, variant)| !words.contains(name) && !words.contains(variant.as_str()));
    assert_eq!(
        unseen.map(|(name, _)| name).collect::<Vec<_>>(),
        Vec::<&str>::new()
    );
}

/// The commands that `--help` shows.
fn commands() -> Vec<String> {
    let help = run_of(firstlight("--help").output().unwrap()).out;
    let rows = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let names: Vec<_> = rows
        .filter_map(|row| row.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 8, "{help}");
    names.into_iter().filter(|name| name != "help").collect()
}

/// The words that bash offers to complete the last of `words`, using the program's script.
fn offered(words: &[&str]) -> Vec<String> {
    let script = run_of(firstlight("completions bash").output().unwrap()).out;
    let ask = r#"COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _firstlight firstlight "${@: -1}" "${@: -2:1}"; printf '%s\n' "${COMPREPLY[@]}""#;
    let code = format!("{script}\n{ask}");
    let output = Command::new("bash")
        .args(["-c", &code, "bash", "firstlight"])
        .args(words)
        .output()
        .unwrap();
    run_of(output).out.lines().map(str::to_owned).collect()
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
    let words: Vec<_> = offered(&[""])
        .into_iter()
        .filter(|word| !word.starts_with('-'))
        .collect();
    assert_eq!(words, commands());
}

#[test]
fn each_shell_has_a_script_without_the_hidden_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run_of(
            firstlight(&format!("completions {shell}"))
                .output()
                .unwrap(),
        )
        .out;
        assert!(
            commands().iter().all(|command| script.contains(command)),
            "{shell}"
        );
        assert!(
            !script.contains("partner") && !script.contains("beneath"),
            "{shell}"
        );
    }
}

#[test]
fn the_manual_has_a_page_for_the_program_and_for_each_command() {
    let manual = run_of(firstlight("man").output().unwrap()).out;
    let titles: Vec<_> = manual
        .lines()
        .filter_map(|line| line.strip_prefix(".TH "))
        .collect();
    let has = |name: &str| {
        titles
            .iter()
            .any(|title| title.split(' ').next() == Some(name))
    };
    assert!(has("firstlight"), "{titles:?}");
    for command in commands() {
        assert!(
            has(&format!("firstlight-{command}")),
            "{command}: {titles:?}"
        );
    }
    assert!(
        has("firstlight-fabric-restore") && !has("firstlight-worker"),
        "{titles:?}"
    );
    assert!(manual.contains("exit status 0 PASS"), "{manual}");
}

#[track_caller]
fn refused(words: &str, line: &str) {
    let run = run_of(firstlight(words).output().unwrap());
    assert_eq!((run.status, run.out.as_str()), (64, ""), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert!(run.err.contains(line), "{}", run.err);
}

#[test]
fn wrong_use_is_64_with_one_line() {
    refused("--set validate.level=quick", "requires a subcommand");
    refused("validat", "'validat'");
    refused("validate --level fast", "quick, standard, full");
    refused("validate --only nonsense", "'nonsense'");
    refused(
        "validate --json - --text -",
        "only one of them can go to standard output",
    );
    refused("fabric fix --acs some", "allowed are path, all, off");
    refused("nccl all_reduced", "allowed are all_reduce, all_gather");
    refused("nccl all_reduce -b 8Q", "'8Q' is not a size");
    refused("nccl all_reduce -b 8 -e 4", "-e 4 is less than -b 8");
}

#[test]
fn a_refused_configuration_is_64_with_file_key_and_what_is_allowed() {
    let machine = Machine::small();
    machine.write("c.toml", "[fabric]\nacs = 'paths'\n");
    let file = machine.at("c.toml");
    let file = file.display();
    refused(
        &format!("--config {file} validate"),
        &format!("{file}: fabric.acs: read \"paths\"; allowed: path, all, off"),
    );
    refused(
        "--config /nowhere.toml fabric show",
        "/nowhere.toml: cannot be read: No such file",
    );
    refused("--set fabric.asc=path topo", "did you mean fabric.acs?");
    refused(
        "--set validate.timeout_s=0 validate",
        "a whole number from 1 to 86400",
    );
}

#[test]
fn a_refused_file_of_known_problems_is_64_with_file_row_and_what_is_allowed() {
    let machine = Machine::small();
    let file = machine.at("known.toml");
    let file = file.display();
    let words = format!(
        "--set validate.known_problems={file} validate --json {}",
        machine.at("r.json").display()
    );
    refused(&words, &format!("{file}: cannot be read: No such file"));
    let row =
        "[[problem]]\nid = 'a'\nsays = 'b'\nthread = 'https://example.org'\nread = '2026-11-27'\n";
    for (text, line) in [
        (
            format!("{row}nccl = {{ from = '2', to = '1' }}\n"),
            "problem 1, nccl: read { ",
        ),
        (
            format!("{row}tests = ['p2p']\n"),
            "problem 1, tests: read [\"p2p\"]; allowed: a list of: ",
        ),
        (
            row.to_owned(),
            "problem 1: has no versions; allowed: at least one of driver, kernel, nccl",
        ),
        ("[[problem]\n".to_owned(), "line 1: "),
        (
            format!("{row}kernel = {{ from = '6', to = '6' }}\n").repeat(2),
            "id: a is there twice",
        ),
    ] {
        machine.write("known.toml", &text);
        refused(&words, &format!("{file}: {line}"));
    }
    refused(
        "--set validate.known_problems=known.toml validate",
        "an absolute path",
    );
    assert!(!machine.at("r.json").exists(), "nothing is written");
}

#[test]
fn layers_are_merged_in_order_and_words_win() {
    let machine = Machine::small();
    machine.write("a.toml", "[expect]\ngpus = 4\n[driver]\nload = false\n");
    machine.write("b.toml", "[expect]\ngpus = 3\n");
    let layers = format!(
        "--config {} --config {}",
        machine.at("a.toml").display(),
        machine.at("b.toml").display()
    );
    assert!(
        machine
            .run(&format!("{layers} validate"))
            .out
            .contains("0 NVIDIA GPUs on the bus, expected 3")
    );
    assert_eq!(
        machine
            .run(&format!("{layers} --set expect.gpus=0 validate"))
            .status,
        0
    );
}

#[test]
fn the_configuration_can_name_the_root() {
    let machine = Machine::small();
    let run = run_of(
        firstlight(&format!(
            "--set validate.root={} validate",
            machine.at("").display()
        ))
        .output()
        .unwrap(),
    );
    let first = run.out.lines().next().unwrap();
    assert!(
        first.ends_with(&format!("the machine in {}", machine.at("").display())),
        "{first}"
    );
}

#[test]
fn help_and_version_are_no_wrong_use() {
    for words in [
        "--help",
        "--version",
        "validate --help",
        "fabric fix --help",
    ] {
        let run = run_of(firstlight(words).output().unwrap());
        assert_eq!((run.status, run.err.as_str()), (0, ""), "{words}");
        assert!(run.out.contains("firstlight"), "{words}: {}", run.out);
    }
}

#[test]
fn options_that_leave_nothing_to_do_or_a_place_that_cannot_be_used_are_one_line() {
    let machine = Machine::small();
    std::os::unix::fs::symlink("loop", machine.at("loop")).unwrap();
    let (looped, typo) = (machine.at("loop"), machine.at("typo"));
    let (looped, typo) = (looped.display(), typo.display());
    machine.write(
        "cut.rec",
        "firstlight machine 1\ntext proc/cmdline\n\tquiet\n",
    );
    let cut = machine.at("cut.rec");
    let cut = cut.display();
    for (words, status, why) in [
        (
            "validate --only xid --skip xid".to_owned(),
            64,
            "no test is left: --only or validate.only names xid, and --skip",
        ),
        (
            "validate --set validate.only=[\"xid\"] --skip xid".to_owned(),
            64,
            "no test is left: --only",
        ),
        (
            format!("--root {looped} validate"),
            64,
            "cannot be read: Too many levels of symbolic links",
        ),
        (
            format!("reset --partition {typo}"),
            2,
            "typo: no such folder",
        ),
        (
            format!("reset clear --partition {typo}"),
            2,
            "typo: no such folder",
        ),
        (
            format!("--root {cut} fabric show"),
            2,
            "cut.rec/sys/bus/pci/devices: the recording was cut off",
        ),
        (
            "validate --set policy.on_fail=hold".to_owned(),
            64,
            "policy.on_fail: may not be set here; allowed in the settings of the appliance",
        ),
    ] {
        let run = run_of(firstlight(&words).output().unwrap());
        assert_eq!(
            (run.status, run.out.as_str(), run.err.lines().count()),
            (status, "", 1),
            "{words}: {}",
            run.err
        );
        assert!(run.err.contains(why), "{words}: {}", run.err);
    }
}

#[test]
fn the_last_line_is_printed_although_the_text_goes_to_a_file() {
    let machine = Machine::small();
    let file = machine.at("report.txt");
    for option in ["--quiet", "--short"] {
        let run = machine.run(&format!(
            "--set expect.gpus=0 validate --only xid --text {} {option}",
            file.display()
        ));
        assert!(
            run.out.lines().count() == 1 && run.out.contains("verdict="),
            "{}{}",
            run.out,
            run.err
        );
        assert!(fs::read_to_string(&file).unwrap().contains("VERDICT"));
    }
}
