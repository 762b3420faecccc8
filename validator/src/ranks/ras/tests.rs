//! A server that talks as NCCL's does, or worse.

use super::*;
use std::io::{BufRead, BufReader};
use std::thread;

const SOON: Duration = Duration::from_millis(300);

/// Serves connections one after the other, each with what it does; says where.
fn server(served: Vec<fn(TcpStream)>) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        for serve in served {
            serve(listener.accept().unwrap().0);
        }
    });
    (at, serving)
}

/// Hears the three lines in their order and answers them.
fn polite(stream: TcpStream, status: &str) {
    let mut hear = BufReader::new(stream.try_clone().unwrap());
    let mut say = stream;
    for (asked, answer) in [
        ("CLIENT PROTOCOL 2\n", "SERVER PROTOCOL 3\n"),
        ("TIMEOUT 3\n", "OK\n"),
        ("VERBOSE STATUS\n", status),
    ] {
        let mut line = String::new();
        hear.read_line(&mut line).unwrap();
        assert_eq!(line, asked);
        say.write_all(answer.as_bytes()).unwrap();
    }
}

#[test]
fn what_nccl_knows_is_told_line_by_line() {
    let (at, serving) =
        server(vec![|s| polite(s, "NCCL version 2.29.7\n\nErrors\n======\n#0-1: RUNNING  \n")]);
    let said = diagnosis(at, Duration::from_secs(5));
    assert_eq!(said, ["NCCL version 2.29.7", "Errors", "======", "#0-1: RUNNING"]);
    serving.join().unwrap();
}

#[test]
fn no_more_than_forty_lines_are_kept() {
    let (at, serving) = server(vec![|s| polite(s, &"a line\n".repeat(1000))]);
    assert_eq!(diagnosis(at, Duration::from_secs(5)).len(), 40);
    serving.join().unwrap();
}

#[test]
fn one_that_is_silent_is_not_waited_for_and_another_is_asked() {
    let silent: fn(TcpStream) = |s| {
        thread::spawn(move || {
            thread::sleep(4 * SOON);
            drop(s);
        });
    };
    let (at, serving) = server(vec![silent, |s| polite(s, "well\n")]);
    assert_eq!(diagnosis(at, 3 * SOON), ["well"]);
    serving.join().unwrap();
}

#[test]
fn silence_ends_in_time_and_says_so() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let start = Instant::now();
    let said = diagnosis(listener.local_addr().unwrap(), SOON);
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(said.len() == 1 && said[0].contains("timed out"), "{said:?}");
}

#[test]
fn one_that_talks_without_end_is_cut_off() {
    let (at, _serving) = server(vec![|s| {
        polite(s.try_clone().unwrap(), "begin\n");
        let mut say = s;
        while say.write_all(b"more\n").is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
    }]);
    let start = Instant::now();
    let said = diagnosis(at, 3 * SOON);
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!((said.len() > 1, said[0].as_str()), (true, "begin"), "{said:?}");
}

#[test]
fn who_is_not_there_or_somebody_else_is_told_in_one_line() {
    let at = free_port().unwrap();
    let said = diagnosis(at, SOON);
    assert!(said.len() == 1 && said[0].contains("refused") && said[0].contains("127.0.0.1"), "{said:?}");
    let somebody: fn(TcpStream) = |mut s| s.write_all(b"HTTP/1.1 400\r\n").unwrap();
    let (at, serving) = server(vec![somebody; 3]);
    let said = diagnosis(at, Duration::from_secs(5));
    assert!(said.len() == 1 && said[0].contains("HTTP/1.1 400"), "{said:?}");
    serving.join().unwrap();
}
