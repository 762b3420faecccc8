//! The store's queries for the pages. Each query reads a page of rows through an index, however many reports there are.

use crate::intake::VERDICTS;
use crate::store::StoreError;
use flate2::read::DeflateDecoder;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use std::io::Read;

/// Rows per page.
pub const ROWS: usize = 100;

/// A stored report without its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredReport {
    /// SHA-256 of its bytes.
    pub digest: String,
    /// Its node.
    pub node: String,
    /// When it was received, seconds since 1970.
    pub received: i64,
    /// The host name.
    pub host: String,
    /// When the run began, according to the report.
    pub started: Option<String>,
    /// The verdict.
    pub verdict: String,
    /// What the verdict applies to.
    pub scope: String,
    /// The codes of the causes.
    pub codes: String,
    /// The first cause in words.
    pub says: String,
    /// The GPUs, by model.
    pub gpus: String,
    /// The level of the run.
    pub level: String,
    /// Slowest pair, NCCL's bus bandwidth (GB/s), and seconds of the run.
    pub figures: [Option<f64>; 3],
    /// Whether its MAC was verified.
    pub signed: bool,
    /// Whether it arrived after the report of a later run; of a node's newest report in [`all_nodes`]: whether the node's verdict
    /// is that of such a report.
    pub late: bool,
}

const COLUMNS: &str = "r.digest, r.node, r.received, r.host, r.started, r.verdict, r.scope, r.codes, r.says, r.gpus,
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

/// A page of rows, and whether there are more.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// At most [`ROWS`].
    pub rows: Vec<StoredReport>,
    /// Whether more follow.
    pub more: bool,
}

/// Which rows: of one verdict or of all, and the page number, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFilter {
    /// `None` means all.
    pub verdict: Option<String>,
    /// From 1.
    pub page: u32,
}

fn page(db: &Connection, sql: &str, mut values: Vec<Value>, number: u32) -> Result<Page, StoreError> {
    let rows = i64::try_from(ROWS).unwrap_or(i64::MAX);
    values.extend([Value::from(rows + 1), Value::from(rows * i64::from(number.saturating_sub(1)))]);
    let mut asked = db.prepare_cached(sql)?;
    let mut rows = asked.query_map(params_from_iter(values), stored)?.collect::<Result<Vec<_>, _>>()?;
    let more = rows.len() > ROWS;
    rows.truncate(ROWS);
    Ok(Page { rows, more })
}

/// The newest report of each node, instead of it a late one that is worse: the worst verdict first, and of one verdict the
/// newest first.
///
/// # Errors
/// SQLite's error.
pub fn nodes(db: &Connection, filter: &RowFilter) -> Result<Page, StoreError> {
    // Skipped rows are skipped in the index, which has the verdicts one by one.
    let sql = format!(
        "SELECT {COLUMNS} FROM (SELECT newest, shown FROM node WHERE verdict = ? ORDER BY newest DESC LIMIT ? OFFSET ?) n
            JOIN report r ON r.id = n.shown ORDER BY n.newest DESC"
    );
    let (counts, _) = counts(db)?;
    let verdicts = VERDICTS.iter().rev().map(ToString::to_string);
    let verdicts = verdicts.filter(|verdict| filter.verdict.as_ref().is_none_or(|wanted| wanted == verdict));
    // One row more than a page has says whether more follow.
    let (mut rows, mut skip) = (Vec::new(), ROWS * (filter.page.saturating_sub(1)) as usize);
    for verdict in verdicts {
        let all = counts.iter().find(|(name, _)| *name == verdict).map_or(0, |(_, count)| *count as usize);
        let left = (ROWS + 1).saturating_sub(rows.len());
        if skip < all && left > 0 {
            let number = |n: usize| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
            let mut asked = db.prepare_cached(&sql)?;
            let values = [Value::from(verdict), number(left), number(skip)];
            rows.extend(asked.query_map(params_from_iter(values), stored)?.collect::<Result<Vec<_>, _>>()?);
        }
        skip = skip.saturating_sub(all);
    }
    let more = rows.len() > ROWS;
    rows.truncate(ROWS);
    Ok(Page { rows, more })
}

/// All reports; those that arrived last come first.
///
/// # Errors
/// SQLite's error.
pub fn reports(db: &Connection, filter: &RowFilter) -> Result<Page, StoreError> {
    let of = filter.verdict.as_ref().map_or("", |_| "WHERE verdict = ?");
    let sql = format!(
        "SELECT {COLUMNS} FROM (SELECT id FROM report {of} ORDER BY id DESC LIMIT ? OFFSET ?) n
            JOIN report r ON r.id = n.id ORDER BY r.id DESC"
    );
    page(db, &sql, filter.verdict.iter().cloned().map(Value::from).collect(), filter.page)
}

/// The reports of a node, newest first, and as many before the page's rows, to compare with.
///
/// # Errors
/// SQLite's error.
pub fn history(db: &Connection, node: &str, number: u32) -> Result<(Page, Vec<StoredReport>), StoreError> {
    let sql =
        format!("SELECT {COLUMNS} FROM report r WHERE r.node = ? ORDER BY r.moment DESC, r.id DESC LIMIT ? OFFSET ?");
    let page = page(db, &sql, vec![Value::from(node.to_owned())], number)?;
    let behind = self::page(db, &sql, vec![Value::from(node.to_owned())], number.saturating_add(1))?;
    Ok((page, behind.rows))
}

/// The newest report of every node, with the node's verdict.
///
/// # Errors
/// SQLite's error.
pub fn all_nodes(db: &Connection) -> Result<Vec<StoredReport>, StoreError> {
    let columns = COLUMNS.replace("r.verdict", "n.verdict").replace("r.late", "n.shown <> n.newest");
    let sql = format!("SELECT {columns} FROM node n JOIN report r ON r.id = n.newest ORDER BY n.id");
    let mut asked = db.prepare_cached(&sql)?;
    let rows = asked.query_map([], stored)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The number of nodes by verdict, and the number of reports.
///
/// # Errors
/// SQLite's error.
pub fn counts(db: &Connection) -> Result<(Vec<(String, u32)>, u32), StoreError> {
    let mut asked = db.prepare_cached("SELECT verdict, count(*) FROM node GROUP BY verdict")?;
    let rows = asked.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let nodes = rows.collect::<Result<_, _>>()?;
    Ok((nodes, db.query_row("SELECT count(*) FROM report", [], |row| row.get(0))?))
}

/// The bytes of a report.
///
/// # Errors
/// SQLite's error, or that the body cannot be decompressed.
pub fn body(db: &Connection, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT deflated FROM body JOIN report ON report.id = body.report WHERE report.digest = ?";
    let deflated: Option<Vec<u8>> = db.prepare_cached(sql)?.query_row([digest], |row| row.get(0)).optional()?;
    let Some(deflated) = deflated else { return Ok(None) };
    let mut bytes = Vec::new();
    DeflateDecoder::new(deflated.as_slice()).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
