//! `publish` and `fetch`: a folder, a full disk, and a real server on the loopback interface.

use super::machine::{Run, firstlight, run_of};
use super::servers::{HttpReply, HttpServer};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A report of one test, which failed.
pub(crate) const REPORT: &str = include_str!("../data/published.json");

/// The same, had the test passed.
fn passed() -> String {
    REPORT
        .replace("FAIL", "PASS")
        .replace("\"fail\"", "\"pass\"")
}

fn run(words: &[&str]) -> Run {
    run_of(
        firstlight("")
            .args(words)
            .env_remove("http_proxy")
            .env_remove("HTTP_PROXY")
            .output()
            .unwrap(),
    )
}

pub(crate) struct Workspace {
    dir: tempfile::TempDir,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("report.json"), REPORT).unwrap();
        fs::create_dir(dir.path().join("stick")).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// With a separate spool: what this machine has not sent yet must not affect the tests.
    pub(crate) fn publish(&self, words: &[&str]) -> Run {
        let (report, spool) = (self.path("report.json"), self.path("spool"));
        run(&[&["publish", &report, "--spool", &spool], words].concat())
    }
}

pub(crate) fn names(dir: impl Into<PathBuf>) -> Vec<String> {
    let entries = fs::read_dir(dir.into()).unwrap();
    let mut names: Vec<_> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_server_that_fails_twice_gets_the_report_with_its_key_and_verdict() {
    let (place, server) = (Workspace::new(), HttpServer::fails_twice());
    let url = server.url("127.0.0.1", "/reports");
    let done = place.publish(&["--partition", &place.path("stick"), "--url", &url]);
    let line = format!(
        "partition: kept as reports/000001-20261120T100000Z-FAIL.json\nurl: sent to {url} at try 3\n"
    );
    assert_eq!(
        (done.out.as_str(), done.status),
        (line.as_str(), 0),
        "{}",
        done.err
    );
    let got = server.requests();
    assert_eq!(got.len(), 3);
    for request in &got {
        assert_eq!(request.line, "POST /reports HTTP/1.1");
        assert_eq!(request.body, REPORT.as_bytes());
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("firstlight-verdict"), Some("FAIL"));
        assert_eq!(
            request.header("idempotency-key"),
            Some(sha256(&place.path("report.json")).as_str())
        );
    }
    assert_eq!(
        names(place.path("stick/reports")),
        ["000001-20261120T100000Z-FAIL.json"]
    );
    assert!(names(place.path("stick/spool")).is_empty());
}

/// As on an appliance whose stick another person had.
#[test]
fn with_a_key_a_forged_report_is_named_and_only_proven_ones_are_sent() {
    let (place, server) = (
        Workspace::new(),
        HttpServer::start(|_, _| HttpReply::Status(200, Vec::new())),
    );
    let (key, stick, url) = (
        place.path("key"),
        place.path("stick"),
        server.url("127.0.0.1", "/"),
    );
    fs::write(&key, [b'k'; 32]).unwrap();
    let words = ["--partition", &stick, "--url", &url, "--key-file", &key];
    let waiting = place.publish(&[&words[..], &["--offline", "no network"]].concat());
    assert_eq!(waiting.status, 2, "{}", waiting.err);
    let name = "000001-20261120T100000Z-FAIL.json";
    assert_eq!(
        names(place.path("stick/spool")),
        [name.to_owned(), format!("{name}.hmac")]
    );
    fs::write(
        place.path("stick/spool/000002-20261121T100000Z-PASS.json"),
        REPORT,
    )
    .unwrap();
    let done = place.publish(&words);
    let line = "url: 000002-20261121T100000Z-PASS.json from the spool is not sent: it has no MAC, set aside as \
                000002-20261121T100000Z-PASS.json.unproven; sent to ";
    assert!(
        done.status == 0 && done.out.lines().any(|l| l.starts_with(line)),
        "{}",
        done.out
    );
    let kept = fs::read_to_string(place.path(&format!("stick/reports/{name}.hmac"))).unwrap();
    let got = server.requests();
    assert_eq!(got.len(), 2);
    for request in &got {
        assert_eq!(request.header("firstlight-verdict"), Some("FAIL"));
        assert_eq!(request.header("firstlight-mac"), Some(kept.trim_end()));
    }
    assert_eq!(
        names(place.path("stick/spool")),
        ["000002-20261121T100000Z-PASS.json.unproven"]
    );
}

/// Anyone who can write to the partition could replace the key.
#[test]
fn with_a_key_on_the_partition_or_a_short_one_nothing_is_sent_and_the_report_is_kept() {
    let (place, server) = (
        Workspace::new(),
        HttpServer::start(|_, _| HttpReply::Status(200, Vec::new())),
    );
    let (stick, url) = (place.path("stick"), server.url("127.0.0.1", "/"));
    let (inside, short) = (place.path("stick/key"), place.path("key"));
    fs::write(&inside, [b'k'; 32]).unwrap();
    fs::write(&short, [b'k'; 31]).unwrap();
    for (key, why) in [
        (&inside, "the key is on the partition"),
        (&short, "a key of 31 bytes, allowed: 32 to 4096"),
    ] {
        let done = place.publish(&["--partition", &stick, "--url", &url, "--key-file", key]);
        let lines: Vec<_> = done.out.lines().collect();
        assert!(
            done.status == 2 && lines.iter().all(|line| line.contains(why)),
            "{lines:?}"
        );
        assert!(
            lines[0].starts_with("partition: kept as reports/")
                && lines[1].starts_with("url: not sent")
        );
    }
    assert_eq!(
        (
            server.requests().len(),
            names(place.path("stick/reports")).len()
        ),
        (0, 2)
    );
}

#[test]
fn a_token_is_sent_and_without_a_usable_one_the_report_is_kept_and_waits() {
    let (place, server) = (
        Workspace::new(),
        HttpServer::start(|_, _| HttpReply::Status(201, Vec::new())),
    );
    let (stick, url, token) = (
        place.path("stick"),
        server.url("127.0.0.1", "/"),
        place.path("token"),
    );
    let words = ["--partition", &stick, "--url", &url, "--token-file", &token];
    fs::write(&token, "short").unwrap();
    let done = place.publish(&words);
    let lines: Vec<_> = done.out.lines().collect();
    assert!(
        done.status == 2 && lines[0].starts_with("partition: kept as reports/"),
        "{lines:?}"
    );
    assert!(
        lines[1].contains("one line of 16 to 256 visible ASCII characters; 1 waits in"),
        "{lines:?}"
    );
    fs::write(&token, "a-token-for-senders-0123\n").unwrap();
    assert_eq!(place.publish(&words).status, 0);
    let got = server.requests();
    assert_eq!(got.len(), 2);
    for request in &got {
        assert_eq!(
            request.header("authorization"),
            Some("Bearer a-token-for-senders-0123")
        );
    }
}

fn sha256(file: &str) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned()
}

#[test]
fn each_place_is_told_by_itself_and_the_status_says_that_one_is_missing() {
    let (place, server) = (
        Workspace::new(),
        HttpServer::start(|_, _| HttpReply::Status(200, Vec::new())),
    );
    let url = server.url("127.0.0.1", "/");
    let done = place.publish(&[
        "--partition",
        &place.path("nowhere"),
        "--url",
        &url,
        "--verdict",
        "ERROR",
    ]);
    let lines: Vec<_> = done.out.lines().collect();
    assert_eq!(done.status, 2, "{lines:?}");
    assert!(
        lines[0].starts_with("partition: not kept: ") && lines[0].ends_with("no such folder"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("url: sent to "), "{lines:?}");
    assert_eq!(
        server.requests()[0].header("firstlight-verdict"),
        Some("ERROR")
    );
}

#[test]
fn what_a_dead_server_missed_is_sent_first_when_it_is_back() {
    let place = Workspace::new();
    let stick = place.path("stick");
    // A port without a listener: bound and closed again.
    let url = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let done = place.publish(&["--partition", &stick, "--url", &url, "--timeout", "1"]);
    assert_eq!(done.status, 2);
    let line = done.out.lines().nth(1).unwrap();
    assert!(
        line.contains("not sent to ") && line.contains("refused"),
        "{line}"
    );
    assert!(
        line.ends_with(&format!("; 1 waits in {stick}/spool")),
        "{line}"
    );
    let server = HttpServer::start(|_, _| HttpReply::Status(200, Vec::new()));
    let newer = passed();
    fs::write(place.path("report.json"), &newer).unwrap();
    let done = place.publish(&[
        "--partition",
        &stick,
        "--url",
        &server.url("127.0.0.1", "/"),
    ]);
    assert_eq!(done.status, 0, "{}", done.out);
    assert!(
        done.out.trim_end().ends_with(", 1 older before it"),
        "{}",
        done.out
    );
    let bodies: Vec<_> = server
        .requests()
        .into_iter()
        .map(|r| String::from_utf8(r.body).unwrap())
        .collect();
    assert_eq!(bodies, [REPORT, &newer]);
    assert!(names(place.path("stick/spool")).is_empty());
}

#[test]
fn without_a_partition_what_is_not_sent_waits_in_the_spool_that_is_named() {
    let (place, server) = (
        Workspace::new(),
        HttpServer::start(|_, _| HttpReply::Status(200, Vec::new())),
    );
    let done = place.publish(&["--url", "http://127.0.0.1:1/", "--offline", "no network"]);
    assert!(
        done.out
            .ends_with(&format!("; 1 waits in {}\n", place.path("spool"))),
        "{}",
        done.out
    );
    let done = place.publish(&["--url", &server.url("127.0.0.1", "/")]);
    assert!(
        done.status == 0 && done.out.ends_with(", 1 older before it\n"),
        "{}",
        done.out
    );
    assert!(names(place.path("spool")).is_empty());
}

#[test]
fn what_is_no_report_and_what_has_no_place_is_refused() {
    let place = Workspace::new();
    let done = place.publish(&[]);
    assert_eq!((done.status, done.out.as_str()), (64, ""));
    assert!(
        done.err.contains("give --partition or --url"),
        "{}",
        done.err
    );
    fs::write(place.path("report.json"), "{}").unwrap();
    let done = place.publish(&["--partition", &place.path("stick")]);
    assert_eq!(
        (done.status, done.err.lines().count()),
        (2, 1),
        "{}",
        done.err
    );
    assert!(names(place.path("stick")).is_empty());
}

#[test]
fn simultaneous_runs_lose_no_report() {
    let place = Workspace::new();
    let (stick, names_of) = (place.path("stick"), |dir: &str| {
        names(place.path(dir)).len()
    });
    let children: Vec<_> = (0..8)
        .map(|n| {
            let report = place.path(&format!("r{n}.json"));
            let text = REPORT.replace("\"summary\": \"s\"", &format!("\"summary\": \"s{n}\""));
            fs::write(&report, text).unwrap();
            let mut command = firstlight("");
            command
                .args(["publish", &report, "--partition", &stick])
                .args(["--url", "http://127.0.0.1:1/", "--offline", "no network"])
                .stdout(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let mut said: Vec<_> = children
        .into_iter()
        .map(|child| run_of(child.wait_with_output().unwrap()).out)
        .map(|out| out.lines().next().unwrap().to_owned())
        .collect();
    said.sort();
    let line = |n| format!("partition: kept as reports/{n:06}-20261120T100000Z-FAIL.json");
    assert_eq!(said, (1..=8).map(line).collect::<Vec<_>>());
    assert_eq!((names_of("stick/reports"), names_of("stick/spool")), (8, 8));
}

#[test]
fn a_new_spool_without_a_folder_in_its_name_is_in_the_current_one() {
    let place = Workspace::new();
    let words = ["--url", "http://127.0.0.1:1/", "--offline", "no network"];
    let done = run_of(
        firstlight("publish report.json --spool newdir")
            .args(words)
            .current_dir(place.path(""))
            .output()
            .unwrap(),
    );
    assert!(done.out.ends_with("; 1 waits in newdir\n"), "{}", done.out);
    assert_eq!(names(place.path("newdir")).len(), 1);
}

#[test]
fn without_usable_certificates_the_report_is_kept_and_waits() {
    let place = Workspace::new();
    let (stick, ca) = (place.path("stick"), place.path("ca.pem"));
    for (text, why) in [
        (None, "No such file or directory"),
        (Some("hello"), "no certificates in PEM form"),
    ] {
        text.map_or(Ok(()), |text| fs::write(&ca, text)).unwrap();
        let url = ["--url", "https://127.0.0.1:1/", "--ca", &ca];
        let done = place.publish(&[&["--partition", &stick][..], &url].concat());
        let lines: Vec<_> = done.out.lines().collect();
        assert_eq!((done.status, lines.len()), (2, 2), "{}", done.err);
        assert!(
            lines[0].starts_with("partition: kept as reports/")
                && lines[1].contains(why)
                && lines[1].ends_with("stick/spool"),
            "{lines:?}"
        );
    }
    assert_eq!(names(place.path("stick/spool")).len(), 2);
}

/// A name that says PASS is believed without reading the report.
#[test]
fn a_report_that_readers_refuse_or_a_better_verdict_is_not_kept() {
    let place = Workspace::new();
    let stick = place.path("stick");
    let better = place.publish(&["--partition", &stick, "--verdict", "PASS"]);
    let why = "verdict: read PASS, allowed: the report's own, FAIL, or a worse one";
    assert!(
        better.status == 2 && better.err.contains(why),
        "{}",
        better.err
    );
    fs::write(place.path("report.json"), REPORT.replace("FAIL", "PASS")).unwrap();
    let edited = place.publish(&["--partition", &stick]);
    let why = "contradicts itself: verdict is PASS, but its tests give FAIL";
    assert!(
        edited.status == 2 && edited.err.contains(why),
        "{}",
        edited.err
    );
    assert!(names(&stick).is_empty());
}

#[test]
fn a_fetched_file_does_not_replace_what_is_no_file() {
    let place = Workspace::new();
    let fifo = place.path("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let stick = place.path("stick");
    for to in [fifo.as_str(), stick.as_str(), "/dev/stdout"] {
        let done = run(&["fetch", "http://127.0.0.1:1/", "--any-content", "-o", to]);
        assert_eq!((done.status, done.err.lines().count()), (64, 1), "{to}");
        assert!(
            done.err.contains("no regular file; allowed: a file"),
            "{}",
            done.err
        );
    }
    let kind = fs::symlink_metadata(&fifo).unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind));
}

#[test]
fn a_fetched_file_is_written_only_if_its_checksum_is_the_one_that_was_named() {
    let (place, text) = (Workspace::new(), "[policy]\non_fail = \"shell\"\n");
    let server = HttpServer::start(move |_, request| match request.line.contains("/a.toml") {
        true => HttpReply::Status(200, text.into()),
        false => HttpReply::Status(404, Vec::new()),
    });
    fs::write(place.path("want"), text).unwrap();
    let (sum, to) = (sha256(&place.path("want")), place.path("got"));
    let fetch = |path: &str, sum: &str| {
        let url = server.url("127.0.0.1", path);
        run(&["fetch", &url, "--sha256", sum, "-o", &to])
    };
    let names_before = names(place.path(""));
    let wrong = fetch("/a.toml", &"0".repeat(64));
    assert_eq!((wrong.status, wrong.err.lines().count()), (2, 1));
    assert!(
        wrong
            .err
            .contains(&format!("sha256 is {sum}, expected 0000")),
        "{}",
        wrong.err
    );
    assert_eq!(
        names(place.path("")),
        names_before,
        "a wrong file is left behind"
    );
    assert!(
        fetch("/b.toml", &sum)
            .err
            .contains("/b.toml: answered 404 Not Found")
    );
    assert!(!Path::new(&to).exists());
    let done = fetch("/a.toml", &sum.to_uppercase());
    assert_eq!((done.status, done.out.as_str()), (0, ""), "{}", done.err);
    assert_eq!(fs::read_to_string(&to).unwrap(), text);
    let url = server.url("127.0.0.1", "/a.toml");
    let (other, both) = (place.path("other"), ["--any-content", "--sha256", &sum]);
    assert_eq!(
        run(&["fetch", &url, "-o", &other]).status,
        64,
        "without a checksum"
    );
    assert_eq!(
        run(&[&["fetch", &url, "-o", &other][..], &both].concat()).status,
        64
    );
    assert_eq!(
        run(&["fetch", &url, "--any-content", "-o", &other]).status,
        0
    );
    assert_eq!(fs::read_to_string(&other).unwrap(), text);
}

#[test]
fn a_file_that_is_too_large_or_does_not_come_leaves_nothing_behind() {
    let place = Workspace::new();
    let server = HttpServer::start(|_, request| match request.line.contains("/silent") {
        true => HttpReply::Silence,
        false => HttpReply::Status(200, vec![b'x'; 2 << 20]),
    });
    let fetch = |path: &str, words: &[&str]| {
        let (url, sum, to) = (
            server.url("127.0.0.1", path),
            "0".repeat(64),
            place.path("got"),
        );
        let mut all = vec!["fetch", &url, "--sha256", &sum, "-o", &to];
        all.extend(words);
        run(&all)
    };
    let before = names(place.path(""));
    let large = fetch("/large", &[]);
    assert_eq!(
        (large.status, large.err.lines().count()),
        (2, 1),
        "{}",
        large.err
    );
    assert!(
        large.err.ends_with("/large: larger than 1 MiB\n"),
        "{}",
        large.err
    );
    let silent = fetch("/silent", &["--timeout", "1"]);
    assert_eq!(
        (silent.status, silent.err.lines().count()),
        (2, 1),
        "{}",
        silent.err
    );
    assert!(silent.err.contains("/silent: "), "{}", silent.err);
    assert_eq!(names(place.path("")), before);
}

#[test]
fn who_waits_for_a_large_file_is_told_how_far_it_is() {
    let (place, body) = (Workspace::new(), vec![b'x'; 3 << 20]);
    fs::write(place.path("want"), &body).unwrap();
    let server = HttpServer::start(move |_, _| HttpReply::Status(200, body.clone()));
    let (url, sum, to) = (
        server.url("127.0.0.1", "/f"),
        sha256(&place.path("want")),
        place.path("got"),
    );
    let words = [
        "fetch",
        &url,
        "--sha256",
        &sum,
        "-o",
        &to,
        "--largest",
        "3145728",
        "--progress",
        "0",
    ];
    let done = run(&words);
    assert_eq!(
        (done.status, done.out.lines().last()),
        (0, Some("3 of 3 MiB")),
        "{}",
        done.err
    );
    assert!(
        done.out.lines().any(|line| line == "1 of 3 MiB"),
        "{}",
        done.out
    );
}

/// A folder with this program, like an installed one.
fn installed() -> (tempfile::TempDir, Command) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = dir.path().join("firstlight");
    fs::hard_link(env!("CARGO_BIN_EXE_firstlight"), &program).unwrap();
    (dir, Command::new(program))
}

#[test]
fn collect_becomes_the_program_beside_it_with_all_its_options() {
    let (dir, mut command) = installed();
    let receiver = dir.path().join("firstlight-collect");
    fs::write(&receiver, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&receiver, fs::Permissions::from_mode(0o755)).unwrap();
    let done = command
        .args(["collect", "--store", "a b", "--help", "--keep=3"])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(done.stdout).unwrap(),
        "--store\na b\n--help\n--keep=3\n"
    );
    assert_eq!(done.status.code(), Some(7));
}

#[test]
fn collect_without_that_program_says_who_has_it() {
    let (dir, mut command) = installed();
    let done = command.args(["collect", "--store", "x"]).output().unwrap();
    let line = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{line}");
    let receiver = dir.path().join("firstlight-collect").display().to_string();
    assert!(
        line.contains(&receiver) && line.contains("'./run binaries' builds it"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1, "{line}");
}
