//! What the pages ask of the store. Each question reads a page of rows through an index, however many reports there are; the
//! SQL is in `store`.

use crate::intake::VERDICTS;
use crate::store::StoreError;
use flate2::read::DeflateDecoder;
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

/// Which rows of a list: the number of those that are skipped, and the maximum number of those that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Rows to skip.
    pub skip: i64,
    /// Rows to return.
    pub most: i64,
}

/// The rows of a store, as each database reads them.
pub trait Rows {
    /// What the nodes of this verdict show, the newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    fn nodes(&mut self, verdict: &str, span: Span) -> Result<Vec<StoredReport>, StoreError>;
    /// The reports of this verdict or all, those that arrived last first.
    ///
    /// # Errors
    /// The store cannot be read.
    fn reports(
        &mut self,
        verdict: Option<&str>,
        span: Span,
    ) -> Result<Vec<StoredReport>, StoreError>;
    /// The reports of a node, the newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    fn of_node(&mut self, node: &str, span: Span) -> Result<Vec<StoredReport>, StoreError>;
    /// The newest report of every node, with the node's verdict.
    ///
    /// # Errors
    /// The store cannot be read.
    fn all_nodes(&mut self) -> Result<Vec<StoredReport>, StoreError>;
    /// The number of nodes by verdict, and the number of reports.
    ///
    /// # Errors
    /// The store cannot be read.
    fn counts(&mut self) -> Result<Counts, StoreError>;
    /// The compressed bytes of a report.
    ///
    /// # Errors
    /// The store cannot be read.
    fn deflated(&mut self, digest: &str) -> Result<Option<Vec<u8>>, StoreError>;
}

/// The number of nodes by verdict, and the number of reports.
pub type Counts = (Vec<(String, u32)>, u32);

/// The rows of a page, and one more, which says whether more follow.
fn span(number: u32) -> Span {
    let rows = i64::try_from(ROWS).unwrap_or(i64::MAX);
    Span {
        skip: rows * i64::from(number.saturating_sub(1)),
        most: rows + 1,
    }
}

fn page(mut rows: Vec<StoredReport>) -> Page {
    let more = rows.len() > ROWS;
    rows.truncate(ROWS);
    Page { rows, more }
}

/// The newest report of each node, instead of it a late one that is worse: the worst verdict first, and of one verdict the
/// newest first.
///
/// # Errors
/// The store cannot be read.
pub fn nodes(db: &mut dyn Rows, filter: &RowFilter) -> Result<Page, StoreError> {
    // Skipped rows are skipped in the index, which has the verdicts one by one.
    let (counts, _) = db.counts()?;
    let verdicts = VERDICTS.iter().rev().map(ToString::to_string);
    let verdicts = verdicts.filter(|verdict| {
        filter
            .verdict
            .as_ref()
            .is_none_or(|wanted| wanted == verdict)
    });
    let Span { mut skip, most } = span(filter.page);
    let mut rows = Vec::new();
    for verdict in verdicts {
        let all = counts
            .iter()
            .find(|(name, _)| *name == verdict)
            .map_or(0, |(_, count)| i64::from(*count));
        let left = most - i64::try_from(rows.len()).unwrap_or(most);
        if skip < all && left > 0 {
            rows.extend(db.nodes(&verdict, Span { skip, most: left })?);
        }
        skip = (skip - all).max(0);
    }
    Ok(page(rows))
}

/// All reports; those that arrived last come first.
///
/// # Errors
/// The store cannot be read.
pub fn reports(db: &mut dyn Rows, filter: &RowFilter) -> Result<Page, StoreError> {
    Ok(page(
        db.reports(filter.verdict.as_deref(), span(filter.page))?,
    ))
}

/// The reports of a node, newest first, and as many before the page's rows, to compare with.
///
/// # Errors
/// The store cannot be read.
pub fn history(
    db: &mut dyn Rows,
    node: &str,
    number: u32,
) -> Result<(Page, Vec<StoredReport>), StoreError> {
    let rows = page(db.of_node(node, span(number))?);
    let behind = page(db.of_node(node, span(number.saturating_add(1)))?);
    Ok((rows, behind.rows))
}

/// The bytes of a report.
///
/// # Errors
/// The store cannot be read, or the body cannot be decompressed.
pub fn body(db: &mut dyn Rows, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(deflated) = db.deflated(digest)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    DeflateDecoder::new(deflated.as_slice()).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
