//! Calls as frameworks make them, beyond one collective after the other from root 0: every root, several calls in one
//! group, calls captured in a CUDA graph, registered buffers, a communicator of some of the ranks, and a new communicator after the old one was aborted.
//! Memory of our own alone is registered: neither NCCL's allocator nor its windows are used, which may use multicast.

use super::arms::{self, ArmKind};
use super::{checked, not_connected, sweep, tables};
use crate::nccl::ranks::{Form, Ranks, RowAsk, Trouble};
use crate::nccl::{Row, Sweep};
use crate::suite::benchmark::judged;
use crate::suite::{Group, Test, TestContext};
use gpu::Collective;
use machine::Rank;
use outcome::Judgement;
use outcome::finding::Finding;
use outcome::table::CallTable;
use outcome::test;
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::NCCL_CALLS,
    title: "Calls as frameworks make them",
    proves: "collectives are right from and to every root, in a group with others, captured in a graph, with registered buffers, in a communicator of some ranks, and in a new communicator after an abort",
    level: Level::Standard,
    deadline: Duration::from_secs(180),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The size of the calls, bytes: one at which all protocols but the smallest are possible.
const BYTES: u64 = 1 << 20;
/// The calls of a row.
const CALLS: u32 = 8;
/// The first versions of NCCL that split communicators, and that register memory.
const SPLITS: u32 = 21_800;
const REGISTERS: u32 = 21_900;

/// Rows of one form of call.
struct FormRows {
    /// `in one group`, as the summary names them.
    name: String,
    rows: Vec<Row>,
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = not_connected(context)? {
        return Ok(none);
    }
    let (forms, left_out) = arms::with(context, ArmKind::P2p, |ranks| measure(context, ranks))?;
    Ok(judge(&forms, &left_out))
}

fn judge(forms: &[FormRows], left_out: &[&str]) -> Judgement {
    let of = |form: &FormRows| {
        let found = sweep::wrong(ArmKind::P2p, &form.rows);
        let evidence = format!("calls {}", form.name);
        found
            .into_iter()
            .map(move |finding| finding.seen(evidence.clone()))
            .collect::<Vec<_>>()
    };
    let findings: Vec<_> = forms.iter().flat_map(of).collect();
    let rows: Vec<Row> = forms.iter().flat_map(|form| form.rows.clone()).collect();
    let names: Vec<_> = forms.iter().map(|form| form.name.as_str()).collect();
    let without = left_out
        .iter()
        .map(|what| format!("; this NCCL is too old for {what}"))
        .collect::<String>();
    let summary = format!(
        "calls {}: all right{without}; {}",
        names.join(", "),
        checked::evidence(&rows)
    );
    judged(summary, findings).with_tables(vec![tables::rows(CallTable::Calls, &rows)])
}

fn measure(
    context: &TestContext,
    ranks: &mut Ranks,
) -> Result<(Vec<FormRows>, Vec<&'static str>), Trouble> {
    let (all, version) = (ranks.ranks(), ranks.version());
    let mut left_out = Vec::new();
    let mut forms = vec![FormRows {
        name: "of every root".to_owned(),
        rows: roots(context, ranks)?,
    }];
    let of = |ranks: &mut Ranks, form| rows(context, ranks, form);
    forms.push(FormRows {
        name: "in one group".to_owned(),
        rows: of(ranks, Form::Grouped)?,
    });
    forms.push(FormRows {
        name: "captured in a graph".to_owned(),
        rows: of(ranks, Form::Captured)?,
    });
    if version >= REGISTERS {
        forms.push(FormRows {
            name: "with registered buffers".to_owned(),
            rows: of(ranks, Form::Registered)?,
        });
    } else {
        left_out.push("registered buffers");
    }
    if version >= SPLITS {
        let members = some(all);
        context.doing(format!("NCCL: a communicator of {members} of {all} ranks"));
        ranks.split(members)?;
        let rows = of(ranks, Form::Plain)?;
        ranks.unsplit()?;
        forms.push(FormRows {
            name: format!("of {members} of {all} ranks"),
            rows,
        });
    } else {
        left_out.push("a communicator of some ranks");
    }
    context.doing("NCCL: another communicator after an abort");
    ranks.renew()?;
    forms.push(FormRows {
        name: "after an abort".to_owned(),
        rows: of(ranks, Form::Plain)?,
    });
    Ok((forms, left_out))
}

/// How many ranks the smaller communicator has: half of them, and at least two.
const fn some(ranks: usize) -> usize {
    if ranks < 4 { 2 } else { ranks / 2 }
}

/// The collectives with a root, from and to every rank.
fn roots(context: &TestContext, ranks: &mut Ranks) -> Result<Vec<Row>, Trouble> {
    let mut rows = Vec::new();
    for collective in Collective::ALL
        .into_iter()
        .filter(|collective| collective.rooted())
    {
        for root in Rank::all(ranks.ranks()) {
            context.doing(format!("NCCL: {collective} of {BYTES} B, root {root}"));
            let sweep = Sweep {
                iterations: 1,
                ..Sweep::standard(collective)
            };
            rows.push(ranks.row(&RowAsk::of(&sweep, BYTES, root))?);
        }
    }
    Ok(rows)
}

/// Collectives over the ring, and between all pairs.
fn rows(context: &TestContext, ranks: &mut Ranks, form: Form) -> Result<Vec<Row>, Trouble> {
    let one = |collective: Collective| {
        context.doing(format!("NCCL: {collective} of {BYTES} B, {form:?}"));
        let sweep = Sweep {
            iterations: CALLS,
            ..Sweep::standard(collective)
        };
        ranks.row(&RowAsk {
            form,
            ..RowAsk::of(&sweep, BYTES, Rank::FIRST)
        })
    };
    [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::Alltoall,
    ]
    .into_iter()
    .map(one)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::sweep::tests::row;
    use super::*;
    use outcome::Outcome;
    use outcome::finding::Code;

    #[test]
    fn a_wrong_value_is_named_with_the_form_of_its_call() {
        let form = |name: &str, wrong| FormRows {
            name: name.to_owned(),
            rows: vec![row(1 << 20, 20.0, wrong)],
        };
        let said = judge(&[form("of every root", 0), form("in one group", 1)], &[]);
        assert!(
            said.outcome() == Outcome::Fail && said.findings[0].is(Code::NcclWrongData),
            "{said:?}"
        );
        assert_eq!(
            said.findings[0].evidence.last().unwrap(),
            "calls in one group"
        );
        let said = judge(&[form("of every root", 0)], &["registered buffers"]);
        assert_eq!(
            said.summary,
            "calls of every root: all right; this NCCL is too old for registered buffers; 2 calls checked"
        );
    }

    #[test]
    fn the_smaller_communicator_has_fewer_ranks_where_that_leaves_a_pair() {
        assert_eq!([2, 3, 4, 5, 8, 16].map(some), [2, 2, 2, 2, 4, 8]);
    }
}
