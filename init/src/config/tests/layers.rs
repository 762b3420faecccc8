//! Merging valid and invalid layers.

use super::super::*;
use cmdline::words;

type Merged = Layers<Settings>;

fn add(m: &mut Merged, source: LayerSource, place: &str, text: &str) {
    m.add_file(Layer { place, source }, text);
}

fn merged(files: &[(&str, &str)], line: &str) -> Merged {
    let mut merged = Merged::default();
    for (place, text) in files {
        add(&mut merged, LayerSource::Image, place, text);
    }
    words(line)
        .iter()
        .for_each(|word| add_word(&mut merged, word));
    merged
}

fn lines(merged: &Merged) -> Vec<String> {
    merged
        .clone()
        .finish()
        .1
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn set(m: &Merged) -> Vec<&str> {
    m.foreign.iter().filter_map(|value| value.word()).collect()
}

#[test]
fn the_later_layer_wins_and_a_word_wins_over_files() {
    let m = merged(
        &[("a", "[report]\nkeep = 1\n"), ("b", "[report]\nkeep = 2\n")],
        "quiet firstlight.report.keep=3",
    );
    assert_eq!(m.settings.report.keep, 3);
    assert_eq!(lines(&m), [""; 0]);
}

#[test]
fn parameters_of_different_layers_are_merged() {
    let m = merged(
        &[(
            "a",
            "[driver]\nparameters = { nvidia = \"A=1\", nvidia-uvm = \"B=2\" }",
        )],
        "firstlight.driver.parameters.nvidia=NVreg_X=1",
    );
    let table = m.settings.driver.parameters;
    assert_eq!(
        (table["nvidia"].as_str(), table["nvidia-uvm"].as_str()),
        ("NVreg_X=1", "B=2")
    );
}

#[test]
fn an_error_names_place_key_value_and_what_is_allowed() {
    let m = merged(
        &[("f.toml", "[policy]\non_pass = \"workloda\"\n")],
        "firstlight.report.keep=0",
    );
    assert_eq!(
        lines(&m),
        [
            "f.toml: policy.on_pass: read \"workloda\"; allowed: workload, workload-without-p2p, hold, shell, \
             reboot, poweroff",
            "kernel word firstlight.report.keep: report.keep: read 0; allowed: a whole number from 1 to 1000",
        ]
    );
}

#[test]
fn unknown_sections_keys_and_top_level_scalars_are_errors() {
    let keys = "allowed: report.keep, report.key_file, report.partition, report.required, report.timeout_s, report.token_file, report.url";
    let all = "allowed: config, console, driver, expect, fabric, network, nodes, policy, report, validate, watchdog, workload";
    for (text, word, error) in [
        (
            "[polcy]\n",
            "",
            "f: polcy: there is no such section; did you mean policy?".to_owned(),
        ),
        (
            "[colour]\n",
            "",
            format!("f: colour: there is no such section; {all}"),
        ),
        (
            "keep = 1\n",
            "",
            format!("f: keep: there is no such section; {all}"),
        ),
        (
            "report = 1\n",
            "",
            "f: report: read 1; allowed: a section [report]".to_owned(),
        ),
        (
            "validate = 1\n",
            "",
            "f: validate: read 1; allowed: a section [validate]".to_owned(),
        ),
        (
            "[report]\nkep = 1\n",
            "",
            "f: report.kep: there is no such key; did you mean report.keep?".to_owned(),
        ),
        (
            "",
            "polcy.on_pass=hold",
            "polcy: there is no such section; did you mean policy?".to_owned(),
        ),
        (
            "",
            "report.kep=1",
            "report.kep: there is no such key; did you mean report.keep?".to_owned(),
        ),
        (
            "",
            "report=1",
            format!("report: there is no such key; {keys}"),
        ),
        (
            "",
            "validate=1",
            "validate: read 1; allowed: firstlight.validate.KEY=VALUE".to_owned(),
        ),
        (
            "",
            "driver.load",
            "read a word without '='; allowed: firstlight.SECTION.KEY=VALUE".to_owned(),
        ),
        (
            "",
            "driver.parameters.=1",
            "driver.parameters.: there is no such key; did you mean driver.parameters?".to_owned(),
        ),
        ("", ".=1", format!(": there is no such section; {all}")),
    ] {
        let name = word.split('=').next().unwrap();
        let (line, place) = match word {
            "" => (String::new(), String::new()),
            _ => (
                format!("firstlight.{word}"),
                format!("kernel word firstlight.{name}: "),
            ),
        };
        assert_eq!(
            lines(&merged(&[("f", text)], &line)),
            [format!("{place}{error}")]
        );
    }
    assert_eq!(merged(&[], "firstlight.").errors.len(), 1);
}

#[test]
fn a_refused_value_is_shown_as_it_was_written() {
    let m = merged(
        &[("f", "[report]\nurl = \"h\"\n")],
        "firstlight.network.dns=ns1,ns2",
    );
    let [dns, url] = &lines(&m)[..] else {
        panic!("two")
    };
    assert!(
        url.starts_with("f: report.url: read \"h\"; allowed: "),
        "{url}"
    );
    assert!(
        dns.starts_with("kernel word firstlight.network.dns: network.dns: read ns1,ns2; allowed: "),
        "{dns}"
    );
}

#[test]
fn every_error_about_the_policy_is_known_as_such() {
    for (word, concerns) in [
        ("policy.on_error", true),
        ("policy.on_err=hold", true),
        ("policy.on_error=never", true),
        ("policy=hold", true),
        ("polcy.on_error=hold", false),
        ("report.keep", false),
    ] {
        let m = merged(&[], &format!("firstlight.{word}"));
        let concern: Vec<_> = m.errors.iter().map(ConfigError::concerns_policy).collect();
        assert_eq!(concern, [concerns], "{word}");
    }
}

#[test]
fn a_broken_file_names_its_line() {
    let m = merged(&[("f", "[report]\nkeep = \n")], "");
    assert!(lines(&m)[0].starts_with("f, line 2: "), "{:?}", lines(&m));
}

#[test]
fn the_validators_sections_are_passed_on_unchecked() {
    let m = merged(
        &[(
            "f",
            "[validate]\ntimeout_s = 60\nwhatever = 1\n[expect]\ngpus = 8\n",
        )],
        "firstlight.fabric.acs=path firstlight.validate.only=a,b",
    );
    assert_eq!(lines(&m), [""; 0]);
    assert_eq!(set(&m), ["path", "a,b"]);
    assert_eq!(deadline(&m, &VALIDATE_TIMEOUT).as_secs(), 60);
}

#[test]
fn an_unusable_validate_timeout_is_left_to_the_validator() {
    let m = merged(
        &[("f", "[validate]\ntimeout_s = 0\n")],
        "firstlight.validate.timeout_s=soon",
    );
    assert_eq!(deadline(&m, &VALIDATE_TIMEOUT), VALIDATE_TIMEOUT.default);
    assert_eq!(set(&m), ["soon"]);
    let m = merged(&[("f", "[validate]\ntimeout_s = \"60\"\n")], "");
    assert_eq!(deadline(&m, &VALIDATE_TIMEOUT), VALIDATE_TIMEOUT.default);
}

#[test]
fn no_value_can_break_the_line_of_its_error() {
    for (file, text, line, shown) in [
        (
            "f",
            "[network]\nmode = \"a\\nb\"\n",
            "",
            "network.mode: read \"\"\"\\na\\nb\"\"\"; allowed: ",
        ),
        (
            "f",
            "[\"a\\nb\"]\n",
            "",
            "f: a\\nb: there is no such section; ",
        ),
        (
            "f",
            "\"a\\r\\nb\" = 1\n",
            "",
            "f: a\\r\\nb: there is no such section; ",
        ),
        (
            "f",
            "[report]\n\"a\\nb\" = 1\n",
            "",
            "f: report.a\\nb: there is no such key; ",
        ),
        ("f\ng", "[report]\nkeep = \n", "", "f\\ng, line 2: "),
        (
            "f",
            "",
            "\"firstlight.a\nb=c\"",
            "kernel word firstlight.a\\nb: a\\nb: there is no such section; ",
        ),
        (
            "f",
            "",
            "\"firstlight.report.keep=a\nb\"",
            "report.keep: read a\\nb; allowed: ",
        ),
    ] {
        let lines = lines(&merged(&[(file, text)], line));
        let [only] = &lines[..] else {
            panic!("{lines:?}")
        };
        assert!(
            only.contains(shown) && !only.contains(char::is_control),
            "{only:?}"
        );
    }
}

#[test]
fn printable_text_is_shown_unchanged() {
    let m = merged(&[("f", "[\"ä\\\\b 'c'\"]\n")], "");
    assert!(
        lines(&m)[0].starts_with("f: ä\\b 'c': there is no such section"),
        "{:?}",
        lines(&m)
    );
}

/// One table defines which layers may set a key; every layer is checked against it.
#[test]
fn a_key_in_a_layer_that_may_not_set_it_is_refused_and_has_no_effect() {
    let all = [
        LayerSource::Image,
        LayerSource::Partition,
        LayerSource::Server,
        LayerSource::Word,
    ];
    for (key, value, may) in [
        (
            "config.key",
            "\"RWSDbFQ9yZTA5iopg0fk1uSkMdQXIm16pP2pc0Nf+fA93zw87PAExNNY\"",
            [true, false, false, false],
        ),
        (
            "config.disk_overrides_server",
            "true",
            [true, false, true, false],
        ),
        ("policy.allow_shell", "true", [true, false, false, false]),
        ("report.key_file", "\"/k\"", [true, false, true, true]),
        ("report.token_file", "\"/k\"", [true, false, true, true]),
        ("report.keep", "3", [true, true, true, true]),
    ] {
        for (source, may) in all.into_iter().zip(may) {
            let (section, name) = key.split_once('.').unwrap();
            let mut m = Merged::default();
            match source {
                LayerSource::Word => m = merged(&[], &format!("firstlight.{key}={value}")),
                _ => add(
                    &mut m,
                    source,
                    "f",
                    &format!("[{section}]\n{name} = {value}\n"),
                ),
            }
            assert_eq!(
                (m.origin(key).is_some(), m.error().is_none()),
                (may, may),
                "{key} by {source:?}"
            );
            assert_eq!(
                m.settings == Settings::default(),
                !may,
                "{key} by {source:?}"
            );
            assert!(
                m.errors.iter().all(ConfigError::concerns_policy),
                "{key} by {source:?}"
            );
        }
    }
    let m = merged(&[], "firstlight.policy.allow_shell=true");
    let line = "kernel word firstlight.policy.allow_shell: policy.allow_shell: may not be set here; \
                allowed in files of the image";
    assert_eq!(lines(&m), [line]);
}

#[test]
fn a_value_of_a_disk_that_a_server_replaces_is_reported_and_no_other() {
    let mut m = Merged::default();
    let disk = "[report]\nkeep = 1\nurl = \"http://h/\"\n[validate]\nlevel = \"quick\"\nnvls = true\n\
                [driver]\nparameters = { a = \"1\", b = \"2\" }\n[policy]\non_pass = \"hold\"\n";
    add(
        &mut m,
        LayerSource::Image,
        "image",
        "[console]\nscreen = \"keep\"\n",
    );
    add(&mut m, LayerSource::Partition, "disk", disk);
    let server = "[report]\nkeep = 2\nurl = \"http://h/\"\n[validate]\nlevel = \"full\"\nnvls = true\n\
                  [driver]\nparameters = { b = \"3\", c = \"4\" }\n[console]\nscreen = \"release\"\n";
    add(&mut m, LayerSource::Server, "server", server);
    add(
        &mut m,
        LayerSource::Server,
        "server2",
        "[report]\nkeep = 3\n[validate]\nlevel = \"quick\"\n",
    );
    m.overridden.sort();
    let line = |key: &str| {
        format!("disk: {key} is ignored: server sets it, and a server overrides a disk")
    };
    assert_eq!(
        m.overridden,
        ["driver.parameters", "report.keep", "validate.level"].map(line)
    );
}

#[test]
fn a_later_layer_replaces_a_text_that_is_invalid_and_not_a_value_of_another_type() {
    let replaced = |text: &str, word: &str| lines(&merged(&[("f", text)], word));
    assert_eq!(
        replaced("[report]\nurl = \"h\"\n", "firstlight.report.url=http://h/"),
        [""; 0]
    );
    assert_eq!(
        replaced("[report]\nurl = 3\n", "firstlight.report.url=http://h/").len(),
        1
    );
    assert_eq!(
        replaced("[report]\nkeep = 0\n", "firstlight.report.keep=3").len(),
        1
    );
}

#[test]
fn a_word_in_no_section_is_a_key_like_others_and_no_file_has_it() {
    let m = merged(&[], "firstlight.booted_from=network firstlight.reset=clear");
    assert_eq!(
        (m.settings.words.booted_from, m.settings.words.reset),
        (Some(types::BootSource::Network), true)
    );
    assert_eq!(lines(&m), [""; 0]);
    for (line, error) in [
        (
            "firstlight.booted_from=floppy",
            "booted_from: booted_from: read floppy; allowed: stick, network",
        ),
        ("firstlight.reset=", "reset: reset: read ; allowed: clear"),
        (
            "firstlight.reset",
            "reset: read a word without '='; allowed: firstlight.SECTION.KEY=VALUE",
        ),
        (
            "firstlight.config=http://h/",
            "config: config: read http://h/; allowed: http://HOST/FILE#sha256=",
        ),
    ] {
        let lines = lines(&merged(&[], line));
        assert!(
            lines.len() == 1 && lines[0].starts_with(&format!("kernel word firstlight.{error}")),
            "{lines:?}"
        );
    }
    for file in ["reset = \"clear\"\n", "[\"\"]\nreset = \"clear\"\n"] {
        let m = merged(&[("f", file)], "");
        assert!(
            !m.settings.words.reset && lines(&m)[0].contains("there is no such section"),
            "{file}"
        );
    }
}

/// A table in place of a value, a value in place of a table, and a name behind a key that has no entries.
#[test]
fn every_key_refuses_a_value_of_another_type() {
    let mut settings = Settings::default();
    let sections = contract::config_format::layers::Sections::all(&mut settings);
    let names: Vec<_> = sections
        .iter()
        .flat_map(|section| section.keys())
        .map(|key| (key.section, key.key))
        .collect();
    assert!(names.len() > 40);
    for (section, key) in names.iter().filter(|(section, _)| !section.is_empty()) {
        for value in ["1979-05-27", "[[1]]", "{ a = 1 }"] {
            let lines = lines(&merged(
                &[("f", &format!("[{section}]\n{key} = {value}\n"))],
                "",
            ));
            assert!(
                lines.len() == 1 && lines[0].starts_with(&format!("f: {section}.{key}: read ")),
                "{lines:?}"
            );
        }
    }
}
