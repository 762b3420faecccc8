//! The rows of the SQLite database that pages ask for.

use crate::query::{Counts, Rows, Span, StoredReport};
use crate::store::StoreError;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

const COLUMNS: &str =
    "r.digest, r.node, r.received, r.host, r.started, r.verdict, r.scope, r.codes, r.says, r.gpus,
    r.level, r.pair, r.busbw, r.seconds, r.signed, r.late";

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredReport> {
    Ok(StoredReport {
        digest: row.get(0)?,
        node: row.get(1)?,
        received: row.get(2)?,
        host: row.get(3)?,
        started: row.get(4)?,
        verdict: row.get(5)?,
        scope: row.get(6)?,
        codes: row.get(7)?,
        says: row.get(8)?,
        gpus: row.get(9)?,
        level: row.get(10)?,
        figures: [row.get(11)?, row.get(12)?, row.get(13)?],
        signed: row.get(14)?,
        late: row.get(15)?,
    })
}

/// A connection that is read.
pub(super) struct Reading<'a>(pub(super) &'a Connection);

impl Reading<'_> {
    fn rows(&self, sql: &str, values: impl Params) -> Result<Vec<StoredReport>, StoreError> {
        let mut asked = self.0.prepare_cached(sql)?;
        let rows = asked.query_map(values, stored)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

impl Rows for Reading<'_> {
    fn nodes(&mut self, verdict: &str, span: Span) -> Result<Vec<StoredReport>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM (SELECT newest, shown FROM node WHERE verdict = ? ORDER BY newest DESC LIMIT ? OFFSET ?) n
                JOIN report r ON r.id = n.shown ORDER BY n.newest DESC"
        );
        self.rows(&sql, params![verdict, span.most, span.skip])
    }

    fn reports(
        &mut self,
        verdict: Option<&str>,
        span: Span,
    ) -> Result<Vec<StoredReport>, StoreError> {
        let sql = |of: &str| {
            format!(
                "SELECT {COLUMNS} FROM (SELECT id FROM report {of} ORDER BY id DESC LIMIT ? OFFSET ?) n
                    JOIN report r ON r.id = n.id ORDER BY r.id DESC"
            )
        };
        match verdict {
            Some(verdict) => self.rows(
                &sql("WHERE verdict = ?"),
                params![verdict, span.most, span.skip],
            ),
            None => self.rows(&sql(""), params![span.most, span.skip]),
        }
    }

    fn of_node(&mut self, node: &str, span: Span) -> Result<Vec<StoredReport>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM report r WHERE r.node = ? ORDER BY r.moment DESC, r.id DESC LIMIT ? OFFSET ?"
        );
        self.rows(&sql, params![node, span.most, span.skip])
    }

    fn all_nodes(&mut self) -> Result<Vec<StoredReport>, StoreError> {
        let columns = COLUMNS
            .replace("r.verdict", "n.verdict")
            .replace("r.late", "n.shown <> n.newest");
        self.rows(
            &format!("SELECT {columns} FROM node n JOIN report r ON r.id = n.newest ORDER BY n.id"),
            [],
        )
    }

    fn counts(&mut self) -> Result<Counts, StoreError> {
        let mut asked = self
            .0
            .prepare_cached("SELECT verdict, count(*) FROM node GROUP BY verdict")?;
        let rows = asked.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let nodes = rows.collect::<Result<_, _>>()?;
        Ok((
            nodes,
            self.0
                .query_row("SELECT count(*) FROM report", [], |row| row.get(0))?,
        ))
    }

    fn deflated(&mut self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT deflated FROM body JOIN report ON report.id = body.report WHERE report.digest = ?";
        Ok(self
            .0
            .prepare_cached(sql)?
            .query_row([digest], |row| row.get(0))
            .optional()?)
    }
}
