//! Attacks on the receiver.

use crate::client::{
    HUNG, NOON, Random, Receiver, ask, bytes, deliver, is_stored, post, report,
    small_values as of_small_values,
};
use crate::memory::Limit;
use crate::table::Counts;
use outcome::{Outcome, Verdict};
use report::mac::{Key, digest};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The memory of a small service.
const MIB: u64 = 512;

/// What every attack ends with.
fn still_there(receiver: &mut Receiver, counts: &mut Counts) {
    if receiver.has_crashed() {
        counts.crashed += 1;
    } else {
        counts.check(receiver.is_healthy(), || "/healthz".to_owned());
    }
}

pub(crate) fn small_values() -> Counts {
    const POSTS: u64 = 200;
    let (dir, limit, mut counts) = (TempDir::new().unwrap(), Limit::new(MIB), Counts::default());
    let mut receiver = Receiver::start(&dir.path().join("store"), &[], Some(&limit));
    let (next, answers, to) = (
        AtomicU64::new(0),
        Mutex::new(Vec::new()),
        receiver.address(),
    );
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut body = of_small_values("small-00000", 7 << 20);
                let at = body.windows(5).rposition(|part| part == b"00000").unwrap();
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= POSTS {
                        return;
                    }
                    body[at..at + 5].copy_from_slice(format!("{number:05}").as_bytes());
                    let answer = ask(to, &post("", &body), HUNG);
                    answers.lock().unwrap().push(answer);
                }
            });
        }
    });
    for answer in answers.into_inner().unwrap() {
        counts.runs += 1;
        match answer {
            None => counts.hung += 1,
            Some((status, line)) => counts.check(status == 201, || format!("{status} {line}")),
        }
    }
    still_there(&mut receiver, &mut counts);
    let stored = receiver
        .get("/metrics")
        .is_some_and(|(_, text)| text.contains(&format!("firstlight_collect_reports {POSTS}\n")));
    counts.lost += u64::from(!stored);
    let peak = receiver.peak_mib();
    let all = limit.peak_mib().map_or_else(String::new, |peak| {
        format!(", {peak} MiB with the pages of files")
    });
    counts.note(format!("limit {}; peak {peak} MiB{all}", limit.says()));
    counts
}

/// Reports that are wrong, huge, deep, or ask for work that grows faster than their size.
pub(crate) fn hostile_reports() -> Counts {
    let (dir, limit, mut counts) = (TempDir::new().unwrap(), Limit::new(MIB), Counts::default());
    let mut receiver = Receiver::start(&dir.path().join("store"), &[], Some(&limit));
    let good = serde_json::to_value(report("hostile", Outcome::Pass, NOON)).unwrap();
    let with = |pointer: &str, value: serde_json::Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed.to_string().into_bytes()
    };
    let text = good.to_string();
    let inserted = |what: &str| text.replacen('{', &format!("{{{what},"), 1).into_bytes();
    let finding = json!({ "code": "P2P-SLOW", "severity": "fail", "subject": "899970000 pairs (GPU 0 -> 1, ..)", "message": "", "measured": null,
        "expected": null, "unit": null, "cause": "", "evidence": [], "remedy": [] });
    let gpu = json!({ "bdf": "0000:00:00.0", "device": "" });
    let mut square = good.clone();
    square["gpus"] = vec![gpu.clone(); 30_000].into();
    square["tests"][0]["findings"] = vec![finding.clone()].into();
    let keys: String = (0..600_000).map(|n| format!("\"{n}\":0,")).collect();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        (
            "rows",
            with("/tests/0/tables", vec![json!([[0]]); 400_000].into()),
        ),
        (
            "objects",
            with("/tests/0/tables", vec![json!({ "a": 0 }); 400_000].into()),
        ),
        (
            "texts",
            with("/tests/0/log_tail", vec![json!(""); 2_000_000].into()),
        ),
        ("GPUs", with("/gpus", vec![gpu; 100_000].into())),
        (
            "findings",
            with("/tests/0/findings", vec![finding; 20_000].into()),
        ),
        ("pairs", square.to_string().into_bytes()),
        (
            "names",
            with(
                "/workload_env",
                (0..300_000)
                    .map(|n| (n.to_string(), json!("")))
                    .collect::<serde_json::Map<_, _>>()
                    .into(),
            ),
        ),
        ("keys", inserted(&format!("\"later\":{{{keys}\"x\":0}}"))),
        (
            "duplicates",
            inserted("\"later\":0,".repeat(500_000).trim_end_matches(',')),
        ),
        (
            "depth",
            inserted(&format!("\"later\":{}", "[".repeat(7 << 20))),
        ),
        (
            "schema",
            format!("{{\"schema\":[{}0]}}", "0,".repeat(3 << 20)).into_bytes(),
        ),
        (
            "codes",
            format!(
                "{{\"schema\":\"firstlight.verdict/1\",\"verdict\":\"FAIL\",\"codes\":[{}\"\"]}}",
                "\"\",".repeat(2 << 20)
            )
            .into_bytes(),
        ),
        ("one text", with("/answer", "x".repeat(7 << 20).into())),
        (
            "tests",
            with(
                "/tests",
                (0..15_000)
                    .map(|n| {
                        let mut t = good["tests"][0].clone();
                        t["id"] = format!("t{n}").into();
                        t
                    })
                    .collect::<Vec<_>>()
                    .into(),
            ),
        ),
    ];
    let (to, counted) = (receiver.address(), Mutex::new(Counts::default()));
    for _ in 0..2 {
        thread::scope(|scope| {
            for (name, body) in &cases {
                let counted = &counted;
                scope.spawn(move || {
                    let answer = ask(to, &post("", body), HUNG);
                    let mut counts = counted.lock().unwrap();
                    counts.runs += 1;
                    match answer {
                        None => counts.hung += 1,
                        Some((status, line)) => counts
                            .check(matches!(status, 200 | 201 | 400 | 413 | 422), || {
                                format!("{name}: {status} {line:.200}")
                            }),
                    }
                });
            }
        });
    }
    counts.add(&counted.lock().unwrap());
    counts
        .notes
        .append(&mut counted.into_inner().unwrap().notes);
    // Those that were stored are shown.
    for (_, body) in cases {
        for form in ["html", "text", "junit", "prometheus"] {
            let sum = digest(&body);
            counts.runs += 1;
            match receiver.get(&format!("/report/{sum}?to={form}")) {
                None => counts.hung += 1,
                Some((status, line)) => {
                    counts.check(matches!(status, 200 | 400 | 404), || {
                        format!("{form}: {status} {line:.200}")
                    });
                }
            }
        }
    }
    still_there(&mut receiver, &mut counts);
    counts.note(format!(
        "limit {}; peak {} MiB",
        limit.says(),
        receiver.peak_mib()
    ));
    counts
}

/// A client of one of several kinds, which sends nothing more: idle, with half a head, with half a body.
fn slow_client(receiver: &Receiver, number: usize) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(receiver.address()).ok()?;
    let whole = post("", &bytes("slow", Outcome::Pass, NOON));
    let part = [0, 40, whole.len() - 20, 0][number % 4];
    // It may be closed already.
    let _ = stream.write_all(&whole[..part]);
    Some(stream)
}

pub(crate) fn slow_clients() -> Counts {
    let (dir, mut counts) = (TempDir::new().unwrap(), Counts::default());
    let mut receiver = Receiver::start(&dir.path().join("store"), &[], None);
    let mut slow: Vec<_> = (0..500)
        .map(|number| slow_client(&receiver, number))
        .collect();
    let (over, mut slowest) = (AtomicBool::new(false), Duration::ZERO);
    thread::scope(|scope| {
        // They send a byte from time to time.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for (number, client) in slow
                    .iter_mut()
                    .enumerate()
                    .filter(|(number, _)| number % 2 == 0)
                {
                    let sent = client
                        .as_mut()
                        .is_some_and(|stream| stream.write_all(b"x").is_ok());
                    if !sent {
                        *client = slow_client(&receiver, number);
                    }
                }
                thread::sleep(Duration::from_millis(500));
            }
        });
        for number in 0..40 {
            let body = bytes(&format!("n{number}"), Outcome::Pass, NOON);
            let begun = Instant::now();
            let answer = ask(receiver.address(), &post("", &body), HUNG);
            counts.runs += 1;
            slowest = slowest.max(begun.elapsed());
            match answer {
                None => counts.hung += 1,
                Some((status, line)) => counts.check(
                    status == 201 && begun.elapsed() < Duration::from_secs(2),
                    || format!("{status} {line} after {:?}", begun.elapsed()),
                ),
            }
            thread::sleep(Duration::from_millis(250));
        }
        over.store(true, Ordering::Relaxed);
    });
    still_there(&mut receiver, &mut counts);
    counts.note(format!(
        "500 idle and slow clients; the slowest report took {slowest:.1?}"
    ));
    counts
}

pub(crate) fn reconnecting() -> Counts {
    let (dir, mut counts) = (TempDir::new().unwrap(), Counts::default());
    let mut receiver = Receiver::start(&dir.path().join("store"), &["--connections", "256"], None);
    let (over, mut slowest) = (AtomicBool::new(false), Duration::ZERO);
    thread::scope(|scope| {
        for number in 0..8 {
            let (over, receiver) = (&over, &receiver);
            // Each keeps 25 connections open and replaces the oldest one.
            scope.spawn(move || {
                let mut open = std::collections::VecDeque::new();
                while !over.load(Ordering::Relaxed) {
                    open.push_back(slow_client(receiver, number));
                    if open.len() > 50 {
                        open.pop_front();
                    }
                    thread::sleep(Duration::from_millis(5));
                }
            });
        }
        thread::sleep(Duration::from_secs(1));
        for number in 0..40 {
            let body = bytes(&format!("n{number}"), Outcome::Pass, NOON);
            let begun = Instant::now();
            counts.runs += 1;
            match deliver(receiver.address(), &body, HUNG) {
                None => counts.hung += 1,
                Some(status) => counts.check(
                    matches!(status, 200 | 201) && begun.elapsed() < Duration::from_secs(10),
                    || format!("{status} after {:?}", begun.elapsed()),
                ),
            }
            slowest = slowest.max(begun.elapsed());
        }
        over.store(true, Ordering::Relaxed);
    });
    still_there(&mut receiver, &mut counts);
    counts.note(format!(
        "400 clients for 256 places; the slowest report took {slowest:.1?}"
    ));
    counts
}

pub(crate) fn slow_readers() -> Counts {
    let (dir, limit, mut counts) = (TempDir::new().unwrap(), Limit::new(MIB), Counts::default());
    let mut receiver = Receiver::start(&dir.path().join("store"), &[], Some(&limit));
    let large = of_small_values("large", 7 << 20);
    counts.check(
        deliver(receiver.address(), &large, HUNG) == Some(201),
        || "the large report".to_owned(),
    );
    let path = format!("/report/{}", digest(&large));
    let readers: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(receiver.address()).unwrap();
            let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
            stream
        })
        .collect();
    thread::sleep(Duration::from_secs(2));
    for number in 0..20 {
        counts.runs += 1;
        let body = bytes(&format!("n{number}"), Outcome::Pass, NOON);
        match ask(receiver.address(), &post("", &body), HUNG) {
            None => counts.hung += 1,
            Some((status, line)) => counts.check(status == 201, || format!("{status} {line}")),
        }
    }
    drop(readers);
    still_there(&mut receiver, &mut counts);
    counts.note(format!(
        "limit {}; peak {} MiB",
        limit.says(),
        receiver.peak_mib()
    ));
    counts
}

pub(crate) fn all_at_once() -> Counts {
    const NODES: u64 = 1000;
    let (dir, limit, mut counts) = (TempDir::new().unwrap(), Limit::new(MIB), Counts::default());
    let mut receiver = Receiver::start(&dir.path().join("store"), &[], Some(&limit));
    let (to, begun, answers) = (receiver.address(), Instant::now(), Mutex::new(Vec::new()));
    let line = "a line of a log that compresses well, as they do ".repeat(4);
    thread::scope(|scope| {
        for number in 0..NODES {
            let (answers, line) = (&answers, &line);
            let work = move || {
                let mut one = report(&format!("node-{number}"), Outcome::Pass, NOON);
                one.tests[0].log_tail = vec![line.clone(); 1000];
                let answer = deliver(to, &serde_json::to_vec(&one).unwrap(), HUNG);
                answers.lock().unwrap().push((answer, begun.elapsed()));
            };
            thread::Builder::new()
                .stack_size(256 << 10)
                .spawn_scoped(scope, work)
                .unwrap();
        }
    });
    let mut last = Duration::ZERO;
    for (answer, after) in answers.into_inner().unwrap() {
        counts.runs += 1;
        last = last.max(after);
        match answer {
            None => counts.lost += 1,
            Some(status) => counts.check(matches!(status, 200 | 201), || status.to_string()),
        }
    }
    let stored = receiver
        .get("/metrics")
        .is_some_and(|(_, text)| text.contains(&format!("firstlight_collect_reports {NODES}\n")));
    counts.lost += u64::from(!stored);
    still_there(&mut receiver, &mut counts);
    counts.note(format!(
        "1000 reports of 200 KB from one address; the last after {last:.1?}; limit {}; peak {} MiB",
        limit.says(),
        receiver.peak_mib()
    ));
    counts
}

/// Runs of one node, whose reports arrive in another order: the verdict that is shown is never better than that of the last run.
pub(crate) fn late_reports() -> Counts {
    let (dir, mut counts, mut random) =
        (TempDir::new().unwrap(), Counts::default(), Random(0x5eed));
    let mut receiver = Receiver::start(&dir.path().join("store"), &[], None);
    for node in 0..60 {
        let host = format!("late-{node}");
        let mut newest: Option<(u64, Outcome)> = None;
        for _ in 0..6 {
            counts.runs += 1;
            let begun = random.below(50);
            let outcome = if random.below(2) == 0 {
                Outcome::Pass
            } else {
                Outcome::Fail
            };
            let started = format!("2026-11-20T12:{begun:02}:{:02}Z", random.below(60));
            let body = bytes(&host, outcome, &started);
            counts.check(deliver(receiver.address(), &body, HUNG).is_some(), || {
                "not stored".to_owned()
            });
            if newest.is_none_or(|(last, _)| begun > last) {
                newest = Some((begun, outcome));
            } else if newest.is_some_and(|(last, _)| begun == last) {
                // The same minute: the seconds decide.
                newest = None;
                break;
            }
        }
        let Some((_, outcome)) = newest else { continue };
        let shown = receiver.verdict_of(&host);
        let hides = outcome == Outcome::Fail && shown.as_deref() != Some("FAIL");
        counts.check(!hides && shown.is_some(), || {
            format!("{host}: shown {shown:?}, the last run {outcome:?}")
        });
    }
    for (number, started) in ["2099-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "", "x"]
        .into_iter()
        .enumerate()
    {
        counts.runs += 1;
        let host = format!("clock-{number}");
        for outcome in [Outcome::Pass, Outcome::Fail] {
            counts.check(
                deliver(receiver.address(), &bytes(&host, outcome, started), HUNG) == Some(201),
                || started.to_owned(),
            );
            thread::sleep(Duration::from_millis(1100));
        }
        counts.check(
            receiver.verdict_of(&host).as_deref() == Some("FAIL"),
            || format!("{started}: hides a later FAIL"),
        );
    }
    still_there(&mut receiver, &mut counts);
    counts
}

pub(crate) fn database_gone() -> Counts {
    let (dir, mut counts) = (TempDir::new().unwrap(), Counts::default());
    let store = dir.path().join("store");
    let mut receiver = Receiver::start(&store, &[], None);
    let mut number = 0;
    for round in 0..20 {
        let removed: &[&str] = [&["", "-wal", "-shm"][..], &[""], &["-wal"]][round % 3];
        for ending in removed {
            let _ = fs::remove_file(store.join(format!("reports.sqlite{ending}")));
        }
        if round % 6 == 1 {
            fs::write(store.join("reports.sqlite"), b"").unwrap();
        }
        let mut acknowledged = Vec::new();
        for _ in 0..5 {
            counts.runs += 1;
            number += 1;
            let body = bytes(&format!("n{number}"), Outcome::Pass, NOON);
            match ask(receiver.address(), &post("", &body), HUNG) {
                None => counts.hung += 1,
                Some((201, _)) => acknowledged.push(body),
                Some((503, _)) => {}
                Some((status, line)) => counts.check(false, || format!("{status} {line}")),
            }
        }
        counts.check(!acknowledged.is_empty(), || {
            "it was not opened again".to_owned()
        });
        // The first question finds that the files are others.
        let _first = receiver.get("/healthz");
        counts.lost += acknowledged
            .iter()
            .filter(|body| !is_stored(&receiver, body))
            .count() as u64;
    }
    still_there(&mut receiver, &mut counts);
    counts
}

pub(crate) fn killed() -> Counts {
    let (dir, mut counts) = (TempDir::new().unwrap(), Counts::default());
    let store = dir.path().join("store");
    let acknowledged = Mutex::new(Vec::new());
    for round in 0..5 {
        let mut receiver = Receiver::start(&store, &[], None);
        let (to, over) = (receiver.address(), AtomicBool::new(false));
        thread::scope(|scope| {
            for sender in 0..6 {
                let (acknowledged, over) = (&acknowledged, &over);
                scope.spawn(move || {
                    for number in 0..1000 {
                        let body =
                            bytes(&format!("k{round}-{sender}-{number}"), Outcome::Pass, NOON);
                        match ask(to, &post("", &body), HUNG) {
                            Some((201, _)) => acknowledged.lock().unwrap().push(body),
                            _ if over.load(Ordering::Relaxed) => return,
                            _ => thread::sleep(Duration::from_millis(10)),
                        }
                    }
                });
            }
            thread::sleep(Duration::from_millis(1500));
            over.store(true, Ordering::Relaxed);
            receiver.kill();
        });
    }
    let mut receiver = Receiver::start(&store, &[], None);
    let acknowledged = acknowledged.into_inner().unwrap();
    counts.runs = acknowledged.len() as u64;
    counts.lost = acknowledged
        .iter()
        .filter(|body| !is_stored(&receiver, body))
        .count() as u64;
    still_there(&mut receiver, &mut counts);
    counts
}

pub(crate) fn forged() -> Counts {
    let (dir, mut counts, mut random) = (TempDir::new().unwrap(), Counts::default(), Random(7));
    let file = dir.path().join("key");
    fs::write(&file, [b'k'; 32]).unwrap();
    let fleet = Key::read(&file).unwrap();
    let own = fleet.of_machine("node7").unwrap();
    let mut receiver = Receiver::start(
        &dir.path().join("store"),
        &["--key-file", file.to_str().unwrap()],
        None,
    );
    let send = |counts: &mut Counts,
                body: &[u8],
                verdict: &str,
                mac: &str,
                name: Option<&str>,
                fine: bool| {
        let name = name.map_or_else(String::new, |name| {
            format!("Firstlight-Key-Name: {name}\r\n")
        });
        let headers = format!("Firstlight-Verdict: {verdict}\r\nFirstlight-MAC: {mac}\r\n{name}");
        counts.runs += 1;
        match ask(receiver.address(), &post(&headers, body), HUNG) {
            None => counts.hung += 1,
            Some((status, line)) => counts.check((status / 100 == 2) == fine, || {
                format!("{status} {line} {headers}")
            }),
        }
    };
    for number in 0..50 {
        let body = bytes("node8", Outcome::Pass, NOON);
        let mut mac: String = fleet.mac("PASS", &body);
        let at = random.below(64) as usize;
        let other = if mac.as_bytes()[at] == b'0' { "1" } else { "0" };
        mac.replace_range(at..=at, other);
        send(&mut counts, &body, "PASS", &mac, None, false);
        let mac = own.mac("PASS", &body);
        for name in [
            None,
            Some("node7"),
            Some("node8"),
            Some(""),
            Some("node7 node8"),
        ] {
            send(&mut counts, &body, "PASS", &mac, name, false);
        }
        let mut changed = body.clone();
        let at = random.below(body.len() as u64) as usize;
        changed[at] ^= 1;
        send(
            &mut counts,
            &changed,
            "PASS",
            &fleet.mac("PASS", &body),
            None,
            false,
        );
        let own_body = bytes(
            "node7",
            Outcome::Pass,
            &format!("2026-11-20T12:00:{number:02}Z"),
        );
        send(
            &mut counts,
            &own_body,
            "PASS",
            &own.mac("PASS", &own_body),
            Some("node7"),
            true,
        );
        let verdict = Verdict::Error.to_string();
        send(
            &mut counts,
            &own_body,
            &verdict,
            &own.mac("PASS", &own_body),
            Some("node7"),
            false,
        );
    }
    still_there(&mut receiver, &mut counts);
    counts
}
