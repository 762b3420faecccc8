//! The response to one request: which path, who may access it, and what is stored or shown. Bodies are read with
//! limits of time and size, and everything that blocks runs in separate threads.

use crate::Secrets;
use crate::connections::Place;
use crate::intake::{Proof, entry};
use crate::memory::{BodyMemory, FREE, Memory, shrink};
use crate::metrics::{self, Counters};
use crate::pages;
use crate::query::{self, Rows};
use crate::refusal::{Refusal, RefusalReason};
use crate::request::{
    EXPOSITION, JSON, LINE, PAGE, PageQuery, Route, accepts_gzip, header, password,
    refusal_response, render_report, response, route, token_matches,
};
use crate::store::{Database, NewReport, PutResult, StoreError, Writer, deflated};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, EXPECT, HeaderValue, LOCATION, VARY};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use report::mac::digest;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// How much of a refused body is read, and for how long, so that its sender reads the response.
const DISCARDED: (usize, Duration) = (64 << 20, Duration::from_secs(5));

/// How long a request may wait for memory, because its sender waits, too.
const QUEUE: Duration = Duration::from_secs(30);
/// How often the progress of a body is checked.
const CHECK: Duration = Duration::from_millis(250);
/// The least time between two lines about connections that were closed to make room.
const CROWDED: Duration = Duration::from_secs(10);

type Answer = Response<Full<Bytes>>;

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct Receiver {
    secrets: Secrets,
    writer: Writer,
    reader: Mutex<Database>,
    counters: Counters,
    largest: usize,
    memory: Memory,
    crowded: Mutex<Option<Instant>>,
}

/// A response's bytes, with the memory that they take until they have been sent.
struct Held {
    bytes: Vec<u8>,
    _memory: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Receiver {
    /// `largest`: bytes of a report; `memory`: bytes of all requests together.
    pub(crate) fn new(
        secrets: Secrets,
        writer: Writer,
        reader: Database,
        (largest, memory): (usize, usize),
    ) -> Self {
        let reader = Mutex::new(reader);
        let memory = Memory::new(memory, largest);
        Self {
            secrets,
            writer,
            reader,
            counters: Counters::default(),
            largest,
            memory,
            crowded: Mutex::new(None),
        }
    }

    /// Counts a refusal and writes a line about it to the log.
    pub(crate) fn refused(&self, refusal: &Refusal, from: IpAddr) {
        self.counters.refuse(refusal.why);
        let (status, word) = refusal.why.status_and_word();
        // Without standard error the line is lost.
        let _ = writeln!(
            io::stderr(),
            "firstlight collect: refused {from}: {} {word}: {}",
            status.as_u16(),
            refusal.line
        );
    }

    /// Counts a connection that was closed, or not accepted, because there were too many. One line in 10 s says so: the log
    /// must not grow with them.
    pub(crate) fn crowded(&self, from: IpAddr) {
        let mut last = self.crowded.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < CROWDED) {
            return self.counters.refuse(RefusalReason::Busy);
        }
        *last = Some(Instant::now());
        drop(last);
        let line =
            "too many connections: those that have waited longest for their requests are closed";
        self.refused(&Refusal::new(RefusalReason::Busy, line), from);
    }

    /// Responds to one request.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        from: IpAddr,
        within: Duration,
        place: &Place,
    ) -> Answer {
        let method = request.method().clone();
        place.body_follows();
        let done = match method {
            Method::POST => self.receive(request, from, within, place).await,
            Method::GET | Method::HEAD => {
                place.has_arrived();
                Arc::clone(&self).respond_to_get(&request).await
            }
            _ => Err(Refusal::new(
                RefusalReason::Method,
                "allowed: GET, HEAD, POST",
            )),
        };
        place.responds();
        done.unwrap_or_else(|refusal| {
            self.refused(&refusal, from);
            refusal_response(&refusal, method == Method::POST)
        })
    }

    async fn receive(
        &self,
        request: Request<Incoming>,
        from: IpAddr,
        within: Duration,
        place: &Place,
    ) -> Result<Answer, Refusal> {
        let (head, mut body) = request.into_parts();
        let arrived = match self.may_send(head.uri.path(), &head.headers) {
            Ok(()) => self.read_body(&mut body, within).await,
            Err(refusal) => Err(refusal),
        };
        let (bytes, memory) = match arrived {
            Ok(arrived) => arrived,
            Err(refusal) => {
                if !matches!(refusal.why, RefusalReason::Slow | RefusalReason::Broken)
                    && !head.headers.contains_key(EXPECT)
                {
                    let _over = timeout(DISCARDED.1, discard(&mut body)).await;
                }
                return Err(refusal);
            }
        };
        place.has_arrived();
        let claimed = header(&head.headers, "firstlight-verdict").map(str::to_owned);
        let sum = digest(&bytes);
        let proof = self.proof(&head.headers, claimed.as_deref(), &bytes, &sum)?;
        let parsing = self.memory.parsing(&bytes).await;
        let read = tokio::task::spawn_blocking(move || {
            let entry = entry(&bytes, sum, claimed.as_deref(), &proof, from)?;
            // The parsed report is gone, and its memory is for the next one.
            drop(parsing);
            Ok(NewReport {
                entry,
                received: now(),
                deflated: deflated(&bytes).map_err(|e| unstored(&e.into()))?,
            })
        });
        let item: NewReport = read.await.map_err(|_| crashed())??;
        let digest = item.entry.digest.clone();
        let (status, word, count) = match self.writer.put(item).await.map_err(|e| unstored(&e))? {
            PutResult::New => (StatusCode::CREATED, "stored", &self.counters.new),
            PutResult::Known => (StatusCode::OK, "already stored", &self.counters.known),
        };
        drop(memory);
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
            _ => {
                return Err(Refusal::new(
                    RefusalReason::Method,
                    "POST is allowed at / and /reports",
                ));
            }
        }
        let bearer =
            header(headers, "authorization").and_then(|value| value.strip_prefix("Bearer "));
        if self.secrets.token.is_some() && !token_matches(bearer, &[&self.secrets.token]) {
            return Err(Refusal::new(
                RefusalReason::Token,
                "a right token is needed: Authorization: Bearer TOKEN",
            ));
        }
        let kind = header(headers, "content-type").unwrap_or("none");
        if kind.split(';').next().map(str::trim) != Some(JSON) {
            return Err(Refusal::new(
                RefusalReason::Type,
                format!("Content-Type: read {kind:?}, allowed: {JSON}"),
            ));
        }
        Ok(())
    }

    /// Reads a body; a large one waits for memory first. Only the client's own time counts.
    async fn read_body(
        &self,
        body: &mut Incoming,
        within: Duration,
    ) -> Result<(Vec<u8>, Option<BodyMemory>), Refusal> {
        let too_large = || {
            Refusal::new(
                RefusalReason::Size,
                format!("larger than {} bytes", self.largest),
            )
        };
        let slow = || {
            Refusal::new(
                RefusalReason::Slow,
                format!("the body did not arrive in {} s", within.as_secs()),
            )
        };
        let announced = body.size_hint();
        if announced.lower() > self.largest as u64 {
            return Err(too_large());
        }
        let whole = announced
            .exact()
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(self.largest);
        let (mut bytes, mut memory, mut left) = (Vec::new(), None::<BodyMemory>, within);
        loop {
            let begun = Instant::now();
            let frame = timeout(left.min(CHECK), body.frame()).await;
            left = left.saturating_sub(begun.elapsed());
            let data = match frame {
                Ok(None) => return Ok((bytes, memory)),
                Ok(Some(Err(e))) => {
                    return Err(Refusal::new(
                        RefusalReason::Broken,
                        format!("the body broke off: {e}"),
                    ));
                }
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Err(_) => Bytes::new(),
            };
            let arrived = bytes.len() + data.len();
            if arrived > self.largest {
                return Err(too_large());
            }
            if memory.is_none() && arrived > FREE {
                memory = Some(self.memory.body(whole, QUEUE).await?);
                bytes.reserve_exact(whole.saturating_sub(bytes.len()));
            }
            bytes.extend_from_slice(&data);
            memory
                .as_ref()
                .map_or(Ok(()), |memory| memory.check_rate(bytes.len()))?;
            if left.is_zero() {
                return Err(slow());
            }
        }
    }

    /// What the MAC proves. If a key is configured, a report without a correct MAC is refused.
    fn proof(
        &self,
        headers: &HeaderMap,
        claimed: Option<&str>,
        body: &[u8],
        sum: &str,
    ) -> Result<Proof, Refusal> {
        if header(headers, "idempotency-key").is_some_and(|key| key != sum) {
            return Err(Refusal::new(
                RefusalReason::Digest,
                format!("Idempotency-Key is not the SHA-256 of the body, {sum}"),
            ));
        }
        let Some(key) = &self.secrets.key else {
            return Ok(Proof::None);
        };
        let (Some(mac), Some(claimed)) = (header(headers, "firstlight-mac"), claimed) else {
            return Err(Refusal::new(
                RefusalReason::Unsigned,
                "Firstlight-MAC and Firstlight-Verdict are needed: publish --key-file",
            ));
        };
        let name = header(headers, "firstlight-key-name");
        let of_machine = name.map(|name| key.of_machine(name)).transpose();
        let used = of_machine.map_err(|why| {
            Refusal::new(
                RefusalReason::Signature,
                format!("Firstlight-Key-Name: {why}"),
            )
        })?;
        if !used.as_ref().unwrap_or(key).proves(mac, claimed, body) {
            return Err(Refusal::new(
                RefusalReason::Signature,
                "Firstlight-MAC is wrong: another key, or the report was changed",
            ));
        }
        Ok(name.map_or(Proof::Fleet, |name| Proof::Machine(name.to_owned())))
    }

    async fn respond_to_get(
        self: Arc<Self>,
        request: &Request<Incoming>,
    ) -> Result<Answer, Refusal> {
        let uri = request.uri().clone();
        if matches!(route(uri.path())?, Route::Icon) {
            // No refusal: browsers ask for it with each page, and the log must say only what somebody should read.
            return Ok(response(
                StatusCode::NOT_FOUND,
                LINE,
                "there is no icon\n".to_owned(),
            ));
        }
        let health = matches!(route(uri.path())?, Route::Health);
        if !health && !self.may_read(request.headers()) {
            let line = "a right token is needed: Authorization: Bearer TOKEN, or the token as a browser's password";
            return Err(Refusal::new(RefusalReason::Token, line));
        }
        if let Route::Report(digest) = route(uri.path())? {
            let asked = PageQuery::of(uri.query().unwrap_or(""))?;
            return Arc::clone(&self).report(digest.to_owned(), asked).await;
        }
        let gzip = accepts_gzip(request.headers());
        let since = Instant::now();
        let shown = tokio::task::spawn_blocking(move || {
            self.render_page(uri.path(), uri.query().unwrap_or(""), gzip, since)
        });
        shown.await.map_err(|_| crashed())?
    }

    /// A stored report, in the memory that it may take.
    async fn report(self: Arc<Self>, digest: String, asked: PageQuery) -> Result<Answer, Refusal> {
        let mut memory = self.memory.response(self.largest, QUEUE).await?;
        let (own, since) = (Arc::clone(&self), Instant::now());
        let read = tokio::task::spawn_blocking(move || {
            let bytes = own.stored(since, |db| query::body(db, &digest))?;
            let line = format!("/report/{digest}: nothing of that name is stored");
            bytes.ok_or_else(|| Refusal::new(RefusalReason::Unknown, line))
        });
        let bytes = read.await.map_err(|_| crashed())??;
        shrink(&mut memory, bytes.len());
        let Some(form) = asked.to.filter(|form| form != "json") else {
            let held = Bytes::from_owner(Held {
                bytes,
                _memory: memory,
            });
            return Ok(response(StatusCode::OK, JSON, held));
        };
        let parsing = self.memory.parsing(&bytes).await;
        let made = tokio::task::spawn_blocking(move || {
            let (kind, text) = render_report(&bytes, &form)?;
            drop((bytes, parsing));
            Ok((kind, text))
        });
        let (kind, text) = made.await.map_err(|_| crashed())??;
        Ok(response(
            StatusCode::OK,
            kind,
            Bytes::from_owner(Held {
                bytes: text.into_bytes(),
                _memory: memory,
            }),
        ))
    }

    /// Asks the store for a request that waits since then.
    fn stored<T>(
        &self,
        since: Instant,
        ask: impl FnMut(&mut dyn Rows) -> Result<T, StoreError>,
    ) -> Result<T, Refusal> {
        // A reader that panicked has changed nothing.
        let mut db = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        db.refuses(since)
            .map_or_else(|| db.read(ask), Err)
            .map_err(|e| unstored(&e))
    }

    fn may_read(&self, headers: &HeaderMap) -> bool {
        let Secrets {
            token,
            reading,
            open_reading,
            ..
        } = &self.secrets;
        if *open_reading || (token.is_none() && reading.is_none()) {
            return true;
        }
        let value = header(headers, "authorization").unwrap_or("");
        let password = password(value);
        token_matches(
            value.strip_prefix("Bearer ").or(password.as_deref()),
            &[token, reading],
        )
    }

    /// Reads from the store and renders a page.
    fn render_page(
        &self,
        path: &str,
        asked: &str,
        gzip: bool,
        since: Instant,
    ) -> Result<Answer, Refusal> {
        let asked = PageQuery::of(asked)?;
        let page = |made: io::Result<String>| {
            Ok(response(
                StatusCode::OK,
                PAGE,
                made.map_err(|e| unstored(&e.into()))?,
            ))
        };
        let unknown = || {
            Refusal::new(
                RefusalReason::Unknown,
                format!("{path}: nothing of that name is stored"),
            )
        };
        let no_node = |node| {
            let line =
                format!("no such node: {node:?}; the page / lists all nodes with their links");
            Refusal::new(RefusalReason::Unknown, line)
        };
        match route(path)? {
            Route::Nodes => {
                let (rows, counts) = self.stored(since, |db| {
                    Ok((query::nodes(db, &asked.filter)?, db.counts()?))
                })?;
                page(pages::nodes(&rows, &counts, &asked.filter))
            }
            Route::Reports => {
                let (rows, (_, all)) = self.stored(since, |db| {
                    Ok((query::reports(db, &asked.filter)?, db.counts()?))
                })?;
                page(pages::reports(&rows, all, &asked.filter))
            }
            Route::Node(node) => {
                let (rows, behind) =
                    self.stored(since, |db| query::history(db, node, asked.filter.page))?;
                if rows.rows.is_empty() {
                    Err(no_node(node))
                } else {
                    page(pages::history(&rows, &behind, asked.filter.page))
                }
            }
            // They have ways of their own.
            Route::Report(_) | Route::Icon => Err(unknown()),
            Route::Metrics => {
                let (rows, (_, all)) =
                    self.stored(since, |db| Ok((db.all_nodes()?, db.counts()?)))?;
                let made = metrics::text(&rows, all, &self.counters, now(), gzip)
                    .map_err(|e| unstored(&e.into()))?;
                let mut answer = response(StatusCode::OK, EXPOSITION, made);
                answer
                    .headers_mut()
                    .insert(VARY, HeaderValue::from_static("accept-encoding"));
                if gzip {
                    answer
                        .headers_mut()
                        .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                }
                Ok(answer)
            }
            Route::Health => {
                self.stored(since, |db| db.counts())?;
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
        let Some(less) = left.checked_sub(read) else {
            return;
        };
        left = less;
    }
}

fn unstored(error: &StoreError) -> Refusal {
    Refusal::new(RefusalReason::Store, error.to_string())
}

fn crashed() -> Refusal {
    Refusal::new(
        RefusalReason::Store,
        "internal fault; this is a defect of firstlight",
    )
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
