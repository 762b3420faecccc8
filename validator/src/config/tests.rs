//! Accepted and refused configurations, with the exact error line.

use super::*;
use fabric::acs::AcsPolicy;

fn merge(files: &[&str], words: &[&str]) -> Result<Config, String> {
    let files: Vec<_> = files
        .iter()
        .enumerate()
        .map(|(i, t)| (PathBuf::from(format!("{i}.toml")), (*t).to_owned()))
        .collect();
    let words: Vec<_> = words.iter().map(|w| (*w).to_owned()).collect();
    Config::merge(&files, &words).map_err(|e| e.to_string())
}

#[track_caller]
fn refuses(files: &[&str], words: &[&str], line: &str) {
    assert_eq!(merge(files, words).unwrap_err(), line);
}

#[test]
fn without_layers_the_defaults_hold() {
    assert_eq!(merge(&[], &[]).unwrap(), Config::default());
}

#[test]
fn later_layers_override_earlier_ones_and_words_come_last() {
    let files = [
        "[fabric]\nacs = 'all'\niommu = 'pt'",
        "[fabric]\nacs = 'off'",
    ];
    let config = merge(&files, &["fabric.iommu=firmware", "validate.level=quick"]).unwrap();
    assert_eq!(config.fabric.acs, AcsPolicy::Off);
    assert_eq!(config.fabric.iommu, Some(IommuPolicy::Firmware));
    assert_eq!(config.validate.level, Level::Quick);
}

fn keys() -> Vec<String> {
    Config::default()
        .all()
        .iter()
        .flat_map(|section| section.keys())
        .map(|key| key.name())
        .collect()
}

#[test]
fn every_key_can_be_set_by_a_word() {
    for key in keys() {
        let words = [
            "off",
            "check",
            "quick",
            "7",
            "/a",
            "acs",
            "true",
            "[[0]]",
            "a:7",
            "0123456789abcdef",
        ];
        assert!(
            words
                .iter()
                .any(|w| merge(&[], &[&format!("{key}={w}")]).is_ok()),
            "{key}"
        );
        let section = key.split('.').next().unwrap();
        assert!(
            merge(&[&format!("[{section}]\nnonsense = 1")], &[]).is_err(),
            "{key}"
        );
    }
}

#[test]
fn words_are_read_by_the_keys_type() {
    let words = [
        "validate.only=acs,iommu",
        "validate.skip=[\"links\"]",
        "expect.gpus=0",
        "expect.gpu_name=\"NVIDIA GeForce RTX 4090\"",
        "expect.min_p2p_gb_s=20.5",
        "validate.root=/rec",
        "validate.nvls=true",
        "validate.baseline=/b.json",
        "validate.known_problems=/k.toml",
        "expect.golden=true",
    ];
    let config = merge(&[], &words).unwrap();
    assert_eq!(config.validate.only, ["acs", "iommu"]);
    assert_eq!(config.validate.skip, ["links"]);
    assert_eq!(config.expect.gpus, Some(0));
    assert_eq!(
        config.expect.gpu_name.as_deref(),
        Some("NVIDIA GeForce RTX 4090")
    );
    assert_eq!(config.expect.min_p2p_gb_s, Some(20.5));
    assert_eq!(config.validate.root, PathBuf::from("/rec"));
    assert_eq!(config.validate.baseline, Some(PathBuf::from("/b.json")));
    assert!(config.validate.nvls && !Config::default().validate.nvls);
    assert!(config.expect.golden && !Config::default().expect.golden);
}

#[test]
fn the_content_of_inits_sections_is_not_checked_here() {
    assert!(merge(&["[driver]\nload = 'perhaps'\n[policy]\nx = 1"], &[]).is_ok());
    refuses(
        &["driver = true"],
        &[],
        "0.toml: driver: read true; allowed: a section [driver]",
    );
}

#[test]
fn an_unknown_section_is_named_with_the_nearest() {
    refuses(
        &["[fabrik]\nacs='path'"],
        &[],
        "0.toml: fabrik: there is no such section; did you mean fabric?",
    );
    refuses(
        &["level = 3"],
        &[],
        "0.toml: level: there is no such section; allowed: config, console, driver, expect, fabric, network, nodes, policy, report, validate, watchdog, workload",
    );
}

#[test]
fn a_word_for_init_is_refused_here() {
    refuses(
        &[],
        &["driver.load=false"],
        "--set driver.load=false: driver.load: may not be set here; allowed in the settings of the appliance: the section belongs to init",
    );
    refuses(
        &[],
        &["polcy.on_fail=hold"],
        "--set polcy.on_fail=hold: polcy: there is no such section; allowed: expect, fabric, nodes, validate",
    );
    refuses(
        &[],
        &["fabric.acs"],
        "--set fabric.acs: read a word without '='; allowed: KEY=VALUE",
    );
}

#[test]
fn an_unknown_key_is_named_with_the_nearest() {
    refuses(
        &["", "[fabric]\nasc = 'path'"],
        &[],
        "1.toml: fabric.asc: there is no such key; did you mean fabric.acs?",
    );
    refuses(
        &[],
        &["expect=3"],
        "--set expect=3: expect: there is no such key; allowed: expect.driver, expect.golden, expect.gpu_name, expect.gpus, expect.min_p2p_gb_s, expect.peers",
    );
}

#[test]
fn an_invalid_value_names_the_allowed_ones() {
    for (file, line) in [
        (
            "[fabric]\nacs = 'paths'",
            "0.toml: fabric.acs: read \"paths\"; allowed: path, all, off",
        ),
        (
            "[fabric]\nacs = true",
            "0.toml: fabric.acs: read true; allowed: path, all, off",
        ),
        (
            "[validate]\ntimeout_s = 0",
            "0.toml: validate.timeout_s: read 0; allowed: a whole number from 1 to 86400 seconds",
        ),
        (
            "[validate]\ntimeout_s = '9'",
            "0.toml: validate.timeout_s: read \"9\"; allowed: a whole number from 1 to 86400 seconds",
        ),
        (
            "[expect]\ngpus = -1",
            "0.toml: expect.gpus: read -1; allowed: a whole number from 0 to 64",
        ),
        (
            "[expect]\nmin_p2p_gb_s = nan",
            "0.toml: expect.min_p2p_gb_s: read nan; allowed: a number above 0",
        ),
        (
            "[validate]\nbaseline = 'b.json'",
            "0.toml: validate.baseline: read \"b.json\"; allowed: an absolute path",
        ),
        (
            "[validate]\nnvls = 1",
            "0.toml: validate.nvls: read 1; allowed: true, false",
        ),
        (
            "[expect]\ngolden = 'yes'",
            "0.toml: expect.golden: read \"yes\"; allowed: true, false",
        ),
        (
            "[validate]\nroot = 'rec'",
            "0.toml: validate.root: read \"rec\"; allowed: an absolute path",
        ),
        (
            "[validate]\nlibrary_path = [1]",
            "0.toml: validate.library_path: read [1]; allowed: a list of texts",
        ),
    ] {
        refuses(&[file], &[], line);
    }
}

#[test]
fn groups_of_peers_are_read_from_files_and_words() {
    let pairs = vec![
        [0, 1].map(GpuName::Number).to_vec(),
        [2, 3].map(GpuName::Number).to_vec(),
    ];
    let file = merge(&["[expect]\npeers = [[0, 1], [2, 3]]"], &[]).unwrap();
    let word = merge(&[], &["expect.peers=[[0,1],[2,3]]"]).unwrap();
    assert_eq!(
        [file.expect.peers, word.expect.peers],
        [Some(pairs.clone()), Some(pairs)]
    );
    let named = merge(&["[expect]\npeers = [['01:00.0', 3]]"], &[])
        .unwrap()
        .expect
        .peers
        .unwrap();
    assert_eq!(
        named[0],
        [
            GpuName::Address("0000:01:00.0".parse().unwrap()),
            GpuName::Number(3)
        ]
    );
    for wrong in [
        "[]",
        "[[]]",
        "[0, 1]",
        "[[0, 0]]",
        "[[0], [0]]",
        "[[-1]]",
        "[['x']]",
        "3",
        "'0,1'",
    ] {
        let why = merge(&[&format!("[expect]\npeers = {wrong}")], &[]).unwrap_err();
        assert!(why.ends_with("each GPU once, as [[0, 1], [2, 3]]"), "{why}");
    }
}

#[test]
fn an_unknown_test_is_refused_with_the_list() {
    let error = merge(&[], &["validate.only=acs,ascii"]).unwrap_err();
    assert!(error.starts_with(
        "--set validate.only=acs,ascii: validate.only: read acs,ascii; allowed: a list of: "
    ));
    assert!(error.contains("cmdline") && error.contains("links"));
}

#[test]
fn text_that_is_not_toml_names_its_line() {
    let error = merge(&["[fabric]\nacs = \n"], &[]).unwrap_err();
    assert!(error.starts_with("0.toml, line 2: "), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn refused_text_cannot_break_the_line() {
    for (text, word, shown) in [
        (
            "[\"a\\nb\"]",
            "",
            "0.toml: a\\nb: there is no such section; ",
        ),
        (
            "\"a\\r\\nb\" = 1",
            "",
            "0.toml: a\\r\\nb: there is no such section; ",
        ),
        (
            "[fabric]\n\"a\\nb\" = 1",
            "",
            "0.toml: fabric.a\\nb: there is no such key; ",
        ),
        (
            "[fabric]\nacs = \"a\\nb\"",
            "",
            "0.toml: fabric.acs: read \"\"\"\\na\\nb\"\"\"; allowed: ",
        ),
        (
            "driver = \"a\\nb\"",
            "",
            "0.toml: driver: read \"\"\"\\na\\nb\"\"\"; allowed: ",
        ),
        (
            "",
            "a\nb=1",
            "--set a\\nb=1: a\\nb: there is no such section; ",
        ),
        (
            "",
            "fabric.acs=a\nb",
            "--set fabric.acs=a\\nb: fabric.acs: read a\\nb; allowed: ",
        ),
        ("", "a\nb", "--set a\\nb: read a word without '='"),
    ] {
        let words = if word.is_empty() { vec![] } else { vec![word] };
        let line = merge(&[text], &words).unwrap_err();
        assert!(
            line.starts_with(shown) && !line.contains(char::is_control),
            "{line:?}"
        );
    }
}

#[test]
fn harmless_text_is_shown_unchanged() {
    let line = merge(&["[\"ä\\\\b 'c'\"]"], &[]).unwrap_err();
    assert!(
        line.starts_with("0.toml: ä\\b 'c': there is no such section"),
        "{line}"
    );
}

#[test]
fn a_missing_file_is_named() {
    let error = Config::load(&[PathBuf::from("/nowhere/c.toml")], &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("/nowhere/c.toml: cannot be read: No such file"),
        "{error}"
    );
}

#[test]
fn init_knows_the_sections_of_the_validators_keys() {
    let mut config = Config::default();
    let names: Vec<_> = config.all().iter().map(|section| section.name()).collect();
    assert_eq!(names, contract::section::VALIDATOR);
}

#[test]
fn a_token_is_never_shown_or_written() {
    let config = merge(&["[nodes]\ntoken = 'a-secret-of-many'"], &[]).unwrap();
    assert!(config.nodes.token.is_some());
    let written = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
    assert!(!written.contains("a-secret"), "{written}");
    for (files, words) in [
        (&["[nodes]\ntoken = 'a-secret'"][..], &[][..]),
        (&[], &["nodes.token=a-secret"]),
    ] {
        let line = merge(files, words).unwrap_err();
        assert!(
            !line.contains("a-secret") && line.contains("allowed: a text of 16 to 256"),
            "{line}"
        );
    }
}

#[test]
fn a_rendezvous_is_a_host_and_a_port() {
    for bad in ["", "a", ":7", "a:", "a:0", "a:70000", "a b:7"] {
        let line = merge(&[], &[&format!("nodes.rendezvous={bad}")]).unwrap_err();
        assert!(line.contains("allowed: mdns, or HOST:PORT"), "{line}");
    }
    for good in [
        "10.0.0.1:29517",
        "[fd00::1]:7",
        "node1.example:65535",
        "mdns",
    ] {
        assert!(
            merge(&[], &[&format!("nodes.rendezvous={good}")]).is_ok(),
            "{good}"
        );
    }
}
