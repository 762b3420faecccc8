//! A running receiver, and what its clients send.

use crate::memory::Limit;
use outcome::scope::Scope;
use outcome::{Outcome, Verdict};
use report::mac::digest;
use report::{Driver, Level, MachineEntry, Report, SCHEMA, TestEntry};
use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The time after which a client counts as hung.
pub(crate) const HUNG: Duration = Duration::from_secs(120);

/// A running receiver, which is killed at the end.
pub(crate) struct Receiver {
    child: Child,
    pub(crate) port: u16,
}

impl Receiver {
    pub(crate) fn start(store: &Path, options: &[&str], limit: Option<&Limit>) -> Self {
        // Built beside this program.
        let program = env::current_exe()
            .unwrap()
            .with_file_name("firstlight-collect");
        let mut command =
            limit.map_or_else(|| Command::new(&program), |limit| limit.command(&program));
        command
            .args(["--listen", "127.0.0.1:0", "--store"])
            .arg(store)
            .args(options);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line
            .trim_end()
            .trim_end_matches('/')
            .rsplit(':')
            .next()
            .unwrap()
            .parse();
        Self {
            child,
            port: port.unwrap_or_else(|_| panic!("the receiver says {line:?}")),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Whether it ended by itself.
    pub(crate) fn has_crashed(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_some())
    }

    /// The most memory that it had, MiB.
    pub(crate) fn peak_mib(&self) -> u64 {
        crate::memory::peak_kib(&self.child.id().to_string()).unwrap_or(0) >> 10
    }

    pub(crate) fn kill(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }

    pub(crate) fn get(&self, path: &str) -> Option<(u16, String)> {
        ask(
            self.address(),
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
            HUNG,
        )
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.get("/healthz") == Some((200, "ok\n".to_owned()))
    }

    /// The verdict that the metrics give for a host.
    pub(crate) fn verdict_of(&self, host: &str) -> Option<String> {
        let (_, text) = self.get("/metrics")?;
        let mut lines = text
            .lines()
            .filter(|l| l.starts_with("firstlight_node_verdict{") && l.ends_with(" 1"));
        let line = lines.find(|line| line.contains(&format!("host=\"{host}\"")))?;
        Some(
            line.split("verdict=\"")
                .nth(1)?
                .split('"')
                .next()?
                .to_owned(),
        )
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends bytes and returns status and body; `None` if nothing came in time. Status 0: the connection was closed.
pub(crate) fn ask(to: SocketAddr, bytes: &[u8], within: Duration) -> Option<(u16, String)> {
    let due = Instant::now() + within;
    let Ok(mut stream) = TcpStream::connect_timeout(&to, within) else {
        return Some((0, String::new()));
    };
    stream.set_read_timeout(Some(within)).ok()?;
    stream.set_write_timeout(Some(within)).ok()?;
    // The receiver may answer before everything is sent.
    let _ = stream.write_all(bytes);
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    if got.is_empty() && Instant::now() >= due {
        return None;
    }
    let text = String::from_utf8_lossy(&got);
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0);
    Some((
        status,
        text.split_once("\r\n\r\n")
            .map_or("", |(_, body)| body)
            .to_owned(),
    ))
}

/// A POST of a report.
pub(crate) fn post(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Sends a report as `publish` does: again after a pause where the receiver is busy or gone. Returns the last status; `None`: it
/// was not stored in time.
pub(crate) fn deliver(to: SocketAddr, body: &[u8], within: Duration) -> Option<u16> {
    let due = Instant::now() + within;
    let mut pause = Duration::from_millis(100);
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        match ask(to, &post("", body), left) {
            Some((status @ (200 | 201 | 400..=499), _)) => return Some(status),
            _ => thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_secs(2));
    }
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

/// A small valid report.
pub(crate) fn report(host: &str, outcome: Outcome, started: &str) -> Report {
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
        started: started.into(),
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
    report.push(test("cuda", outcome));
    report
}

pub(crate) const NOON: &str = "2026-11-20T12:00:00Z";

/// Its bytes.
pub(crate) fn bytes(host: &str, outcome: Outcome, started: &str) -> Vec<u8> {
    serde_json::to_vec(&report(host, outcome, started)).unwrap()
}

/// A valid report of this many bytes, whose unknown key has as many small values as fit.
pub(crate) fn small_values(host: &str, size: usize) -> Vec<u8> {
    let whole = bytes(host, Outcome::Pass, NOON);
    let mut with = b"{\"later\":[{\"a\":0}".to_vec();
    while with.len() + whole.len() + 16 < size {
        with.extend_from_slice(b",0,[],{\"a\":0}");
    }
    with.extend_from_slice(b"],");
    with.extend_from_slice(&whole[1..]);
    with
}

/// Whether a report's bytes can be read back.
pub(crate) fn is_stored(receiver: &Receiver, body: &[u8]) -> bool {
    let sum = digest(body);
    receiver
        .get(&format!("/report/{sum}"))
        .is_some_and(|(status, text)| status == 200 && digest(text.as_bytes()) == sum)
}

/// A sequence that is the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }
}
