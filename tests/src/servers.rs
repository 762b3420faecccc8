//! Small servers on the loopback interface, which a virtual machine reaches at 10.0.2.2. The HTTP server follows a script
//! for each request: respond, close the connection, or send nothing; it reports the requests. The NTP server sends the
//! answer that a test defines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What to do with one request.
#[derive(Debug, Clone)]
pub enum HttpReply {
    /// Respond with this status and body.
    Status(u16, Vec<u8>),
    /// Read it and close the connection without a response.
    HangUp,
    /// Read it and send nothing.
    Silence,
}

/// A received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `POST /reports HTTP/1.1`
    pub line: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}

/// The HTTP server. It serves until the test ends.
#[derive(Debug)]
pub struct HttpServer {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl HttpServer {
    /// Starts a server that calls `answer` for each request, with its number from 0 on.
    ///
    /// # Panics
    /// If there is no loopback interface.
    pub fn start(mut answer: impl FnMut(usize, &Request) -> HttpReply + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().flatten() {
                // A client that disconnects too early has sent no request.
                let Some(request) = read(&stream) else {
                    continue;
                };
                let number = {
                    let mut requests = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    requests.push(request.clone());
                    requests.len() - 1
                };
                match answer(number, &request) {
                    HttpReply::Status(status, body) => respond(&stream, status, &body),
                    HttpReply::HangUp => {}
                    HttpReply::Silence => silent.push(stream),
                }
            }
        });
        Self { port, requests }
    }

    /// Fails twice, with an error status and by closing the connection, and then accepts everything.
    pub fn fails_twice() -> Self {
        Self::start(|number, _| match number {
            0 => HttpReply::Status(500, b"out of order".to_vec()),
            1 => HttpReply::HangUp,
            _ => HttpReply::Status(201, Vec::new()),
        })
    }

    /// Its URL as seen by `host`.
    #[must_use]
    pub fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut text = String::new();
        reader.read_line(&mut text).ok().filter(|n| *n > 0)?;
        Some(text.trim_end().to_owned())
    };
    let first = line()?;
    let mut headers = Vec::new();
    loop {
        let text = line()?;
        let Some((name, value)) = text.split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request {
        line: first,
        headers,
        body,
    })
}

fn respond(mut stream: &TcpStream, status: u16, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status} Answer\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // The client may have disconnected; that is not an error here.
    let _gone = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body));
}

/// The NTP server's answer.
#[derive(Debug, Clone, Copy)]
pub struct NtpReply {
    /// Two bits: 3 is a clock that was never set.
    pub leap: u8,
    /// 1 to 15; 0 and 16 mean that it has no time.
    pub stratum: u8,
    /// How far it is ahead of this machine, in seconds.
    pub ahead: i64,
}

/// The answer of a good server.
pub const CORRECT_TIME: NtpReply = NtpReply {
    leap: 0,
    stratum: 2,
    ahead: 0,
};

/// Seconds from 1900, where NTP starts counting, to 1970.
const NTP_TO_UNIX: i64 = 2_208_988_800;

/// Starts an NTP server, which serves until the test ends, and returns its address as seen by `host`. With `None` it does
/// not answer.
///
/// # Panics
/// If there is no loopback interface.
#[must_use]
pub fn start_ntp_server(host: &str, reply: Option<NtpReply>) -> String {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut question = [0; 48];
        while let Ok((_, from)) = socket.recv_from(&mut question) {
            // The client may be gone; that is not an error here.
            let _gone = reply.map(|reply| socket.send_to(&ntp_packet(&question, reply), from));
        }
    });
    format!("{host}:{port}")
}

/// RFC 5905, figure 8.
fn ntp_packet(question: &[u8; 48], reply: NtpReply) -> [u8; 48] {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    let seconds = i64::try_from(now.as_secs()).unwrap_or(0) + NTP_TO_UNIX + reply.ahead;
    let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
    // Seconds of the era: NTP keeps the lower half.
    let time = ((seconds.cast_unsigned() << 32) | fraction).to_be_bytes();
    let mut answer = [0; 48];
    // Version 4, mode server.
    answer[0] = (reply.leap << 6) | 0x24;
    answer[1] = reply.stratum;
    answer[12..16].copy_from_slice(&[127, 0, 0, 1]);
    answer[24..32].copy_from_slice(&question[40..48]);
    answer[32..40].copy_from_slice(&time);
    answer[40..48].copy_from_slice(&time);
    answer
}
