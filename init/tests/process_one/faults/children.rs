//! Faults of the programs that process 1 starts: how they end, what they print, what they leave behind, and what they do
//! to process 1's own files. Only the validator's output counts as evidence.

use super::super::namespace::{Machine, PASS};
use super::{Case, Outcome, error, fault, pass};
use serde_json::{Value, json};
use std::fs;

pub(super) fn cases() -> Vec<Case> {
    [
        ends(),
        reports(),
        last_lines(),
        outputs(),
        others_files(),
        fabric(),
        environment(),
        publishing(),
        workload(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Writes the bytes of a file of the machine as the report, and exits as PASS does.
const REPORT_FROM_FILE: &str = "cat /etc/report > /run/firstlight/report.json; exit 0";

/// A validator that leaves a valid report and a valid last line, and then runs this script.
fn after_pass(script: &str) -> String {
    format!("{}\n{script}", PASS.replace("exit 0", ""))
}

/// Exit statuses and signals.
fn ends() -> Vec<Case> {
    let mut all = Vec::new();
    for status in (1..=20).chain([
        63, 64, 65, 77, 101, 126, 127, 128, 129, 137, 139, 200, 254, 255,
    ]) {
        let cause = match status {
            1 => "exit status says FAIL, its report PASS".to_owned(),
            2 => "exit status says ERROR, its report PASS".to_owned(),
            3 => "exit status says DEGRADED, its report PASS".to_owned(),
            status => format!("the validator exited with status {status}: "),
        };
        let case = Case::new(
            &format!("validator exits {status}"),
            error("validator", &cause),
        );
        all.push(case.validator(&after_pass(&format!("exit {status}"))));
    }
    let signals = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ILL", 4),
        ("TRAP", 5),
        ("ABRT", 6),
        ("BUS", 7),
        ("FPE", 8),
        ("KILL", 9),
        ("USR1", 10),
        ("SEGV", 11),
        ("USR2", 12),
        ("PIPE", 13),
        ("ALRM", 14),
        ("TERM", 15),
        ("XCPU", 24),
        ("SYS", 31),
    ];
    for (name, number) in signals {
        let want = error(
            "validator",
            &format!("the validator was killed by signal {number}"),
        );
        let case = Case::new(
            &format!("validator is killed by {name}"),
            want.says("  firstlight: last words"),
        );
        let case = case.validator(&after_pass(&format!(
            "echo last words >&2; kill -{name} $$; sleep 9"
        )));
        all.push(if name == "SEGV" { case.always() } else { case });
    }
    for (status, word) in [
        (0, "FAIL"),
        (0, "ERROR"),
        (0, "DEGRADED"),
        (1, "ERROR"),
        (2, "FAIL"),
        (3, "FAIL"),
    ] {
        let case = Case::new(
            &format!("validator exits {status}, report {word}"),
            error("validator", &format!("its report {word}")),
        );
        all.push(
            case.validator(&format!("report {word} fail; exit {status}"))
                .always(),
        );
    }
    let late = "did not end within 31 s and was killed";
    for (name, script) in [
        ("sleeps", "report PASS pass; sleep 600"),
        (
            "ignores TERM",
            "report PASS pass; trap '' TERM; setsid sleep 600 & while :; do sleep 1; done",
        ),
        ("stops itself", "report PASS pass; kill -STOP $$"),
        ("spins", "report PASS pass; while :; do :; done"),
        (
            "waits for a pipe",
            "report PASS pass; mkfifo /tmp/p; cat /tmp/p",
        ),
        (
            "closed its output",
            "report PASS pass; exec >&- 2>&-; sleep 600",
        ),
    ] {
        let case = Case::new(
            &format!("validator hangs: {name}"),
            error("validator", late),
        )
        .slow();
        let case = case.validator(script).config("[validate]\ntimeout_s = 1\n");
        all.push(if name == "ignores TERM" {
            case.always()
        } else {
            case
        });
    }
    for (name, change, cause) in [
        (
            "is missing",
            (|m: Machine| m.without_validator()) as fn(Machine) -> Machine,
            "No such file",
        ),
        (
            "is a folder",
            |m| {
                let m = m.without_validator();
                fs::create_dir(m.path("usr/bin/firstlight")).unwrap();
                m
            },
            "Permission denied",
        ),
        (
            "is a pipe",
            |m| m.without_validator().pipe("usr/bin/firstlight"),
            "Permission denied",
        ),
        (
            "has no interpreter",
            |m| m.program("usr/bin/firstlight", "#!/none\n"),
            "No such file",
        ),
        (
            "is not executable",
            |m| {
                m.without_validator()
                    .file("usr/bin/firstlight", "#!/bin/sh\n")
            },
            "Permission denied",
        ),
    ] {
        let cause = format!("fabric: firstlight fabric fix could not be started: {cause}");
        all.push(
            Case::new(&format!("validator {name}"), error("fabric", &cause))
                .change(change)
                .always(),
        );
    }
    // The C library gives a file of neither form to a shell.
    for (name, text, cause) in [
        ("is empty", "", "fabric-fix.json: No such file"),
        ("is garbage", "\u{7f}ELFgarbage", "exited with status 127"),
    ] {
        let case = Case::new(&format!("validator {name}"), error("fabric", cause));
        all.push(case.change(|m| m.program("usr/bin/firstlight", text)));
    }
    all
}

/// A report that init accepts.
fn good() -> Value {
    json!({ "schema": "firstlight.report/1", "verdict": "PASS", "scope": "machine", "covers": "no GPU", "root": "/",
        "started": "2026-11-20T10:00:00Z", "machine": { "fingerprint": "ab".repeat(32), "bound_to": { "kernel": "k" } },
        "tests": [{ "id": "iommu", "outcome": "pass" }] })
}

/// A run with these bytes as the report of a validator that exits as PASS does.
fn with_report(name: &str, cause: &str, bytes: impl AsRef<[u8]> + Send + 'static) -> Case {
    Case::new(&format!("report: {name}"), error("validator", cause))
        .validator(REPORT_FROM_FILE)
        .file("etc/report", bytes)
}

fn reports() -> Vec<Case> {
    let whole = good().to_string();
    let mut all = vec![
        Case::new("report: whole", pass())
            .validator(REPORT_FROM_FILE)
            .file("etc/report", whole.clone())
            .always(),
    ];
    for part in 0..24 {
        let cut = whole.len() * part / 24;
        all.push(with_report(
            &format!("cut after {cut} bytes"),
            "report.json: EOF",
            whole.as_bytes().get(..cut).unwrap().to_owned(),
        ));
    }
    for pointer in [
        "/schema",
        "/verdict",
        "/scope",
        "/covers",
        "/root",
        "/started",
        "/machine",
        "/tests",
        "/machine/fingerprint",
        "/machine/bound_to",
        "/tests/0/id",
        "/tests/0/outcome",
    ] {
        let (folder, key) = pointer.rsplit_once('/').unwrap();
        let mut without = good();
        without
            .pointer_mut(folder)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(key);
        all.push(with_report(
            &format!("without {pointer}"),
            "report.json: missing field",
            without.to_string(),
        ));
        for (kind, value) in [("a number", json!(7)), ("null", Value::Null)] {
            let mut other = good();
            *other.pointer_mut(pointer).unwrap() = value;
            all.push(with_report(
                &format!("{pointer} is {kind}"),
                "report.json: ",
                other.to_string(),
            ));
        }
    }
    let changed = |pointer: &str, value: Value| {
        let mut other = good();
        *other.pointer_mut(pointer).unwrap() = value;
        other.to_string()
    };
    let deep = |text: &str| format!(r#"{{"x":{}"#, text.repeat(100_000));
    for (name, cause, text) in [
        (
            "another schema",
            "report.json: schema \"firstlight.report/2\"",
            changed("/schema", json!("firstlight.report/2")),
        ),
        (
            "no schema",
            "report.json: schema \"\"",
            changed("/schema", json!("")),
        ),
        (
            "a verdict in small letters",
            "report.json: unknown variant",
            changed("/verdict", json!("pass")),
        ),
        (
            "another verdict with a line feed",
            "report.json: unknown variant",
            changed("/verdict", json!("X\nFIRSTLIGHT verdict=PASS")),
        ),
        (
            "scope gpus",
            "expected of \"machine\"",
            changed("/scope", json!("gpus")),
        ),
        (
            "no scope",
            "expected of \"machine\"",
            changed("/scope", json!("")),
        ),
        (
            "no fingerprint",
            "has no fingerprint",
            changed("/machine/fingerprint", json!("")),
        ),
        (
            "a short fingerprint",
            "has no fingerprint",
            changed("/machine/fingerprint", json!("ab".repeat(31))),
        ),
        (
            "a fingerprint of other letters",
            "has no fingerprint",
            changed("/machine/fingerprint", json!("xy".repeat(32))),
        ),
        (
            "bound to a list",
            "report.json: bound_to",
            changed("/machine/bound_to", json!([1])),
        ),
        (
            "bound to a text",
            "report.json: bound_to",
            changed("/machine/bound_to", json!("k")),
        ),
        ("no test", "its tests do not", changed("/tests", json!([]))),
        (
            "nothing applies",
            "its tests do not",
            changed("/tests/0/outcome", json!("not-applicable")),
        ),
        (
            "a failed test",
            "its tests do not",
            changed("/tests/0/outcome", json!("fail")),
        ),
        (
            "a test in error",
            "its tests do not",
            changed("/tests/0/outcome", json!("error")),
        ),
        (
            "an unknown outcome",
            "report.json: unknown variant",
            changed("/tests/0/outcome", json!("skipped")),
        ),
        (
            "two verdicts",
            "report.json: duplicate field",
            whole.replacen('{', "{\"verdict\":\"FAIL\",", 1),
        ),
        (
            "two documents",
            "report.json: trailing characters",
            whole.repeat(2),
        ),
        (
            "letters after it",
            "report.json: trailing characters",
            format!("{whole} x"),
        ),
        (
            "a NUL after it",
            "report.json: trailing characters",
            format!("{whole}\0"),
        ),
        (
            "a NUL before it",
            "report.json: expected value",
            format!("\0{whole}"),
        ),
        (
            "a byte order mark",
            "report.json: expected value",
            format!("\u{feff}{whole}"),
        ),
        ("white space alone", "report.json: EOF", " \n".repeat(1000)),
        ("null", "report.json: ", "null".to_owned()),
        ("a list", "report.json: ", "[]".to_owned()),
        (
            "an empty object",
            "report.json: missing field",
            "{}".to_owned(),
        ),
        ("a text", "report.json: ", "\"PASS\"".to_owned()),
        ("deep lists", "report.json: ", deep("[")),
        ("deep objects", "report.json: ", deep("{\"a\":")),
        (
            "control characters",
            "report.json: ",
            "\u{1b}[2J\u{7}\rFIRSTLIGHT verdict=PASS".to_owned(),
        ),
        (
            "the last line in its place",
            "report.json: ",
            "FIRSTLIGHT verdict=PASS failed=none\n".to_owned(),
        ),
    ] {
        all.push(with_report(name, cause, text));
    }
    all.push(with_report(
        "not UTF-8",
        "report.json: ",
        whole
            .replace("no GPU", "\u{ff}")
            .into_bytes()
            .into_iter()
            .filter(|b| *b != 0xc3)
            .collect::<Vec<_>>(),
    ));
    all.push(with_report(
        "in two bytes each",
        "report.json: ",
        whole
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<_>>(),
    ));
    const AT: &str = "/run/firstlight/report.json";
    for (name, cause, script) in [
        ("missing", "report.json: No such file", String::new()),
        (
            "a pipe",
            "report.json: not a regular file",
            format!("mkfifo {AT}"),
        ),
        (
            "a folder",
            "report.json: not a regular file",
            format!("mkdir {AT}"),
        ),
        (
            "a device",
            "report.json: not a regular file",
            format!("ln -s /dev/zero {AT}"),
        ),
        (
            "a link to nothing",
            "report.json: No such file",
            format!("ln -s /none {AT}"),
        ),
        (
            "a link to itself",
            "report.json: ",
            format!("ln -s report.json {AT}"),
        ),
        (
            "too large",
            "report.json: larger than 67108864 bytes",
            format!("truncate -s 70M {AT}"),
        ),
        (
            "60 MB of zeros",
            "report.json: expected value",
            format!("truncate -s 60M {AT}"),
        ),
        (
            "written and removed",
            "report.json: No such file",
            format!("report PASS pass; rm {AT}"),
        ),
        (
            "elsewhere",
            "report.json: No such file",
            format!("report PASS pass; mv {AT} /run/report.json"),
        ),
        (
            "written after the exit",
            "report.json: No such file",
            "(sleep 1; report PASS pass) > /dev/null 2>&1 &".to_owned(),
        ),
        (
            "written by a daemon",
            "report.json: No such file",
            "setsid sh -c 'sleep 1; cp /etc/report /run/firstlight/report.json' > /dev/null 2>&1 &"
                .to_owned(),
        ),
    ] {
        let case = Case::new(&format!("report: {name}"), error("validator", cause))
            .file("etc/report", whole.clone());
        let line = "echo 'FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=n seconds=1'";
        all.push(
            case.validator(&format!("{script}\n{line}\nexit 0"))
                .always(),
        );
    }
    for file in ["report.json", "verdict.json", "validated", "env"] {
        let case = Case::new(
            &format!("of an earlier run: {file}"),
            error("validator", "report.json: No such file"),
        );
        all.push(
            case.at(
                "fabric*fix",
                &format!("cp /etc/report /run/firstlight/{file}"),
            )
            .file("etc/report", whole.clone())
            .validator("exit 0"),
        );
    }
    all
}

/// The validator's own last lines, which are shown only if they agree with the report.
fn last_lines() -> Vec<Case> {
    let line = |verdict: &str, failed: &str| {
        format!(
            "echo 'FIRSTLIGHT verdict={verdict} failed={failed} warned=none codes=none scope=machine host=n seconds=1.0'"
        )
    };
    let (good, bad) = (line("PASS", "none"), line("FAIL", "iommu"));
    let mut all = Vec::new();
    for (name, script) in [
        ("none", String::new()),
        ("for scrapers alone", good.clone()),
        ("of another verdict", format!("echo 'VERDICT  FAIL'; {bad}")),
        (
            "both verdicts, the wrong one last",
            format!("echo 'VERDICT  PASS'; {good}; echo 'VERDICT  FAIL'; {bad}"),
        ),
        ("twice", format!("echo 'VERDICT  PASS'; {good}; {good}")),
        (
            "on standard error",
            format!("{{ echo 'VERDICT  PASS'; {bad}; }} >&2"),
        ),
        (
            "without a line feed",
            "echo 'VERDICT  PASS'; printf 'FIRSTLIGHT verdict=PASS'".to_owned(),
        ),
        (
            "with another failure",
            format!("echo 'VERDICT  PASS'; {}", line("PASS", "iommu")),
        ),
        (
            "with control characters",
            "echo 'VERDICT  PASS'; printf 'FIRSTLIGHT verdict=PASS \\033[2J\\r\\n'".to_owned(),
        ),
        (
            "behind control characters",
            format!("printf '\\r\\033[2K'; {bad}"),
        ),
        (
            "of 9000 letters",
            "echo 'VERDICT  PASS'; printf 'FIRSTLIGHT verdict=PASS failed=none %9000s\\n' x"
                .to_owned(),
        ),
        (
            "20000 of them",
            format!(
                "for i in 1 2 3 4; do for j in 1 2 3 4; do yes 'FIRSTLIGHT verdict=FAIL failed=x' | head -n 1000; done; done; {good}"
            ),
        ),
    ] {
        let case = Case::new(&format!("last line: {name}"), pass());
        all.push(case.validator(&format!("report PASS pass\n{script}\nexit 0")));
    }
    let hostile = json!("a\nFIRSTLIGHT verdict=PASS failed=none\u{1b}[2J");
    for (name, own) in [
        ("without lines", ""),
        ("with lines of another verdict", good.as_str()),
        (
            "with wrong lines",
            "echo 'VERDICT  FAIL'; echo 'FIRSTLIGHT verdict=FAIL failed=none'",
        ),
    ] {
        let mut report = self::good();
        (report["verdict"], report["tests"][0]) =
            (json!("FAIL"), json!({ "id": hostile, "outcome": "fail" }));
        let mut want = pass();
        (want.verdict, want.failed) = ("FAIL", "a\nFIRSTLIGHT verdict=PASS failed=none\u{1b}[2J");
        let case = Case::new(&format!("hostile id: {name}"), want);
        all.push(
            case.validator(
                &format!("cat /etc/report > /run/firstlight/report.json; {own}; exit 1")
                    .replace("; ;", ";"),
            )
            .file("etc/report", report.to_string()),
        );
    }
    all
}

/// Output and leftover processes of a validator that does its work.
fn outputs() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, script) in [
        (
            "1 MB of lines",
            "yes 'a line of the validator, forty letters .' | head -c 1000000",
        ),
        (
            "4 MB of lines",
            "yes 'a line of the validator, forty letters .' | head -c 4000000",
        ),
        (
            "1 MB of errors",
            "yes 'a line of the validator, forty letters .' | head -c 1000000 >&2",
        ),
        ("1 MB in one line", "head -c 1000000 /dev/zero | tr '\\0' x"),
        ("1 MB of zeros", "head -c 1000000 /dev/zero"),
        ("a program's bytes", "head -c 100000 /bin/sh"),
        ("a program's bytes as errors", "head -c 100000 /bin/sh >&2"),
        ("empty lines", "yes '' | head -n 20000"),
        (
            "control characters",
            "printf '\\033[2J\\033c\\r\\a\\b\\f\\0\\n'",
        ),
        ("closed output", "exec >&- 2>&-; sleep 0.2"),
        (
            "output read by a child",
            "sleep 600 & sleep 600 > /dev/null 2>&1 &",
        ),
        (
            "sessions of their own",
            "for i in 1 2 3 4 5 6 7 8; do setsid sleep 600 > /dev/null 2>&1 & done",
        ),
        (
            "deaf daemons",
            "setsid sh -c \"trap '' TERM HUP INT; while :; do sleep 1; done\" > /dev/null 2>&1 &",
        ),
        (
            "orphans",
            "for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 &) ; done",
        ),
        (
            "a daemon that prints",
            "setsid sh -c 'while :; do echo FIRSTLIGHT verdict=FAIL; sleep 0.01; done' &",
        ),
        (
            "a daemon that forges the verdict",
            "setsid sh -c 'while :; do echo forged > /run/firstlight/verdict.json; done' > /dev/null 2>&1 &",
        ),
        (
            "signals that are none of its business",
            "kill -HUP 1; kill -QUIT 1; kill -PIPE 1; kill -KILL 1; kill -STOP 1; kill -PWR 1",
        ),
        (
            "a full file system of programs",
            "head -c 5000000 /dev/zero > /etc/large",
        ),
    ] {
        let case = Case::new(
            &format!("validator prints and leaves: {name}"),
            pass().then(Outcome::Hold),
        );
        all.push(
            case.validator(&format!("{script}\n{PASS}"))
                .words("firstlight.policy.on_pass=hold"),
        );
    }
    all
}

/// Damage that a failing validator does to the files that process 1 writes after it.
fn others_files() -> Vec<Case> {
    let mut all = Vec::new();
    for file in ["verdict.json", "validated", "env"] {
        for (kind, script) in [
            ("a file", "echo forged > F"),
            ("a pipe", "mkfifo F"),
            ("a folder", "mkdir -p F/x"),
            ("a link to nothing", "ln -s /none/none F"),
            ("a device", "ln -s /dev/full F"),
        ] {
            let at = format!("/run/firstlight/{file}");
            let case = Case::new(
                &format!("validator fails and leaves {file} as {kind}"),
                error("validator", "killed by signal 11"),
            );
            all.push(case.validator(&format!(
                "report PASS pass; {}; kill -SEGV $$; sleep 9",
                script.replace('F', &at)
            )));
        }
    }
    for (name, at) in [
        ("verdict.json", "/run/firstlight/.verdict.json.new"),
        ("env", "/run/firstlight/.env.new"),
        ("nccl.conf", "/etc/.nccl.conf.new"),
    ] {
        for (kind, script) in [
            ("a pipe", "mkfifo F"),
            ("a link", "ln -s /etc/firstlight/config.toml F"),
            ("a folder", "mkdir -p F/x"),
        ] {
            let case = Case::new(
                &format!("validator leaves {kind} where {name} is written"),
                pass(),
            );
            all.push(case.validator(&format!("{}\n{PASS}", script.replace('F', at))));
        }
    }
    for (name, script) in [
        ("a pipe", "mkfifo /etc/nccl.conf"),
        ("a folder", "mkdir /etc/nccl.conf"),
        ("a device", "ln -s /dev/zero /etc/nccl.conf"),
        ("not text", "printf '\\377\\n' > /etc/nccl.conf"),
        ("300 MB", "truncate -s 300M /etc/nccl.conf"),
    ] {
        let want = error("publish", "publish: /etc/nccl.conf: ");
        all.push(
            Case::new(&format!("nccl.conf is {name}"), want)
                .validator(&format!("{script}\n{PASS}"))
                .policy("reboot"),
        );
    }
    let want = error("publish", "publish: /etc/nccl.conf: not a regular file").then(Outcome::Hold);
    let case = Case::new("nccl.conf is a pipe, and peer-to-peer was to be off", want);
    all.push(
        case.validator(&format!("mkfifo /etc/nccl.conf\n{PASS}"))
            .policy("workload-without-p2p"),
    );
    all.push(
        Case::new(
            "validator removes the folder",
            error("validator", "report.json: No such file"),
        )
        .validator("rm -rf /run/firstlight; exit 0"),
    );
    for (name, script) in [
        ("TERM", "kill -TERM 1; sleep 600"),
        ("USR1", "kill -USR1 1; sleep 600"),
        ("USR2", "kill -USR2 1; sleep 600"),
    ] {
        let case = Case::new(
            &format!("validator sends process 1 {name}"),
            error("interrupted", "INIT-ASKED: ").then(Outcome::PowerOff),
        );
        all.push(case.validator(script));
    }
    all
}

const FIX: &str = "/run/firstlight/fabric-fix.json";

/// The fabric pass, a child before the driver.
fn fabric() -> Vec<Case> {
    let fine = format!(r#"printf '%s\n' '{{"schema":"firstlight.fix/1","summary":"x"}}' > {FIX}"#);
    let mut all = Vec::new();
    for status in [2, 3, 4, 63, 65, 101, 126, 127, 137, 255] {
        let cause = format!("fabric: firstlight fabric fix exited with status {status}");
        all.push(
            Case::new(
                &format!("fabric pass exits {status}"),
                error("fabric", &cause),
            )
            .at("fabric*fix", &format!("{fine}; exit {status}")),
        );
    }
    for (name, number) in [
        ("SEGV", 11),
        ("KILL", 9),
        ("BUS", 7),
        ("TERM", 15),
        ("ABRT", 6),
    ] {
        let cause = format!("fabric: firstlight fabric fix was killed by signal {number}");
        all.push(
            Case::new(
                &format!("fabric pass is killed by {name}"),
                error("fabric", &cause),
            )
            .at("fabric*fix", &format!("{fine}; kill -{name} $$; sleep 9")),
        );
    }
    for (name, cause, script) in [
        ("missing", "No such file", String::new()),
        ("a pipe", "not a regular file", format!("mkfifo {FIX}")),
        ("a folder", "not a regular file", format!("mkdir {FIX}")),
        (
            "a device",
            "not a regular file",
            format!("ln -s /dev/zero {FIX}"),
        ),
        ("empty", "EOF", format!(": > {FIX}")),
        (
            "cut",
            "EOF",
            format!("printf '{{\"schema\":\"firstlight' > {FIX}"),
        ),
        ("binary", "", format!("head -c 4000 /bin/sh > {FIX}")),
        (
            "of another schema",
            "schema: read firstlight.plan/1",
            fine.replace("fix/1", "plan/1"),
        ),
        (
            "without a summary",
            "missing field",
            fine.replace("summary", "sumary"),
        ),
        (
            "with an empty summary",
            "summary: read an empty text",
            fine.replace(":\"x\"", ":\"\""),
        ),
        (
            "too large",
            "larger than 16777216 bytes",
            format!("truncate -s 17M {FIX}"),
        ),
    ] {
        let want = error(
            "fabric",
            &format!("fabric: firstlight fabric fix: {FIX}: {cause}"),
        );
        all.push(Case::new(&format!("fabric document is {name}"), want).at(
            "fabric*fix",
            &format!("{script}; exit 0").replacen("; exit", "\nexit", 1),
        ));
    }
    let refused = [
        (
            "with words",
            "echo 'x.toml: y' >&2; exit 64",
            "INIT-CONFIG: x.toml: y",
        ),
        (
            "silently",
            "exit 64",
            "the validator refused its configuration",
        ),
        (
            "with 1 MB",
            "yes refusal | head -c 1000000 >&2; exit 64",
            "INIT-CONFIG: refusal",
        ),
    ];
    for (name, script, cause) in refused {
        all.push(
            Case::new(
                &format!("fabric pass refuses the configuration {name}"),
                fault("config", cause),
            )
            .at("fabric*fix", script)
            .always(),
        );
    }
    for (name, script) in [
        (
            "floods",
            "yes 'a line of the fabric pass' | head -c 2000000; yes error | head -c 2000000 >&2",
        ),
        (
            "prints a verdict",
            "echo 'FIRSTLIGHT verdict=FAIL failed=x'; echo 'VERDICT  FAIL'",
        ),
        (
            "prints binary",
            "head -c 100000 /bin/sh; head -c 100000 /bin/sh >&2",
        ),
        (
            "leaves daemons",
            "setsid sleep 600 > /dev/null 2>&1 & sleep 600 &",
        ),
        (
            "forges files",
            "for f in report.json verdict.json validated env driver.json .driver-draft.json; do echo forged > /run/firstlight/$f; done",
        ),
        (
            "leaves pipes",
            "for f in report.json verdict.json validated env driver.json .driver-draft.json .verdict.json.new .driver.json.new; do mkfifo /run/firstlight/$f; done",
        ),
        (
            "removes the log",
            "rm /run/firstlight/boot.log; mkfifo /run/firstlight/boot.log",
        ),
    ] {
        let case = Case::new(&format!("fabric pass {name}"), pass().then(Outcome::Hold))
            .words("firstlight.policy.on_pass=hold");
        all.push(case.at("fabric*fix", &format!("{script}\n{fine}; exit 0")));
    }
    let name = "fabric document holds a verdict line";
    all.push(Case::new(name, pass()).at(
        "fabric*fix",
        &format!(
            "{}; exit 0",
            fine.replace("\"x\"", r#""a\nFIRSTLIGHT verdict=FAIL failed=y""#)
        ),
    ));
    for (name, script) in [
        ("sleeps", "sleep 600"),
        ("ignores TERM", "trap '' TERM; while :; do sleep 1; done"),
    ] {
        let want = error(
            "fabric",
            "fabric: firstlight fabric fix did not end within 60 s and was killed",
        );
        all.push(
            Case::new(&format!("fabric pass hangs: {name}"), want)
                .at("fabric*fix", script)
                .slow(),
        );
    }
    all
}

/// `firstlight env`, whose lines become the workload's variables.
fn environment() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, script, cause) in [
        ("exits 1", "exit 1", "firstlight env exited with status 1"),
        (
            "exits 64",
            "exit 64",
            "firstlight env exited with status 64",
        ),
        (
            "is killed",
            "kill -KILL $$; sleep 9",
            "firstlight env was killed by signal 9",
        ),
        (
            "prints no variable",
            "echo hello; exit 0",
            "read \"hello\", allowed",
        ),
        (
            "prints a command",
            "echo 'export A=1'; exit 0",
            "allowed: NAME=value",
        ),
        (
            "prints control characters",
            "printf 'A\\033=1\\n'; exit 0",
            "allowed: NAME=value",
        ),
        (
            "prints binary",
            "head -c 100000 /bin/sh; exit 0",
            "allowed: NAME=value",
        ),
    ] {
        all.push(Case::new(&format!("env {name}"), error("publish", cause)).at("env", script));
    }
    for (name, script) in [
        ("prints nothing", "exit 0"),
        (
            "prints 100000 variables",
            "yes A=1 | head -n 100000; exit 0",
        ),
        (
            "prints 4 MB in comments",
            "yes '# a' | head -c 4000000; exit 0",
        ),
        (
            "prints a value with a verdict",
            "echo 'A=FIRSTLIGHT verdict=FAIL'; exit 0",
        ),
        (
            "leaves a daemon",
            "setsid sleep 600 > /dev/null 2>&1 & exit 0",
        ),
    ] {
        all.push(Case::new(&format!("env {name}"), pass()).at("env", script));
    }
    let want = error(
        "publish",
        "firstlight env did not end within 20 s and was killed",
    );
    all.push(Case::new("env hangs", want).at("env", "sleep 600").slow());
    all
}

/// `firstlight publish`, which changes no verdict.
fn publishing() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, script) in [
        ("exits 1", "exit 1"),
        ("is killed", "kill -SEGV $$; sleep 9"),
        ("prints binary", "head -c 100000 /bin/sh; exit 0"),
        ("floods", "yes 'url: sent' | head -c 2000000; exit 0"),
        (
            "prints a verdict",
            "echo 'FIRSTLIGHT verdict=FAIL'; echo 'url: x'; exit 0",
        ),
        (
            "forges the verdict's copy",
            "echo 'partition: kept as x'; echo config.tom; exit 0",
        ),
        (
            "leaves a daemon",
            "setsid sleep 600 > /dev/null 2>&1 & exit 0",
        ),
        ("hangs", "sleep 600"),
    ] {
        let words = "firstlight.report.url=http://192.0.2.1/r firstlight.report.timeout_s=1 firstlight.network.timeout_s=1";
        let case = Case::new(&format!("publish {name}"), pass())
            .words(words)
            .at("publish", script);
        all.push(if name == "hangs" { case.slow() } else { case });
    }
    all
}

/// A workload that dies, hangs, or cannot be started.
fn workload() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, script, says) in [
        (
            "is garbage",
            "echo \"WORKLOAD RUNS <>\"; \u{7f}ELFgarbage",
            "exited with status 127",
        ),
        (
            "exits 0",
            "echo \"WORKLOAD RUNS <>\"; exit 0",
            "exited with status 0",
        ),
        (
            "exits 1",
            "echo \"WORKLOAD RUNS <>\"; exit 1",
            "exited with status 1",
        ),
        (
            "exits 255",
            "echo \"WORKLOAD RUNS <>\"; exit 255",
            "exited with status 255",
        ),
        (
            "crashes",
            "echo \"WORKLOAD RUNS <>\"; kill -SEGV $$",
            "was killed by signal 11",
        ),
        (
            "is killed",
            "echo \"WORKLOAD RUNS <>\"; kill -KILL $$",
            "was killed by signal 9",
        ),
        (
            "sends process 1 signals",
            "echo \"WORKLOAD RUNS <>\"; kill -PWR 1; kill -KILL 1; kill -STOP 1; exit 4",
            "exited with status 4",
        ),
        (
            "leaves daemons",
            "echo \"WORKLOAD RUNS <>\"; setsid sleep 600 & trap '' TERM; setsid sleep 600 & exit 5",
            "exited with status 5",
        ),
        (
            "floods the console",
            "echo \"WORKLOAD RUNS <>\"; head -c 3000000 /dev/zero | tr '\\0' '\\n'; exit 6",
            "exited with status 6",
        ),
        (
            "closes its output",
            "echo \"WORKLOAD RUNS <>\"; exec >&- 2>&-; sleep 0.2; exit 7",
            "exited with status 7",
        ),
        (
            "removes the verdict's folder",
            "echo \"WORKLOAD RUNS <>\"; mv /run/firstlight /run/old; mkdir /run/firstlight; cp /run/old/v* /run/firstlight; exit 8",
            "exited with status 8",
        ),
    ] {
        all.push(Case::new(&format!("workload {name}"), pass().says(says)).workload(script));
    }
    for (name, change, why) in [
        (
            "is missing",
            (|m: Machine| {
                fs::remove_file(m.path("workload")).unwrap();
                m
            }) as fn(Machine) -> Machine,
            "No such file",
        ),
        (
            "is a folder",
            |m| {
                fs::remove_file(m.path("workload")).unwrap();
                fs::create_dir(m.path("workload")).unwrap();
                m
            },
            "Permission denied",
        ),
        (
            "is a pipe",
            |m| {
                fs::remove_file(m.path("workload")).unwrap();
                m.pipe("workload")
            },
            "Permission denied",
        ),
        (
            "has no interpreter",
            |m| m.program("workload", "#!/none\n"),
            "No such file",
        ),
        (
            "is a link to itself",
            |m| {
                fs::remove_file(m.path("workload")).unwrap();
                std::os::unix::fs::symlink("workload", m.path("workload")).unwrap();
                m
            },
            "symbolic link",
        ),
    ] {
        let want = pass()
            .says("ERROR     INIT-HANDOFF: workload.exec /workload: ")
            .says(why)
            .then(Outcome::Fault);
        all.push(
            Case::new(&format!("workload {name}"), want)
                .change(change)
                .always(),
        );
    }
    for (signal, then, says) in [
        ("INT", Outcome::Reboot, "got TERM"),
        ("TERM", Outcome::PowerOff, "got TERM"),
        ("USR1", Outcome::PowerOff, "got USR1"),
        ("USR2", Outcome::PowerOff, "got USR2"),
        ("HUP", Outcome::PowerOff, "got HUP"),
        ("QUIT", Outcome::PowerOff, "got QUIT"),
    ] {
        let case = Case::new(
            &format!("workload gets {signal}"),
            pass().then(then).says(says),
        );
        let script = "for s in TERM USR1 USR2 HUP QUIT; do trap \"echo got $s; exit 0\" $s; done; echo LISTENING; while :; do sleep 0.1; done";
        all.push(case.workload(script).signals("LISTENING", &[signal]));
    }
    let deaf = "trap '' TERM INT; echo LISTENING; while :; do sleep 0.1; done";
    for (signal, then) in [("INT", Outcome::Reboot), ("TERM", Outcome::PowerOff)] {
        let case = Case::new(
            &format!("workload is deaf to {signal}"),
            pass().then(then).says("was killed by signal 9"),
        )
        .slow();
        all.push(case.workload(deaf).signals("LISTENING", &[signal]));
    }
    all
}
