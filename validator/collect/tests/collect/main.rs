//! The receiver as its users see it: the built program on the loopback interface, reports as `firstlight publish` sends
//! them, and requests that must be refused. What holds for each store runs with each: `on_sqlite::` and `on_postgres::`, which needs
//! an installed PostgreSQL.

// Everything here is a test; this attribute lets helpers stop at the first surprise, as tests may.
#![cfg(test)]

mod postgres_server;

use firstlight::cli::args::parse;
use firstlight::net::http::{Authorities, post};
use harness::postgres::Postgres;
use outcome::scope::Scope;
use outcome::table::{CallRow, CallTable, Table};
use outcome::{Matrix, Outcome, Verdict};
use report::Level;
use report::mac::{Key, digest};
use report::{Driver, MachineEntry, Report, SCHEMA, TestEntry};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Prevents hanging tests.
const DEADLINE: Duration = Duration::from_secs(120);
const TOKEN: &str = "a-token-for-senders-0123";
const READING: &str = "a-token-for-readers-4567";

/// Where the reports of a test are.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Sqlite,
    Postgres,
}

/// The PostgreSQL server of all tests of this process.
static SERVER: LazyLock<Postgres> = LazyLock::new(|| Postgres::start(&[], &[]).unwrap());

impl Kind {
    /// An empty store.
    fn store(self, dir: &TempDir) -> PathBuf {
        match self {
            Self::Sqlite => dir.path().join("store"),
            Self::Postgres => PathBuf::from(SERVER.socket_url(&SERVER.database().unwrap())),
        }
    }

    /// How many reports a test sends that takes seconds: a part of them to the second store, which `./run deploy-tests` puts
    /// under more load.
    fn part_of(self, all: usize) -> usize {
        match self {
            Self::Sqlite => all,
            Self::Postgres => all / 4,
        }
    }
}

/// Makes of each function a test for each store.
macro_rules! for_each_store {
    ($($name:ident)*) => {
        mod on_sqlite {
            $(#[test] fn $name() { super::$name(super::Kind::Sqlite); })*
        }
        mod on_postgres {
            $(#[test] fn $name() { super::$name(super::Kind::Postgres); })*
        }
    };
}

for_each_store! {
    what_publish_sends_is_stored_once_and_shown
    no_acknowledged_report_is_lost_by_a_kill_and_the_senders_complete_all
    many_small_values_take_little_memory_and_every_sender_is_answered
    an_old_pass_that_arrives_late_hides_no_newer_fail
    with_a_key_a_report_with_a_mac_is_newer_than_any_without
    machines_whose_names_and_ids_join_to_the_same_text_are_different_nodes
    hostile_texts_are_only_text
    a_node_has_its_history_and_what_differs_from_it
    reports_of_an_earlier_version_are_stored_beside_new_ones
    lists_have_pages_and_filters
    old_reports_of_a_node_go_and_are_no_news_when_they_come_again
    a_request_that_has_begun_is_answered_before_the_end
}

/// A running receiver, which is killed at the end.
struct TestServer {
    child: Child,
    port: u16,
}

impl TestServer {
    fn start(store: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firstlight-collect"));
        command
            .args(["--listen", "127.0.0.1:0", "--store"])
            .arg(store)
            .args(options);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line
            .trim_end()
            .strip_prefix("listening on http://127.0.0.1:")
            .and_then(|l| l.strip_suffix('/'));
        let Some(port) = port.and_then(|port| port.parse().ok()) else {
            let mut stderr = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut stderr)
                .unwrap();
            panic!("{line:?} {stderr}");
        };
        Self { child, port }
    }

    /// Sends raw bytes, and returns status and body of the response.
    fn raw(&self, request: &[u8]) -> (u16, String) {
        let mut stream = self.connect();
        // The connection of a refused sender may be closed before everything is sent.
        let _ = stream.write_all(request);
        answer(stream)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.get_with(path, "")
    }

    fn get_with(&self, path: &str, headers: &str) -> (u16, String) {
        self.raw(
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n")
                .as_bytes(),
        )
    }

    fn post(&self, headers: &str, body: &[u8]) -> (u16, String) {
        self.raw(&request(headers, body))
    }

    /// The value of a metric.
    fn metric(&self, name: &str) -> u64 {
        let (status, text) = self.get("/metrics");
        assert_eq!(status, 200, "{text}");
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }

    fn refused(&self, reason: &str) -> u64 {
        self.metric(&format!(
            "firstlight_collect_refused_total{{reason=\"{reason}\"}}"
        ))
    }

    /// Waits for the end after a signal; returns the status and what the receiver wrote.
    fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let mut stderr = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        (status.code(), stderr)
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([&format!("-{name}"), &id])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn request(headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    let _cut = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0);
    (
        status,
        text.split_once("\r\n\r\n")
            .map_or("", |(_, body)| body)
            .to_owned(),
    )
}

fn test(id: &str, outcome: Outcome) -> TestEntry {
    TestEntry {
        id: id.into(),
        title: id.into(),
        proves: String::new(),
        level: Level::Quick,
        outcome,
        began: None,
        seconds: 0.1,
        summary: "a summary".into(),
        findings: vec![],
        unchecked: vec![],
        matrices: vec![],
        tables: vec![],
        log_tail: vec![],
    }
}

/// An all_reduce out of place and in place.
fn call(bytes: u64, busbw: f64) -> CallRow {
    CallRow {
        collective: "all_reduce".into(),
        bytes,
        count: bytes / 4,
        data: "float".into(),
        redop: "sum".into(),
        out_of_place_us: 20.0,
        out_of_place_algbw: busbw,
        out_of_place_busbw: busbw,
        out_of_place_wrong: Some(0),
        in_place_us: 20.0,
        in_place_algbw: busbw,
        in_place_busbw: busbw,
        in_place_wrong: Some(0),
    }
}

/// A report of this host; `gb_s` is the slower one of its two pairs.
fn report(host: &str, outcome: Outcome, gb_s: f64) -> Report {
    let mut bandwidth = test("p2p-bandwidth", outcome);
    bandwidth.matrices = vec![Matrix {
        name: "ce.write".into(),
        unit: "GB/s".into(),
        rows: vec!["0".into(), "1".into()],
        columns: vec!["0".into(), "1".into()],
        values: vec![vec![None, Some(gb_s)], vec![Some(gb_s + 5.0), None]],
    }];
    let mut sums = test("nccl-allreduce", Outcome::Pass);
    sums.tables = vec![Table::Calls(
        CallTable::AllReduce,
        [call(8, 0.1), call(1024, gb_s * 2.0)].into(),
    )];
    let mut report = Report {
        schema: SCHEMA.into(),
        verdict: Verdict::Error,
        answer: String::new(),
        causes: vec![],
        next_step: report::NextStep::default(),
        known_problems: vec![],
        scope: Scope::Machine,
        covers: "no GPU".into(),
        level: Level::Quick,
        root: "/".into(),
        started: "2026-11-20T12:00:00Z".into(),
        seconds: 12.5,
        boot: vec![],
        appliance: None,
        machine: MachineEntry {
            host: Some(host.into()),
            ..MachineEntry::unread()
        },
        driver: Driver::default(),
        gpus: vec![],
        fabric: None,
        tests: vec![],
        effects: BTreeMap::new(),
        workload_env: BTreeMap::new(),
        workload_reasons: BTreeMap::new(),
    };
    [bandwidth, sums]
        .into_iter()
        .for_each(|entry| report.push(entry));
    report
}

fn json(report: &Report) -> Vec<u8> {
    serde_json::to_vec(report).unwrap()
}

/// Letters that do not compress well.
static LETTERS: LazyLock<String> = LazyLock::new(|| {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..50_000)
        .flat_map(|_| random().map(|byte| char::from(b'a' + byte % 26)))
        .collect()
});

/// The report of host `node-N` in about 200 KB that do not compress well; each N has another part of the letters.
fn large(number: u64) -> Vec<u8> {
    let mut report = report(&format!("node-{}", number % 50), Outcome::Pass, 20.0);
    let from = usize::try_from(number).unwrap() * 200;
    let line = |at: usize| LETTERS.get(at..at + 992).unwrap().to_owned();
    report.tests[0].log_tail = (0..200).map(|n| line(from + n * 992)).collect();
    json(&report)
}

/// A valid report of some MiB whose unknown key has as many small values as fit.
fn of_small_values(number: u64, bytes: usize) -> Vec<u8> {
    let whole = json(&report(&format!("small-{number}"), Outcome::Pass, 20.0));
    let mut with = b"{\"later\":[0".to_vec();
    while with.len() + whole.len() < bytes {
        with.extend_from_slice(b",0");
    }
    with.extend_from_slice(b"],");
    with.extend_from_slice(&whole[1..]);
    with
}

fn secret(dir: &TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Runs `firstlight publish` in this process; returns its exit status.
fn publish(words: &[&str]) -> u8 {
    let words = ["firstlight", "publish"]
        .iter()
        .chain(words)
        .map(OsString::from);
    firstlight::cli::run(parse(words).unwrap()).unwrap()
}

/// Whether the page marks the run that began then as late.
fn is_late(page: &str, began: &str) -> bool {
    let cell = page
        .split(&format!("title=\"{began};"))
        .nth(1)
        .unwrap_or_else(|| panic!("no {began} in {page}"));
    cell.split("</td>").next().unwrap().contains(">late<")
}

/// The page of a host's node.
fn node_of(running: &TestServer, host: &str) -> String {
    let (_, page) = running.get("/");
    let mut nodes = page
        .split("href=\"")
        .filter(|rest| rest.starts_with("/node/"));
    let found = nodes.find_map(|rest| {
        rest.split_once("\">")
            .filter(|(_, text)| text.starts_with(&format!("{host}<")))
    });
    found
        .unwrap_or_else(|| panic!("{host}: {page}"))
        .0
        .to_owned()
}

fn what_publish_sends_is_stored_once_and_shown(kind: Kind) {
    let dir = TempDir::new().unwrap();
    let (key, token) = (
        secret(&dir, "key", &"k".repeat(32)),
        secret(&dir, "token", &format!("{TOKEN}\n")),
    );
    let running = TestServer::start(
        &kind.store(&dir),
        &["--key-file", &key, "--token-file", &token, "--open-reading"],
    );
    let url = format!("http://127.0.0.1:{}/reports", running.port);
    let (file, spool) = (
        dir.path().join("report.json"),
        dir.path().join("spool").display().to_string(),
    );
    let bytes = json(&report("node7", Outcome::Pass, 20.0));
    fs::write(&file, &bytes).unwrap();
    let words = [
        file.to_str().unwrap(),
        "--url",
        &url,
        "--spool",
        &spool,
        "--timeout",
        "20",
    ];
    let secrets = ["--key-file", &key, "--token-file", &token];

    // Twice, as after a lost response.
    for _ in 0..2 {
        assert_eq!(publish(&[&words[..], &secrets].concat()), 0);
    }
    assert_eq!(running.metric("firstlight_collect_reports"), 1);
    assert_eq!(
        running.metric("firstlight_collect_received_total{report=\"known\"}"),
        1
    );
    let digest = digest(&bytes);
    assert_eq!(
        running.get(&format!("/report/{digest}")),
        (200, String::from_utf8(bytes).unwrap())
    );
    let (_, index) = running.get("/");
    for words in [
        "node7",
        "PASS",
        "<h1>1 node passes</h1>",
        "Stored: 1 report.",
        &digest,
        ">right<",
    ] {
        assert!(index.contains(words), "{words}: {index}");
    }
    let (status, page) = running.get(&format!("/report/{digest}?to=html"));
    assert!(
        status == 200 && page.contains("<title>firstlight: PASS, node7"),
        "{page}"
    );
    for form in ["text", "junit", "prometheus"] {
        let (status, text) = running.get(&format!("/report/{digest}?to={form}"));
        assert!(status == 200 && text.contains("node7"), "{form}: {text}");
    }

    // init's worse verdict for the same report: it counts, and the node's row is updated.
    assert_eq!(
        publish(&[&words[..], &secrets, &["--verdict", "ERROR"]].concat()),
        0
    );
    assert!(running.get("/?verdict=ERROR").1.contains("node7"));
    assert!(!running.get("/?verdict=PASS").1.contains("node7"));

    // Without key or token the report stays in the sender's spool.
    for secrets in [&secrets[..2], &secrets[2..], &[]] {
        let _none = fs::remove_dir_all(&spool);
        assert_eq!(publish(&[&words[..], secrets].concat()), 2);
    }
    assert_eq!(
        (running.refused("token"), running.refused("unsigned")),
        (2, 1)
    );
}

fn no_acknowledged_report_is_lost_by_a_kill_and_the_senders_complete_all(kind: Kind) {
    let all = kind.part_of(1000);
    const SENDERS: usize = 8;
    let dir = TempDir::new().unwrap();
    let store = kind.store(&dir);
    let first = TestServer::start(&store, &[]);
    let (port, acknowledged) = (
        AtomicU16::new(first.port),
        Mutex::new(Vec::<(u64, String)>::new()),
    );
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    let send = || {
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if number >= all {
                return;
            }
            let body = large(number as u64);
            assert!((190_000..220_000).contains(&body.len()), "{}", body.len());
            let sum = digest(&body);
            let headers = [
                ("Content-Type", "application/json"),
                ("Idempotency-Key", sum.as_str()),
                ("Firstlight-Verdict", "PASS"),
            ];
            loop {
                let url = format!("http://127.0.0.1:{}/", port.load(Ordering::SeqCst));
                match post(
                    &url,
                    &headers,
                    &body,
                    &Authorities::default(),
                    Duration::from_secs(20),
                ) {
                    Ok(answer) if matches!(answer.status, 200 | 201) => break,
                    Ok(answer) => panic!("answered {answer:?}"),
                    // The receiver is dead, or was killed before it responded.
                    Err(_) => thread::sleep(Duration::from_millis(20)),
                }
                assert!(begun.elapsed() < 3 * DEADLINE);
            }
            acknowledged.lock().unwrap().push((number as u64, sum));
        }
    };
    let last = thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(send)).collect();
        while acknowledged.lock().unwrap().len() < all / 3
            && !senders.iter().all(|s| s.is_finished())
        {
            thread::sleep(Duration::from_millis(2));
        }
        first.signal("KILL");
        let before = {
            let mut first = first;
            assert!(!first.child.wait().unwrap().success());
            acknowledged.lock().unwrap().clone()
        };
        assert!((all / 3..all).contains(&before.len()), "{}", before.len());
        // The senders do not know the port yet, so all reports were there before.
        let second = TestServer::start(&store, &[]);
        for (number, sum) in &before {
            let (status, body) = second.get(&format!("/report/{sum}"));
            assert!(
                status == 200 && digest(body.as_bytes()) == *sum,
                "report {number}: {status}"
            );
        }
        println!(
            "{} acknowledged before the kill, {} stored after it",
            before.len(),
            second.metric("firstlight_collect_reports")
        );
        port.store(second.port, Ordering::SeqCst);
        second
    });
    assert_eq!(acknowledged.lock().unwrap().len(), all);
    assert_eq!(last.metric("firstlight_collect_reports"), all as u64);
    for (number, sum) in acknowledged.lock().unwrap().iter() {
        let (status, body) = last.get(&format!("/report/{sum}"));
        assert!(
            status == 200 && digest(body.as_bytes()) == *sum,
            "report {number}: {status}"
        );
    }
}

#[test]
fn bad_requests_are_refused_in_one_line_and_counted() {
    let dir = TempDir::new().unwrap();
    let key = secret(&dir, "key", &"k".repeat(32));
    let options = [
        "--key-file",
        key.as_str(),
        "--max-bytes",
        "5000",
        "--timeout",
        "2",
    ];
    let running = TestServer::start(&dir.path().join("signed"), &options);
    let plain = TestServer::start(&dir.path().join("plain"), &options[2..]);
    let good = json(&report("n", Outcome::Pass, 20.0));
    assert!(good.len() < 5000, "{}", good.len());
    let changed = |from: &str, to: &str| {
        String::from_utf8(good.clone())
            .unwrap()
            .replacen(from, to, 1)
            .into_bytes()
    };
    let huge = vec![b' '; 3 << 20];
    let mac = "Firstlight-Verdict: PASS\r\nFirstlight-MAC: ";
    let post = |headers: &str, body: &[u8]| request(headers, body);
    let get = |path: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").into_bytes()
    };
    let chunked = [
        &b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n300000\r\n"[..],
        &huge,
        b"\r\n0\r\n\r\n",
    ]
    .concat();
    let head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let to = |method: &str, path: &str| {
        String::from_utf8(request("", &good))
            .unwrap()
            .replacen("POST /", &format!("{method} {path}"), 1)
            .into_bytes()
    };
    let wrong = "0".repeat(64);
    for (on, bytes, status, reason, words) in [
        (
            &plain,
            post("", b"{\"schema\":"),
            400,
            "malformed",
            "not JSON",
        ),
        (&plain, post("", b"\xff\xfe"), 400, "malformed", "not JSON"),
        (
            &plain,
            post("", &b"[".repeat(4000)),
            400,
            "malformed",
            "not JSON",
        ),
        (&plain, post("", b"[]"), 422, "schema", "schema is none"),
        (
            &plain,
            post("", &changed(SCHEMA, "other/1")),
            422,
            "schema",
            "other/1",
        ),
        (
            &plain,
            post("", &changed("\"seconds\"", "\"second\"")),
            422,
            "schema",
            "seconds",
        ),
        (
            &plain,
            post("", b"{\"schema\":\"firstlight.verdict/1\"}"),
            422,
            "schema",
            "verdict",
        ),
        (
            &plain,
            post("", &changed("\"PASS\"", "\"FAIL\"")),
            422,
            "contradiction",
            "its tests give PASS",
        ),
        (
            &plain,
            post("Firstlight-Verdict: GOOD\r\n", &good),
            422,
            "contradiction",
            "GOOD",
        ),
        (
            &plain,
            post("", &huge),
            413,
            "size",
            "larger than 5000 bytes",
        ),
        (&plain, chunked, 413, "size", "larger than 5000 bytes"),
        (&plain, head.to_vec(), 408, "slow", "in 2 s"),
        (
            &plain,
            post(&format!("Idempotency-Key: {wrong}\r\n"), &good),
            400,
            "digest",
            "SHA-256",
        ),
        (
            &plain,
            to("POST", "/../../etc/passwd"),
            400,
            "path",
            "allowed: /",
        ),
        (
            &plain,
            get("/report/../../etc/passwd"),
            400,
            "path",
            "allowed: /",
        ),
        (
            &plain,
            get("/report/%2e%2e%2f%2e%2e%2fetc%2fpasswd"),
            400,
            "path",
            "allowed: /",
        ),
        (&plain, get("/node/..%5c..%5c"), 400, "path", "allowed: /"),
        (&plain, get("/nothing"), 404, "unknown", "allowed: /"),
        (
            &plain,
            get(&format!("/report/{wrong}")),
            404,
            "unknown",
            "nothing of that name",
        ),
        (
            &plain,
            get("/node/0000000000000000"),
            404,
            "unknown",
            "no such node: \"0000000000000000\"",
        ),
        (
            &plain,
            get("/node/nope"),
            404,
            "unknown",
            "no such node: \"nope\"",
        ),
        (
            &plain,
            get("/report/nope"),
            404,
            "unknown",
            "no such report: \"nope\"",
        ),
        (&plain, get("/?page=0"), 400, "query", "page=0"),
        (
            &plain,
            get("/?verdict=%27"),
            400,
            "query",
            "allowed: verdict=PASS",
        ),
        (
            &plain,
            to("PUT", "/"),
            405,
            "method",
            "allowed: GET, HEAD, POST",
        ),
        (
            &plain,
            to("DELETE", "/"),
            405,
            "method",
            "allowed: GET, HEAD, POST",
        ),
        (
            &plain,
            to("POST", "/metrics"),
            405,
            "method",
            "allowed at /",
        ),
        (
            &plain,
            String::from_utf8(post("", &good))
                .unwrap()
                .replace("application/json", "text/plain")
                .into_bytes(),
            415,
            "type",
            "text/plain",
        ),
        (
            &running,
            post("", &good),
            401,
            "unsigned",
            "publish --key-file",
        ),
        (
            &running,
            post("Firstlight-Verdict: PASS\r\n", &good),
            401,
            "unsigned",
            "Firstlight-MAC",
        ),
        (
            &running,
            post(&format!("{mac}{wrong}\r\n"), &good),
            403,
            "signature",
            "wrong",
        ),
        (
            &running,
            post(&format!("{mac}not hexadecimal\r\n"), &good),
            403,
            "signature",
            "wrong",
        ),
    ] {
        let before = on.refused(reason);
        let (got, line) = on.raw(&bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
        assert_eq!(got, status, "{shown}: {line}");
        assert!(
            line.contains(words) && line.ends_with('\n') && line.lines().count() == 1,
            "{shown}: {line:?}"
        );
        assert_eq!(on.refused(reason), before + 1, "{shown}: {reason}");
    }
    assert_eq!(
        plain.metric("firstlight_collect_reports") + running.metric("firstlight_collect_reports"),
        0
    );

    // Input that is not HTTP, and a head that never ends: the connection is closed.
    let before = (plain.refused("malformed"), plain.refused("slow"));
    assert_eq!(plain.raw(b"\x16\x03\x01 hello\r\n\r\n").0, 400);
    assert_eq!(
        plain
            .raw(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(40_000)).as_bytes())
            .0,
        431
    );
    assert_eq!(plain.raw(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ").0, 0);
    let after = (plain.refused("malformed"), plain.refused("slow"));
    assert_eq!(after, (before.0 + 2, before.1 + 1));

    // A browser's question for an icon is neither counted nor in the log.
    let before = plain.refused("unknown");
    assert_eq!(plain.raw(&get("/favicon.ico")).0, 404);
    assert_eq!(plain.refused("unknown"), before);

    // The report that was refused for so many reasons is valid.
    assert_eq!(plain.post("", &good).0, 201);
    plain.signal("TERM");
    let (status, log) = plain.end();
    assert_eq!(status, Some(0));
    assert!(
        log.lines().count() > 20
            && log
                .lines()
                .all(|line| line.starts_with("firstlight collect: refused 127.0.0.1: ")),
        "{log}"
    );
    assert!(!log.contains("favicon"), "{log}");
}

#[test]
fn slow_senders_do_not_keep_others_away() {
    let dir = TempDir::new().unwrap();
    let running = TestServer::start(
        &dir.path().join("store"),
        &["--connections", "4", "--timeout", "2"],
    );
    let slow: Vec<_> = (0..12)
        .map(|_| {
            let mut stream = running.connect();
            stream
                .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Ty")
                .unwrap();
            stream
        })
        .collect();
    assert_eq!(
        running.post("", &json(&report("n", Outcome::Pass, 20.0))).0,
        201
    );
    drop(slow);
}

/// The limit of the address space of a process that has 2 processors' threads, MiB, far below what 95 times a report would take.
const MEMORY: u64 = 1024;

fn many_small_values_take_little_memory_and_every_sender_is_answered(kind: Kind) {
    let posts = kind.part_of(24) as u64;
    let dir = TempDir::new().unwrap();
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {}; exec \"$@\"", MEMORY << 10);
    command.args([
        "-c",
        &script,
        "sh",
        env!("CARGO_BIN_EXE_firstlight-collect"),
        "--listen",
        "127.0.0.1:0",
        "--store",
    ]);
    command.arg(kind.store(&dir)).env("MALLOC_ARENA_MAX", "2");
    let running = TestServer::spawn(command);
    let next = AtomicU16::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = u64::from(next.fetch_add(1, Ordering::SeqCst));
                    if number >= posts {
                        return;
                    }
                    let (status, line) = running.post("", &of_small_values(number, 7 << 20));
                    assert_eq!(status, 201, "{number}: {line}");
                }
            });
        }
    });
    assert_eq!(running.get("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(running.metric("firstlight_collect_reports"), posts);
}

#[test]
fn a_report_with_too_many_values_in_its_own_keys_is_refused() {
    let dir = TempDir::new().unwrap();
    let running = TestServer::start(&dir.path().join("store"), &[]);
    let whole = String::from_utf8(json(&report("n", Outcome::Pass, 20.0))).unwrap();
    let many = whole.replacen(
        "\"rows\":[[",
        &format!("\"rows\":[{}[", "[0],".repeat(600_000)),
        1,
    );
    let (status, line) = running.post("", many.as_bytes());
    assert!(
        status == 422 && line.contains("more values than fit into 128 MiB"),
        "{status} {line}"
    );
    assert_eq!(running.post("", whole.as_bytes()).0, 201);
    let verdict = format!(
        "{{\"schema\":\"firstlight.verdict/1\",\"verdict\":\"FAIL\",\"codes\":[{}\"\"]}}",
        "\"\",".repeat(500_000)
    );
    let (status, line) = running.post("", verdict.as_bytes());
    assert!(
        status == 413 && line.contains("allowed: 262144"),
        "{status} {line}"
    );
}

#[test]
fn idle_and_slow_clients_keep_no_report_away() {
    let dir = TempDir::new().unwrap();
    let running = TestServer::start(&dir.path().join("store"), &["--connections", "64"]);
    let body = json(&report("slow", Outcome::Pass, 20.0));
    let whole = request("", &body);
    // Idle, with half a head, and with half a body: more than may be open.
    let slow: Vec<_> = (0..150)
        .map(|n| {
            let mut stream = running.connect();
            let part = [0, 30, whole.len() - 10][n % 3];
            // It may be closed already.
            let _ = stream.write_all(&whole[..part]);
            stream
        })
        .collect();
    for number in 0..5 {
        let body = json(&report(&format!("n{number}"), Outcome::Pass, 20.0));
        let begun = Instant::now();
        let status = (0..50)
            .map(|_| running.post("", &body).0)
            .find(|status| *status != 0);
        assert_eq!(status, Some(201));
        // Bodies make room after 2 s.
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
    }
    assert!(running.refused("busy") > 0);
    drop(slow);
}

fn an_old_pass_that_arrives_late_hides_no_newer_fail(kind: Kind) {
    let dir = TempDir::new().unwrap();
    let running = TestServer::start(&kind.store(&dir), &[]);
    let send = |host: &str, started: &str, outcome| {
        let report = Report {
            started: started.into(),
            ..report(host, outcome, 20.0)
        };
        assert_eq!(running.post("", &json(&report)).0, 201);
    };
    let shown = |host: &str| {
        let (_, text) = running.get("/metrics");
        let mut lines = text
            .lines()
            .filter(|line| line.contains(&format!("host=\"{host}\"")));
        let line = lines
            .find(|line| line.starts_with("firstlight_node_verdict{") && line.ends_with(" 1"))
            .unwrap();
        line.split("verdict=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .to_owned()
    };
    send("a", "2026-11-20T12:00:00Z", Outcome::Fail);
    send("a", "2026-11-20T11:00:00Z", Outcome::Pass);
    assert_eq!(shown("a"), "FAIL");
    assert!(
        running
            .get("/?verdict=FAIL")
            .1
            .contains("2026-11-20T12:00:00Z")
    );
    let (_, history) = running.get(&node_of(&running, "a"));
    assert!(
        is_late(&history, "2026-11-20T11:00:00Z") && !is_late(&history, "2026-11-20T12:00:00Z"),
        "{history}"
    );
    assert!(
        history.find("12:00:00Z").unwrap() < history.find("11:00:00Z").unwrap(),
        "by when they began"
    );
    // A later run counts again.
    send("a", "2026-11-20T13:00:00Z", Outcome::Pass);
    assert_eq!(shown("a"), "PASS");
    // A late one that is worse counts, and is marked, until the next run.
    send("a", "2026-11-20T12:30:00Z", Outcome::Fail);
    assert_eq!(shown("a"), "FAIL");
    let (_, page) = running.get("/");
    assert!(
        is_late(&page, "2026-11-20T12:30:00Z") && page.contains("whose run began last"),
        "{page}"
    );
    assert!(
        running
            .get("/metrics")
            .1
            .lines()
            .any(|l| l.starts_with("firstlight_node_verdict_is_late{") && l.ends_with(" 1"))
    );
    send("a", "2026-11-20T14:00:00Z", Outcome::Pass);
    assert_eq!(shown("a"), "PASS");

    // A start after the arrival, or of a clock that was not set, does not keep newer ones away.
    for started in ["2099-01-01T00:00:00Z", "1970-01-01T00:01:00Z", "no time"] {
        let host = format!("clock-{}", started.chars().take(4).collect::<String>());
        send(&host, started, Outcome::Pass);
        thread::sleep(Duration::from_millis(1100));
        send(&host, started, Outcome::Fail);
        assert_eq!(shown(&host), "FAIL", "{started}");
        // Of a day that is long over.
        send(&host, "2026-11-19T12:00:00Z", Outcome::Pass);
        assert_eq!(shown(&host), "FAIL", "{started}");
        assert!(
            running
                .get(&node_of(&running, &host))
                .1
                .contains("by arrival"),
            "{started}"
        );
    }
}

fn with_a_key_a_report_with_a_mac_is_newer_than_any_without(kind: Kind) {
    let dir = TempDir::new().unwrap();
    let store = kind.store(&dir);
    let key_file = secret(&dir, "key", &"k".repeat(32));
    let send = |running: &TestServer, started: &str, outcome, key: Option<&Key>| {
        let body = json(&Report {
            started: started.into(),
            ..report("n", outcome, 20.0)
        });
        let verdict = if outcome == Outcome::Pass {
            "PASS"
        } else {
            "FAIL"
        };
        let mac = key.map_or_else(String::new, |key| {
            format!("Firstlight-MAC: {}\r\n", key.mac(verdict, &body))
        });
        assert_eq!(
            running
                .post(&format!("Firstlight-Verdict: {verdict}\r\n{mac}"), &body)
                .0,
            201
        );
    };
    let open = TestServer::start(&store, &[]);
    send(&open, "2026-11-20T12:00:00Z", Outcome::Pass, None);
    drop(open);
    let running = TestServer::start(&store, &["--key-file", &key_file]);
    let key = Key::read(Path::new(&key_file)).unwrap();
    send(&running, "2026-11-20T11:00:00Z", Outcome::Fail, Some(&key));
    assert!(
        running
            .get("/?verdict=FAIL")
            .1
            .contains("2026-11-20T11:00:00Z")
    );
}

#[test]
fn a_machines_own_key_proves_reports_of_that_machine() {
    let dir = TempDir::new().unwrap();
    let fleet = secret(&dir, "key", &"k".repeat(32));
    let made = ended(&["--machine-key", "node7", "--key-file", &fleet]);
    let file = String::from_utf8(made.stdout).unwrap();
    assert!(
        made.status.success() && file.starts_with("firstlight-machine-key/1 node7 "),
        "{file}"
    );
    let own = secret(&dir, "own", &file);
    let running = TestServer::start(&dir.path().join("store"), &["--key-file", &fleet]);
    let url = format!("http://127.0.0.1:{}/", running.port);
    let send = |host: &str, key: &str| {
        let (path, spool) = (
            dir.path().join(format!("{host}.json")),
            dir.path().join("spool"),
        );
        fs::write(&path, json(&report(host, Outcome::Pass, 20.0))).unwrap();
        let _none = fs::remove_dir_all(&spool);
        let words = [
            path.to_str().unwrap(),
            "--url",
            &url,
            "--spool",
            spool.to_str().unwrap(),
            "--timeout",
            "20",
        ];
        publish(&[&words[..], &["--key-file", key]].concat())
    };
    assert_eq!((send("node7", &own), send("node8", &own)), (0, 2));
    assert_eq!(running.refused("signature"), 1);
    // The fleet's key stays good for all.
    assert_eq!(send("node9", &fleet), 0);
    assert_eq!(running.metric("firstlight_collect_reports"), 2);
    for (words, says) in [
        (
            vec!["--machine-key", "two words", "--key-file", &fleet],
            "visible ASCII",
        ),
        (
            vec!["--machine-key", "node7", "--key-file", &own],
            "the fleet",
        ),
        (vec!["--machine-key", "node7"], "--key-file"),
    ] {
        let ended = ended(&words);
        let line = String::from_utf8(ended.stderr).unwrap();
        assert!(
            ended.status.code() == Some(64) && line.contains(says) && line.lines().count() == 1,
            "{words:?}: {line}"
        );
    }
}

#[test]
fn a_report_is_not_acknowledged_into_a_database_that_is_gone() {
    let dir = TempDir::new().unwrap();
    let store = dir.path().join("store");
    let running = TestServer::start(&store, &[]);
    let post = |host: &str| running.post("", &json(&report(host, Outcome::Pass, 20.0)));
    let files =
        ["reports.sqlite", "reports.sqlite-wal", "reports.sqlite-shm"].map(|name| store.join(name));
    assert_eq!(post("first").0, 201);
    let other = dir.path().join("other");
    drop(TestServer::start(&other, &[]));
    for (round, files) in [&files[..], &files[..1], &files[1..2]]
        .into_iter()
        .enumerate()
    {
        files.iter().for_each(|file| fs::remove_file(file).unwrap());
        if round == 1 {
            // Another database comes in its place.
            fs::copy(other.join("reports.sqlite"), &files[0]).unwrap();
        }
        let (status, line) = post("lost");
        assert!(
            status == 503 && line.contains("removed or replaced"),
            "{status} {line}"
        );
        assert_eq!(post("kept").0 / 100, 2, "it is open again");
        let (status, line) = running.get("/healthz");
        assert!(
            status == 503 && line.contains("removed or replaced"),
            "the reader finds it, too: {status} {line}"
        );
        assert_eq!(running.get("/healthz"), (200, "ok\n".to_owned()));
        let page = running.get("/").1;
        assert!(
            page.contains(">kept<") && !page.contains(">lost<"),
            "{page}"
        );
    }
    drop(running);
    let again = TestServer::start(&store, &[]);
    assert!(again.get("/").1.contains(">kept<"));
}

#[test]
fn the_store_is_its_owners_alone_and_an_earlier_one_is_brought_up_to_date() {
    let dir = TempDir::new().unwrap();
    let store = dir.path().join("store");
    // As a folder that the system made.
    fs::create_dir(&store).unwrap();
    let modes = || {
        let mode =
            |e: fs::DirEntry| std::os::unix::fs::MetadataExt::mode(&e.metadata().unwrap()) & 0o777;
        fs::read_dir(&store)
            .unwrap()
            .map(|entry| mode(entry.unwrap()))
            .collect::<Vec<_>>()
    };
    let running = TestServer::start(&store, &[]);
    assert_eq!(
        running.post("", &json(&report("n", Outcome::Pass, 20.0))).0,
        201
    );
    assert_eq!(modes(), [0o600; 3]);
    drop(running);
    let file = store.join("reports.sqlite");
    let db = rusqlite::Connection::open(&file).unwrap();
    // What version 1 had: the newest report was the last one, and hostile names could share a node.
    db.execute_batch(
        "DROP TABLE node; DROP INDEX report_of_node; ALTER TABLE report DROP COLUMN moment; ALTER TABLE report DROP COLUMN late;
         UPDATE report SET started = '2026-11-20T12:00:00Z', verdict = 'FAIL';
         INSERT INTO report SELECT 99, 'other', 'x', received, host, machine_id, '2026-11-20T11:00:00Z', 'PASS', scope, codes,
             says, gpus, level, pair, busbw, seconds, signed FROM report;
         CREATE INDEX report_of_node ON report (node, id);
         CREATE TABLE node (id TEXT PRIMARY KEY, host TEXT NOT NULL, newest INTEGER NOT NULL, verdict TEXT NOT NULL,
             reports INTEGER NOT NULL) WITHOUT ROWID;
         CREATE INDEX node_newest ON node (newest);
         CREATE INDEX node_of_verdict ON node (verdict, newest);
         INSERT INTO node VALUES ('x', 'n', 99, 'PASS', 2); PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(db);
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let running = TestServer::start(&store, &[]);
    assert!(modes().iter().all(|mode| *mode == 0o600), "{:?}", modes());
    let (_, page) = running.get("/?verdict=FAIL");
    assert!(
        page.contains("<h1>1 of 1 node does not pass</h1>")
            && page.contains("2026-11-20T12:00:00Z"),
        "{page}"
    );
    assert_eq!(
        running.post("", &json(&report("n", Outcome::Pass, 21.0))).0,
        201
    );
}

fn machines_whose_names_and_ids_join_to_the_same_text_are_different_nodes(kind: Kind) {
    let dir = TempDir::new().unwrap();
    let running = TestServer::start(&kind.store(&dir), &[]);
    for (id, host) in [("a", "b\nc"), ("a\nb", "c")] {
        let mut one = report(host, Outcome::Pass, 20.0);
        one.machine.machine_id = Some(id.into());
        assert_eq!(running.post("", &json(&one)).0, 201);
    }
    assert!(running.get("/").1.contains("<h1>2 nodes pass</h1>"));
}

#[test]
fn metrics_are_compressed_for_those_that_ask() {
    let dir = TempDir::new().unwrap();
    let running = TestServer::start(&dir.path().join("store"), &[]);
    let raw = |headers: &str| {
        let mut stream = running.connect();
        write!(
            stream,
            "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"
        )
        .unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes
            .windows(4)
            .position(|part| part == b"\r\n\r\n")
            .unwrap();
        (
            String::from_utf8_lossy(&bytes[..end]).into_owned(),
            bytes[end + 4..].to_vec(),
        )
    };
    let (head, body) = raw("Accept-Encoding: deflate, gzip;q=1.0\r\n");
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut text = String::new();
    flate2::read::GzDecoder::new(body.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.contains("firstlight_collect_reports 0"), "{text}");
    for headers in [
        "",
        "Accept-Encoding: gzip;q=0\r\n",
        "Accept-Encoding: identity\r\n",
    ] {
        let (head, body) = raw(headers);
        assert!(
            !head.contains("content-encoding") && body.starts_with(b"# HELP"),
            "{head}"
        );
    }
}

fn hostile_texts_are_only_text(kind: Kind) {
    let dir = TempDir::new().unwrap();
    let running = TestServer::start(&kind.store(&dir), &[]);
    let host = "<script>alert('x')</script>\"\\\n{a=\"b\"}\u{1b}[2J";
    let mut hostile = report(host, Outcome::Fail, 20.0);
    hostile.started = "<img src=x onerror=alert(1)>".into();
    hostile.machine.machine_id = Some("../../<b>".into());
    let bytes = json(&hostile);
    assert_eq!(running.post("", &bytes).0, 201);
    let verdict = "{\"schema\":\"firstlight.verdict/1\",\"verdict\":\"ERROR\",\"cause\":\"<script>\",\"codes\":[\"<i>\"]}";
    assert_eq!(running.post("", verdict.as_bytes()).0, 201);
    let (_, index) = running.get("/");
    let node = index
        .split("href=\"")
        .filter(|rest| rest.starts_with("/node/"))
        .nth(1)
        .unwrap();
    let node = node.split('"').next().unwrap().to_owned();
    for path in [
        "/".to_owned(),
        "/reports".to_owned(),
        node,
        format!("/report/{}?to=html", digest(&bytes)),
    ] {
        let mut stream = running.connect();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        let (head, page) = all.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 200")
                && head.contains("content-security-policy: default-src 'none'"),
            "{head}"
        );
        for markup in ["<script", "<img", "<b>", "<i>", "\u{1b}"] {
            assert!(
                !page.contains(markup) || markup == "<b>" && !page.contains("../../<b>"),
                "{path} has {markup}: {page}"
            );
        }
        assert!(page.contains("&lt;script&gt;"), "{path}: {page}");
    }
    // Each line of the metrics has the format's syntax.
    let (_, metrics) = running.get("/metrics");
    for line in metrics.lines() {
        let value = line.rsplit(' ').next().unwrap();
        assert!(
            line.starts_with("# ") || value.parse::<f64>().is_ok(),
            "{line}"
        );
    }
    assert!(
        metrics
            .contains(r#"host="<script>alert('x')</script>\"\\\n{a=\"b\"}?[2J",verdict="FAIL"} 1"#),
        "{metrics}"
    );
    // The verdict without a report names no machine, so the sender's address is used instead.
    assert!(
        metrics.contains("host=\"127.0.0.1\",verdict=\"ERROR\"} 1"),
        "{metrics}"
    );
    let (status, line) = running.get(&format!("/report/{}?to=html", digest(verdict.as_bytes())));
    assert!(status == 400 && line.contains("as JSON only"), "{line}");
}

fn a_node_has_its_history_and_what_differs_from_it(kind: Kind) {
    let dir = TempDir::new().unwrap();
    let running = TestServer::start(&kind.store(&dir), &[]);
    for (number, gb_s) in [20.0, 20.4, 20.2, 10.1].into_iter().enumerate() {
        let mut one = report(
            "node7",
            if gb_s > 15.0 {
                Outcome::Pass
            } else {
                Outcome::Fail
            },
            gb_s,
        );
        one.started = format!("2026-11-20T12:00:0{number}Z");
        assert_eq!(running.post("", &json(&one)).0, 201);
    }
    let (_, page) = running.get(&node_of(&running, "node7"));
    // Slowest pair and all_reduce fell to half of the median, the seconds did not change; the first report has
    // nothing to compare with.
    for words in [
        ">10.1 (-50.0 %)<",
        ">20.2 (-50.0 %)<",
        ">12.5 (+0.0 %)<",
        ">20.4 (+2.0 %)<",
        ">20.0<",
        "FAIL",
        "PASS",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_eq!(page.matches("class=\"warn\"").count(), 2, "{page}");
    assert_eq!(page.matches("<tr>").count(), 5, "{page}");
}

fn reports_of_an_earlier_version_are_stored_beside_new_ones(kind: Kind) {
    let dir = TempDir::new().unwrap();
    let running = TestServer::start(&kind.store(&dir), &[]);
    let earlier = include_bytes!("../../../tests/data/earlier-fail.json");
    let new = json(&report::from_json(earlier).unwrap());
    assert_ne!(new, earlier);
    for bytes in [&earlier[..], &new] {
        assert_eq!(running.post("", bytes).0, 201);
        let page = running.get(&format!("/report/{}?to=text", digest(bytes)));
        assert!(
            page.0 == 200 && page.1.contains("P2P-WRONG-DATA"),
            "{page:?}"
        );
    }
    let (_, page) = running.get(&node_of(&running, "Simulated"));
    assert_eq!(
        page.matches("P2P-WRONG-DATA: what is written to the peer does not arrive")
            .count(),
        2,
        "{page}"
    );
}

fn lists_have_pages_and_filters(kind: Kind) {
    let dir = TempDir::new().unwrap();
    let running = TestServer::start(&kind.store(&dir), &[]);
    for number in 0..130 {
        let outcome = if number % 10 == 0 {
            Outcome::Fail
        } else {
            Outcome::Pass
        };
        assert_eq!(
            running
                .post(
                    "",
                    &json(&report(&format!("host-{number:03}"), outcome, 20.0))
                )
                .0,
            201
        );
    }
    let rows = |path: &str| running.get(path).1.matches("<th scope=\"row\">").count();
    assert_eq!(
        (rows("/"), rows("/?page=2"), rows("/?page=3")),
        (100, 30, 0)
    );
    assert_eq!((rows("/reports"), rows("/reports?page=2")), (100, 30));
    assert_eq!(
        (
            rows("/?verdict=FAIL"),
            rows("/?verdict=ERROR"),
            rows("/reports?verdict=FAIL")
        ),
        (13, 0, 13)
    );
    let first: String = running.get("/").1.split('\n').map(str::trim).collect();
    assert!(
        first.contains("130 nodes")
            && first.contains("130 reports")
            && first.contains("FAIL</b></a> 13"),
        "{first}"
    );
    assert!(
        first.contains("href=\"/?page=2\"") && !first.contains("newer"),
        "{first}"
    );
    // The worst come first, and of one verdict the newest.
    let places = ["host-120", "host-110", "host-000", "host-129", "host-101"]
        .map(|host| first.find(host).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    assert!(first.contains("13 of 130 nodes do not pass"), "{first}");
    let second = running.get("/?page=2").1;
    assert!(
        second.contains("host-001") && !second.contains("host-120") && !second.contains("host-129"),
        "{second}"
    );
}

fn old_reports_of_a_node_go_and_are_no_news_when_they_come_again(kind: Kind) {
    let dir = TempDir::new().unwrap();
    let running = TestServer::start(&kind.store(&dir), &["--keep", "2"]);
    let bodies: Vec<_> = (0..4)
        .map(|n| json(&report("n", Outcome::Pass, f64::from(n) + 20.0)))
        .collect();
    assert_eq!(
        running
            .post("", &json(&report("other", Outcome::Pass, 20.0)))
            .0,
        201
    );
    for body in &bodies {
        assert_eq!(running.post("", body).0, 201);
    }
    assert_eq!(running.metric("firstlight_collect_reports"), 3);
    let (status, line) = running.post("", &bodies[0]);
    assert!(
        status == 200 && line.starts_with("already stored "),
        "{line}"
    );
    assert_eq!(running.metric("firstlight_collect_reports"), 3);
    let there: Vec<_> = bodies
        .iter()
        .map(|body| running.get(&format!("/report/{}", digest(body))).0)
        .collect();
    assert_eq!(there, [404, 404, 200, 200]);
}

#[test]
fn tokens_open_what_they_are_for() {
    let dir = TempDir::new().unwrap();
    let (token, reading) = (
        secret(&dir, "token", TOKEN),
        secret(&dir, "reading", READING),
    );
    let running = TestServer::start(
        &dir.path().join("store"),
        &["--token-file", &token, "--read-token-file", &reading],
    );
    let body = json(&report("n", Outcome::Pass, 20.0));
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    // `echo -n "anyone:a-token-for-readers-4567" | base64`
    let basic = "Authorization: Basic YW55b25lOmEtdG9rZW4tZm9yLXJlYWRlcnMtNDU2Nw==\r\n";
    for (headers, sends, reads) in [
        (String::new(), 401, 401),
        (bearer("a-token-for-senders-0124"), 401, 401),
        (bearer(""), 401, 401),
        (bearer(READING), 401, 200),
        (basic.to_owned(), 401, 200),
        ("Authorization: Basic !!!\r\n".to_owned(), 401, 401),
        (bearer(TOKEN), 201, 200),
    ] {
        assert_eq!(running.post(&headers, &body).0, sends, "{headers}");
        for path in ["/", "/reports", "/metrics"] {
            assert_eq!(
                running.get_with(path, &headers).0,
                reads,
                "{path} {headers}"
            );
        }
    }
    assert_eq!(running.get("/healthz"), (200, "ok\n".to_owned()));
}

fn ended(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firstlight-collect"))
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn wrong_use_is_refused_in_one_line() {
    let dir = TempDir::new().unwrap();
    let (store, token) = (
        dir.path().join("store").display().to_string(),
        secret(&dir, "token", TOKEN),
    );
    let short = secret(&dir, "short", "short");
    let file = secret(&dir, "file", "");
    let everywhere = ["--listen", "0.0.0.0:0", "--store", &store];
    for (words, status, says) in [
        (vec![], 64, "--store"),
        (everywhere.to_vec(), 64, "others could send"),
        (
            [&everywhere[..], &["--open-reading"]].concat(),
            64,
            "others could send",
        ),
        (
            [&everywhere[..], &["--key-file", &short]].concat(),
            2,
            "a key of 5 bytes",
        ),
        (
            vec!["--store", &store, "--token-file", &short],
            2,
            "16 to 256 visible",
        ),
        (
            vec!["--store", &store, "--token-file", "/none"],
            2,
            "/none: cannot be read",
        ),
        (vec!["--store", &file], 2, "--store /"),
        (vec!["--store", &store, "--keep", "0"], 64, "--keep"),
        (
            vec!["--store", &store, "--max-bytes", "1"],
            64,
            "from 1024 to 67108864",
        ),
        (
            vec!["--store", &store, "--max-bytes", "8MiB"],
            64,
            "such as 8388608 for 8 MiB",
        ),
        (
            vec!["--store", &store, "--listen", "8499"],
            64,
            "127.0.0.1:8499",
        ),
        (
            vec!["--store", &store, "--listen", "localhost:x"],
            64,
            "an IP address and a port, such as 127.0.0.1:8420",
        ),
        (
            vec![
                "--store",
                &store,
                "--open-reading",
                "--read-token-file",
                &token,
            ],
            64,
            "--open-reading",
        ),
        (
            vec![
                "--store",
                &store,
                "--listen",
                "192.0.2.1:1",
                "--token-file",
                &token,
            ],
            2,
            "--listen 192.0.2.1:1: ",
        ),
    ] {
        let Output {
            status: ended,
            stderr,
            stdout,
        } = ended(&words);
        let line = String::from_utf8(stderr).unwrap();
        assert_eq!(ended.code(), Some(status), "{words:?}: {line}");
        assert!(
            line.contains(says) && line.lines().count() == 1 && stdout.is_empty(),
            "{words:?}: {line}"
        );
    }
    let key = secret(&dir, "key", &"k".repeat(32));
    let line = ended(&[&everywhere[..], &["--key-file", &key]].concat());
    assert!(
        String::from_utf8(line.stderr)
            .unwrap()
            .contains("others could read")
    );
    assert!(
        String::from_utf8(ended(&["--help"]).stdout)
            .unwrap()
            .contains("--open-reading")
    );
}

fn a_request_that_has_begun_is_answered_before_the_end(kind: Kind) {
    let dir = TempDir::new().unwrap();
    let store: PathBuf = kind.store(&dir);
    let running = TestServer::start(&store, &[]);
    let body = json(&report("n", Outcome::Pass, 20.0));
    let bytes = request("", &body);
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    let mut stream = running.connect();
    stream.write_all(first).unwrap();
    // It has begun when another request after it has been answered.
    assert_eq!(running.get("/healthz").0, 200);
    thread::sleep(Duration::from_millis(300));
    running.signal("TERM");
    thread::sleep(Duration::from_millis(300));
    stream.write_all(rest).unwrap();
    assert_eq!(answer(stream).0, 201);
    assert_eq!(running.end().0, Some(0));
    let again = TestServer::start(&store, &[]);
    assert_eq!(again.get(&format!("/report/{}", digest(&body))).0, 200);
}
