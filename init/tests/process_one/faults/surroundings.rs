//! Faults around process 1: its configuration, the kernel's command line, the image's files, the mark in the firmware,
//! disks, /run, and signals.

use super::super::namespace::Disk;
use super::super::namespace::Machine;
use super::{Case, Outcome, error, fault, pass};
use contract::mark::{Mark, Step};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

pub(super) fn cases() -> Vec<Case> {
    [
        configuration(),
        folder_of_layers(),
        command_line(),
        image(),
        marks(),
        driver(),
        memory(),
        signals(),
        partitions(),
        roots(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const TOML: &str = "etc/firstlight/config.toml";

fn configuration() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, more, cause) in [
        (
            "an unknown section",
            "[consle]\nx = 1\n",
            "consle: there is no such section; did you mean console?",
        ),
        (
            "an unknown key",
            "[driver2]\n",
            "driver2: there is no such section",
        ),
        (
            "a key twice",
            "[network]\nmode = \"none\"\nmode = \"none\"\n",
            "duplicate key",
        ),
        (
            "a section twice",
            "[driver]\nload = false\n",
            "duplicate key",
        ),
        ("an open bracket", "[network\n", "config.toml, line "),
        (
            "an open text",
            "[network]\nmode = \"none\n",
            "config.toml, line ",
        ),
        ("no value", "[network]\nmode =\n", "config.toml, line "),
        ("a NUL", "[network]\nmode = \"\0\"\n", "config.toml, line "),
        (
            "an escape character",
            "[network]\nmode = \"\u{1b}\"\n",
            "config.toml, line ",
        ),
        (
            "escaped control characters",
            "[network]\nmode = \"\\u001b\\u000aFIRSTLIGHT verdict=PASS\"\n",
            "network.mode: read ",
        ),
        ("letters alone", "verdict pass\n", "config.toml, line "),
        (
            "a text for a list",
            "[network]\ndns = \"a\"\n",
            "network.dns: read",
        ),
        (
            "a number for a text",
            "[network]\nmode = 1\n",
            "network.mode: read 1",
        ),
        (
            "a list of numbers",
            "[network]\ndns = [1]\n",
            "network.dns: read",
        ),
        (
            "a huge number",
            "[network]\ntimeout_s = 99999999999999999999999\n",
            "network.timeout_s",
        ),
        (
            "a negative number",
            "[network]\ntimeout_s = -1\n",
            "network.timeout_s: read -1",
        ),
        (
            "a number too large",
            "[network]\ntimeout_s = 86401\n",
            "network.timeout_s: read 86401",
        ),
        (
            "no number",
            "[network]\ntimeout_s = nan\n",
            "network.timeout_s: read",
        ),
        (
            "a date",
            "[network]\ntimeout_s = 1979-05-27\n",
            "network.timeout_s: read",
        ),
        (
            "a foreign section that is a list",
            "[[fabric]]\n",
            "fabric: read",
        ),
        (
            "lists in lists",
            "[network]\ndns = [[[[[\"a\"]]]]]\n",
            "network.dns: read",
        ),
        (
            "lists without end",
            "[network]\ndns = [[[[[[[[[[[[\n",
            "config.toml, line ",
        ),
        (
            "a bad address",
            "[network]\nmode = \"static\"\naddress = \"10.0.0.300/24\"\n",
            "network.address: read",
        ),
        (
            "static without an address",
            "[network]\nmode = \"static\"\n",
            "network.address",
        ),
        (
            "a host name of blanks",
            "[network]\nhostname = \"a b\"\n",
            "network.hostname: read",
        ),
        (
            "a folder as certificates",
            "[network]\nca = \"x\"\n",
            "network.ca: read",
        ),
        (
            "a key that is none",
            "[config]\nkey = \"RW\"\n",
            "config.key: read",
        ),
        (
            "a dotted section",
            "[network.more]\nx = 1\n",
            "network.more: there is no such key",
        ),
    ] {
        all.push(Case::new(&format!("config: {name}"), fault("config", cause)).config(more));
    }
    for (name, more) in [
        ("an unknown action", "on_degraded = \"explode\"\n"),
        ("a number as action", "on_degraded = 7\n"),
        ("the shell", "on_degraded = \"shell\"\n"),
        ("an unknown policy", "on_eror = \"reboot\"\n"),
    ] {
        all.push(
            Case::new(
                &format!("config: policy of {name}"),
                fault("config", "policy.on_").then(Outcome::Hold),
            )
            .config(more),
        );
    }
    let large = format!(
        "{}{}",
        super::CONFIG,
        "# a line of a comment\n".repeat(60_000)
    );
    let wide = format!(
        "{}[network]\ndns = [{}\"x\"]\n",
        super::CONFIG,
        "\"10.0.0.1\",".repeat(50_000)
    );
    let deep = format!(
        "{}[network]\ndns = {}\n",
        super::CONFIG,
        "[".repeat(200_000)
    );
    for (name, content, cause) in [
        ("empty", Vec::new(), None),
        (
            "of 1.3 MB",
            large.into_bytes(),
            Some("larger than 1048576 bytes"),
        ),
        (
            "with 50000 servers",
            wide.into_bytes(),
            Some("network.dns: read"),
        ),
        (
            "with 200000 lists",
            deep.into_bytes(),
            Some("config.toml, line "),
        ),
        (
            "not UTF-8",
            b"[driver]\nload = \xff\n".to_vec(),
            Some("did not contain valid UTF-8"),
        ),
        (
            "in two bytes each",
            "[driver]\nload = false\n"
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect(),
            Some("config.toml"),
        ),
        ("zeros", vec![0; 4096], Some("config.toml, line 1")),
        (
            "with old line ends",
            super::CONFIG.replace('\n', "\r").into_bytes(),
            Some("config.toml, line "),
        ),
    ] {
        // An empty file is valid: no workload, and the driver must be loaded, but there is none here.
        let want = match cause {
            Some(cause) => fault("config", cause),
            None => pass().then(Outcome::Hold),
        };
        let case = Case::new(&format!("config.toml is {name}"), want).file(TOML, content);
        all.push(if cause.is_none() {
            case.words("firstlight.driver.load=false firstlight.console.serial=")
        } else {
            case
        });
    }
    all.extend(irregular("config.toml", TOML, |cause| {
        fault("config", cause)
    }));
    all
}

/// A path that is not a regular file, in the forms that a medium can contain; each is refused with its cause.
fn irregular(
    name: &str,
    path: &'static str,
    want: impl Fn(&str) -> super::Expectation,
) -> Vec<Case> {
    fn gone(m: Machine, path: &str) -> Machine {
        let _there = fs::remove_file(m.path(path));
        m
    }
    let link = move |to: &'static str| {
        move |m: Machine| {
            let m = gone(m, path);
            symlink(to, m.path(path)).unwrap();
            m
        }
    };
    vec![
        Case::new(&format!("{name} is a pipe"), want("not a regular file"))
            .change(move |m| gone(m, path).pipe(path)),
        Case::new(&format!("{name} is a folder"), want("not a regular file")).change(move |m| {
            let m = gone(m, path);
            fs::create_dir_all(m.path(path)).unwrap();
            m
        }),
        Case::new(&format!("{name} is a device"), want("not a regular file"))
            .change(link("/dev/zero")),
        Case::new(
            &format!("{name} is a link to nothing"),
            want("No such file"),
        )
        .change(link("/none")),
        Case::new(&format!("{name} is a link to itself"), want("ymbolic link"))
            .change(link("/etc/firstlight/config.d/../loop"))
            .change(|m| {
                symlink("loop", m.path("etc/firstlight/loop")).unwrap();
                m
            }),
    ]
}

fn folder_of_layers() -> Vec<Case> {
    let mut all = irregular(
        "config.d/10.toml",
        "etc/firstlight/config.d/10.toml",
        |cause| fault("config", cause),
    );
    for (name, path, content, cause) in [
        (
            "bad syntax",
            "etc/firstlight/config.d/10.toml",
            "[",
            "config.d/10.toml, line 1",
        ),
        (
            "an unknown section",
            "etc/firstlight/config.d/10.toml",
            "[a]\n",
            "config.d/10.toml: a: there is no such section",
        ),
        (
            "a wrong type",
            "etc/firstlight/config.d/10.toml",
            "[network]\nmode = 1\n",
            "config.d/10.toml: network.mode: read 1",
        ),
        (
            "a control character in its name",
            "etc/firstlight/config.d/\u{1b}a\nb.toml",
            "[",
            ".toml, line 1",
        ),
    ] {
        all.push(
            Case::new(&format!("config.d: {name}"), fault("config", cause)).file(path, content),
        );
    }
    for (name, path) in [
        ("hidden bytes", "etc/firstlight/config.d/.x"),
        ("another ending", "etc/firstlight/config.d/x.toml~"),
        ("no ending", "etc/firstlight/config.d/toml"),
    ] {
        all.push(Case::new(&format!("config.d: {name}"), pass()).file(path, "["));
    }
    let missing = |m: Machine| {
        fs::remove_dir(m.path("etc/firstlight/config.d")).unwrap();
        m
    };
    all.push(Case::new("config.d: missing", pass()).change(missing));
    all.push(
        Case::new("config.d: a pipe", pass())
            .change(move |m| missing(m).pipe("etc/firstlight/config.d")),
    );
    all.push(
        Case::new("config.d: a link to itself", pass()).change(move |m| {
            let m = missing(m);
            symlink("config.d", m.path("etc/firstlight/config.d")).unwrap();
            m
        }),
    );
    let many = |m: Machine| {
        (0..300).fold(m, |m, n| {
            m.file(
                &format!("etc/firstlight/config.d/{n}.toml"),
                "[network]\ntimeout_s = 9\n",
            )
        })
    };
    all.push(Case::new("config.d: 300 files", pass()).change(many));
    all
}

fn command_line() -> Vec<Case> {
    let mut all = Vec::new();
    for (words, cause) in [
        ("firstlight.", "read a word without '='"),
        ("firstlight.x=1", "x: there is no such section"),
        ("firstlight.driver", "read a word without '='"),
        ("firstlight.driver.load", "read a word without '='"),
        ("firstlight.driver.load=maybe", "driver.load: read maybe"),
        ("firstlight.driver.load=", "driver.load: read"),
        ("firstlight.driver=true", "driver"),
        ("firstlight.driver.lod=true", "did you mean"),
        (
            "firstlight.network.timeout_s=1e3",
            "network.timeout_s: read 1e3",
        ),
        (
            "firstlight.network.timeout_s=0x10",
            "network.timeout_s: read 0x10",
        ),
        ("firstlight.network.dns=[\"a\"", "network.dns: read"),
        ("firstlight.workload.exec=relative", "workload.exec: read"),
        ("firstlight.workload.mode=switch-root", "workload.root"),
        (
            "firstlight.config=http://h/x",
            "kernel word firstlight.config",
        ),
        (
            "firstlight.config=file:///etc/passwd#sha256=00",
            "kernel word firstlight.config",
        ),
        ("firstlight.reset=maybe", "kernel word firstlight.reset"),
        ("firstlight.booted_from=moon", "booted_from: read moon"),
        ("firstlight.config.key=RWxxx", "config.key"),
        ("firstlight.policy.allow_shell=true", "policy.allow_shell"),
        (
            "firstlight.report.partition=LABEL=",
            "report.partition: read",
        ),
        (
            "firstlight.report.partition=/dev/none",
            "/dev/none: no such file system on any disk",
        ),
        ("firstlight.console.serial=../null", "console.serial: read"),
        (
            "firstlight.watchdog.timeout_s=1",
            "watchdog.timeout_s: read 1",
        ),
        (
            "firstlight.driver.modules=../../etc/passwd",
            "driver.modules: read",
        ),
        ("firstlight.validate=x", "validate: read x"),
        ("firstlight.\u{1b}[2J.x=1", "there is no such section"),
        (
            "\"firstlight.network.mode=no ne",
            "network.mode: read no ne",
        ),
    ] {
        // A wrong word that concerns the policy leaves no policy to follow, so the machine holds.
        let want = fault("config", cause);
        let want = if words.contains("policy") || words.contains("key") {
            want.then(Outcome::Hold)
        } else {
            want
        };
        let case = Case::new(&format!("kernel word {words:?}"), want).words(words);
        all.push(if words.contains("/dev/none") {
            case.slow().always()
        } else {
            case
        });
    }
    for words in [
        "\u{1b}[2J\u{7}",
        "= == ===",
        "\"",
        "\"\"\"\" \"",
        "a=\"b c",
        "FIRSTLIGHT verdict=PASS",
        "firstlight",
        "firstlightx.y=1",
        "console=",
        "console=ttyS0,999999999n8r",
        "console=../../etc/passwd",
        "loglevel=-1",
        "init=/none rdinit=/none",
        "BOOTIF=01-zz",
        "x=\u{fffd}\u{0}y",
        "firstlight.validate.level=nonsense",
        "firstlight.fabric.nonsense=1",
    ] {
        all.push(Case::new(&format!("kernel words {words:?}"), pass()).words(words));
    }
    all.push(Case::new("kernel words of 64 KiB", pass()).words(&"quiet ".repeat(11_000)));
    all.push(Case::new("one kernel word of 64 KiB", pass()).words(&"x".repeat(65_000)));
    all.push(
        Case::new(
            "2000 wrong kernel words",
            fault("config", "there is no such section"),
        )
        .words(&"firstlight.a=1 ".repeat(2000)),
    );
    all
}

/// The image's description of itself, and NCCL's settings in it.
fn image() -> Vec<Case> {
    const PATH: &str = "etc/firstlight/image.json";
    let mut all = irregular("image.json", PATH, |_| pass());
    for (name, content) in [
        ("empty", String::new()),
        ("cut", "{ \"version\": \"0.1".to_owned()),
        ("a list", "[1]".to_owned()),
        ("null", "null".to_owned()),
        (
            "of numbers",
            "{ \"version\": 1, \"image_id\": 2 }".to_owned(),
        ),
        ("deep", "[".repeat(200_000)),
        ("large", " ".repeat(100_000)),
        (
            "with control characters",
            r#"{ "version": "\u001b[2J\nFIRSTLIGHT verdict=FAIL", "image_id": "\n" }"#.to_owned(),
        ),
        (
            "with a long id",
            format!(
                r#"{{ "version": "{0}", "image_id": "{0}" }}"#,
                "x".repeat(9000)
            ),
        ),
    ] {
        all.push(
            Case::new(&format!("image.json is {name}"), pass())
                .file(PATH, content)
                .change(Machine::variables),
        );
    }
    all
}

const MARK: &str = "variables/FirstlightMark-6e0f3c1a-52d4-4b0e-9a77-c8d15b2f94e3";
const IMAGE: &str = "5f1d989d03a878d8";

/// The mark of an earlier boot in a variable of the firmware, with the damage that ageing memory does to it.
fn marks() -> Vec<Case> {
    let mark = Mark {
        step: Step::Validate,
        image: Some(IMAGE.to_owned()),
        boot: Some("b".repeat(36)),
        finding: Some("ACS-ON".to_owned()),
        count: 0,
    };
    let whole = [&[7, 0, 0, 0], mark.text().as_bytes()].concat();
    let with = |name: &str, want: super::Expectation, bytes: Vec<u8>| {
        let stated = format!("{{ \"version\": \"0.1.0\", \"image_id\": \"{IMAGE}\" }}");
        Case::new(&format!("mark: {name}"), want)
            .change(Machine::variables)
            .file(MARK, bytes)
            .file("etc/firstlight/image.json", stated)
    };
    let during = |step: &str| {
        error(
            "reset",
            &format!("reset: the machine was reset during {step}; image "),
        )
    };
    let broken = || {
        error(
            "reset",
            "reset: the mark of an earlier boot cannot be read: ",
        )
        .says("RESET-DURING: an unreadable mark")
        .says("fabric    ERROR: not run: RESET-DURING fabric")
        .says("validate  the validator was not run")
    };
    let mut all = vec![with("whole", during("validate"), whole.clone())];
    for step in [Step::Fabric, Step::DriverLoad] {
        let mark = Mark {
            step,
            ..mark.clone()
        };
        all.push(with(
            &format!("of {step}"),
            during(&step.to_string()),
            [&[7, 0, 0, 0], mark.text().as_bytes()].concat(),
        ));
    }
    for cut in [0, 1, 3, 4, 5, 20, 40, 100, 200, 258, 259] {
        all.push(with(
            &format!("cut after {cut} bytes"),
            broken(),
            whole[..cut].to_vec(),
        ));
    }
    for (name, bytes) in [
        ("longer", [&whole[..], b" "].concat()),
        ("twice", [&whole[..], &whole[..]].concat()),
        ("zeros", vec![0; 260]),
        ("ones", vec![0xff; 260]),
        ("60 KB", vec![b' '; 60_000]),
    ] {
        all.push(with(name, broken(), bytes));
    }
    // One bit of each byte at these places; with the highest bit changed, the byte is no longer text.
    let image_at = String::from_utf8_lossy(&whole).find(IMAGE).unwrap();
    for at in [
        0, 1, 2, 3, 4, 10, 20, 22, 30, 35, 38, 45, 50, 60, 80, 100, 150, 200, 250, 258, 259,
    ] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x80;
        all.push(with(&format!("bit 7 of byte {at}"), broken(), bytes));
    }
    for at in [0, 4, 15, 20, 23, 28, 31, 38, image_at - 1, 200, 250] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x01;
        all.push(with(&format!("bit 0 of byte {at}"), broken(), bytes));
    }
    for at in [0, 7, 15] {
        let mut bytes = whole.clone();
        bytes[image_at + at] ^= 0x01;
        all.push(with(
            &format!("bit 0 of byte {at} of the image"),
            pass().says("this one tries again"),
            bytes,
        ));
    }
    all.push(
        with(
            "zeros, cleared by the kernel word",
            pass().says("no mark is left"),
            vec![0; 260],
        )
        .words("firstlight.reset=clear"),
    );
    let other = |name: &str, change: fn(Machine) -> Machine| {
        Case::new(&format!("mark: {name}"), broken())
            .change(Machine::variables)
            .change(change)
    };
    all.push(other("a pipe", |m| m.pipe(MARK)).always());
    all.push(other("a folder", |m| {
        fs::create_dir(m.path(MARK)).unwrap();
        m
    }));
    all.push(other("a link to a device", |m| {
        symlink("/dev/zero", m.path(MARK)).unwrap();
        m
    }));
    all
}

fn driver() -> Vec<Case> {
    const AT: &str = "usr/lib/firstlight/driver.squashfs";
    let load = "firstlight.driver.load=true firstlight.driver.timeout_s=1 firstlight.driver.modules=nvidia";
    let mut all = Vec::new();
    for (name, content) in [
        ("empty", Vec::new()),
        ("text", b"damaged".to_vec()),
        ("zeros", vec![0; 1 << 20]),
        ("a cut head", b"hsqs\x01\0\0\0".to_vec()),
        ("a head of ones", [&b"hsqs"[..], &[0xff; 4000]].concat()),
    ] {
        for words in ["", load] {
            let name = format!(
                "driver image: {name}{}",
                if words.is_empty() {
                    ""
                } else {
                    ", to be loaded"
                }
            );
            all.push(
                Case::new(&name, pass().says("DRIVER-MISSING"))
                    .file(AT, content.clone())
                    .words(words),
            );
        }
    }
    let hung = error("driver", "while mounting the driver image");
    all.push(
        Case::new("driver image: a pipe", hung)
            .change(|m| m.pipe(AT))
            .words(load),
    );
    all.push(
        Case::new("driver image: a folder", pass().says("DRIVER-MISSING"))
            .change(|m| {
                fs::create_dir_all(m.path(AT)).unwrap();
                m
            })
            .words(load),
    );
    all.push(Case::new("driver image: missing", pass().says("DRIVER-MISSING")).words(load));
    for words in [
        "firstlight.driver.modules=a,b,c,d,e,f,g,h",
        "firstlight.driver.modules=",
    ] {
        let case = Case::new(&format!("driver modules {words:?}"), pass())
            .words(load)
            .words(words);
        all.push(case);
    }
    for (name, script) in [("a pipe", "mkfifo"), ("a folder", "mkdir")] {
        let fix = r#"printf '%s\n' '{"schema":"firstlight.fix/1","summary":"x"}' > /run/firstlight/fabric-fix.json; exit 0"#;
        let case = Case::new(
            &format!("driver account: the fabric pass left {name}"),
            pass(),
        );
        all.push(case.at(
            "fabric*fix",
            &format!("for f in driver.json .driver-draft.json; do {script} /run/firstlight/$f; done\n{fix}"),
        ));
    }
    all
}

/// /run without room, and process 1 without descriptors.
fn memory() -> Vec<Case> {
    let mut all = Vec::new();
    let no_file = |want: super::Expectation| super::Expectation {
        file: false,
        ..want
    };
    let fix = r#"printf '%s\n' '{"schema":"firstlight.fix/1","summary":"x"}' > /run/firstlight/fabric-fix.json"#;
    let fill = "cat /dev/zero > /run/full 2> /dev/null";
    let full = no_file;
    for (name, case) in [
        (
            "before the fabric pass",
            Case::new("", full(error("fabric", ""))).at("fabric*fix", &format!("{fill}; exit 0")),
        ),
        (
            "by the fabric pass",
            Case::new("", full(error("publish", "")))
                .at("fabric*fix", &format!("{fix}; {fill}; exit 0")),
        ),
        (
            "by the validator",
            Case::new(
                "",
                full(error("publish", "")).says("publish: /run/firstlight/env: No space left"),
            )
            .validator(&format!("report PASS pass; {fill}; exit 0")),
        ),
        (
            "by a validator that fails",
            Case::new("", full(error("validator", "")))
                .validator(&format!("report PASS pass; {fill}; kill -SEGV $$; sleep 9")),
        ),
        (
            "by env",
            Case::new("", full(error("publish", ""))).at("env", &format!("{fill}; exit 0")),
        ),
    ] {
        let case = Case {
            name: format!("/run is full: {name}"),
            ..case
        };
        all.push(case.change(Machine::small_run).policy("reboot"));
    }
    for (name, policy, want) in [
        (
            "and the workload should run without peer-to-peer",
            "workload-without-p2p",
            // The workload is not started without the setting.
            no_file(error("publish", "")).then(Outcome::Hold),
        ),
        (
            "and the policy is to hold",
            "hold",
            no_file(error("publish", "")),
        ),
        (
            "and the policy is to power off",
            "poweroff",
            no_file(error("publish", "")),
        ),
    ] {
        let case = Case::new(&format!("/run is full: {name}"), want)
            .change(Machine::small_run)
            .policy(policy);
        all.push(case.validator(&format!("report PASS pass; {fill}; exit 0")));
    }
    const OLD: &str = "run-outside/firstlight";
    for (name, change) in [
        (
            "a pipe as its log",
            (|m| m.pipe("run-outside/firstlight/boot.log")) as fn(Machine) -> Machine,
        ),
        ("pipes where files are written", |m| {
            [
                ".verdict.json.new",
                ".env.new",
                ".driver.json.new",
                "driver.json",
                "time-servers",
            ]
            .into_iter()
            .fold(m, |m, name| m.pipe(&format!("{OLD}/{name}")))
        }),
        ("folders of the files\' names", |m| {
            [
                "report.json",
                "verdict.json",
                "validated",
                "env",
                "driver.json",
                "fabric-fix.json",
            ]
            .into_iter()
            .fold(m, |m, name| m.file(&format!("{OLD}/{name}/x"), ""))
        }),
        ("a verdict", |m| {
            m.file(&format!("{OLD}/verdict.json"), "{\"verdict\":\"PASS\"}")
                .file(&format!("{OLD}/validated"), "")
        }),
    ] {
        all.push(Case::new(&format!("/run has {name} already"), pass()).change(change));
    }
    let crash = Case::new(
        "/run has a verdict already, and the validator crashes",
        error("validator", "signal 11"),
    );
    let crash = crash
        .validator("kill -SEGV $$; sleep 9")
        .change(|m| m.file(&format!("{OLD}/validated"), ""));
    all.push(crash.file(
        "run-outside/firstlight/verdict.json",
        "{\"verdict\":\"PASS\"}",
    ));
    let refused = Case::new(
        "/run has a verdict already, and the configuration is refused",
        fault("config", "x: there is no such section"),
    );
    all.push(
        refused
            .config("[x]\n")
            .file("run-outside/firstlight/verdict.json", "{}")
            .file("run-outside/firstlight/validated", ""),
    );
    let bare = |name: &str, want: super::Expectation| {
        Case::new(&format!("no descriptors: {name}"), want).change(Machine::without_descriptors)
    };
    all.push(bare("a validator that passes", error("reset", "")));
    all
}

/// Signals at each stage. Signals other than these four have no effect.
fn signals() -> Vec<Case> {
    let mut all = Vec::new();
    let stages = [
        ("the fabric pass", "fabric*fix"),
        ("the validator", "\\ validate\\ "),
        ("env", "env"),
    ];
    for (stage, command) in stages {
        for (signals, then) in [
            (&["INT"][..], Outcome::Reboot),
            (&["TERM"], Outcome::PowerOff),
            (&["USR1"], Outcome::PowerOff),
            (&["USR2"], Outcome::PowerOff),
            (
                &["HUP", "QUIT", "PIPE", "PWR", "ALRM", "WINCH", "INT"],
                Outcome::Reboot,
            ),
            (&["TERM", "TERM", "TERM"], Outcome::PowerOff),
        ] {
            let name = format!("{} during {stage}", signals.join(" "));
            let case = Case::new(
                &name,
                error("interrupted", "INIT-ASKED: asked to ").then(then),
            );
            all.push(
                case.at(command, "echo waiting > /dev/console; sleep 600")
                    .signals("waiting", signals),
            );
        }
        let name = format!("harmless signals during {stage}");
        let case = Case::new(&name, pass()).at(command, "echo waiting > /dev/console; sleep 1");
        all.push(case.signals(
            "waiting",
            &[
                "HUP", "QUIT", "PIPE", "PWR", "ALRM", "VTALRM", "WINCH", "CHLD", "URG", "XCPU",
                "SEGV", "ABRT",
            ],
        ));
    }
    let deaf = "trap '' TERM INT USR1; echo waiting > /dev/console; while :; do sleep 0.1; done";
    for (signal, then) in [("INT", Outcome::Reboot), ("TERM", Outcome::PowerOff)] {
        let case = Case::new(
            &format!("{signal} during a validator that is deaf"),
            error("interrupted", "INIT-ASKED").then(then),
        );
        all.push(case.validator(deaf).signals("waiting", &[signal]));
    }
    for (signal, then) in [
        ("INT", Outcome::Reboot),
        ("USR1", Outcome::PowerOff),
        ("USR2", Outcome::PowerOff),
    ] {
        // The machine goes down by itself while the test checks whether it holds.
        let case = Case::new(&format!("{signal} in a hold"), pass().then(then))
            .words("firstlight.policy.on_pass=hold");
        all.push(case.signals("HOLD  ", &[signal]).always());
    }
    for signal in ["HUP", "QUIT", "PIPE", "PWR", "ALRM"] {
        let case = Case::new(&format!("{signal} in a hold"), pass().then(Outcome::Hold))
            .words("firstlight.policy.on_pass=hold");
        all.push(case.signals("HOLD  ", &[signal]));
    }
    all
}

/// A machine with a disk made of a folder, and the disk's name in the kernel words for `@`.
fn with_disk(case: Case, words: &'static str, fill: impl FnOnce(&Path) + Send + 'static) -> Case {
    case.change(move |m| {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path());
        let disk = Disk::of(folder.path());
        let line = fs::read_to_string(m.path("cmdline")).unwrap();
        let m = m.device(&disk.name).cmdline(&format!(
            "{} {}",
            line.trim(),
            words.replace('@', &format!("/dev/{}", disk.name))
        ));
        m.keeping(disk)
    })
}

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn partitions() -> Vec<Case> {
    const WORDS: &str = "firstlight.report.partition=@";
    let bad = |cause: &str| fault("config", cause);
    let mut all = Vec::new();
    let mut one = |name: &str, want: super::Expectation, fill: fn(&Path)| {
        all.push(with_disk(
            Case::new(&format!("partition: {name}"), want),
            WORDS,
            fill,
        ));
    };
    one(
        "config.toml is a pipe",
        bad("config.toml: not a regular file"),
        |at| pipe(&at.join("config.toml")),
    );
    one(
        "config.toml is a folder",
        bad("config.toml: not a regular file"),
        |at| {
            fs::create_dir(at.join("config.toml")).unwrap();
        },
    );
    one(
        "config.toml is a link to a device",
        bad("config.toml: not a regular file"),
        |at| {
            symlink("/dev/zero", at.join("config.toml")).unwrap();
        },
    );
    one(
        "config.toml is not UTF-8",
        bad("did not contain valid UTF-8"),
        |at| {
            fs::write(at.join("config.toml"), [0xff; 9]).unwrap();
        },
    );
    one(
        "config.toml is too large",
        bad("config.toml: larger than 1048576 bytes"),
        |at| {
            fs::write(at.join("config.toml"), vec![b'#'; 1_100_000]).unwrap();
        },
    );
    one("config.toml is bad", bad("line 1"), |at| {
        fs::write(at.join("config.toml"), "[").unwrap();
    });
    one(
        "config.toml names a key",
        bad("config.key: may not be set here").then(Outcome::Hold),
        |at| {
            fs::write(at.join("config.toml"), "[config]\nkey = \"x\"\n").unwrap();
        },
    );
    one(
        "config.d is a pipe",
        bad("config.d: Not a directory"),
        |at| pipe(&at.join("config.d")),
    );
    one(
        "config.d names no node",
        bad("not the name of a node"),
        |at| {
            fs::create_dir(at.join("config.d")).unwrap();
            fs::write(at.join("config.d/mac-1.toml"), "").unwrap();
        },
    );
    one(
        "the mark is a pipe",
        error("reset", "reset-mark: not a regular file"),
        |at| {
            pipe(&at.join("reset-mark"));
        },
    );
    one(
        "the mark is a folder",
        error("reset", "reset-mark: not a regular file"),
        |at| {
            fs::create_dir(at.join("reset-mark")).unwrap();
        },
    );
    one(
        "the mark is empty",
        error("reset", "reset-mark: holds 0 bytes"),
        |at| {
            fs::write(at.join("reset-mark"), "").unwrap();
        },
    );
    one(
        "the mark is zeros",
        error("reset", "reset-mark: begins with"),
        |at| {
            fs::write(at.join("reset-mark"), [0; 256]).unwrap();
        },
    );
    one("a pipe where the mark is written", pass(), |at| {
        pipe(&at.join(".reset-mark.new"));
    });
    one(
        "a folder where the mark is written",
        pass().says("warning: "),
        |at| {
            fs::create_dir_all(at.join(".reset-mark.new/x")).unwrap();
        },
    );
    for (name, damage) in [
        ("no file system", "conv=notrunc bs=1M count=4 if=/dev/zero"),
        (
            "a head of random bytes",
            "conv=notrunc bs=4k count=1 if=/dev/urandom",
        ),
    ] {
        let case = with_disk(
            Case::new(&format!("partition: {name}"), bad("/dev/loop")),
            WORDS,
            |_| {},
        );
        all.push(
            case.change(move |m| {
                let line = fs::read_to_string(m.path("cmdline")).unwrap();
                let device = line.trim().rsplit('=').next().unwrap().to_owned();
                assert!(
                    Command::new("dd")
                        .args(damage.split(' '))
                        .arg(format!("of={device}"))
                        .arg("status=none")
                        .status()
                        .unwrap()
                        .success()
                );
                m
            })
            .slow(),
        );
    }
    all
}

/// Invalid roots; the verdict is announced before, and stays.
fn roots() -> Vec<Case> {
    const WORDS: &str =
        "firstlight.workload.mode=switch-root firstlight.workload.exec= firstlight.workload.root=@";
    let failed = |why: &str| {
        pass()
            .says("ERROR     INIT-HANDOFF: workload.root /dev/loop")
            .says(why)
            .then(Outcome::Fault)
    };
    fn program(at: &Path, path: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir_all(at.join(path).parent().unwrap()).unwrap();
        fs::write(at.join(path), text).unwrap();
        fs::set_permissions(at.join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fn sbin(at: &Path) {
        fs::create_dir(at.join("sbin")).unwrap();
    }
    let none = "has none of /sbin/init, /usr/lib/systemd/systemd, /init";
    let mut all = Vec::new();
    for (name, why, fill) in [
        ("empty", none, (|_: &Path| {}) as fn(&Path)),
        ("init is a pipe", none, |at| pipe(&at.join("sbin/init"))),
        ("init is a folder", none, |at| {
            fs::create_dir_all(at.join("sbin/init")).unwrap();
        }),
        ("init is not executable", none, |at| {
            sbin(at);
            fs::write(at.join("sbin/init"), "#!/bin/sh\n").unwrap();
        }),
        ("init is a link to nothing", none, |at| {
            sbin(at);
            symlink("/none", at.join("sbin/init")).unwrap();
        }),
        ("init is a link to itself", none, |at| {
            sbin(at);
            symlink("init", at.join("sbin/init")).unwrap();
        }),
        ("init is a link out of the root", none, |at| {
            sbin(at);
            symlink("/../../../../init", at.join("sbin/init")).unwrap();
        }),
        ("init is a link to a program of the old root", none, |at| {
            sbin(at);
            symlink("/workload", at.join("sbin/init")).unwrap();
        }),
        ("init is a link into /proc", none, |at| {
            sbin(at);
            symlink("/proc/1/exe", at.join("sbin/init")).unwrap();
        }),
        ("sbin is a link out of the root", none, |at| {
            symlink("../../../../bin", at.join("sbin")).unwrap();
        }),
        ("/run is a link", "/run: not a folder", |at| {
            program(at, "sbin/init", "#!/bin/sh\n");
            symlink("/tmp", at.join("run")).unwrap();
        }),
        ("/dev is a file", "/dev: not a folder", |at| {
            program(at, "sbin/init", "#!/bin/sh\n");
            fs::write(at.join("dev"), "").unwrap();
        }),
        ("/proc is a pipe", "/proc: not a folder", |at| {
            program(at, "sbin/init", "#!/bin/sh\n");
            pipe(&at.join("proc"));
        }),
    ] {
        let case = with_disk(
            Case::new(&format!("root: {name}"), failed(why)),
            WORDS,
            fill,
        );
        all.push(if name == "empty" { case.always() } else { case });
    }
    // These are detected after the point of no return; process 1 still survives.
    for (name, why, fill) in [
        (
            "init has no interpreter",
            "No such file",
            (|at: &Path| program(at, "sbin/init", "#!/none\n")) as fn(&Path),
        ),
        ("init is garbage", "/sbin/init: No such file", |at| {
            program(at, "sbin/init", "\u{7f}ELFgarbage");
        }),
        ("init is empty", "/sbin/init: No such file", |at| {
            program(at, "sbin/init", "");
        }),
        (
            "nccl.conf is a pipe, init garbage",
            "/sbin/init: No such file",
            |at| {
                program(at, "sbin/init", "");
                pipe(&at.join("etc/nccl.conf"));
            },
        ),
        (
            "etc is a link out of the root, init garbage",
            "/sbin/init: No such file",
            |at| {
                program(at, "sbin/init", "");
                symlink("/../../etc", at.join("etc")).unwrap();
            },
        ),
    ] {
        all.push(
            with_disk(
                Case::new(&format!("root: {name}"), failed(why)),
                WORDS,
                fill,
            )
            .always(),
        );
    }
    let want = failed("/etc/nccl.conf: not a regular file");
    let env = "echo 'NCCL_P2P_DISABLE=1'; exit 0";
    all.push(with_disk(
        Case::new("root: nccl.conf is a pipe, and peer-to-peer is off", want).at("env", env),
        WORDS,
        |at| {
            program(at, "sbin/init", "");
            pipe(&at.join("etc/nccl.conf"));
        },
    ));
    let want = pass()
        .says("ERROR     INIT-HANDOFF: workload.root /dev/none")
        .then(Outcome::Fault);
    all.push(
        Case::new("root: no such disk", want)
            .words("firstlight.workload.mode=switch-root firstlight.workload.exec= firstlight.workload.root=/dev/none")
            .slow(),
    );
    all
}
