//! The one door to HTTP: a POST of a few bytes, a GET of a bounded file. Every call has a deadline.
//! Whether and when to try again is for the caller; an answer of any status is an answer.

use crate::chain::chain;
use std::io::Read;
use std::time::Duration;
use ureq::config::Config;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

/// Redirects of a GET that are followed.
const REDIRECTS: u32 = 3;
/// What a server says in its status line, or how far one got.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// No server is meant by this.
    #[error("{0}: allowed: http://HOST[:PORT]/PATH or https://..., without user name and blanks")]
    BadUrl(String),
    /// No whole answer came.
    #[error("{0}")]
    NoAnswer(String),
    /// The answer is larger than it may be.
    #[error("larger than {0} bytes")]
    TooLarge(u64),
    /// These are no certificates.
    #[error("{0}: no certificates in PEM form")]
    BadAuthority(String),
}

/// An `http` or `https` address that a person wrote.
///
/// # Errors
/// [`HttpError::BadUrl`]
pub fn checked(url: &str) -> Result<&str, HttpError> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or("");
    let plain = url.bytes().all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b));
    let fine = plain && !host.is_empty() && !host.starts_with(':') && !host.contains('@');
    if fine { Ok(url) } else { Err(HttpError::BadUrl(url.to_owned())) }
}

/// Who may vouch for an https server.
#[derive(Debug, Clone, Default)]
pub struct Authorities(Option<Vec<Certificate<'static>>>);

impl Authorities {
    /// Those in a PEM file's text alone; without one those that browsers know.
    ///
    /// # Errors
    /// [`HttpError::BadAuthority`], naming `file`.
    pub fn from_pem(file: &str, pem: &[u8]) -> Result<Self, HttpError> {
        let bad = || HttpError::BadAuthority(file.to_owned());
        let items = parse_pem(pem).collect::<Result<Vec<_>, _>>().map_err(|_| bad())?;
        let certificate = |item| if let PemItem::Certificate(c) = item { Some(c) } else { None };
        let found: Vec<_> = items.into_iter().filter_map(certificate).collect();
        if found.is_empty() { Err(bad()) } else { Ok(Self(Some(found))) }
    }

    fn roots(&self) -> RootCerts {
        self.0.as_ref().map_or(RootCerts::WebPki, |own| RootCerts::new_with_certs(own))
    }
}

/// Sends `body`; the status that came back.
///
/// # Errors
/// [`HttpError::NoAnswer`] in one line.
pub fn post(
    url: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    authorities: &Authorities,
    within: Duration,
) -> Result<u16, HttpError> {
    // A redirected POST becomes a GET and loses its body: a redirect is an answer here.
    let mut request = agent(authorities, within, 0).post(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut answer = request.send(body).map_err(|e| no_answer(&e))?;
    // Read to its end where it is short, so that the server has not written in vain.
    let _ignored = read(answer.body_mut(), 1 << 16);
    Ok(answer.status().as_u16())
}

/// Fetches at most `largest` bytes; the status and what came.
///
/// # Errors
/// See [`HttpError`].
pub fn get(
    url: &str,
    largest: u64,
    authorities: &Authorities,
    within: Duration,
) -> Result<(u16, Vec<u8>), HttpError> {
    let mut answer = agent(authorities, within, REDIRECTS).get(url).call().map_err(|e| no_answer(&e))?;
    let bytes = read(answer.body_mut(), largest)?;
    Ok((answer.status().as_u16(), bytes))
}

/// One more byte than is allowed tells a larger file.
fn read(body: &mut Body, largest: u64) -> Result<Vec<u8>, HttpError> {
    let mut bytes = Vec::new();
    let mut reader = body.as_reader().take(largest.saturating_add(1));
    reader.read_to_end(&mut bytes).map_err(|e| HttpError::NoAnswer(format!("the answer broke off: {e}")))?;
    if bytes.len() as u64 > largest { Err(HttpError::TooLarge(largest)) } else { Ok(bytes) }
}

fn agent(authorities: &Authorities, within: Duration, redirects: u32) -> Agent {
    let tls = TlsConfig::builder().root_certs(authorities.roots()).build();
    Config::builder()
        .http_status_as_error(false)
        .max_redirects(redirects)
        .max_redirects_will_error(false)
        .timeout_global(Some(within))
        .user_agent(concat!("firstlight/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls)
        .build()
        .new_agent()
}

fn no_answer(error: &ureq::Error) -> HttpError {
    HttpError::NoAnswer(chain(error).lines().collect::<Vec<_>>().join(" "))
}

/// What a status means, in words.
#[must_use]
pub fn status_text(status: u16) -> String {
    let known = ureq::http::StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason());
    known.map_or_else(|| status.to_string(), |words| format!("{status} {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_addresses_are_taken() {
        for good in ["http://h/", "https://h:8443/a?b=c", "http://10.0.2.2:8080", "http://[fd00::1]/r"] {
            assert_eq!(checked(good), Ok(good));
        }
        for bad in
            ["", "h/r", "ftp://h/", "http://", "http:///r", "http://u:p@h/", "http://h/a b", "http://:80/"]
        {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let error = Authorities::from_pem("ca.pem", b"hello").map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, "ca.pem: no certificates in PEM form");
    }

    #[test]
    fn statuses_are_told_in_words() {
        assert_eq!(status_text(503), "503 Service Unavailable");
        assert_eq!(status_text(599), "599");
    }
}
