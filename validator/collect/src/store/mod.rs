//! The reports on the disk, in one SQLite database in the store's folder: a row for each report and node, and the
//! compressed bytes of each report. A report is acknowledged only after its transaction is on the disk, in the file that has
//! the database's name. One thread writes, and combines waiting reports into one transaction; queries are in `query`.

mod file;
mod migrate;

use crate::intake::{Entry, badness, verdict};
use crate::order::{Place, place};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use outcome::Verdict;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The version of the tables below.
const VERSION: i64 = 2;
/// Maximum number of reports in one transaction, and of reports waiting for the next one.
const TOGETHER: usize = 64;
/// How long a writer waits for another process that uses the same store.
const BUSY: Duration = Duration::from_secs(10);

const TABLES: &str = "
    CREATE TABLE report (id INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE, node TEXT NOT NULL,
        received INTEGER NOT NULL, host TEXT NOT NULL, machine_id TEXT, started TEXT, verdict TEXT NOT NULL,
        scope TEXT NOT NULL, codes TEXT NOT NULL, says TEXT NOT NULL, gpus TEXT NOT NULL, level TEXT NOT NULL,
        pair REAL, busbw REAL, seconds REAL, signed INTEGER NOT NULL, moment INTEGER NOT NULL, late INTEGER NOT NULL);
    CREATE INDEX report_of_verdict ON report (verdict, id);
    CREATE TABLE body (report INTEGER PRIMARY KEY, deflated BLOB NOT NULL);
    CREATE TABLE removed (digest TEXT PRIMARY KEY) WITHOUT ROWID;
";

/// The tables of nodes, and the order of their reports.
const NODES: &str = "
    CREATE INDEX report_of_node ON report (node, moment, id);
    CREATE TABLE node (id TEXT PRIMARY KEY, host TEXT NOT NULL, newest INTEGER NOT NULL, shown INTEGER NOT NULL,
        verdict TEXT NOT NULL, reports INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX node_newest ON node (newest);
    CREATE INDEX node_of_verdict ON node (verdict, newest);
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
    let path = file::private(dir)?;
    let mut db = Connection::open(path)?;
    db.busy_timeout(BUSY)?;
    let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError(format!("SQLite's journal mode is {mode}, and must be wal")));
    }
    // A commit returns only when it is on the disk.
    db.pragma_update(None, "synchronous", "FULL")?;
    let begun = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    match begun.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? {
        0 => begun.execute_batch(&format!("{TABLES}{NODES}"))?,
        1 => migrate::from_1(&begun)?,
        VERSION => {}
        other => {
            let line = format!("its version is {other}, and this program knows {VERSION}");
            return Err(StoreError(line));
        }
    }
    begun.pragma_update(None, "user_version", VERSION)?;
    begun.commit()?;
    // The names of new files must be on the disk, too.
    File::open(dir)?.sync_all()?;
    Ok(db)
}

/// An open database that knows whether the files of its name are still the ones that it has open.
#[derive(Debug)]
pub struct Database {
    db: Connection,
    dir: PathBuf,
    files: file::Files,
    reading: bool,
}

impl Database {
    /// As [`open`]; `reading`: nothing can be written.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(dir: &Path, reading: bool) -> Result<Self, StoreError> {
        let db = open(dir)?;
        db.pragma_update(None, "query_only", reading)?;
        Ok(Self { db, dir: dir.to_owned(), files: file::Files::of(dir)?, reading })
    }

    /// The connection.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.db
    }

    /// Opens the database again if its files were removed or replaced: what is written to them would be lost.
    ///
    /// # Errors
    /// They were, even if it is open again; or the system's error.
    pub fn check(&mut self) -> Result<(), StoreError> {
        if file::Files::of(&self.dir).is_ok_and(|files| files == self.files) {
            return Ok(());
        }
        let gone = format!("{}: the database was removed or replaced while it was open", self.dir.display());
        // A database that was moved gets what is not in it yet; one that was removed needs nothing. Nobody is waited for.
        self.db.busy_timeout(Duration::ZERO)?;
        let _ = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        self.files.remove_rest(&self.dir)?;
        // The old connection must not remove files of the new database, which have the same names.
        self.db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        match Self::open(&self.dir, self.reading) {
            Ok(new) => {
                *self = new;
                Err(StoreError(format!("{gone}; it is open again: try again")))
            }
            Err(why) => Err(StoreError(format!("{gone}, and cannot be opened: {why}"))),
        }
    }
}

/// What the writer decides by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// The number of reports that are kept per node.
    pub keep: Option<u32>,
    /// Whether reports are signed: then no report without a MAC is newer than one with it.
    pub signed: bool,
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
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(mut db: Database, rules: Rules) -> io::Result<(Self, JoinHandle<()>)> {
        let (sender, mut waiting) = mpsc::channel::<Job>(TOGETHER);
        let write = move || {
            while let Some(first) = waiting.blocking_recv() {
                let mut jobs = vec![first];
                while let Some(next) = (jobs.len() < TOGETHER).then(|| waiting.try_recv().ok()).flatten() {
                    jobs.push(next);
                }
                let (items, answers): (Vec<_>, Vec<_>) = jobs.into_iter().map(|j| (j.item, j.done)).unzip();
                // Again after the commit: what is not in the file of that name is not acknowledged.
                let done = db.check().and_then(|()| put(db.connection(), &items, rules));
                let done = done.and_then(|done| db.check().map(|()| done));
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
pub fn put(db: &mut Connection, items: &[NewReport], rules: Rules) -> Result<Vec<PutResult>, StoreError> {
    let begun = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let done = items.iter().map(|item| put_one(&begun, item, rules)).collect::<Result<_, _>>()?;
    begun.commit()?;
    Ok(done)
}

fn put_one(db: &Transaction<'_>, item: &NewReport, rules: Rules) -> Result<PutResult, StoreError> {
    let NewReport { entry, received, deflated } = item;
    let (digest, node, word) = (&entry.digest, &entry.node, entry.verdict.to_string());
    let sql = "SELECT id, verdict FROM report WHERE digest = ?";
    let known: Option<(i64, String)> =
        db.prepare_cached(sql)?.query_row([digest], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((id, stored)) = known {
        // The same report with a worse verdict: the worse one counts.
        if verdict(&stored).is_none_or(|stored| badness(stored) < badness(entry.verdict)) {
            db.execute("UPDATE report SET verdict = ? WHERE id = ?", params![word, id])?;
            let sql = "UPDATE node SET verdict = ?1, shown = ?3 WHERE id = ?2 AND (newest = ?3 OR shown = ?3) AND verdict IN (";
            let better = BETTER.get(..badness(entry.verdict)).unwrap_or_default().join(", ");
            db.execute(&format!("{sql}{better})"), params![word, node, id])?;
        }
        return Ok(PutResult::Known);
    }
    if db.prepare_cached("SELECT 1 FROM removed WHERE digest = ?")?.exists([digest])? {
        return Ok(PutResult::Known);
    }
    let Entry { host, machine_id, started, scope, codes, says, gpus, level, .. } = entry;
    let own = place(started.as_deref(), *received, entry.verdict, entry.signed);
    let before = place_of_node(db, node)?;
    let late = before.as_ref().is_some_and(|(before, _)| own.is_late(before, rules.signed));
    db.prepare_cached(
        "INSERT INTO report (digest, node, received, host, machine_id, started, verdict, scope, codes, says, gpus,
            level, pair, busbw, seconds, signed, moment, late) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        entry.signed,
        own.moment,
        late
    ])?;
    let id = db.last_insert_rowid();
    db.prepare_cached("INSERT INTO body (report, deflated) VALUES (?, ?)")?.execute(params![id, deflated])?;
    let shown = before.filter(|_| late).map(|(_, shown)| shown);
    update_node(db, (node, host), (id, entry.verdict), shown)?;
    rules.keep.map_or(Ok(()), |keep| remove_old(db, node, keep))?;
    Ok(PutResult::New)
}

/// The verdicts, best first, as SQL.
const BETTER: [&str; 4] = ["'PASS'", "'DEGRADED'", "'FAIL'", "'ERROR'"];

/// The place of a node's newest report, and the node's verdict.
fn place_of_node(db: &Transaction<'_>, node: &str) -> Result<Option<(Place, Verdict)>, StoreError> {
    let sql =
        "SELECT r.moment, r.verdict, r.signed, n.verdict FROM node n JOIN report r ON r.id = n.newest WHERE n.id = ?";
    let row = |row: &rusqlite::Row<'_>| {
        // A verdict that this version does not know is the worst one.
        let word = |at| row.get::<_, String>(at).map(|word| verdict(&word).unwrap_or(Verdict::Error));
        Ok((Place { moment: row.get(0)?, verdict: word(1)?, signed: row.get(2)? }, word(3)?))
    };
    Ok(db.prepare_cached(sql)?.query_row([node], row).optional()?)
}

/// Takes a new report into its node's row. `late`: the node's verdict, if the report is late and can only make it worse.
fn update_node(
    db: &Transaction<'_>,
    (node, host): (&str, &str),
    (id, own): (i64, Verdict),
    late: Option<Verdict>,
) -> Result<(), StoreError> {
    let word = own.to_string();
    match late {
        None => {
            let sql = "INSERT INTO node (id, host, newest, shown, verdict, reports) VALUES (?1, ?2, ?3, ?3, ?4, 1)
                ON CONFLICT (id) DO UPDATE SET host = ?2, newest = ?3, shown = ?3, verdict = ?4, reports = reports + 1";
            db.prepare_cached(sql)?.execute(params![node, host, id, word])?;
        }
        Some(shown) if badness(own) > badness(shown) => {
            let sql = "UPDATE node SET shown = ?, verdict = ?, reports = reports + 1 WHERE id = ?";
            db.prepare_cached(sql)?.execute(params![id, word, node])?;
        }
        Some(_) => {
            db.prepare_cached("UPDATE node SET reports = reports + 1 WHERE id = ?")?.execute([node])?;
        }
    }
    Ok(())
}

/// Removes the oldest reports of a node, but never those that its verdict is of. Their digests are kept, so that a report that is sent again does not count
/// as new.
fn remove_old(db: &Transaction<'_>, node: &str, keep: u32) -> Result<(), StoreError> {
    let sql = "SELECT id, digest FROM report WHERE node = ?1 AND id NOT IN (SELECT newest FROM node WHERE id = ?1
        UNION SELECT shown FROM node WHERE id = ?1) ORDER BY moment DESC, id DESC LIMIT -1
        OFFSET max(0, ?2 - (SELECT 1 + (newest <> shown) FROM node WHERE id = ?1))";
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
