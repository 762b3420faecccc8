//! Where the reports are: what a store keeps, and how a new report changes it, alike for each database. SQLite on this machine
//! is in `sqlite`, and a PostgreSQL server in `postgres`; all SQL is there. A report is acknowledged only after its transaction
//! is durable. One thread writes, and combines waiting reports into one transaction; what pages ask is in `query`.

pub mod address;
mod postgres;
pub mod sqlite;

use crate::intake::{Entry, badness, verdict};
use crate::order::{Place, place};
use crate::query::Rows;
use address::Address;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use outcome::Verdict;
use std::io::{self, Write};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};

/// Maximum number of reports in one transaction, and of reports waiting for the next one.
const TOGETHER: usize = 64;

/// Why the store cannot be used; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

impl From<io::Error> for StoreError {
    fn from(e: io::Error) -> Self {
        Self(e.to_string())
    }
}

/// The result of storing a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutResult {
    /// It was new, and is now durable.
    New,
    /// The store already had it, or had removed it as too old.
    Known,
}

/// A report to store: its row and its bytes.
#[derive(Debug)]
pub struct NewReport {
    /// The row.
    pub entry: Entry,
    /// When it was received, seconds since 1970.
    pub received: i64,
    /// Its bytes, compressed by [`deflated`].
    pub deflated: Vec<u8>,
}

/// Compresses a report's bytes for the store.
///
/// # Errors
/// The compressor's error.
pub fn deflated(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut to = DeflateEncoder::new(Vec::new(), Compression::fast());
    to.write_all(bytes)?;
    to.finish()
}

/// What the writer decides by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// The number of reports that are kept per node.
    pub keep: Option<u32>,
    /// Whether reports are signed: then no report without a MAC is newer than one with it.
    pub signed: bool,
}

/// An open store.
#[derive(Debug)]
pub enum Database {
    /// A folder of this machine.
    Sqlite(sqlite::Database),
    /// A server.
    Postgres(Box<postgres::Database>),
}

impl Database {
    /// Opens the store, and creates or updates its tables; `reading`: nothing can be written.
    ///
    /// # Errors
    /// One line that begins with the store's name.
    pub fn open(at: &Address, reading: bool) -> Result<Self, StoreError> {
        Ok(match at {
            Address::Folder(dir) => Self::Sqlite(sqlite::Database::open(dir, reading)?),
            Address::Server(server) => Self::Postgres(Box::new(postgres::Database::open(
                server.as_ref().clone(),
                reading,
            )?)),
        })
    }

    /// Why a request that has waited since then is not answered: meanwhile the store did not answer another one in time, and
    /// nobody waits twice.
    pub fn refuses(&self, since: Instant) -> Option<StoreError> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(db) => db.refuses(since),
        }
    }

    /// Stores reports in one transaction; returns when it is durable. Where the store is slow, it may have been enough for the
    /// first ones alone: then there are fewer results.
    ///
    /// # Errors
    /// None of them is stored, or it is unknown whether they are.
    fn write(&mut self, items: &[NewReport], rules: Rules) -> Result<Vec<PutResult>, StoreError> {
        match self {
            Self::Sqlite(db) => db.write(items, rules),
            Self::Postgres(db) => db.write(items, rules),
        }
    }

    /// Asks the store, which may have to be opened again: then it is asked again.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn read<T>(
        &mut self,
        ask: impl FnMut(&mut dyn Rows) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self {
            Self::Sqlite(db) => db.read(ask),
            Self::Postgres(db) => db.read(ask),
        }
    }
}

/// A report waiting for the writer.
struct Job {
    item: NewReport,
    since: Instant,
    done: oneshot::Sender<Result<PutResult, StoreError>>,
}

/// The handle of the writer thread, which ends when no clone of this is left.
#[derive(Debug, Clone)]
pub struct Writer(mpsc::Sender<Job>);

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(mut db: Database, rules: Rules) -> io::Result<(Self, JoinHandle<()>)> {
        let (sender, mut waiting) = mpsc::channel::<Job>(TOGETHER);
        let write = move || {
            while let Some(first) = waiting.blocking_recv() {
                let mut jobs = vec![first];
                while let Some(next) = (jobs.len() < TOGETHER)
                    .then(|| waiting.try_recv().ok())
                    .flatten()
                {
                    jobs.push(next);
                }
                // A sender that has disconnected will try again.
                let (mut items, mut answers) = (Vec::new(), Vec::new());
                for Job { item, since, done } in jobs {
                    match db.refuses(since) {
                        Some(why) => drop(done.send(Err(why))),
                        None => {
                            items.push(item);
                            answers.push(done);
                        }
                    }
                }
                if items.is_empty() {
                    continue;
                }
                let done = db.write(&items, rules);
                for (at, answer) in answers.into_iter().enumerate() {
                    let lost =
                        || StoreError("the database is too slow for all that waits".to_owned());
                    let one = done.as_ref().map_err(Clone::clone);
                    let _gone =
                        answer.send(one.and_then(|all| all.get(at).copied().ok_or_else(lost)));
                }
            }
        };
        Ok((
            Self(sender),
            thread::Builder::new()
                .name("writer".to_owned())
                .spawn(write)?,
        ))
    }

    /// Stores a report; returns when it is durable.
    ///
    /// # Errors
    /// Either it is not stored, or it is unknown whether it is.
    pub async fn put(&self, item: NewReport) -> Result<PutResult, StoreError> {
        let ended = || StoreError("the writer has ended".to_owned());
        let (done, answer) = oneshot::channel();
        self.0
            .send(Job {
                item,
                since: Instant::now(),
                done,
            })
            .await
            .map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

/// The tables in a transaction: single reads and writes. What they are for is decided below.
trait Tables {
    /// The number and the verdict of the report with this digest.
    fn known(&mut self, digest: &str) -> Result<Option<(i64, String)>, StoreError>;
    /// Whether a report with this digest was removed as too old.
    fn was_removed(&mut self, digest: &str) -> Result<bool, StoreError>;
    /// Gives a report a worse verdict, and its node, where it shows a better one of this report or is about it.
    fn worsen(&mut self, id: i64, node: &str, verdict: Verdict) -> Result<(), StoreError>;
    /// The place of a node's newest report, and the node's verdict.
    fn place_of_node(&mut self, node: &str) -> Result<Option<(Place, Verdict)>, StoreError>;
    /// Adds a report and its bytes; returns its number, which is higher than those of earlier reports of its node.
    fn add(&mut self, item: &NewReport, moment: i64, late: bool) -> Result<i64, StoreError>;
    /// One report more of a node, which is its newest.
    fn set_newest(
        &mut self,
        node: &str,
        host: &str,
        id: i64,
        verdict: Verdict,
    ) -> Result<(), StoreError>;
    /// One report more of a node, whose verdict counts and which is not its newest.
    fn set_shown(&mut self, node: &str, id: i64, verdict: Verdict) -> Result<(), StoreError>;
    /// One report more of a node, and nothing else.
    fn count(&mut self, node: &str) -> Result<(), StoreError>;
    /// Numbers and digests of a node's oldest reports, beyond the `keep` that stay; those that its verdict is of always stay.
    fn old(&mut self, node: &str, keep: u32) -> Result<Vec<(i64, String)>, StoreError>;
    /// Removes a report; its digest is kept, so that a report that is sent again does not count as new.
    fn remove(&mut self, id: i64, digest: &str, node: &str) -> Result<(), StoreError>;
}

/// Stores a report.
fn put_one(
    tables: &mut impl Tables,
    item: &NewReport,
    rules: Rules,
) -> Result<PutResult, StoreError> {
    let NewReport {
        entry, received, ..
    } = item;
    let (digest, node) = (&entry.digest, &entry.node);
    if let Some((id, stored)) = tables.known(digest)? {
        // The same report with a worse verdict: the worse one counts.
        if verdict(&stored).is_none_or(|stored| badness(stored) < badness(entry.verdict)) {
            tables.worsen(id, node, entry.verdict)?;
        }
        return Ok(PutResult::Known);
    }
    if tables.was_removed(digest)? {
        return Ok(PutResult::Known);
    }
    let own = place(
        entry.started.as_deref(),
        *received,
        entry.verdict,
        entry.signed,
    );
    let before = tables.place_of_node(node)?;
    let late = before
        .as_ref()
        .is_some_and(|(before, _)| own.is_late(before, rules.signed));
    let id = tables.add(item, own.moment, late)?;
    let shown = before.filter(|_| late).map(|(_, shown)| shown);
    update_node(tables, (node, &entry.host), (id, entry.verdict), shown)?;
    if let Some(keep) = rules.keep {
        for (id, digest) in tables.old(node, keep)? {
            tables.remove(id, &digest, node)?;
        }
    }
    Ok(PutResult::New)
}

/// Takes a new report into its node's row. `late`: the node's verdict, if the report is late and can only make it worse.
fn update_node(
    tables: &mut impl Tables,
    (node, host): (&str, &str),
    (id, own): (i64, Verdict),
    late: Option<Verdict>,
) -> Result<(), StoreError> {
    match late {
        None => tables.set_newest(node, host, id, own),
        Some(shown) if badness(own) > badness(shown) => tables.set_shown(node, id, own),
        Some(_) => tables.count(node),
    }
}

/// A stored word; a verdict that this version does not know is the worst one.
fn stored_verdict(word: &str) -> Verdict {
    verdict(word).unwrap_or(Verdict::Error)
}

/// The versions of a store's tables: why one cannot be used.
fn other_version(found: i64, known: i64) -> StoreError {
    StoreError(format!(
        "its version is {found}, and this program knows {known}"
    ))
}
