//! The response to one request: which path, who may access it, and what is stored or shown. Bodies are read with
//! limits of time and size, and everything that blocks runs in separate threads.

use crate::Secrets;
use crate::intake::entry;
use crate::metrics::{self, Counters};
use crate::pages;
use crate::query;
use crate::refusal::{Refusal, RefusalReason};
use crate::request::{
    EXPOSITION, JSON, LINE, PAGE, PageQuery, Route, header, password, refusal_response, render_report, response, route,
    token_matches,
};
use crate::store::{NewReport, PutResult, StoreError, Writer, deflated};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{EXPECT, HeaderValue, LOCATION};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use report::mac::digest;
use rusqlite::Connection;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How much of a refused body is read, and for how long, so that its sender reads the response.
const DISCARDED: (usize, Duration) = (64 << 20, Duration::from_secs(5));

type Answer = Response<Full<Bytes>>;

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct Receiver {
    secrets: Secrets,
    writer: Writer,
    reader: Mutex<Connection>,
    counters: Counters,
    largest: u64,
    /// Parsing takes many times a body's size in memory, so that only one body per processor is parsed at a time.
    parsing: Semaphore,
}

impl Receiver {
    pub(crate) fn new(secrets: Secrets, writer: Writer, reader: Connection, largest: u64) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (reader, parsing) = (Mutex::new(reader), Semaphore::new(processors));
        Self { secrets, writer, reader, counters: Counters::default(), largest, parsing }
    }

    /// Counts a refusal and writes a line about it to the log.
    pub(crate) fn refused(&self, refusal: &Refusal, from: IpAddr) {
        self.counters.refuse(refusal.why);
        let (status, word) = refusal.why.status_and_word();
        // Without standard error the line is lost.
        let _ =
            writeln!(io::stderr(), "firstlight collect: refused {from}: {} {word}: {}", status.as_u16(), refusal.line);
    }

    /// Responds to one request.
    pub(crate) async fn answer(self: Arc<Self>, request: Request<Incoming>, from: IpAddr, within: Duration) -> Answer {
        let method = request.method().clone();
        let done = match method {
            Method::POST => self.receive(request, from, within).await,
            Method::GET | Method::HEAD => Arc::clone(&self).respond_to_get(&request).await,
            _ => Err(Refusal::new(RefusalReason::Method, "allowed: GET, HEAD, POST")),
        };
        done.unwrap_or_else(|refusal| {
            self.refused(&refusal, from);
            refusal_response(&refusal, method == Method::POST)
        })
    }

    async fn receive(&self, request: Request<Incoming>, from: IpAddr, within: Duration) -> Result<Answer, Refusal> {
        let (head, mut body) = request.into_parts();
        let arrived = match self.may_send(head.uri.path(), &head.headers) {
            Ok(()) => match timeout(within, self.read_body(&mut body)).await {
                Ok(arrived) => arrived,
                Err(_) => {
                    Err(Refusal::new(RefusalReason::Slow, format!("the body did not arrive in {} s", within.as_secs())))
                }
            },
            Err(refusal) => Err(refusal),
        };
        let bytes = match arrived {
            Ok(bytes) => bytes,
            Err(refusal) => {
                if !matches!(refusal.why, RefusalReason::Slow | RefusalReason::Broken)
                    && !head.headers.contains_key(EXPECT)
                {
                    let _over = timeout(DISCARDED.1, discard(&mut body)).await;
                }
                return Err(refusal);
            }
        };
        let claimed = header(&head.headers, "firstlight-verdict").map(str::to_owned);
        let sum = digest(&bytes);
        let signed = self.signed(&head.headers, claimed.as_deref(), &bytes, &sum)?;
        let parsing = self.parsing.acquire().await;
        let read = tokio::task::spawn_blocking(move || {
            let entry = entry(&bytes, sum, claimed.as_deref(), signed, from)?;
            Ok(NewReport { entry, received: now(), deflated: deflated(&bytes).map_err(|e| unstored(&e.into()))? })
        });
        let item: NewReport = read.await.map_err(|_| crashed())??;
        drop(parsing);
        let digest = item.entry.digest.clone();
        let (status, word, count) = match self.writer.put(item).await.map_err(|e| unstored(&e))? {
            PutResult::New => (StatusCode::CREATED, "stored", &self.counters.new),
            PutResult::Known => (StatusCode::OK, "already stored", &self.counters.known),
        };
        count.fetch_add(1, Ordering::Relaxed);
        let mut answer = response(status, LINE, format!("{word} {digest}\n"));
        if let Ok(value) = HeaderValue::from_str(&format!("/report/{digest}")) {
            answer.headers_mut().insert(LOCATION, value);
        }
        Ok(answer)
    }

    /// Checks what can be refused before the body is read.
    fn may_send(&self, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        match route(path)? {
            Route::Nodes | Route::Reports => {}
            _ => return Err(Refusal::new(RefusalReason::Method, "POST is allowed at / and /reports")),
        }
        let bearer = header(headers, "authorization").and_then(|value| value.strip_prefix("Bearer "));
        if self.secrets.token.is_some() && !token_matches(bearer, &[&self.secrets.token]) {
            return Err(Refusal::new(RefusalReason::Token, "a right token is needed: Authorization: Bearer TOKEN"));
        }
        let kind = header(headers, "content-type").unwrap_or("none");
        if kind.split(';').next().map(str::trim) != Some(JSON) {
            return Err(Refusal::new(RefusalReason::Type, format!("Content-Type: read {kind:?}, allowed: {JSON}")));
        }
        Ok(())
    }

    async fn read_body(&self, body: &mut Incoming) -> Result<Vec<u8>, Refusal> {
        let too_large = || Refusal::new(RefusalReason::Size, format!("larger than {} bytes", self.largest));
        if body.size_hint().lower() > self.largest {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| Refusal::new(RefusalReason::Broken, format!("the body broke off: {e}")))?;
            bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
            if bytes.len() as u64 > self.largest {
                return Err(too_large());
            }
        }
        Ok(bytes)
    }

    /// Whether the MAC was verified. If a key is configured, a report without a correct MAC is refused.
    fn signed(&self, headers: &HeaderMap, claimed: Option<&str>, body: &[u8], sum: &str) -> Result<bool, Refusal> {
        if header(headers, "idempotency-key").is_some_and(|key| key != sum) {
            return Err(Refusal::new(
                RefusalReason::Digest,
                format!("Idempotency-Key is not the SHA-256 of the body, {sum}"),
            ));
        }
        let Some(key) = &self.secrets.key else { return Ok(false) };
        let (Some(mac), Some(claimed)) = (header(headers, "firstlight-mac"), claimed) else {
            return Err(Refusal::new(
                RefusalReason::Unsigned,
                "Firstlight-MAC and Firstlight-Verdict are needed: publish --key-file",
            ));
        };
        if !key.proves(mac, claimed, body) {
            return Err(Refusal::new(
                RefusalReason::Signature,
                "Firstlight-MAC is wrong: another key, or the report was changed",
            ));
        }
        Ok(true)
    }

    async fn respond_to_get(self: Arc<Self>, request: &Request<Incoming>) -> Result<Answer, Refusal> {
        let uri = request.uri().clone();
        let health = matches!(route(uri.path())?, Route::Health);
        if !health && !self.may_read(request.headers()) {
            let line = "a right token is needed: Authorization: Bearer TOKEN, or the token as a browser's password";
            return Err(Refusal::new(RefusalReason::Token, line));
        }
        let shown = tokio::task::spawn_blocking(move || self.render_page(uri.path(), uri.query().unwrap_or("")));
        shown.await.map_err(|_| crashed())?
    }

    fn may_read(&self, headers: &HeaderMap) -> bool {
        let Secrets { token, reading, open_reading, .. } = &self.secrets;
        if *open_reading || (token.is_none() && reading.is_none()) {
            return true;
        }
        let value = header(headers, "authorization").unwrap_or("");
        let password = password(value);
        token_matches(value.strip_prefix("Bearer ").or(password.as_deref()), &[token, reading])
    }

    /// Reads from the store and renders a page.
    fn render_page(&self, path: &str, asked: &str) -> Result<Answer, Refusal> {
        let asked = PageQuery::of(asked)?;
        let store = |e: StoreError| unstored(&e);
        let page =
            |made: io::Result<String>| Ok(response(StatusCode::OK, PAGE, made.map_err(|e| unstored(&e.into()))?));
        let unknown = || Refusal::new(RefusalReason::Unknown, format!("{path}: nothing of that name is stored"));
        // A reader that panicked has changed nothing.
        let db = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        match route(path)? {
            Route::Nodes => {
                let (rows, counts) =
                    (query::nodes(&db, &asked.filter).map_err(store)?, query::counts(&db).map_err(store)?);
                drop(db);
                page(pages::nodes(&rows, &counts, &asked.filter))
            }
            Route::Reports => {
                let (rows, (_, all)) =
                    (query::reports(&db, &asked.filter).map_err(store)?, query::counts(&db).map_err(store)?);
                drop(db);
                page(pages::reports(&rows, all, &asked.filter))
            }
            Route::Node(node) => {
                let (rows, behind) = query::history(&db, node, asked.filter.page).map_err(store)?;
                drop(db);
                if rows.rows.is_empty() {
                    Err(unknown())
                } else {
                    page(pages::history(&rows, &behind, asked.filter.page))
                }
            }
            Route::Report(digest) => {
                let bytes = query::body(&db, digest).map_err(store)?;
                drop(db);
                render_report(bytes.ok_or_else(unknown)?, asked.to.as_deref())
            }
            Route::Metrics => {
                let (rows, (_, all)) = (query::all_nodes(&db).map_err(store)?, query::counts(&db).map_err(store)?);
                drop(db);
                Ok(response(StatusCode::OK, EXPOSITION, metrics::text(&rows, all, &self.counters, now())))
            }
            Route::Health => {
                query::counts(&db).map_err(store)?;
                Ok(response(StatusCode::OK, LINE, "ok\n".to_owned()))
            }
        }
    }
}

/// Reads the rest of a refused body, so that its sender reads the response.
async fn discard(body: &mut Incoming) {
    let mut left = DISCARDED.0;
    while let Some(Ok(frame)) = body.frame().await {
        let read = frame.data_ref().map_or(0, Bytes::len);
        let Some(less) = left.checked_sub(read) else { return };
        left = less;
    }
}

fn unstored(error: &StoreError) -> Refusal {
    Refusal::new(RefusalReason::Store, error.to_string())
}

fn crashed() -> Refusal {
    Refusal::new(RefusalReason::Store, "internal fault; this is a defect of firstlight")
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
