//! Wrong use and refused configuration: exit status 64 and one line that says what is allowed.

use super::machine::{Machine, firstlight, said};

#[track_caller]
fn refused(words: &str, line: &str) {
    let said = said(firstlight(words).output().unwrap());
    assert_eq!((said.status, said.out.as_str()), (64, ""), "{}", said.err);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    assert!(said.err.contains(line), "{}", said.err);
}

#[test]
fn wrong_use_is_64_with_one_line() {
    refused("", "requires a subcommand");
    refused("fabric", "requires a subcommand");
    refused("validat", "'validat'");
    refused("validate --level fast", "quick, standard, full");
    refused("validate --only nonsense", "'nonsense'");
    refused("validate --json - --text -", "standard output can take one of them");
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
    refused("--config /nowhere.toml fabric show", "/nowhere.toml: cannot be read: No such file");
    refused("--set fabric.asc=path topo", "did you mean fabric.acs?");
    refused("--set validate.timeout_s=0 validate", "a whole number from 1 to 86400");
}

#[test]
fn layers_are_merged_in_order_and_words_win() {
    let machine = Machine::small();
    machine.write("a.toml", "[expect]\ngpus = 4\n[driver]\nload = false\n");
    machine.write("b.toml", "[expect]\ngpus = 3\n");
    let layers =
        format!("--config {} --config {}", machine.at("a.toml").display(), machine.at("b.toml").display());
    assert!(machine.run(&format!("{layers} validate")).out.contains("0 NVIDIA GPUs on the bus, expected 3"));
    assert_eq!(machine.run(&format!("{layers} --set expect.gpus=0 validate")).status, 0);
}

#[test]
fn the_configuration_can_name_the_root() {
    let machine = Machine::small();
    let said = said(
        firstlight(&format!("--set validate.root={} validate", machine.at("").display())).output().unwrap(),
    );
    let first = said.out.lines().next().unwrap();
    assert!(first.ends_with(&format!("the machine in {}", machine.at("").display())), "{first}");
}

#[test]
fn help_and_version_are_no_wrong_use() {
    for words in ["--help", "--version", "validate --help", "fabric fix --help"] {
        let said = said(firstlight(words).output().unwrap());
        assert_eq!((said.status, said.err.as_str()), (0, ""), "{words}");
        assert!(said.out.contains("firstlight"), "{words}: {}", said.out);
    }
}
