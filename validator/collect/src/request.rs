//! The parts of requests and responses: paths, queries, tokens, headers, and a report in its forms. Pure.

use crate::intake::verdict;
use crate::query::RowFilter;
use crate::refusal::{Refusal, RefusalReason};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Response, StatusCode};
use outcome::text::shown_text;
use report::from_json;
use report::render::{html, junit, prometheus, text};
use sha2::{Digest, Sha256};
use std::io;
use subtle::ConstantTimeEq;

pub(crate) const JSON: &str = "application/json";
pub(crate) const PAGE: &str = "text/html; charset=utf-8";
pub(crate) const LINE: &str = "text/plain; charset=utf-8";
pub(crate) const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The page may load and run nothing; only its own style is allowed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A response.
pub(crate) type Answer = Response<Full<Bytes>>;

/// The page or resource that a path refers to.
pub(crate) enum Route<'a> {
    Nodes,
    Reports,
    Node(&'a str),
    Report(&'a str),
    Metrics,
    Health,
    /// The icon that a browser asks for by itself; there is none.
    Icon,
}

/// The route of a path.
///
/// # Errors
/// If there is none, or the path contains forbidden characters.
pub(crate) fn route(path: &str) -> Result<Route<'_>, Refusal> {
    let hexadecimal =
        |text: &str, digits| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    match path {
        "/" => return Ok(Route::Nodes),
        "/reports" => return Ok(Route::Reports),
        "/metrics" => return Ok(Route::Metrics),
        "/healthz" => return Ok(Route::Health),
        "/favicon.ico" | "/apple-touch-icon.png" | "/apple-touch-icon-precomposed.png" => {
            return Ok(Route::Icon);
        }
        _ => {}
    }
    if let Some(node) = path
        .strip_prefix("/node/")
        .filter(|node| hexadecimal(node, 16))
    {
        return Ok(Route::Node(node));
    }
    if let Some(digest) = path
        .strip_prefix("/report/")
        .filter(|digest| hexadecimal(digest, 64))
    {
        return Ok(Route::Report(digest));
    }
    // A link that was typed or cut: which of them the browser cannot know.
    if let Some(node) = path
        .strip_prefix("/node/")
        .filter(|node| node.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
    {
        let line = format!("no such node: {node:?}; the page / lists all nodes with their links");
        return Err(Refusal::new(RefusalReason::Unknown, line));
    }
    if let Some(digest) = path
        .strip_prefix("/report/")
        .filter(|digest| digest.bytes().all(|b| b.is_ascii_alphanumeric()))
    {
        let line = format!(
            "no such report: {digest:?}; the page /reports lists all reports with their links"
        );
        return Err(Refusal::new(RefusalReason::Unknown, line));
    }
    let allowed = "allowed: /, /reports, /node/ID, /report/DIGEST, /metrics, /healthz";
    let strange = path.contains("..") || path.contains("//") || path.contains(['%', '\\']);
    Err(Refusal::new(
        if strange {
            RefusalReason::Path
        } else {
            RefusalReason::Unknown
        },
        format!("path {path:?}: {allowed}"),
    ))
}

/// The parsed query.
pub(crate) struct PageQuery {
    /// The rows to show.
    pub(crate) filter: RowFilter,
    /// The form of a report.
    pub(crate) to: Option<String>,
}

impl PageQuery {
    /// Parses `verdict=FAIL&page=2` or `to=html`.
    ///
    /// # Errors
    /// One line that names the part and the allowed values.
    pub(crate) fn of(query: &str) -> Result<Self, Refusal> {
        let mut asked = Self {
            filter: RowFilter {
                verdict: None,
                page: 1,
            },
            to: None,
        };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let known = match name {
                "verdict" => {
                    asked.filter.verdict = verdict(value).map(|verdict| verdict.to_string());
                    asked.filter.verdict.is_some()
                }
                "page" => {
                    asked.filter.page = value.parse().unwrap_or(0);
                    asked.filter.page > 0
                }
                "to" => {
                    asked.to = Some(value.to_owned());
                    true
                }
                _ => false,
            };
            let allowed = "allowed: verdict=PASS, DEGRADED, FAIL or ERROR, page=NUMBER, to=FORM";
            if !known {
                return Err(Refusal::new(
                    RefusalReason::Query,
                    format!("query {part:?}: {allowed}"),
                ));
            }
        }
        Ok(asked)
    }
}

/// A header's text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a token is one of these; the comparison takes constant time.
pub(crate) fn token_matches(token: Option<&str>, allowed: &[&Option<[u8; 32]>]) -> bool {
    let Some(token) = token else { return false };
    let hash: [u8; 32] = Sha256::digest(token).into();
    let same =
        |right: &&Option<[u8; 32]>| right.is_some_and(|right| bool::from(right.ct_eq(&hash)));
    allowed.iter().filter(|right| same(right)).count() > 0
}

/// The password that a browser sends; any user name is accepted.
pub(crate) fn password(authorization: &str) -> Option<String> {
    let pair = STANDARD
        .decode(authorization.strip_prefix("Basic ")?.trim())
        .ok()?;
    Some(String::from_utf8(pair).ok()?.split_once(':')?.1.to_owned())
}

/// A response of this kind. Browsers must not store it, nor interpret it as another kind.
pub(crate) fn response(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The response to a refused request: one line. The connection of a refused sender is closed, since the rest of its
/// body may still be arriving.
pub(crate) fn refusal_response(refusal: &Refusal, sending: bool) -> Answer {
    let mut answer = response(
        refusal.why.status_and_word().0,
        LINE,
        format!("{}\n", refusal.line),
    );
    let mut add = |name, value| {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value))
    };
    match refusal.why {
        RefusalReason::Token => add(WWW_AUTHENTICATE, "Basic realm=\"firstlight\", Bearer"),
        RefusalReason::Method => add(ALLOW, "GET, HEAD, POST"),
        RefusalReason::Busy => add(RETRY_AFTER, "1"),
        _ => None,
    };
    if sending {
        add(CONNECTION, "close");
    }
    answer
}

/// Whether the client understands gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = header(headers, "accept-encoding").unwrap_or("");
    accepted.split(',').any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = quality
            .trim()
            .strip_prefix("q=")
            .is_some_and(|q| q.trim().parse::<f64>().is_ok_and(|q| q <= 0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// A stored report in another form: its content type and its text.
///
/// # Errors
/// If the form is unknown, or the report exists only as JSON.
pub(crate) fn render_report(bytes: &[u8], form: &str) -> Result<(&'static str, String), Refusal> {
    let query = |line: &str| Refusal::new(RefusalReason::Query, line);
    let report =
        || from_json(bytes).map_err(|e| query(&format!("this one can be shown as JSON only: {e}")));
    let made = |e: io::Error| Refusal::new(RefusalReason::Store, e.to_string());
    Ok(match form {
        "html" => (PAGE, html::page(&report()?).map_err(made)?),
        "text" => (LINE, shown_text(&text::full_text(&report()?, None))),
        "junit" => ("application/xml", junit::suites(&report()?).map_err(made)?),
        "prometheus" => (EXPOSITION, prometheus::families(&report()?, true)),
        _ => return Err(query("to: allowed are json, html, text, junit, prometheus")),
    })
}
