//! Queries NCCL for the state of its communicators while one of them hangs: from 2.24 on a thread of every NCCL
//! process listens at `NCCL_RAS_ADDR`, and the processes know of each other. The protocol is that of NVIDIA's
//! `ncclras` (NCCL's `src/ras/client.cc`; the server is `src/ras/client_support.cc`): each side sends a line
//! with its protocol version, then the client sends a line with a timeout, which the server answers with `OK`,
//! then the client sends the query, and the server sends text until it closes the connection.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The most lines that are kept.
const MOST_LINES: usize = 40;
/// The most bytes that are read.
const MOST_BYTES: usize = 256 << 10;
/// The time limit for connecting on the same machine.
const CONNECT: Duration = Duration::from_secs(1);
/// Several processes listen at the same port (`SO_REUSEPORT`), and the kernel chooses one: if a stopped process
/// does not answer, another one may at the next try.
const TRIES: u32 = 3;

/// A port that is unused at this moment.
pub(super) fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// NCCL's report of its state, or one line that says why there is none.
#[must_use]
pub fn diagnosis(at: SocketAddr, within: Duration) -> Vec<String> {
    let due = Instant::now() + within;
    let mut last = None;
    for tries_left in (1..=TRIES).rev() {
        let left = due.saturating_duration_since(Instant::now());
        match query(at, Instant::now() + left / tries_left) {
            Ok(text) => match lines(&text) {
                lines if lines.is_empty() => last = Some(io::ErrorKind::UnexpectedEof.into()),
                lines => return lines,
            },
            Err(error) => last = Some(error),
        }
    }
    let why = last.map_or_else(|| "not asked".to_owned(), |error| error.to_string());
    vec![format!(
        "NCCL's RAS at {at} does not report its state: {why}"
    )]
}

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(str::trim_end)
        .filter(|l| !l.is_empty())
        .take(MOST_LINES)
        .map(str::to_owned)
        .collect()
}

fn query(at: SocketAddr, due: Instant) -> io::Result<String> {
    let stream = TcpStream::connect_timeout(&at, CONNECT.min(left(due)?))?;
    let mut connection = RasConnection { stream, due };
    connection.send_line("CLIENT PROTOCOL 2\n")?;
    connection.expect_line("SERVER PROTOCOL ")?;
    connection.send_line("TIMEOUT 3\n")?;
    connection.expect_line("OK")?;
    connection.send_line("VERBOSE STATUS\n")?;
    connection.rest()
}

/// The remaining time; never zero, because the kernel treats zero as no limit.
fn left(due: Instant) -> io::Result<Duration> {
    let left = due.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(io::ErrorKind::TimedOut.into())
    } else {
        Ok(left)
    }
}

/// A connection that ends in time, even if the other side is slow.
struct RasConnection {
    stream: TcpStream,
    due: Instant,
}

impl RasConnection {
    fn send_line(&mut self, line: &str) -> io::Result<()> {
        self.stream.set_write_timeout(Some(left(self.due)?))?;
        self.stream.write_all(line.as_bytes())
    }

    /// The next line, which must begin with `begin`.
    fn expect_line(&mut self, begin: &str) -> io::Result<()> {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") && line.len() < 1024 {
            let mut byte = [0];
            if self.read(&mut byte)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            line.extend_from_slice(&byte);
        }
        let line = String::from_utf8_lossy(&line);
        let is = line
            .get(..begin.len())
            .is_some_and(|l| l.eq_ignore_ascii_case(begin));
        if is {
            Ok(())
        } else {
            Err(io::Error::other(format!("it says {:?}", line.trim_end())))
        }
    }

    /// All that follows, or as much as arrives in time.
    fn rest(&mut self) -> io::Result<String> {
        let (mut bytes, mut room) = (Vec::new(), [0; 4096]);
        while bytes.len() < MOST_BYTES {
            match self.read(&mut room) {
                Ok(0) => break,
                Ok(n) => bytes.extend_from_slice(room.get(..n).unwrap_or_default()),
                // A partial answer is better than none.
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
    //! Servers that behave like NCCL's, or worse.

    use super::*;
    use std::io::{BufRead, BufReader};
    use std::thread;

    const SOON: Duration = Duration::from_millis(300);

    /// Serves connections one after the other, each with its function; returns the address.
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

    /// Reads the three lines in order and answers them.
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
    fn nccls_state_is_returned_line_by_line() {
        let (at, serving) = server(vec![|s| {
            polite(
                s,
                "NCCL version 2.29.7\n\nErrors\n======\n#0-1: RUNNING  \n",
            );
        }]);
        let said = diagnosis(at, Duration::from_secs(5));
        assert_eq!(
            said,
            ["NCCL version 2.29.7", "Errors", "======", "#0-1: RUNNING"]
        );
        serving.join().unwrap();
    }

    #[test]
    fn no_more_than_forty_lines_are_kept() {
        let (at, serving) = server(vec![|s| polite(s, &"a line\n".repeat(1000))]);
        assert_eq!(diagnosis(at, Duration::from_secs(5)).len(), 40);
        serving.join().unwrap();
    }

    #[test]
    fn a_silent_server_is_skipped_and_another_is_asked() {
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
    fn silence_ends_in_time_and_is_reported() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let start = Instant::now();
        let said = diagnosis(listener.local_addr().unwrap(), SOON);
        assert!(start.elapsed() < Duration::from_secs(50));
        assert!(said.len() == 1 && said[0].contains("timed out"), "{said:?}");
    }

    #[test]
    fn an_endless_answer_is_cut_off() {
        let (at, _serving) = server(vec![|s| {
            polite(s.try_clone().unwrap(), "begin\n");
            let mut say = s;
            while say.write_all(b"more\n").is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        }]);
        let start = Instant::now();
        let said = diagnosis(at, 3 * SOON);
        assert!(start.elapsed() < Duration::from_secs(50));
        assert_eq!(
            (said.len() > 1, said[0].as_str()),
            (true, "begin"),
            "{said:?}"
        );
    }

    #[test]
    fn a_missing_or_foreign_server_is_reported_in_one_line() {
        let at = free_port().unwrap();
        let said = diagnosis(at, SOON);
        assert!(
            said.len() == 1 && said[0].contains("refused") && said[0].contains("127.0.0.1"),
            "{said:?}"
        );
        let foreign: fn(TcpStream) = |mut s| s.write_all(b"HTTP/1.1 400\r\n").unwrap();
        let (at, serving) = server(vec![foreign; 3]);
        let said = diagnosis(at, Duration::from_secs(5));
        assert!(
            said.len() == 1 && said[0].contains("HTTP/1.1 400"),
            "{said:?}"
        );
        serving.join().unwrap();
        let blank: fn(TcpStream) = |s| polite(s, " \n\n");
        let (at, serving) = server(vec![blank; 3]);
        let said = diagnosis(at, Duration::from_secs(5));
        assert!(
            said.len() == 1 && said[0].contains("does not report its state"),
            "{said:?}"
        );
        serving.join().unwrap();
    }
}
