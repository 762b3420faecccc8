//! The reports on the disk, in one SQLite database in the store's folder: a row for each report and node, and the
//! compressed bytes of each report. A report is acknowledged only after its transaction is on the disk. One thread
//! writes, and combines waiting reports into one transaction; queries are in `query`.

use crate::intake::{Entry, badness, verdict};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The version of the tables below.
const VERSION: i64 = 1;
/// Maximum number of reports in one transaction, and of reports waiting for the next one.
const TOGETHER: usize = 64;
/// How long a writer waits for another process that uses the same store.
const BUSY: Duration = Duration::from_secs(10);

const TABLES: &str = "
    CREATE TABLE report (id INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE, node TEXT NOT NULL,
        received INTEGER NOT NULL, host TEXT NOT NULL, machine_id TEXT, started TEXT, verdict TEXT NOT NULL,
        scope TEXT NOT NULL, codes TEXT NOT NULL, says TEXT NOT NULL, gpus TEXT NOT NULL, level TEXT NOT NULL,
        pair REAL, busbw REAL, seconds REAL, signed INTEGER NOT NULL);
    CREATE INDEX report_of_node ON report (node, id);
    CREATE INDEX report_of_verdict ON report (verdict, id);
    CREATE TABLE node (id TEXT PRIMARY KEY, host TEXT NOT NULL, newest INTEGER NOT NULL, verdict TEXT NOT NULL,
        reports INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX node_newest ON node (newest);
    CREATE INDEX node_of_verdict ON node (verdict, newest);
    CREATE TABLE body (report INTEGER PRIMARY KEY, deflated BLOB NOT NULL);
    CREATE TABLE removed (digest TEXT PRIMARY KEY) WITHOUT ROWID;
";

/// Why the store cannot be used; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

impl From<rusqlite::Error> for StoreError {
    fn from(e: rusqlite::Error) -> Self {
        Self(e.to_string())
    }
}

impl From<io::Error> for StoreError {
    fn from(e: io::Error) -> Self {
        Self(e.to_string())
    }
}

/// The result of storing a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutResult {
    /// It was new, and is now on the disk.
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

/// Opens the database in the folder `dir`, and creates both if they are missing.
///
/// # Errors
/// One line with the folder's name.
pub fn open(dir: &Path) -> Result<Connection, StoreError> {
    let named = |e: StoreError| StoreError(format!("--store {}: {e}", dir.display()));
    opened(dir).map_err(named)
}

fn opened(dir: &Path) -> Result<Connection, StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mut db = Connection::open(dir.join("reports.sqlite"))?;
    db.busy_timeout(BUSY)?;
    let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError(format!("SQLite's journal mode is {mode}, and must be wal")));
    }
    // A commit returns only when it is on the disk.
    db.pragma_update(None, "synchronous", "FULL")?;
    let begun = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    match begun.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? {
        0 => {
            begun.execute_batch(TABLES)?;
            begun.pragma_update(None, "user_version", VERSION)?;
        }
        VERSION => {}
        other => {
            let line = format!("its version is {other}, and this program knows {VERSION}");
            return Err(StoreError(line));
        }
    }
    begun.commit()?;
    // The names of new files must be on the disk, too.
    File::open(dir)?.sync_all()?;
    Ok(db)
}

/// A report waiting for the writer.
struct Job {
    item: NewReport,
    done: oneshot::Sender<Result<PutResult, StoreError>>,
}

/// The handle of the writer thread, which ends when no clone of this is left.
#[derive(Debug, Clone)]
pub struct Writer(mpsc::Sender<Job>);

impl Writer {
    /// Starts the thread; `keep` is the number of reports that are kept per node.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(mut db: Connection, keep: Option<u32>) -> io::Result<(Self, JoinHandle<()>)> {
        let (sender, mut waiting) = mpsc::channel::<Job>(TOGETHER);
        let write = move || {
            while let Some(first) = waiting.blocking_recv() {
                let mut jobs = vec![first];
                while let Some(next) = (jobs.len() < TOGETHER).then(|| waiting.try_recv().ok()).flatten() {
                    jobs.push(next);
                }
                let (items, answers): (Vec<_>, Vec<_>) = jobs.into_iter().map(|j| (j.item, j.done)).unzip();
                let done = put(&mut db, &items, keep);
                for (at, answer) in answers.into_iter().enumerate() {
                    let lost = || StoreError("no answer".to_owned());
                    let one = done.as_ref().map_err(Clone::clone);
                    // A sender that has disconnected will try again.
                    let _gone = answer.send(one.and_then(|all| all.get(at).copied().ok_or_else(lost)));
                }
            }
        };
        Ok((Self(sender), thread::Builder::new().name("writer".to_owned()).spawn(write)?))
    }

    /// Stores a report; returns when it is on the disk.
    ///
    /// # Errors
    /// Either it is not stored, or it is unknown whether it is.
    pub async fn put(&self, item: NewReport) -> Result<PutResult, StoreError> {
        let ended = || StoreError("the writer has ended".to_owned());
        let (done, answer) = oneshot::channel();
        self.0.send(Job { item, done }).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

/// Stores reports in one transaction.
///
/// # Errors
/// None of them is stored.
pub fn put(db: &mut Connection, items: &[NewReport], keep: Option<u32>) -> Result<Vec<PutResult>, StoreError> {
    let begun = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let done = items.iter().map(|item| put_one(&begun, item, keep)).collect::<Result<_, _>>()?;
    begun.commit()?;
    Ok(done)
}

fn put_one(db: &Transaction<'_>, item: &NewReport, keep: Option<u32>) -> Result<PutResult, StoreError> {
    let NewReport { entry, received, deflated } = item;
    let (digest, node, word) = (&entry.digest, &entry.node, entry.verdict.to_string());
    let sql = "SELECT id, verdict FROM report WHERE digest = ?";
    let known: Option<(i64, String)> =
        db.prepare_cached(sql)?.query_row([digest], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((id, stored)) = known {
        // The same report with a worse verdict: the worse one counts.
        if verdict(&stored).is_none_or(|stored| badness(stored) < badness(entry.verdict)) {
            db.execute("UPDATE report SET verdict = ? WHERE id = ?", params![word, id])?;
            db.execute("UPDATE node SET verdict = ? WHERE id = ? AND newest = ?", params![word, node, id])?;
        }
        return Ok(PutResult::Known);
    }
    if db.prepare_cached("SELECT 1 FROM removed WHERE digest = ?")?.exists([digest])? {
        return Ok(PutResult::Known);
    }
    let Entry { host, machine_id, started, scope, codes, says, gpus, level, .. } = entry;
    db.prepare_cached(
        "INSERT INTO report (digest, node, received, host, machine_id, started, verdict, scope, codes, says, gpus,
            level, pair, busbw, seconds, signed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        digest,
        node,
        received,
        host,
        machine_id,
        started,
        word,
        scope,
        codes,
        says,
        gpus,
        level,
        entry.pair,
        entry.busbw,
        entry.seconds,
        entry.signed
    ])?;
    let id = db.last_insert_rowid();
    db.prepare_cached("INSERT INTO body (report, deflated) VALUES (?, ?)")?.execute(params![id, deflated])?;
    db.prepare_cached(
        "INSERT INTO node (id, host, newest, verdict, reports) VALUES (?1, ?2, ?3, ?4, 1) ON CONFLICT (id)
            DO UPDATE SET host = ?2, newest = ?3, verdict = ?4, reports = reports + 1",
    )?
    .execute(params![node, host, id, word])?;
    keep.map_or(Ok(()), |keep| remove_old(db, node, keep))?;
    Ok(PutResult::New)
}

/// Removes the oldest reports of a node. Their digests are kept, so that a report that is sent again does not count
/// as new.
fn remove_old(db: &Transaction<'_>, node: &str, keep: u32) -> Result<(), StoreError> {
    let sql = "SELECT id, digest FROM report WHERE node = ? ORDER BY id DESC LIMIT -1 OFFSET ?";
    let mut old = db.prepare_cached(sql)?;
    let old = old.query_map(params![node, keep], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (id, digest) in old.collect::<Result<Vec<(i64, String)>, _>>()? {
        db.execute("DELETE FROM body WHERE report = ?", [id])?;
        db.execute("DELETE FROM report WHERE id = ?", [id])?;
        db.execute("INSERT OR IGNORE INTO removed (digest) VALUES (?)", [digest])?;
        db.execute("UPDATE node SET reports = reports - 1 WHERE id = ?", [node])?;
    }
    Ok(())
}
