//! The store on this machine: one SQLite database in the store's folder, with a row for each report and node, and the
//! compressed bytes of each report.

mod file;
mod migrate;
mod rows;

use super::{
    NewReport, PutResult, Rules, StoreError, Tables, other_version, put_one, stored_verdict,
};
use crate::intake::{Entry, badness};
use crate::order::Place;
use crate::query::Rows;
use outcome::Verdict;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of the tables below.
const VERSION: i64 = 2;
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

impl From<rusqlite::Error> for StoreError {
    fn from(e: rusqlite::Error) -> Self {
        Self(e.to_string())
    }
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
        return Err(StoreError(format!(
            "SQLite's journal mode is {mode}, and must be wal"
        )));
    }
    // A commit returns only when it is on the disk.
    db.pragma_update(None, "synchronous", "FULL")?;
    let begun = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    match begun.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? {
        0 => begun.execute_batch(&format!("{TABLES}{NODES}"))?,
        1 => migrate::from_1(&begun)?,
        VERSION => {}
        other => return Err(other_version(other, VERSION)),
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
        Ok(Self {
            db,
            dir: dir.to_owned(),
            files: file::Files::of(dir)?,
            reading,
        })
    }

    /// Stores reports in one transaction, in the file that has the database's name.
    ///
    /// # Errors
    /// None of them is stored, or it is unknown whether they are.
    pub(super) fn write(
        &mut self,
        items: &[NewReport],
        rules: Rules,
    ) -> Result<Vec<PutResult>, StoreError> {
        self.check()?;
        let done = put(&mut self.db, items, rules)?;
        // Again after the commit: what is not in the file of that name is not acknowledged.
        self.check()?;
        Ok(done)
    }

    /// Asks the database, whose files must still be there.
    ///
    /// # Errors
    /// They are not, or SQLite's error.
    pub(super) fn read<T>(
        &mut self,
        mut ask: impl FnMut(&mut dyn Rows) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.check()?;
        ask(&mut rows::Reading(&self.db))
    }

    /// Opens the database again if its files were removed or replaced: what is written to them would be lost.
    ///
    /// # Errors
    /// They were, even if it is open again; or the system's error.
    fn check(&mut self) -> Result<(), StoreError> {
        if file::Files::of(&self.dir).is_ok_and(|files| files == self.files) {
            return Ok(());
        }
        let gone = format!(
            "{}: the database was removed or replaced while it was open",
            self.dir.display()
        );
        // A database that was moved gets what is not in it yet; one that was removed needs nothing. Nobody is waited for.
        self.db.busy_timeout(Duration::ZERO)?;
        let _ = self
            .db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        self.files.remove_rest(&self.dir)?;
        // The old connection must not remove files of the new database, which have the same names.
        self.db
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        match Self::open(&self.dir, self.reading) {
            Ok(new) => {
                *self = new;
                Err(StoreError(format!("{gone}; it is open again: try again")))
            }
            Err(why) => Err(StoreError(format!("{gone}, and cannot be opened: {why}"))),
        }
    }
}

/// Stores reports in one transaction.
///
/// # Errors
/// None of them is stored.
pub fn put(
    db: &mut Connection,
    items: &[NewReport],
    rules: Rules,
) -> Result<Vec<PutResult>, StoreError> {
    let begun = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let mut tables = Begun(&begun);
    let done = items
        .iter()
        .map(|item| put_one(&mut tables, item, rules))
        .collect::<Result<_, _>>()?;
    begun.commit()?;
    Ok(done)
}

/// The verdicts, best first, as SQL.
const BETTER: [&str; 4] = ["'PASS'", "'DEGRADED'", "'FAIL'", "'ERROR'"];

/// A transaction that has begun.
struct Begun<'a>(&'a Transaction<'a>);

impl Tables for Begun<'_> {
    fn known(&mut self, digest: &str) -> Result<Option<(i64, String)>, StoreError> {
        let mut asked = self
            .0
            .prepare_cached("SELECT id, verdict FROM report WHERE digest = ?")?;
        Ok(asked
            .query_row([digest], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?)
    }

    fn was_removed(&mut self, digest: &str) -> Result<bool, StoreError> {
        Ok(self
            .0
            .prepare_cached("SELECT 1 FROM removed WHERE digest = ?")?
            .exists([digest])?)
    }

    fn worsen(&mut self, id: i64, node: &str, verdict: Verdict) -> Result<(), StoreError> {
        let word = verdict.to_string();
        self.0.execute(
            "UPDATE report SET verdict = ? WHERE id = ?",
            params![word, id],
        )?;
        let sql = "UPDATE node SET verdict = ?1, shown = ?3 WHERE id = ?2 AND (newest = ?3 OR shown = ?3) AND verdict IN (";
        let better = BETTER
            .get(..badness(verdict))
            .unwrap_or_default()
            .join(", ");
        self.0
            .execute(&format!("{sql}{better})"), params![word, node, id])?;
        Ok(())
    }

    fn place_of_node(&mut self, node: &str) -> Result<Option<(Place, Verdict)>, StoreError> {
        let sql = "SELECT r.moment, r.verdict, r.signed, n.verdict FROM node n JOIN report r ON r.id = n.newest WHERE n.id = ?";
        let row = |row: &rusqlite::Row<'_>| {
            let word = |at| row.get::<_, String>(at).map(|word| stored_verdict(&word));
            Ok((
                Place {
                    moment: row.get(0)?,
                    verdict: word(1)?,
                    signed: row.get(2)?,
                },
                word(3)?,
            ))
        };
        Ok(self
            .0
            .prepare_cached(sql)?
            .query_row([node], row)
            .optional()?)
    }

    fn add(&mut self, item: &NewReport, moment: i64, late: bool) -> Result<i64, StoreError> {
        let NewReport {
            entry,
            received,
            deflated,
        } = item;
        let Entry {
            digest,
            node,
            host,
            machine_id,
            started,
            scope,
            codes,
            says,
            gpus,
            level,
            ..
        } = entry;
        self.0
            .prepare_cached(
                "INSERT INTO report (digest, node, received, host, machine_id, started, verdict, scope, codes, says, gpus,
                    level, pair, busbw, seconds, signed, moment, late)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                digest,
                node,
                received,
                host,
                machine_id,
                started,
                entry.verdict.to_string(),
                scope,
                codes,
                says,
                gpus,
                level,
                entry.pair,
                entry.busbw,
                entry.seconds,
                entry.signed,
                moment,
                late
            ])?;
        let id = self.0.last_insert_rowid();
        self.0
            .prepare_cached("INSERT INTO body (report, deflated) VALUES (?, ?)")?
            .execute(params![id, deflated])?;
        Ok(id)
    }

    fn set_newest(
        &mut self,
        node: &str,
        host: &str,
        id: i64,
        verdict: Verdict,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO node (id, host, newest, shown, verdict, reports) VALUES (?1, ?2, ?3, ?3, ?4, 1)
            ON CONFLICT (id) DO UPDATE SET host = ?2, newest = ?3, shown = ?3, verdict = ?4, reports = reports + 1";
        self.0
            .prepare_cached(sql)?
            .execute(params![node, host, id, verdict.to_string()])?;
        Ok(())
    }

    fn set_shown(&mut self, node: &str, id: i64, verdict: Verdict) -> Result<(), StoreError> {
        let sql = "UPDATE node SET shown = ?, verdict = ?, reports = reports + 1 WHERE id = ?";
        self.0
            .prepare_cached(sql)?
            .execute(params![id, verdict.to_string(), node])?;
        Ok(())
    }

    fn count(&mut self, node: &str) -> Result<(), StoreError> {
        self.0
            .prepare_cached("UPDATE node SET reports = reports + 1 WHERE id = ?")?
            .execute([node])?;
        Ok(())
    }

    fn old(&mut self, node: &str, keep: u32) -> Result<Vec<(i64, String)>, StoreError> {
        let sql = "SELECT id, digest FROM report WHERE node = ?1 AND id NOT IN (SELECT newest FROM node WHERE id = ?1
            UNION SELECT shown FROM node WHERE id = ?1) ORDER BY moment DESC, id DESC LIMIT -1
            OFFSET max(0, ?2 - (SELECT 1 + (newest <> shown) FROM node WHERE id = ?1))";
        let mut asked = self.0.prepare_cached(sql)?;
        let old = asked.query_map(params![node, keep], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(old.collect::<Result<_, _>>()?)
    }

    fn remove(&mut self, id: i64, digest: &str, node: &str) -> Result<(), StoreError> {
        self.0.execute("DELETE FROM body WHERE report = ?", [id])?;
        self.0.execute("DELETE FROM report WHERE id = ?", [id])?;
        self.0.execute(
            "INSERT OR IGNORE INTO removed (digest) VALUES (?)",
            [digest],
        )?;
        self.0
            .execute("UPDATE node SET reports = reports - 1 WHERE id = ?", [node])?;
        Ok(())
    }
}
