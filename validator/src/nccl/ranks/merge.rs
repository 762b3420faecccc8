//! Merges the results of an arm's processes for a row. Pure.

use super::RowAsk;
use super::messages::Done;
use crate::nccl::{Row, Timed, Wrongs};
use gpu::Shape;

/// A row without elements: no call is made.
pub(super) fn empty_row(ask: &RowAsk) -> Done {
    let timed = |checked: bool| Timed {
        us: 0.0,
        wrong: checked.then(Wrongs::default),
    };
    Done {
        out_of_place: timed(ask.check),
        in_place: timed(ask.check && ask.collective.checks_in_place()),
    }
}

/// The row, merged from all processes.
pub(super) fn row(ask: &RowAsk, shape: Shape, ranks: usize, done: Vec<Done>) -> Row {
    let (out_of_place, in_place) = done
        .into_iter()
        .map(|d| (d.out_of_place, d.in_place))
        .unzip();
    Row {
        collective: ask.collective,
        bytes: shape.bytes,
        count: shape.count,
        data: ask.data,
        op: ask.collective.names_op().then_some(ask.op),
        root: ask.collective.rooted().then_some(ask.root),
        ranks,
        out_of_place: merge_timed(out_of_place),
        in_place: merge_timed(in_place),
    }
}

/// Merges the results of one node's processes into one.
pub(super) fn sum(done: Vec<Done>) -> Done {
    let (out_of_place, in_place) = done
        .into_iter()
        .map(|d| (d.out_of_place, d.in_place))
        .unzip();
    Done {
        out_of_place: merge_timed(out_of_place),
        in_place: merge_timed(in_place),
    }
}

/// The mean of all processes' times, and all wrong elements.
fn merge_timed(all: Vec<Timed>) -> Timed {
    let processes = u32::try_from(all.len()).unwrap_or(u32::MAX).max(1);
    let us = all.iter().map(|timed| timed.us).sum::<f64>() / f64::from(processes);
    let wrongs: Option<Vec<_>> = all.into_iter().map(|timed| timed.wrong).collect();
    let wrong = wrongs.map(|wrongs| {
        wrongs
            .into_iter()
            .fold(Wrongs::default(), |sum, more| Wrongs {
                count: sum.count + more.count,
                ones: sum.ones + more.ones,
                looked: sum.looked + more.looked,
                // Each process has a part in every call.
                calls: sum.calls.max(more.calls),
                first: sum.first.or(more.first),
                stray: sum.stray.or(more.stray),
            })
    });
    Timed { us, wrong }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_unchecked_by_one_process_is_unchecked() {
        let timed = |us, looked| Timed { us, wrong: looked };
        let looked = Some(Wrongs {
            looked: 8,
            calls: 20,
            ..Wrongs::default()
        });
        let both = merge_timed(vec![timed(2.0, looked.clone()), timed(4.0, looked.clone())]);
        assert_eq!(
            both,
            timed(
                3.0,
                Some(Wrongs {
                    looked: 16,
                    calls: 20,
                    ..Wrongs::default()
                })
            )
        );
        assert_eq!(
            merge_timed(vec![timed(2.0, looked), timed(4.0, None)]),
            timed(3.0, None)
        );
    }
}
