//! Brings the tables of an earlier version up to date: each report gets its place among those of its node, and each node the
//! verdict that follows.

use super::{Begun, NODES, StoreError, Tables, stored_verdict};
use crate::intake::node_id;
use crate::order::place;
use crate::store::update_node;
use outcome::Verdict;
use rusqlite::{Row, Transaction, params};

/// What the places of reports follow from.
struct Earlier {
    id: i64,
    host: String,
    machine_id: Option<String>,
    started: Option<String>,
    received: i64,
    verdict: Verdict,
    signed: bool,
}

fn earlier(row: &Row<'_>) -> rusqlite::Result<Earlier> {
    let word: String = row.get(5)?;
    Ok(Earlier {
        id: row.get(0)?,
        host: row.get(1)?,
        machine_id: row.get(2)?,
        started: row.get(3)?,
        received: row.get(4)?,
        verdict: stored_verdict(&word),
        signed: row.get(6)?,
    })
}

/// From version 1, whose newest report of a node was the one that arrived last, and whose ids of nodes were hashed without
/// lengths.
///
/// # Errors
/// SQLite's error.
pub(super) fn from_1(db: &Transaction<'_>) -> Result<(), StoreError> {
    db.execute_batch(
        "ALTER TABLE report ADD COLUMN moment INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE report ADD COLUMN late INTEGER NOT NULL DEFAULT 0;
         DROP TABLE node; DROP INDEX report_of_node;",
    )?;
    db.execute_batch(NODES)?;
    let sql = "SELECT id, host, machine_id, started, received, verdict, signed FROM report WHERE id > ? ORDER BY id LIMIT 1000";
    let mut last = 0;
    loop {
        let mut asked = db.prepare_cached(sql)?;
        let part = asked
            .query_map([last], earlier)?
            .collect::<Result<Vec<_>, _>>()?;
        for report in &part {
            take(db, report)?;
        }
        match part.last() {
            Some(report) => last = report.id,
            None => return Ok(()),
        }
    }
}

fn take(db: &Transaction<'_>, report: &Earlier) -> Result<(), StoreError> {
    let mut tables = Begun(db);
    let node = node_id(report.machine_id.as_deref(), &report.host);
    let own = place(
        report.started.as_deref(),
        report.received,
        report.verdict,
        report.signed,
    );
    let before = tables.place_of_node(&node)?;
    let late = before
        .as_ref()
        .is_some_and(|(before, _)| own.is_late(before, false));
    let sql = "UPDATE report SET node = ?, moment = ?, late = ? WHERE id = ?";
    db.prepare_cached(sql)?
        .execute(params![node, own.moment, late, report.id])?;
    let shown = before.filter(|_| late).map(|(_, shown)| shown);
    update_node(
        &mut tables,
        (&node, &report.host),
        (report.id, report.verdict),
        shown,
    )
}

#[cfg(test)]
mod tests {
    use super::super::BETTER;
    use crate::intake::VERDICTS;

    #[test]
    fn sql_names_the_verdicts_in_their_order() {
        assert_eq!(VERDICTS.map(|verdict| format!("'{verdict}'")), BETTER);
    }
}
