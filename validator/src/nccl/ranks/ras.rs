//! Asks NCCL itself how its communicators are, while one of them hangs: from 2.24 on a thread of every NCCL
//! process listens where `NCCL_RAS_ADDR` says, and the processes know of each other. The conversation is
//! that of NVIDIA's `ncclras` (NCCL's `src/ras/client.cc`, its other side is `src/ras/client_support.cc`):
//! a line with the protocol's version each, a line with the time that it may take, which is answered by
//! `OK`, the question, and then text until the other side closes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// So many lines are kept.
const MOST_LINES: usize = 40;
/// So many bytes are read.
const MOST_BYTES: usize = 256 << 10;
/// Connecting on the same machine.
const CONNECT: Duration = Duration::from_secs(1);
/// Several processes listen at the same port (`SO_REUSEPORT`), and the kernel chooses: one that is stopped
/// does not answer, another may.
const TRIES: u32 = 3;

/// A port that nobody uses at this moment.
pub(super) fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// What NCCL knows of its state, or one line that says why it does not tell.
pub(super) fn diagnosis(at: SocketAddr, within: Duration) -> Vec<String> {
    let due = Instant::now() + within;
    let mut last = None;
    for tries_left in (1..=TRIES).rev() {
        let left = due.saturating_duration_since(Instant::now());
        match ask(at, Instant::now() + left / tries_left) {
            Ok(text) => return lines(&text),
            Err(error) => last = Some(error),
        }
    }
    let why = last.map_or_else(|| "not asked".to_owned(), |error| error.to_string());
    vec![format!("NCCL's RAS at {at} does not tell its state: {why}")]
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim_end).filter(|l| !l.is_empty()).take(MOST_LINES).map(str::to_owned).collect()
}

fn ask(at: SocketAddr, due: Instant) -> io::Result<String> {
    let stream = TcpStream::connect_timeout(&at, CONNECT.min(left(due)?))?;
    let mut talk = Talk { stream, due };
    talk.say("CLIENT PROTOCOL 2\n")?;
    talk.expect("SERVER PROTOCOL ")?;
    talk.say("TIMEOUT 3\n")?;
    talk.expect("OK")?;
    talk.say("VERBOSE STATUS\n")?;
    talk.rest()
}

/// A time that is left, for the kernel takes zero for `without end`.
fn left(due: Instant) -> io::Result<Duration> {
    let left = due.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A connection that ends in time, however slowly the other side talks.
struct Talk {
    stream: TcpStream,
    due: Instant,
}

impl Talk {
    fn say(&mut self, line: &str) -> io::Result<()> {
        self.stream.set_write_timeout(Some(left(self.due)?))?;
        self.stream.write_all(line.as_bytes())
    }

    /// The next line, which must begin so.
    fn expect(&mut self, begin: &str) -> io::Result<()> {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") && line.len() < 1024 {
            let mut byte = [0];
            if self.read(&mut byte)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            line.extend_from_slice(&byte);
        }
        let line = String::from_utf8_lossy(&line);
        let is = line.get(..begin.len()).is_some_and(|l| l.eq_ignore_ascii_case(begin));
        if is { Ok(()) } else { Err(io::Error::other(format!("it says {:?}", line.trim_end()))) }
    }

    /// All that follows, or as much as comes in time.
    fn rest(&mut self) -> io::Result<String> {
        let (mut bytes, mut room) = (Vec::new(), [0; 4096]);
        while bytes.len() < MOST_BYTES {
            match self.read(&mut room) {
                Ok(0) => break,
                Ok(n) => bytes.extend_from_slice(room.get(..n).unwrap_or_default()),
                // A part of the truth is better than none.
                Err(_) if !bytes.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.due)?))?;
        self.stream.read(room).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
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
}
