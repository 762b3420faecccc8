//! The tables in PostgreSQL: the steps that make them, forward alone, and what a report changes in them.

use super::session::{Session, UPDATE};
use super::version;
use crate::intake::{Entry, VERDICTS, badness};
use crate::order::Place;
use crate::store::{NewReport, StoreError, Tables, other_version, stored_verdict};
use outcome::Verdict;
use std::borrow::Cow;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// The numbers of the advisory lock under which the tables are made; who stores reports shares it.
pub(super) const TABLES_LOCK: &str = "1718185580, 1768846184";

/// What leads from each version to the next one; a database that has none is at version 0. A released step never changes.
pub(super) const STEPS: [&str; 2] = [
    // Names and words are compared byte by byte, as in SQLite. Bodies are compressed already.
    r#"CREATE TABLE report (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest text COLLATE "C" NOT NULL UNIQUE,
        node text COLLATE "C" NOT NULL, received bigint NOT NULL, host text NOT NULL, machine_id text, started text,
        verdict text COLLATE "C" NOT NULL, scope text NOT NULL, codes text NOT NULL, says text NOT NULL, gpus text NOT NULL,
        level text NOT NULL, pair double precision, busbw double precision, seconds double precision,
        signed boolean NOT NULL, moment bigint NOT NULL, late boolean NOT NULL);
    CREATE TABLE body (report bigint PRIMARY KEY, deflated bytea NOT NULL);
    ALTER TABLE body ALTER COLUMN deflated SET STORAGE EXTERNAL;
    CREATE TABLE removed (digest text COLLATE "C" PRIMARY KEY);
    CREATE TABLE node (id text COLLATE "C" PRIMARY KEY, host text NOT NULL, newest bigint NOT NULL, shown bigint NOT NULL,
        verdict text COLLATE "C" NOT NULL, reports bigint NOT NULL);"#,
    // The orders of the pages.
    "CREATE INDEX report_of_verdict ON report (verdict, id);
    CREATE INDEX report_of_node ON report (node, moment, id);
    CREATE INDEX node_newest ON node (newest);
    CREATE INDEX node_of_verdict ON node (verdict, newest);",
];

/// A column of a row.
///
/// # Errors
/// It has another type.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, StoreError> {
    row.try_get(at)
        .map_err(|e| StoreError(format!("column {at}: {e}")))
}

/// The version of the tables that are there.
///
/// # Errors
/// The server's.
pub(super) fn found(session: &mut Session) -> Result<i64, StoreError> {
    // Asked of the catalogue's rows: the functions that look up a name may answer from before a lock was waited for.
    let sql = "SELECT FROM pg_tables WHERE schemaname = 'firstlight' AND tablename = 'version'";
    if session.ask(sql, &[])?.is_empty() {
        return Ok(0);
    }
    let rows = session.ask("SELECT number FROM firstlight.version", &[])?;
    rows.first().map_or(Ok(0), |row| column(row, 0))
}

/// Brings the tables up to date in one transaction. Of several receivers that begin it together, one does it and the others
/// wait.
///
/// # Errors
/// The server's, or that it is a later version meanwhile.
pub(super) fn update(session: &mut Session) -> Result<(), StoreError> {
    let usual = session.wait(UPDATE);
    session.run("BEGIN; SET LOCAL statement_timeout = 0")?;
    session.run(&format!("SELECT pg_advisory_xact_lock({TABLES_LOCK})"))?;
    let found = found(session)?;
    let Some(steps) = usize::try_from(found)
        .ok()
        .and_then(|found| STEPS.get(found..))
    else {
        return Err(other_version(found, version()));
    };
    if found == 0 {
        // Who may not create it may use one that is there.
        session.run(
            "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'firstlight') THEN CREATE SCHEMA firstlight; END IF; END $$;
             CREATE TABLE IF NOT EXISTS firstlight.version (number bigint NOT NULL);
             INSERT INTO firstlight.version SELECT 0 WHERE NOT EXISTS (SELECT FROM firstlight.version)",
        )?;
    }
    for step in steps {
        session.run(step)?;
    }
    session.run(&format!(
        "UPDATE firstlight.version SET number = {}; COMMIT",
        version()
    ))?;
    session.wait(usual);
    Ok(())
}

/// Text as PostgreSQL can store it: all characters but NUL.
fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A connection in a transaction that has begun.
pub(super) struct Begun<'a>(pub(super) &'a mut Session);

impl Tables for Begun<'_> {
    fn known(&mut self, digest: &str) -> Result<Option<(i64, String)>, StoreError> {
        let rows = self.0.ask(
            "SELECT id, verdict FROM report WHERE digest = $1",
            &[&digest],
        )?;
        rows.first()
            .map(|row| Ok((column(row, 0)?, column(row, 1)?)))
            .transpose()
    }

    fn was_removed(&mut self, digest: &str) -> Result<bool, StoreError> {
        Ok(!self
            .0
            .ask("SELECT 1 FROM removed WHERE digest = $1", &[&digest])?
            .is_empty())
    }

    fn worsen(&mut self, id: i64, node: &str, verdict: Verdict) -> Result<(), StoreError> {
        let word = verdict.to_string();
        self.0.ask(
            "UPDATE report SET verdict = $1 WHERE id = $2",
            &[&word, &id],
        )?;
        let better: Vec<_> = VERDICTS
            .iter()
            .take(badness(verdict))
            .map(ToString::to_string)
            .collect();
        let sql = "UPDATE node SET verdict = $1, shown = $3
            WHERE id = $2 AND (newest = $3 OR shown = $3) AND verdict = ANY($4)";
        self.0.ask(sql, &[&word, &node, &id, &better])?;
        Ok(())
    }

    fn place_of_node(&mut self, node: &str) -> Result<Option<(Place, Verdict)>, StoreError> {
        let sql = "SELECT r.moment, r.verdict, r.signed, n.verdict FROM node n JOIN report r ON r.id = n.newest
            WHERE n.id = $1";
        let rows = self.0.ask(sql, &[&node])?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let word = |at| column::<&str>(row, at).map(stored_verdict);
        Ok(Some((
            Place {
                moment: column(row, 0)?,
                verdict: word(1)?,
                signed: column(row, 2)?,
            },
            word(3)?,
        )))
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
        let sql =
            "INSERT INTO report (digest, node, received, host, machine_id, started, verdict, scope, codes, says, gpus,
            level, pair, busbw, seconds, signed, moment, late)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) RETURNING id";
        let rows = self.0.ask(
            sql,
            &[
                digest,
                node,
                received,
                &text(host),
                &machine_id.as_deref().map(text),
                &started.as_deref().map(text),
                &entry.verdict.to_string(),
                &text(scope),
                &text(codes),
                &text(says),
                &text(gpus),
                &text(level),
                &entry.pair,
                &entry.busbw,
                &entry.seconds,
                &entry.signed,
                &moment,
                &late,
            ],
        )?;
        let id = rows.first().map_or_else(
            || Err(StoreError("no number of a new report".to_owned())),
            |row| column(row, 0),
        )?;
        self.0.ask(
            "INSERT INTO body (report, deflated) VALUES ($1, $2)",
            &[&id, deflated],
        )?;
        Ok(id)
    }

    fn set_newest(
        &mut self,
        node: &str,
        host: &str,
        id: i64,
        verdict: Verdict,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO node (id, host, newest, shown, verdict, reports) VALUES ($1, $2, $3, $3, $4, 1)
            ON CONFLICT (id) DO UPDATE SET host = $2, newest = $3, shown = $3, verdict = $4, reports = node.reports + 1";
        self.0
            .ask(sql, &[&node, &text(host), &id, &verdict.to_string()])?;
        Ok(())
    }

    fn set_shown(&mut self, node: &str, id: i64, verdict: Verdict) -> Result<(), StoreError> {
        let sql = "UPDATE node SET shown = $1, verdict = $2, reports = reports + 1 WHERE id = $3";
        self.0.ask(sql, &[&id, &verdict.to_string(), &node])?;
        Ok(())
    }

    fn count(&mut self, node: &str) -> Result<(), StoreError> {
        self.0.ask(
            "UPDATE node SET reports = reports + 1 WHERE id = $1",
            &[&node],
        )?;
        Ok(())
    }

    fn old(&mut self, node: &str, keep: u32) -> Result<Vec<(i64, String)>, StoreError> {
        let sql = "SELECT id, digest FROM report WHERE node = $1 AND id NOT IN (SELECT newest FROM node WHERE id = $1
            UNION SELECT shown FROM node WHERE id = $1) ORDER BY moment DESC, id DESC
            OFFSET (SELECT greatest(0, $2::bigint - 1 - (newest <> shown)::int) FROM node WHERE id = $1)";
        let rows = self.0.ask(sql, &[&node, &i64::from(keep)])?;
        rows.iter()
            .map(|row| Ok((column(row, 0)?, column(row, 1)?)))
            .collect()
    }

    fn remove(&mut self, id: i64, digest: &str, node: &str) -> Result<(), StoreError> {
        self.0.ask("DELETE FROM body WHERE report = $1", &[&id])?;
        self.0.ask("DELETE FROM report WHERE id = $1", &[&id])?;
        self.0.ask(
            "INSERT INTO removed (digest) VALUES ($1) ON CONFLICT DO NOTHING",
            &[&digest],
        )?;
        self.0.ask(
            "UPDATE node SET reports = reports - 1 WHERE id = $1",
            &[&node],
        )?;
        Ok(())
    }
}
