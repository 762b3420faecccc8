//! The only HTTP client: a POST of a few bytes, and a GET of a file of limited size, piece by piece. Every call has
//! a deadline. The caller decides about retries; an answer with any status counts as an answer.

use outcome::text::chain;
use outcome::text::{shown, size};
use std::fmt;
use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use ureq::Agent;
use ureq::config::Config;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Maximum number of redirects of a GET.
const MAX_REDIRECTS: u32 = 3;
/// The longest time without data from a server.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of the pieces in which a file is passed on.
const MAX_PIECE: usize = 1 << 18;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The URL is invalid.
    #[error("{0}: allowed: http://HOST[:PORT]/PATH or https://..., without user name and blanks")]
    BadUrl(String),
    /// A server redirects to an address that is not allowed.
    #[error(
        "redirects to {0}: allowed: http://HOST[:PORT]/PATH or https://..., without user name and blanks"
    )]
    BadRedirect(String),
    /// No complete answer arrived.
    #[error("{0}")]
    NoAnswer(String),
    /// The answer is larger than allowed.
    #[error("larger than {}", size(*.0))]
    TooLarge(u64),
    /// The file has no certificates.
    #[error("{0}: no certificates in PEM form")]
    BadAuthority(String),
}

/// Checks an `http` or `https` URL from the user, and returns it.
///
/// # Errors
/// [`HttpError::BadUrl`]
pub fn checked_url(url: &str) -> Result<&str, HttpError> {
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    let host = rest
        .and_then(|rest| rest.split(['/', '?', '#']).next())
        .unwrap_or("");
    let is_plain = url
        .bytes()
        .all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b));
    let is_valid = is_plain
        && !host.is_empty()
        && !host.starts_with(':')
        && !host.contains('@')
        && has_valid_port(host);
    if is_valid {
        Ok(url)
    } else {
        Err(HttpError::BadUrl(without_password(url)))
    }
}

/// The address without the user name and password that it may have: the line goes to consoles and logs.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let Some((_, host)) = host.rsplit_once('@') else {
        return shown(url);
    };
    shown(&format!(
        "{scheme}{}***@{host}{path}",
        if scheme.is_empty() { "" } else { "://" }
    ))
}

/// The address to which a server redirects from `url`; `location` may lack the server.
fn redirected(url: &str, location: &str) -> Result<String, HttpError> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or("");
    let path = rest
        .get(host.len()..)
        .unwrap_or("")
        .split(['?', '#'])
        .next()
        .unwrap_or("");
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let to = match location {
        whole if whole.contains("://") => whole.to_owned(),
        of_scheme if of_scheme.starts_with("//") => format!("{scheme}:{of_scheme}"),
        of_host if of_host.starts_with('/') => format!("{scheme}://{host}{of_host}"),
        beside => format!("{scheme}://{host}{folder}/{beside}"),
    };
    match checked_url(&to) {
        Ok(_) => Ok(to),
        Err(_) => Err(HttpError::BadRedirect(without_password(&to))),
    }
}

/// Whether the port of `HOST[:PORT]` is absent or valid: with an invalid port, the request would use another one.
fn has_valid_port(host: &str) -> bool {
    let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    let digits = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    behind
        .split_once(':')
        .is_none_or(|(_, port)| digits(port) && port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// The trusted certificates for https.
#[derive(Debug, Clone, Default)]
pub struct Authorities(Option<Vec<Certificate<'static>>>);

impl Authorities {
    /// Only the certificates in a PEM file's text; without a file those that browsers trust.
    ///
    /// # Errors
    /// [`HttpError::BadAuthority`], naming `file`.
    pub fn from_pem(file: &str, pem: &[u8]) -> Result<Self, HttpError> {
        let bad = || HttpError::BadAuthority(file.to_owned());
        let items = parse_pem(pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| bad())?;
        let certificate = |item| {
            if let PemItem::Certificate(c) = item {
                Some(c)
            } else {
                None
            }
        };
        let found: Vec<_> = items.into_iter().filter_map(certificate).collect();
        if found.is_empty() {
            Err(bad())
        } else {
            Ok(Self(Some(found)))
        }
    }

    fn roots(&self) -> RootCerts {
        self.0
            .as_ref()
            .map_or(RootCerts::WebPki, |own| RootCerts::new_with_certs(own))
    }
}

/// The answer to a POST.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The first line of a short answer in plain text, without control characters: servers say there why they refuse.
    pub line: Option<String>,
}

impl From<u16> for Answer {
    fn from(status: u16) -> Self {
        Self { status, line: None }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&status_text(self.status))?;
        self.line
            .as_ref()
            .map_or(Ok(()), |line| write!(f, ": {line}"))
    }
}

/// The most characters of a line of an answer that are shown.
const MAX_LINE: usize = 200;

/// The first line of a body that may be shown; `None` if there is nothing to show in it.
fn first_line(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let line: String = text
        .trim_start()
        .lines()
        .next()?
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_LINE)
        .collect();
    let line = shown(line.trim_end());
    (!line.is_empty()).then_some(line)
}

/// Sends `body` and returns the answer.
///
/// # Errors
/// [`HttpError::NoAnswer`] in one line.
pub fn post(
    url: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    authorities: &Authorities,
    within: Duration,
) -> Result<Answer, HttpError> {
    // A redirected POST would become a GET and lose its body, so a redirect is returned as an answer.
    let mut request = agent(authorities, within).post(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut answer = request.send(body).map_err(|e| no_answer(&e))?;
    // A short answer is read to its end, so that the server can finish writing.
    let mut body = Vec::new();
    let _ignored = answer
        .body_mut()
        .as_reader()
        .take(1 << 16)
        .read_to_end(&mut body);
    let is_plain = answer
        .headers()
        .get("content-type")
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.trim_start().starts_with("text/plain"));
    Ok(Answer {
        status: answer.status().as_u16(),
        line: is_plain.then(|| first_line(&body)).flatten(),
    })
}

/// A piece of an answer.
#[derive(Debug)]
pub enum Piece {
    /// The first piece: the status, and the length of the body in bytes if the server sends it.
    Head(u16, Option<u64>),
    /// The next bytes of the body.
    Bytes(Vec<u8>),
}

/// The pieces of an answer as they arrive.
#[derive(Debug)]
pub struct Pieces {
    pieces: Receiver<Result<Piece, HttpError>>,
    silence: Duration,
}

impl Iterator for Pieces {
    type Item = Result<Piece, HttpError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.pieces.recv_timeout(self.silence) {
            Ok(piece) => Some(piece),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = self.silence.as_secs();
                Some(Err(HttpError::NoAnswer(format!(
                    "nothing came for {seconds} s"
                ))))
            }
        }
    }
}

/// Fetches at most `largest` bytes, piece by piece; an error is the last useful item.
#[must_use]
pub fn get(url: &str, largest: u64, authorities: &Authorities, within: Duration) -> Pieces {
    // A slow server can delay each network read, but not a read from a channel with a deadline.
    let (url, authorities) = (url.to_owned(), authorities.clone());
    let (sender, pieces) = sync_channel(4);
    thread::spawn(move || {
        let agent = agent(&authorities, within);
        if let Err(error) = stream_body(&agent, &url, largest, &sender) {
            // The receiver may be gone.
            let _gone = sender.send(Err(error));
        }
    });
    Pieces {
        pieces,
        silence: SILENCE_TIMEOUT.min(within),
    }
}

fn stream_body(
    agent: &Agent,
    url: &str,
    largest: u64,
    to: &SyncSender<Result<Piece, HttpError>>,
) -> Result<(), HttpError> {
    let mut answer = agent.get(url).call().map_err(|e| no_answer(&e))?;
    let mut url = url.to_owned();
    for _ in 0..MAX_REDIRECTS {
        let location = answer
            .headers()
            .get("location")
            .filter(|_| matches!(answer.status().as_u16(), 301..=303 | 307 | 308));
        let Some(location) = location else { break };
        let location = location
            .to_str()
            .map_err(|_| HttpError::BadRedirect("an address that is no text".to_owned()))?;
        url = redirected(&url, location)?;
        answer = agent.get(&url).call().map_err(|e| no_answer(&e))?;
    }
    let (status, length) = (answer.status().as_u16(), answer.body().content_length());
    if to.send(Ok(Piece::Head(status, length))).is_err() {
        return Ok(());
    }
    if status == 200 && length.is_some_and(|length| length > largest) {
        return Err(HttpError::TooLarge(largest));
    }
    let mut left = largest;
    let mut body = answer.body_mut().as_reader();
    loop {
        let mut bytes = vec![0; MAX_PIECE];
        let n = body
            .read(&mut bytes)
            .map_err(|e| HttpError::NoAnswer(format!("the answer broke off: {e}")))?;
        if n == 0 {
            return Ok(());
        }
        let taken = u64::try_from(n).ok().and_then(|n| left.checked_sub(n));
        left = taken.ok_or(HttpError::TooLarge(largest))?;
        bytes.truncate(n);
        if to.send(Ok(Piece::Bytes(bytes))).is_err() {
            return Ok(());
        }
    }
}

/// An agent that follows no redirects: where one leads is checked before.
fn agent(authorities: &Authorities, within: Duration) -> Agent {
    let tls = TlsConfig::builder().root_certs(authorities.roots()).build();
    Config::builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(Some(within))
        .user_agent(concat!("firstlight/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls)
        .build()
        .new_agent()
}

fn no_answer(error: &ureq::Error) -> HttpError {
    let line = chain(error).lines().collect::<Vec<_>>().join(" ");
    HttpError::NoAnswer(if line.contains("CaUsedAsEndEntity") {
        "the server's certificate is that of an authority: make one for the server, signed by the authority in network.ca (--ca)"
            .to_owned()
    } else {
        line
    })
}

/// A status and its reason phrase: `503 Service Unavailable`.
#[must_use]
pub fn status_text(status: u16) -> String {
    let known = ureq::http::StatusCode::from_u16(status)
        .ok()
        .and_then(|code| code.canonical_reason());
    known.map_or_else(|| status.to_string(), |words| format!("{status} {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_addresses_are_accepted() {
        for good in [
            "http://h/",
            "https://h:8443/a?b=c",
            "http://10.0.2.2:8080",
            "http://[fd00::1]/r",
        ] {
            assert_eq!(checked_url(good), Ok(good));
        }
        for bad in [
            "",
            "h/r",
            "ftp://h/",
            "http://",
            "http:///r",
            "http://u:p@h/",
            "http://h/a b",
            "http://:80/",
        ] {
            assert!(checked_url(bad).is_err(), "{bad}");
        }
        for port in ["80800", "0", "", "+80", "x", "80:80", "99999999999"] {
            for host in ["h", "[fd00::1]"] {
                assert!(
                    checked_url(&format!("http://{host}:{port}/")).is_err(),
                    "{host}:{port}"
                );
            }
        }
        assert!(
            checked_url("http://h:65535/").is_ok() && checked_url("http://[fd00::1]:80").is_ok()
        );
    }

    #[test]
    fn a_password_in_an_address_is_not_shown() {
        let said = checked_url("http://user:secret@h/a")
            .unwrap_err()
            .to_string();
        assert!(
            said.starts_with("http://***@h/a: allowed: ") && !said.contains("secret"),
            "{said}"
        );
        assert_eq!(without_password("u:p@h/a@b"), "***@h/a@b");
        assert_eq!(without_password("http://h/a@b"), "http://h/a@b");
    }

    #[test]
    fn a_redirect_leads_to_allowed_addresses_only() {
        let to = |location| redirected("https://h:8443/a/b?c=/d", location);
        for (location, url) in [
            ("http://other/x", "http://other/x"),
            ("//other/x", "https://other/x"),
            ("/x?y", "https://h:8443/x?y"),
            ("x", "https://h:8443/a/x"),
        ] {
            assert_eq!(to(location).as_deref(), Ok(url));
        }
        let said = to("http://user:secret@other/x").unwrap_err().to_string();
        assert!(
            said.starts_with("redirects to http://***@other/x: allowed: "),
            "{said}"
        );
        for bad in [
            "ftp://other/x",
            "file:///etc/passwd",
            "http://other:0/",
            "a b",
            "//u@h/",
        ] {
            assert!(matches!(to(bad), Err(HttpError::BadRedirect(_))), "{bad}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let error = Authorities::from_pem("ca.pem", b"hello")
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert_eq!(error, "ca.pem: no certificates in PEM form");
    }

    #[test]
    fn the_line_of_an_answer_is_short_and_without_control_characters() {
        assert_eq!(
            first_line(b"\n contradicts \x1b[2Jitself: x\r\nmore\n").as_deref(),
            Some("contradicts [2Jitself: x")
        );
        assert_eq!(
            first_line("ä".repeat(999).as_bytes()),
            Some("ä".repeat(200))
        );
        for nothing in [&b""[..], b" \n\n", b"\x07\n"] {
            assert_eq!(first_line(nothing), None);
        }
        let answer = Answer {
            status: 422,
            line: Some("why".to_owned()),
        };
        assert_eq!(answer.to_string(), "422 Unprocessable Entity: why");
        assert_eq!(Answer::from(503).to_string(), "503 Service Unavailable");
    }

    #[test]
    fn statuses_are_shown_in_words() {
        assert_eq!(status_text(503), "503 Service Unavailable");
        assert_eq!(status_text(599), "599");
    }
}
