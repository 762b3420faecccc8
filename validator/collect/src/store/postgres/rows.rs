//! The rows of the PostgreSQL database that pages ask for.

use super::session::{Session, Values};
use super::tables::column;
use crate::query::{Counts, Rows, Span, StoredReport};
use crate::store::StoreError;
use tokio_postgres::Row;

const COLUMNS: &str =
    "r.digest, r.node, r.received, r.host, r.started, r.verdict, r.scope, r.codes, r.says, r.gpus,
    r.level, r.pair, r.busbw, r.seconds, r.signed, r.late";

fn stored(row: &Row) -> Result<StoredReport, StoreError> {
    Ok(StoredReport {
        digest: column(row, 0)?,
        node: column(row, 1)?,
        received: column(row, 2)?,
        host: column(row, 3)?,
        started: column(row, 4)?,
        verdict: column(row, 5)?,
        scope: column(row, 6)?,
        codes: column(row, 7)?,
        says: column(row, 8)?,
        gpus: column(row, 9)?,
        level: column(row, 10)?,
        figures: [column(row, 11)?, column(row, 12)?, column(row, 13)?],
        signed: column(row, 14)?,
        late: column(row, 15)?,
    })
}

fn number(row: &Row, at: usize) -> Result<u32, StoreError> {
    Ok(u32::try_from(column::<i64>(row, at)?).unwrap_or(u32::MAX))
}

/// A connection that is read.
pub(super) struct Reading<'a>(pub(super) &'a mut Session);

impl Reading<'_> {
    fn rows(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<StoredReport>, StoreError> {
        self.0.ask(sql, values)?.iter().map(stored).collect()
    }
}

impl Rows for Reading<'_> {
    fn nodes(&mut self, verdict: &str, span: Span) -> Result<Vec<StoredReport>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM (SELECT newest, shown FROM node WHERE verdict = $1 ORDER BY newest DESC LIMIT $2 OFFSET $3) n
                JOIN report r ON r.id = n.shown ORDER BY n.newest DESC"
        );
        self.rows(&sql, &[&verdict, &span.most, &span.skip])
    }

    fn reports(
        &mut self,
        verdict: Option<&str>,
        span: Span,
    ) -> Result<Vec<StoredReport>, StoreError> {
        let sql = |of: &str| {
            format!(
                "SELECT {COLUMNS} FROM (SELECT id FROM report {of} ORDER BY id DESC LIMIT $1 OFFSET $2) n
                    JOIN report r ON r.id = n.id ORDER BY r.id DESC"
            )
        };
        match verdict {
            Some(verdict) => self.rows(
                &sql("WHERE verdict = $3"),
                &[&span.most, &span.skip, &verdict],
            ),
            None => self.rows(&sql(""), &[&span.most, &span.skip]),
        }
    }

    fn of_node(&mut self, node: &str, span: Span) -> Result<Vec<StoredReport>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM report r WHERE r.node = $1 ORDER BY r.moment DESC, r.id DESC LIMIT $2 OFFSET $3"
        );
        self.rows(&sql, &[&node, &span.most, &span.skip])
    }

    fn all_nodes(&mut self) -> Result<Vec<StoredReport>, StoreError> {
        let columns = COLUMNS
            .replace("r.verdict", "n.verdict")
            .replace("r.late", "n.shown <> n.newest");
        self.rows(
            &format!("SELECT {columns} FROM node n JOIN report r ON r.id = n.newest ORDER BY n.id"),
            &[],
        )
    }

    fn counts(&mut self) -> Result<Counts, StoreError> {
        // The number of all reports from the nodes' own numbers: the server would count the rows one by one.
        let rows = self.0.ask(
            "SELECT verdict, count(*), sum(reports)::bigint FROM node GROUP BY verdict",
            &[],
        )?;
        let nodes = rows
            .iter()
            .map(|row| Ok((column(row, 0)?, number(row, 1)?)))
            .collect::<Result<_, StoreError>>()?;
        let all = rows
            .iter()
            .map(|row| number(row, 2))
            .sum::<Result<u32, _>>()?;
        Ok((nodes, all))
    }

    fn deflated(&mut self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT deflated FROM body JOIN report ON report.id = body.report WHERE report.digest = $1";
        self.0
            .ask(sql, &[&digest])?
            .first()
            .map(|row| column(row, 0))
            .transpose()
    }
}
