//! docs/deploy/collect.md, "Several receivers": two receivers on one database of Debian's PostgreSQL, while they are used
//! together, killed, and while the database restarts, crashes and hangs.

use super::{BackgroundProcess, example, firstlight, wait};
use harness::postgres::Postgres;
use harness::workspace;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// In which time a receiver must answer, whatever the database does: twice its own limit of 10 s, and what a busy machine adds.
const BOUND: Duration = Duration::from_secs(30);

/// A running receiver; killed when dropped.
struct Receiver {
    child: Child,
    address: String,
}

impl Receiver {
    fn start(store: &str) -> Self {
        let mut command = Command::new(firstlight().with_file_name("firstlight-collect"));
        command
            .args(["--listen", "127.0.0.1:0", "--store", store])
            .stdin(Stdio::null());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .and_then(|l| l.strip_suffix('/'));
        let address = address
            .unwrap_or_else(|| panic!("{store}: {line:?}"))
            .to_owned();
        Self { child, address }
    }

    fn get(&self, path: &str) -> (u16, String) {
        ask(
            &self.address,
            &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            b"",
        )
    }

    /// The lines of the metrics that do not depend on the time, and are not of this process alone.
    fn metrics(&self) -> BTreeSet<String> {
        let (status, text) = self.get("/metrics");
        assert_eq!(status, 200, "{text}");
        let own = [
            "firstlight_node_report_age",
            "firstlight_collect_received",
            "firstlight_collect_refused",
            "#",
        ];
        text.lines()
            .filter(|line| !own.iter().any(|name| line.starts_with(name)))
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request; returns the status and the body of the answer, and status 0 without one.
fn ask(address: &str, head: &str, body: &[u8]) -> (u16, String) {
    let mut bytes = Vec::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        let _closed = stream.write_all(&[head.as_bytes(), body].concat());
        let _cut = stream.read_to_end(&mut bytes);
    }
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

/// A report to send: its bytes, and the verdict that its sender gives it.
struct Sent {
    body: Vec<u8>,
    verdict: &'static str,
}

impl Sent {
    /// Sends it; returns the status, and the digest by which it is stored.
    fn to(&self, address: &str) -> (u16, String) {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\nFirstlight-Verdict: {}\r\n\r\n",
            self.body.len(),
            self.verdict
        );
        let (status, line) = ask(address, &head, &self.body);
        (
            status,
            line.rsplit(' ')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned(),
        )
    }
}

/// The report of a run of a node that began so many seconds after noon.
fn report(node: usize, second: usize, verdict: &'static str) -> Sent {
    let text =
        fs::read_to_string(workspace().join("validator/tests/data/earlier-pass.json")).unwrap();
    let mut report: Value = serde_json::from_str(&text).unwrap();
    report["machine"]["host"] = json!(format!("node-{node:02}"));
    report["machine"]["machine_id"] = Value::Null;
    report["started"] = json!(format!(
        "2026-11-20T12:{:02}:{:02}Z",
        second / 60,
        second % 60
    ));
    Sent {
        body: serde_json::to_vec(&report).unwrap(),
        verdict,
    }
}

/// Runs this for each number, in so many threads.
fn in_threads(threads: usize, all: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= all {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}

fn signal(name: &str, processes: &[u32]) {
    let ids = processes.iter().map(u32::to_string);
    assert!(
        Command::new("kill")
            .arg(format!("-{name}"))
            .args(ids)
            .status()
            .unwrap()
            .success(),
        "{processes:?}"
    );
}

/// What must hold in the tables, however the reports came: each node counts its reports, and its newest is the one that began
/// last.
fn assert_consistent(server: &Postgres, database: &str) {
    let wrong =
        "SELECT n.id FROM firstlight.node n WHERE reports <> (SELECT count(*) FROM firstlight.report WHERE node = n.id)
        OR (SELECT moment FROM firstlight.report WHERE id = newest)
            <> (SELECT max(moment) FROM firstlight.report WHERE node = n.id)
        OR verdict <> (SELECT verdict FROM firstlight.report WHERE id = shown)";
    assert_eq!(server.sql(database, wrong).unwrap(), "");
    let bare = "SELECT count(*) FROM firstlight.report FULL JOIN firstlight.body ON report = id WHERE report IS NULL OR id IS NULL";
    assert_eq!(server.sql(database, bare).unwrap(), "0\n");
}

#[test]
fn two_receivers_do_what_one_does() {
    const NODES: usize = 6;
    const RUNS: usize = 20;
    let server = Postgres::start(&[], &[]).unwrap();
    let database = server.database().unwrap();
    let url = server.socket_url(&database);
    let both = [Receiver::start(&url), Receiver::start(&url)];
    let folder = tempfile::tempdir().unwrap();
    let one = Receiver::start(folder.path().join("store").to_str().unwrap());
    let verdicts = ["PASS", "ERROR", "PASS", "FAIL"];
    let all: Vec<_> = (0..NODES * RUNS)
        .map(|n| report(n % NODES, n / NODES, verdicts[n / NODES % verdicts.len()]))
        .collect();
    // Each report twice to each of the two, all at once; the last runs come when all others are there, so that the order of the
    // others does not matter.
    let answers = Mutex::new(BTreeMap::<String, Vec<u16>>::new());
    let last = (RUNS - 1) * NODES;
    for part in [0..last, last..NODES * RUNS] {
        let part = &all[part];
        in_threads(12, part.len() * 4, |number| {
            let (status, digest) = part[number / 4].to(&both[number % 2].address);
            answers
                .lock()
                .unwrap()
                .entry(digest)
                .or_default()
                .push(status);
        });
        in_threads(4, part.len(), |number| {
            assert_eq!(part[number].to(&one.address).0, 201);
        });
    }
    let answers = answers.into_inner().unwrap();
    assert_eq!(answers.len(), all.len());
    for (digest, mut statuses) in answers {
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 200, 201], "{digest}");
    }
    assert_consistent(&server, &database);
    let drop_times = |lines: BTreeSet<String>| -> BTreeSet<String> {
        lines
            .into_iter()
            .filter(|line| !line.contains("received_timestamp"))
            .collect()
    };
    assert_eq!(both[0].metrics(), both[1].metrics());
    assert_eq!(drop_times(both[0].metrics()), drop_times(one.metrics()));
    assert!(
        both[0]
            .metrics()
            .contains(&format!("firstlight_collect_reports {}", all.len()))
    );
    for path in ["/", "/reports", "/reports?page=2", "/?verdict=FAIL"] {
        let page = both[0].get(path);
        assert!(page.0 == 200 && page == both[1].get(path), "{path}");
    }
    // The same report with a worse verdict, to both at once: the worst one counts, and is shown by both.
    let worse = |verdict| Sent {
        body: all[last].body.clone(),
        verdict,
    };
    let worse = ["FAIL", "ERROR", "FAIL", "ERROR"].map(worse);
    in_threads(4, 40, |number| {
        let status = worse[number % 4].to(&both[number / 4 % 2].address).0;
        assert_eq!(status, 200);
    });
    for receiver in &both {
        let (_, page) = receiver.get("/?verdict=ERROR");
        assert!(page.contains("node-00"), "{page}");
    }
    // They keep no more than two connections each.
    assert_eq!(server.serving("firstlight-collect").unwrap().len(), 4);
}

#[test]
fn nothing_acknowledged_is_lost_while_the_database_crashes_and_a_receiver_is_killed() {
    const ALL: usize = 600;
    let mut server = Postgres::start(&[], &[]).unwrap();
    let database = server.database().unwrap();
    let url = server.socket_url(&database);
    let (mut first, second) = (Receiver::start(&url), Receiver::start(&url));
    let addresses = [first.address.clone(), second.address.clone()];
    let all: Vec<_> = (0..ALL)
        .map(|n| report(n % 20, n / 20, ["PASS", "FAIL"][n % 2]))
        .collect();
    let acknowledged = Mutex::new(Vec::new());
    let unavailable = AtomicUsize::new(0);
    let begun = Instant::now();
    let send = |number: usize| {
        // As a proxy does: to the other one where the first one does not answer.
        for attempt in 0.. {
            let (status, digest) = all[number].to(&addresses[(number + attempt) % 2]);
            match status {
                200 | 201 => return acknowledged.lock().unwrap().push(digest),
                503 => drop(unavailable.fetch_add(1, Ordering::SeqCst)),
                0 => {}
                status => panic!("{status}: {digest}"),
            }
            assert!(begun.elapsed() < Duration::from_secs(200));
            thread::sleep(Duration::from_millis(20));
        }
    };
    let count = || acknowledged.lock().unwrap().len();
    thread::scope(|scope| {
        let sending = scope.spawn(|| in_threads(8, ALL, send));
        for (at, signal) in [(ALL / 5, "QUIT"), (2 * ALL / 5, "INT")] {
            wait("reports", || (count() >= at).then_some(()));
            server.stop(signal);
            let down = count();
            let (status, line) = wait("what /healthz says", || Some(second.get("/healthz")));
            assert!(
                status == 503 && line.contains(&format!("/{database}: ")),
                "{status} {line}"
            );
            wait("refusals", || {
                (unavailable.load(Ordering::SeqCst) > 0).then_some(())
            });
            // Those that were in flight when the server ended have been answered.
            assert!(down <= count() && count() < ALL, "{down} {}", count());
            server.start_again().unwrap();
            wait("the database", || {
                (second.get("/healthz") == (200, "ok\n".to_owned())).then_some(())
            });
        }
        wait("reports", || (count() >= 3 * ALL / 5).then_some(()));
        first.child.kill().unwrap();
        assert!(count() < ALL);
        sending.join().unwrap();
    });
    let acknowledged: BTreeSet<_> = acknowledged.into_inner().unwrap().into_iter().collect();
    assert_eq!(acknowledged.len(), ALL);
    for digest in &acknowledged {
        assert_eq!(second.get(&format!("/report/{digest}")).0, 200, "{digest}");
    }
    assert!(
        second
            .metrics()
            .contains(&format!("firstlight_collect_reports {ALL}"))
    );
    assert_consistent(&server, &database);
}

#[test]
fn a_database_that_hangs_is_unavailable_in_bounded_time() {
    let server = Postgres::start(&[], &[]).unwrap();
    let database = server.database().unwrap();
    let receiver = Receiver::start(&server.socket_url(&database));
    assert_eq!(report(0, 0, "PASS").to(&receiver.address).0, 201);
    let within = |what: &str, ask: &dyn Fn() -> u16| {
        let begun = Instant::now();
        let status = ask();
        assert!(begun.elapsed() < BOUND, "{what}: {:?}", begun.elapsed());
        status
    };
    // The processes of its connections: the next request gets a new one.
    let stopped = server.serving("firstlight-collect").unwrap();
    assert_eq!(stopped.len(), 2, "{stopped:?}");
    signal("STOP", &stopped);
    assert_eq!(
        within("a report", &|| report(0, 1, "PASS").to(&receiver.address).0),
        503
    );
    assert_eq!(within("a page", &|| receiver.get("/").0), 503);
    assert_eq!(report(0, 1, "PASS").to(&receiver.address).0, 201);
    assert_eq!(receiver.get("/healthz"), (200, "ok\n".to_owned()));
    signal("CONT", &stopped);

    // All of the server: it accepts nobody. Many wait, and none for longer.
    let mut stopped = server.serving("firstlight-collect").unwrap();
    stopped.push(server.postmaster().unwrap());
    signal("STOP", &stopped);
    in_threads(32, 32, |number| {
        let status = match number % 2 {
            0 => within("a report", &|| {
                report(1, number, "PASS").to(&receiver.address).0
            }),
            _ => within("a page", &|| receiver.get("/healthz").0),
        };
        assert_eq!(status, 503);
    });
    signal("CONT", &stopped);
    wait("the database", || {
        (receiver.get("/healthz").0 == 200).then_some(())
    });
    assert_eq!(report(1, 0, "PASS").to(&receiver.address).0 / 100, 2);

    // Somebody holds the lock of all reports: a report waits in vain, and pages are shown.
    thread::scope(|scope| {
        let holding = scope.spawn(|| {
            server
                .sql(
                    &database,
                    "BEGIN; LOCK TABLE firstlight.report IN EXCLUSIVE MODE; SELECT pg_sleep(25)",
                )
                .unwrap();
        });
        let sql = "SELECT count(*) FROM pg_locks WHERE mode = 'ExclusiveLock' AND relation = 'firstlight.report'::regclass";
        wait("the lock", || {
            (server.sql(&database, sql).unwrap() == "1\n").then_some(())
        });
        assert_eq!(
            within("a report", &|| report(2, 0, "PASS").to(&receiver.address).0),
            503
        );
        assert_eq!(receiver.get("/").0, 200);
        holding.join().unwrap();
    });
    assert_eq!(report(2, 0, "PASS").to(&receiver.address).0, 201);
    assert_consistent(&server, &database);
}

#[test]
fn one_address_serves_both_receivers_and_goes_on_when_one_is_gone() {
    const ALL: usize = 60;
    let server = Postgres::start(&[], &[]).unwrap();
    let url = server.socket_url(&server.database().unwrap());
    let (mut first, second) = (Receiver::start(&url), Receiver::start(&url));
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    // The page's file, with the addresses of here.
    let page = example("collect.md", "/etc/nginx/conf.d/firstlight.conf");
    let page = page
        .replace("10.0.0.11:8420", &first.address)
        .replace("10.0.0.12:8420", &second.address);
    let page = page.replace("listen 8420", &format!("listen 127.0.0.1:{free}"));
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {at}/{name};\n"))
        .concat();
    let whole = format!(
        "daemon off; user root; pid {at}/pid; error_log {at}/error.log; events {{}}\nhttp {{ access_log off;\n{folders}{page}}}\n"
    );
    fs::write(dir.path().join("nginx.conf"), whole).unwrap();
    let mut nginx = Command::new("nginx");
    nginx
        .arg("-c")
        .arg(dir.path().join("nginx.conf"))
        .arg("-e")
        .arg(dir.path().join("error.log"));
    // Its workers end with it, which `kill` alone would not do.
    let nginx = BackgroundProcess::start(&mut nginx);
    let address = format!("127.0.0.1:{free}");
    let get = |path: &str| {
        ask(
            &address,
            &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            b"",
        )
    };
    wait("nginx", || {
        (get("/healthz") == (200, "ok\n".to_owned())).then_some(())
    });
    let all: Vec<_> = (0..ALL).map(|n| report(n % 5, n, "PASS")).collect();
    in_threads(4, ALL / 2, |number| {
        assert_eq!(all[number].to(&address).0, 201);
    });
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    in_threads(4, ALL / 2, |number| {
        assert_eq!(all[ALL / 2 + number].to(&address).0, 201);
    });
    // Larger than nginx accepts by itself.
    let mut large = report(0, ALL, "PASS");
    let padding = "x".repeat(3 << 20);
    large
        .body
        .splice(1..1, format!("\"later\":\"{padding}\",").into_bytes());
    assert_eq!(large.to(&address).0, 201);
    let (_, text) = get("/metrics");
    assert!(
        text.contains(&format!("firstlight_collect_reports {}", ALL + 1)),
        "{text}"
    );
    signal("QUIT", &[nginx.0.id()]);
    wait("nginx to end", || {
        TcpStream::connect(&address).is_err().then_some(())
    });
}
