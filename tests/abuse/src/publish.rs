//! Attacks on `firstlight publish`.

use crate::client::{HUNG, NOON, Receiver, bytes, is_stored};
use crate::reports::child;
use crate::table::Counts;
use outcome::Outcome;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server that treats reports which hold the word `poison` as `how` says, and takes the others; it serves `most` connections.
fn choosy(how: usize, most: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().take(most) {
            let Ok(mut stream) = stream else { continue };
            thread::spawn(move || serve(&mut stream, how));
        }
    });
    port
}

fn serve(stream: &mut TcpStream, how: usize) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
    let (mut got, mut part) = (Vec::new(), [0; 65536]);
    loop {
        let text = String::from_utf8_lossy(&got).to_ascii_lowercase();
        let length = text
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.split('\r').next()?.parse::<usize>().ok());
        let head = text.find("\r\n\r\n");
        if let (Some(length), Some(head)) = (length, head)
            && got.len() >= head + 4 + length
        {
            break;
        }
        match stream.read(&mut part) {
            Ok(n) if n > 0 => got.extend_from_slice(&part[..n]),
            _ => return,
        }
    }
    let poison = String::from_utf8_lossy(&got).contains("poison");
    let answer = |status: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    };
    let text = match (poison, how) {
        (false, _) => answer("201 Created"),
        (true, 0) => answer("500 Internal Server Error"),
        (true, 1) => answer("503 Service Unavailable"),
        (true, 2) => answer("400 Bad Request"),
        // The connection is closed without an answer.
        _ => return,
    };
    let _ = stream.write_all(text.as_bytes());
}

/// Waits for the end of a child; `None`: it was killed, because it took too long.
fn ended(mut child: Child, within: Duration) -> Option<i32> {
    let due = Instant::now() + within;
    while Instant::now() < due {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status.code().unwrap_or(-1));
        }
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn start(report: &Path, spool: &Path, port: u16, words: &[&str]) -> Child {
    let url = format!("http://127.0.0.1:{port}/");
    let mut command = child(&["publish"]);
    command
        .arg(report)
        .arg("--spool")
        .arg(spool)
        .args(["--url", &url])
        .args(words);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

pub(crate) fn poison() -> Counts {
    let mut counts = Counts::default();
    for how in 0..4 {
        let dir = TempDir::new().unwrap();
        let (spool, file) = (dir.path().join("spool"), dir.path().join("report.json"));
        let port = choosy(how, 100);
        let closed = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        for (number, host) in ["poison", "good-1", "good-2"].iter().enumerate() {
            fs::write(&file, bytes(host, Outcome::Fail, NOON)).unwrap();
            let done = ended(start(&file, &spool, closed, &["--timeout", "1"]), HUNG);
            counts.check(done == Some(2), || format!("spooling {number}: {done:?}"));
        }
        for number in 0..5 {
            counts.runs += 1;
            fs::write(
                &file,
                bytes(&format!("today-{number}"), Outcome::Pass, NOON),
            )
            .unwrap();
            match ended(start(&file, &spool, port, &["--timeout", "20"]), HUNG) {
                None => counts.hung += 1,
                Some(status) => counts.check(status == 0, || {
                    format!("today's report, how {how}: {status}")
                }),
            }
        }
        let left: Vec<_> = fs::read_dir(&spool)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        counts.check(left.len() == 1 && left[0].ends_with(".json.unsent"), || {
            format!("left, how {how}: {left:?}")
        });
    }
    counts
}

pub(crate) fn killed() -> Counts {
    let (dir, mut counts) = (TempDir::new().unwrap(), Counts::default());
    let (spool, file) = (dir.path().join("spool"), dir.path().join("report.json"));
    let receiver = Receiver::start(&dir.path().join("store"), &[], None);
    let mut spooled = Vec::new();
    for number in 0..25_u64 {
        counts.runs += 1;
        let body = bytes(&format!("killed-{number}"), Outcome::Pass, NOON);
        fs::write(&file, &body).unwrap();
        let mut child = start(
            &file,
            &spool,
            receiver.port,
            &["--timeout", "20", "--keep", "100"],
        );
        thread::sleep(Duration::from_millis(number * 4));
        let _ = child.kill();
        let _ = child.wait();
        let names = fs::read_dir(&spool).into_iter().flatten().flatten();
        let is_there = names
            .filter_map(|entry| fs::read(entry.path()).ok())
            .any(|bytes| bytes == body);
        // One that was killed before it began has promised nothing.
        if is_there {
            spooled.push(body);
        }
    }
    fs::write(&file, bytes("last", Outcome::Pass, NOON)).unwrap();
    let done = ended(
        start(
            &file,
            &spool,
            receiver.port,
            &["--timeout", "60", "--keep", "100"],
        ),
        HUNG,
    );
    counts.check(done == Some(0), || format!("the last: {done:?}"));
    counts.lost = spooled
        .iter()
        .filter(|body| !is_stored(&receiver, body))
        .count() as u64;
    counts
}

pub(crate) fn pipes() -> Counts {
    let (dir, mut counts) = (TempDir::new().unwrap(), Counts::default());
    let (spool, file, pipe) = (
        dir.path().join("spool"),
        dir.path().join("report.json"),
        dir.path().join("pipe"),
    );
    fs::write(&file, bytes("n", Outcome::Pass, NOON)).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let pipe_name = pipe.display().to_string();
    for option in ["--key-file", "--token-file", "--ca"] {
        for secret in [pipe_name.as_str(), "/dev/zero"] {
            counts.runs += 1;
            match ended(
                start(&file, &spool, 9, &["--timeout", "1", option, secret]),
                Duration::from_secs(20),
            ) {
                None => counts.hung += 1,
                Some(status) => {
                    counts.check(status == 2, || format!("{option} {secret}: {status}"));
                }
            }
        }
    }
    counts.runs += 1;
    // A pipe is a report where somebody writes to it; nobody does.
    match ended(
        start(&pipe, &spool, 9, &["--timeout", "1"]),
        Duration::from_secs(90),
    ) {
        None => counts.hung += 1,
        Some(status) => counts.check(status == 2, || format!("a report that is a pipe: {status}")),
    }
    counts
}
