//! Runs sizes on an arm, and turns wrong values into findings.

use super::arms::{self, ArmKind};
use crate::nccl::ranks::{Ranks, RowAsk, Trouble, TroubleKind};
use crate::nccl::{FirstWrong, Row, Stray, Sweep, Timed};
use crate::suite::TestContext;
use crate::suite::shared::transfer::unanswered;
use gpu::{Collective, DataType, RedOp};
use machine::Rank;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::text::count;
use std::collections::BTreeSet;

/// The least number of timed calls, even if not all of them have their own buffer. On 4 H200 four calls of 128 MiB through
/// host memory, in two series, took 1.12 to 1.2 times as long each as twenty in one.
const LEAST_CALLS: u64 = 10;
/// With more ranks than this, fewer calls are made: no single machine has that many, and the number of pairs grows
/// with their square.
const MANY_RANKS: usize = 16;
const CALLS_OF_MANY_RANKS: u32 = 5;

/// Every size of a sweep, smallest first; large rows make as many calls of each as the buffers hold, because
/// only those are checked.
pub(super) fn rows(
    context: &TestContext,
    which: ArmKind,
    ranks: &mut Ranks,
    sweep: &Sweep,
) -> Result<Vec<Row>, Trouble> {
    let sizes = sweep.sizes().map_err(|e| Trouble {
        rank: None,
        text: e.to_string(),
        kind: TroubleKind::Broken,
        diagnosis: Vec::new(),
    })?;
    let row = |bytes: u64| {
        arms::advance(context);
        context.doing(format!("NCCL {which}: {} of {bytes} B", sweep.collective));
        let iterations = sweep.iterations.min(calls(bytes, ranks));
        ranks.row(&RowAsk::of(
            &Sweep {
                iterations,
                ..*sweep
            },
            bytes,
            Rank::FIRST,
        ))
    };
    sizes.into_iter().map(row).collect()
}

fn calls(bytes: u64, ranks: &Ranks) -> u32 {
    if ranks.ranks() > MANY_RANKS {
        return CALLS_OF_MANY_RANKS;
    }
    let places = ranks.room().checked_div(bytes).unwrap_or(u64::MAX);
    u32::try_from(places.max(LEAST_CALLS)).unwrap_or(u32::MAX)
}

/// Every size once, untimed: NCCL connects the paths of a size at its first use, and the GPUs' clocks rise.
/// nccl-tests does the same before its first row.
pub(super) fn warm_up(
    context: &TestContext,
    which: ArmKind,
    ranks: &mut Ranks,
    sweep: &Sweep,
) -> Result<(), Trouble> {
    rows(context, which, ranks, &sweep.untimed()).map(drop)
}

/// One finding for each collective, type and reduction with wrong values: the first of its rows, and the
/// number of further sizes, however often each was measured.
pub(super) fn wrong(which: ArmKind, rows: &[Row]) -> Vec<Finding> {
    let mut kinds: Vec<(RowKind, Vec<&Row>)> = Vec::new();
    for row in rows
        .iter()
        .filter(|row| row.wrong() > 0 || lacks_check(row))
    {
        let kind = (row.collective, row.data, row.op);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, rows)) => rows.push(row),
            None => kinds.push((kind, vec![row])),
        }
    }
    let sizes = |rows: &[&Row]| {
        rows.iter()
            .map(|row| row.bytes)
            .collect::<BTreeSet<_>>()
            .len()
    };
    let wrong = kinds
        .iter()
        .filter_map(|(_, rows)| Some(finding(which, rows.first()?, sizes(rows))));
    wrong.chain(stray_finding(which, rows)).collect()
}

/// Memory beside a buffer that was changed: one finding for all rows, with those of other collectives as evidence.
fn stray_finding(which: ArmKind, rows: &[Row]) -> Option<Finding> {
    let of = |row: &'_ Row| -> Option<(String, Stray)> {
        let places = [
            ("out of place", &row.out_of_place),
            ("in place", &row.in_place),
        ];
        let (place, stray) = places
            .into_iter()
            .find_map(|(p, t)| Some((p, t.wrong.as_ref()?.stray.as_deref()?)))?;
        Some((
            format!(
                "{} of {} B, {}, {place}",
                row.collective, row.bytes, row.data
            ),
            stray.clone(),
        ))
    };
    let all: Vec<_> = rows.iter().filter_map(of).collect();
    let (
        row,
        Stray {
            rank,
            receive,
            behind,
            distance,
            words,
            found,
        },
    ) = all.first()?;
    let buffer = if *receive { "receive" } else { "send" };
    let side = if *behind {
        "behind the end"
    } else {
        "before the beginning"
    };
    let message = format!(
        "NCCL {which}: {row}: {words} words beside the {buffer} buffer of rank {rank} were changed, the nearest {distance} bytes {side}: {found}"
    );
    let seen = all
        .iter()
        .take(MOST_STRAYS)
        .map(|(row, stray)| format!("{row}: rank {}: {}", stray.rank, stray.found));
    let finding = Code::NcclStray.finding(Severity::Fail, *rank, message);
    Some(
        finding
            .values(*words, 0, Some("words"))
            .seen_all(seen.collect()),
    )
}

/// The most rows that are evidence of one finding.
const MOST_STRAYS: usize = 8;

type RowKind = (Collective, DataType, Option<RedOp>);

/// Whether a check covered too little to count.
fn lacks_check(row: &Row) -> bool {
    let expected = row.count > 0;
    expected && checked_elements(&row.out_of_place) == Some(0)
        || expected
            && row.collective.checks_in_place()
            && checked_elements(&row.in_place) == Some(0)
}

fn checked_elements(timed: &Timed) -> Option<u64> {
    timed.wrong.as_ref().map(|wrong| wrong.looked)
}

fn finding(which: ArmKind, row: &Row, sizes: usize) -> Finding {
    let places = [
        ("out of place", &row.out_of_place),
        ("in place", &row.in_place),
    ];
    let wrong = |timed: &&Timed| timed.wrong.as_ref().is_some_and(|w| w.count > 0);
    let op = row
        .op
        .filter(|_| row.collective.reduces())
        .map_or(String::new(), |op| format!(" {op}"));
    let root = row
        .root
        .filter(|root| *root != Rank::FIRST)
        .map_or(String::new(), |root| format!(", root {root}"));
    let what = format!(
        "NCCL {which}: {} of {} B, {}{op}{root}",
        row.collective, row.bytes, row.data
    );
    let more = if sizes > 1 {
        format!("; and {} more sizes", sizes - 1)
    } else {
        String::new()
    };
    let Some((place, wrongs)) = places
        .into_iter()
        .find(|(_, timed)| wrong(timed))
        .and_then(|(place, timed)| Some((place, timed.wrong.as_ref()?)))
    else {
        let message = format!("{what}: no value was checked{more}");
        return Code::P2pChecker.finding(
            Severity::Error,
            Subject::operation(row.collective),
            message,
        );
    };
    let first = wrongs.first.as_ref().map_or(String::new(), |FirstWrong { rank, call, element, found, expected }| {
        let call = if wrongs.calls > 1 { format!(" of call {call}") } else { String::new() };
        format!("; the first is element {element} of rank {rank}{call}: {found}, expected {expected}")
    });
    let (wrong, looked, calls) = (wrongs.count, wrongs.looked, wrongs.calls);
    let of = count(calls, "call");
    let ones = if wrongs.ones == wrong {
        ", all of them all ones"
    } else {
        ""
    };
    let message =
        format!("{what}, {place}: {wrong} of {looked} values of {of} are wrong{ones}{first}{more}");
    let finding =
        Code::NcclWrongData.finding(Severity::Fail, Subject::operation(row.collective), message);
    let finding = finding.values(wrong, 0, Some("values"));
    if wrongs.ones == wrong {
        unanswered(finding)
    } else {
        finding
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::nccl::Wrongs;
    use outcome::finding::Reason;

    /// A row of 4 ranks with `us` and `wrong` values.
    pub(in crate::suite::nccl) fn row(bytes: u64, us: f64, wrong: u64) -> Row {
        let shape = Collective::AllReduce.shape(bytes, 4, 4);
        let first = (wrong > 0).then(|| FirstWrong {
            rank: 2.into(),
            call: 3,
            element: 7,
            found: "0".to_owned(),
            expected: "41".to_owned(),
        });
        let wrongs = |count, first| {
            Some(Wrongs {
                count,
                looked: 4 * shape.count,
                calls: 1,
                first,
                ..Wrongs::default()
            })
        };
        Row {
            collective: Collective::AllReduce,
            bytes,
            count: shape.count,
            data: DataType::Float,
            op: Some(RedOp::Sum),
            root: None,
            ranks: 4,
            out_of_place: Timed {
                us,
                wrong: wrongs(0, None),
            },
            in_place: Timed {
                us,
                wrong: wrongs(wrong, first),
            },
        }
    }

    #[test]
    fn right_values_are_no_finding() {
        assert_eq!(
            wrong(ArmKind::P2p, &[row(8, 20.0, 0), row(64, 20.0, 0)]),
            []
        );
    }

    #[test]
    fn memory_beside_a_buffer_is_one_finding_however_many_rows_changed_it() {
        let stray = |distance| Stray {
            rank: 2.into(),
            receive: true,
            behind: true,
            distance,
            words: 1,
            found: "7 (0x40e00000), a number as these calls move them".to_owned(),
        };
        let mut rows = vec![row(1024, 1.0, 0), row(4096, 1.0, 0), row(8192, 1.0, 0)];
        assert_eq!(wrong(ArmKind::P2p, &rows), []);
        for (row, distance) in rows.iter_mut().skip(1).zip([0, 8]) {
            let wrongs = Wrongs {
                stray: Some(Box::new(stray(distance))),
                ..Wrongs::default()
            };
            row.out_of_place.wrong = Some(Wrongs {
                looked: 1,
                ..wrongs
            });
        }
        let found = wrong(ArmKind::P2p, &rows);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].is(Code::NcclStray) && found[0].severity == Severity::Fail);
        assert!(
            found[0].message.contains(
                "4096 B, float, out of place: 1 words beside the receive buffer of rank 2 were changed, the \
                 nearest 0 bytes behind the end: 7"
            ),
            "{found:?}"
        );
        assert_eq!(
            (found[0].evidence.len(), &found[0].subject),
            (2, &Rank::new(2).into())
        );
    }

    #[test]
    fn values_that_are_all_ones_have_a_cause_and_a_remedy_of_their_own() {
        let mut row = row(4096, 1.0, 3);
        assert_eq!(
            wrong(ArmKind::P2p, std::slice::from_ref(&row))[0].reason,
            None
        );
        row.in_place.wrong.as_mut().unwrap().ones = 3;
        let found = wrong(ArmKind::P2p, &[row]);
        assert!(
            found[0].message.contains("are wrong, all of them all ones"),
            "{found:?}"
        );
        assert_eq!(found[0].reason, Some(Reason::Unanswered));
    }

    #[test]
    fn wrong_values_are_reported_with_their_first_position() {
        // 64 B and 128 B are measured in two turns.
        let rows = [(8, 0), (64, 1), (128, 3), (8, 0), (64, 0), (128, 1)]
            .map(|(n, wrong)| row(n, 20.0, wrong));
        let found = wrong(ArmKind::P2p, &rows);
        assert_eq!(found.len(), 1);
        assert!(found[0].is(Code::NcclWrongData) && found[0].severity == Severity::Fail);
        assert_eq!(
            found[0].message,
            "NCCL with peer-to-peer: all_reduce of 64 B, float sum, in place: 1 of 64 values of 1 call are wrong; the first \
             is element 7 of rank 2: 0, expected 41; and 1 more sizes"
        );
    }

    #[test]
    fn a_check_of_no_values_is_an_error() {
        let mut blind = row(64, 20.0, 0);
        blind.out_of_place.wrong = Some(Wrongs::default());
        let found = wrong(ArmKind::P2p, &[blind]);
        assert!(found[0].is(Code::P2pChecker) && found[0].severity == Severity::Error);
    }
}
