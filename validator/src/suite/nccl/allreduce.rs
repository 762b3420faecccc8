//! All reduce with peer-to-peer and without, each in its own processes, measured in turns so that drift
//! does not matter: whether the values are right, whether the speed is what the links allow, and what
//! peer-to-peer gains.

use super::arms::{self, ArmKind};
use super::limits::Limits;
use super::remeasure::{self, Remeasured};
use super::{checked, groups, limits_of_all, not_connected, proof, sweep, tables};
use crate::floors::gain;
use crate::nccl::log::Pairs;
use crate::nccl::{Placement, Row, Sweep, Timed, Wrongs};
use crate::suite::benchmark::{Watch, judged, rounded};
use crate::suite::{Group, Test, TestContext};
use gpu::Collective;
use machine::Rank;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::table::CallTable;
use outcome::test;
use outcome::text::size;
use report::Level;
use report::gain::Gain;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::NCCL_ALLREDUCE,
    title: "All reduce",
    proves: "all_reduce gives right values in every timed call, each size as fast as the slowest link of the best ring allows (the gain by peer-to-peer is reported)",
    level: Level::Standard,
    deadline: Duration::from_secs(240),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// How many times each arm is measured, in turns.
const TURNS: usize = 2;
/// The further communicators of each arm, and their largest rows, bytes.
const FURTHER: usize = 2;
const FURTHER_MOST: u64 = 2 << 20;

/// Both arms' sweeps, and what NCCL's log lines prove about them.
struct ArmSweeps {
    on: Vec<Vec<Row>>,
    off: Vec<Vec<Row>>,
    /// Odd counts and one size over 128 MiB, with peer-to-peer.
    odd: Vec<Row>,
    proofs: [proof::TransportProof; 2],
    more: Communicators,
}

/// Small sizes in further communicators of both arms, one sweep of each.
#[derive(Default)]
struct Communicators {
    on: Vec<Vec<Row>>,
    off: Vec<Vec<Row>>,
    findings: Vec<Finding>,
}

/// The rows compared with the speed of the links.
struct LinkComparison {
    /// The rows with peer-to-peer: means of the turns, or better times where a row was measured again.
    on: Vec<Row>,
    again: Remeasured,
    limits: Option<Limits>,
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = not_connected(context)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    // All arms are idle before a measurement starts.
    for which in [ArmKind::Processes, ArmKind::P2p, ArmKind::Off] {
        arms::settle(context, which);
    }
    let watch = Watch::begin(context, &clique.addresses());
    let sweeps = measure(context, &groups::as_ranks(&groups::of(context)?))?;
    let mut on = mean(&sweeps.on);
    let limits = limits_of_all(context, &on)?;
    let again = match &limits {
        Ok(limits) => remeasure::judge(context, ArmKind::P2p, &mut on, limits)?,
        Err(unjudged) => Remeasured {
            findings: vec![unjudged.clone()],
            rows: Vec::new(),
        },
    };
    let limits = limits.ok();
    let (watched, states) = watch.end(context);
    let judgement = judge(&sweeps, LinkComparison { on, again, limits }, &states)?;
    Ok(judgement.with(watched))
}

/// Judges the values, the speed compared with the links, the gain, and the transports.
fn judge(
    sweeps: &ArmSweeps,
    comparison: LinkComparison,
    states: &[String],
) -> Result<Judgement, Box<Finding>> {
    let ArmSweeps {
        on: with,
        off: without,
        odd,
        proofs,
        more,
    } = sweeps;
    let LinkComparison { on, again, limits } = comparison;
    let off = mean(without);
    let gains = gain::gains(without, with, Placement::OutOfPlace).map_err(|e| incomplete(&e))?;
    let gains = gain::with_communicators(gains, &more.off, &more.on, Placement::OutOfPlace);
    let gains = gains.map_err(|e| incomplete(&e))?;
    let slow = again.findings.into_iter().chain(slower(&gains));
    let slow = slow.map(|finding| finding.seen_all(states.to_vec()));
    let all = [
        with.concat(),
        odd.clone(),
        again.rows.clone(),
        more.on.concat(),
    ]
    .concat();
    let mut findings = sweep::wrong(ArmKind::P2p, &all);
    findings.extend(sweep::wrong(
        ArmKind::Off,
        &[without.concat(), more.off.concat()].concat(),
    ));
    findings.extend(more.findings.iter().cloned());
    findings.extend(slow.chain(proofs.iter().flat_map(|proof| proof.findings.clone())));
    let beside = [odd.as_slice(), again.rows.as_slice()].concat();
    let rows = [
        (CallTable::AllReduce, &on),
        (CallTable::AllReduceOff, &off),
        (CallTable::AllReduceOdd, &beside),
    ];
    let rows = rows.map(|(table, rows)| tables::rows(table, rows));
    let proven = proofs.iter().flat_map(|proof| proof.tables.clone());
    let tables = std::iter::once(tables::gains(&gains))
        .chain(rows)
        .chain(proven);
    let effects = gain::effects(&gains)
        .into_iter()
        .map(|(name, times)| (name, rounded(times)))
        .collect();
    let over = if checked::has_large_row(odd) {
        " and 256 MiB"
    } else {
        ", no size over 128 MiB (memory is short)"
    };
    let summary = summary(&on, &off, limits.as_ref(), &gains);
    let judgement = judged(
        format!(
            "{summary}; odd counts{over} are right too; {}",
            checked::evidence(&all)
        ),
        findings,
    );
    Ok(judgement
        .with_tables(tables.collect())
        .with_effects(effects))
}

fn measure(context: &TestContext, groups: &[Vec<Rank>]) -> Result<ArmSweeps, Box<Finding>> {
    let sweep = Sweep::standard(Collective::AllReduce);
    for which in [ArmKind::P2p, ArmKind::Off] {
        arms::with(context, which, |ranks| {
            sweep::warm_up(context, which, ranks, &sweep)
        })?;
    }
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        for (which, sweeps) in [(ArmKind::P2p, &mut on), (ArmKind::Off, &mut off)] {
            sweeps.push(arms::with(context, which, |ranks| {
                // This arm was idle while the other one worked, so its first row would include waking up.
                let first = Sweep {
                    check: false,
                    ..sweep.at(sweep.from)
                };
                sweep::rows(context, which, ranks, &first)?;
                sweep::rows(context, which, ranks, &sweep)
            })?);
        }
    }
    let odd = arms::with(context, ArmKind::P2p, |ranks| {
        let mut odd = checked::odd(context, ArmKind::P2p, ranks, Collective::AllReduce)?;
        odd.extend(checked::big(
            context,
            ArmKind::P2p,
            ranks,
            Collective::AllReduce,
        )?);
        Ok(odd)
    })?;
    let proof = |which| {
        arms::with(context, which, |ranks| {
            Ok(proof::of(which, ranks, Pairs::Ring, groups))
        })
    };
    let proofs = [proof(ArmKind::P2p)?, proof(ArmKind::Off)?];
    Ok(ArmSweeps {
        on,
        off,
        odd,
        proofs,
        more: communicators(context),
    })
}

/// Measures small sizes in further communicators of both arms, in turns: their small calls may take another time although
/// nothing else differs. If one cannot be made, the others are not compared.
fn communicators(context: &TestContext) -> Communicators {
    let mut all = Communicators::default();
    let sweep = Sweep {
        to: FURTHER_MOST,
        ..Sweep::standard(Collective::AllReduce)
    };
    for n in 0..FURTHER {
        for (which, of_arm) in [(ArmKind::P2p, &mut all.on), (ArmKind::Off, &mut all.off)] {
            let measured = arms::with(context, which, |ranks| {
                context.doing(format!("NCCL {which}: communicator {}", n + 2));
                ranks.split(ranks.ranks())?;
                sweep::warm_up(context, which, ranks, &sweep)?;
                let rows = sweep::rows(context, which, ranks, &sweep)?;
                ranks.set_aside()?;
                Ok(rows)
            });
            match measured {
                Ok(rows) => of_arm.push(rows),
                Err(finding) => {
                    return Communicators {
                        findings: vec![*finding],
                        ..Communicators::default()
                    };
                }
            }
        }
    }
    all
}

/// One row for each size, with the mean of its times and all wrong values of all turns.
fn mean(sweeps: &[Vec<Row>]) -> Vec<Row> {
    let Some((first, rest)) = sweeps.split_first() else {
        return Vec::new();
    };
    let one = |(n, row): (usize, &Row)| {
        let others: Vec<_> = rest.iter().filter_map(|sweep| sweep.get(n)).collect();
        let timed = |of: fn(&Row) -> &Timed| {
            let own = of(row);
            let sum: f64 = own.us + others.iter().map(|row| of(row).us).sum::<f64>();
            // The number of sweeps is 2.
            let wrong = std::iter::once(row)
                .chain(others.iter().copied())
                .filter_map(|r| of(r).wrong.clone());
            Timed {
                us: sum / (others.len() as f64 + 1.0),
                wrong: wrong.reduce(Wrongs::and),
            }
        };
        Row {
            out_of_place: timed(|r| &r.out_of_place),
            in_place: timed(|r| &r.in_place),
            ..row.clone()
        }
    };
    first.iter().enumerate().map(one).collect()
}

/// The finding that the arms measured different rows and cannot be compared.
fn incomplete(why: &gain::GainError) -> Box<Finding> {
    Box::new(Code::NcclError.finding(
        Severity::Error,
        Subject::operation(Collective::AllReduce),
        format!("all_reduce: {why}"),
    ))
}

/// The finding that peer-to-peer is slower in every turn at some large sizes.
fn slower(gains: &[Gain]) -> Option<Finding> {
    let bad = gain::slower(gains);
    let worst = bad.iter().min_by(|a, b| a.speedup.total_cmp(&b.speedup))?;
    let message = format!(
        "all_reduce of {} takes {:.1} us with peer-to-peer and {:.1} us without, expected no more",
        size(worst.bytes),
        worst.on_us,
        worst.off_us
    );
    let seen = bad
        .iter()
        .map(|gain| format!("{}: {:.2} times as fast", size(gain.bytes), gain.speedup));
    let finding = Code::NcclP2pSlower.finding(
        Severity::Fail,
        Subject::operation(Collective::AllReduce),
        message,
    );
    Some(
        finding
            .values(rounded(worst.on_us), rounded(worst.off_us), Some("us"))
            .seen_all(seen.collect()),
    )
}

/// `20.6 GB/s at 128 MiB, 14.5 without peer-to-peer. P2P: +43 % at 128 MiB; 1.00 of the best ring's slowest edge`
fn summary(on: &[Row], off: &[Row], limits: Option<&Limits>, gains: &[Gain]) -> String {
    let last = |rows: &[Row]| {
        rows.last()
            .map(|row| (row.busbw(&row.out_of_place), row.bytes))
    };
    let (Some((with, bytes)), Some((without, _))) = (last(on), last(off)) else {
        return "nothing was measured".to_owned();
    };
    let headline = gain::headline(gains).unwrap_or_default();
    let ring = limits.map(|limits| with / limits.ring.slowest);
    let ring = ring.map_or(String::new(), |part| {
        format!("; {part:.2} of the best ring's slowest edge")
    });
    format!(
        "{with:.1} GB/s at {}, {without:.1} without peer-to-peer. {headline}{ring}",
        size(bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::super::limits::tests::{PCI, limits};
    use super::super::speed;
    use super::super::sweep::tests::row;
    use super::*;
    use outcome::Outcome;
    use outcome::table::Table;

    fn proof() -> proof::TransportProof {
        proof::TransportProof {
            summary: String::new(),
            findings: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Two turns of 8 B and 128 MiB; `on` and `off`: GB/s of bus bandwidth at the large size.
    fn said(on: f64, off: f64, wrong: u64) -> Judgement {
        let (states, limits) = (["GPU 0: 35 C".to_owned()], limits(4, 21.0, PCI));
        let large = |gb_s: f64| 1.5 * 134_217_728.0 / 1e3 / gb_s;
        let sweep = |gb_s, wrong| vec![row(8, 20.0, 0), row(134_217_728, large(gb_s), wrong)];
        let sweeps = ArmSweeps {
            on: vec![sweep(on, 0), sweep(on, wrong)],
            off: vec![sweep(off, 0), sweep(off, 0)],
            odd: vec![row(4036, 20.0, 0)],
            proofs: [proof(), proof()],
            more: Communicators::default(),
        };
        let on = mean(&sweeps.on);
        let findings = speed::findings(
            &speed::slow(&on, &limits, &[]),
            &limits,
            "with peer-to-peer",
        );
        let again = Remeasured {
            findings,
            rows: Vec::new(),
        };
        judge(
            &sweeps,
            LinkComparison {
                on,
                again,
                limits: Some(limits),
            },
            &states,
        )
        .unwrap()
    }

    #[test]
    fn a_gain_is_in_the_headline_and_in_the_effects() {
        let said = said(20.64, 14.45, 0);
        assert_eq!(said.outcome(), Outcome::Pass, "{:?}", said.findings);
        assert_eq!(
            said.summary,
            "20.6 GB/s at 128 MiB, 14.4 without peer-to-peer. P2P: +43 % at 128 MiB; 0.98 of the best ring's \
             slowest edge; odd counts, no size over 128 MiB (memory is short) are right too; 10 calls checked: fewer than 1 in 3 are wrong (95 %)"
        );
        assert_eq!(said.effects.get("p2p_speedup_128M"), Some(&1.428));
        assert_eq!(said.tables[0].name().as_deref(), Some("nccl.gain"));
    }

    #[test]
    fn a_wrong_value_of_a_later_turn_fails() {
        let said = said(20.64, 14.45, 1);
        assert_eq!(said.outcome(), Outcome::Fail);
        assert!(said.findings[0].is(Code::NcclWrongData));
        // The table names it too: 134217728 bytes, in place.
        let Table::Calls(CallTable::AllReduce, rows) = &said.tables[1] else {
            panic!("{:?}", said.tables)
        };
        assert_eq!(rows[1].in_place_wrong, Some(1));
    }

    #[test]
    fn slower_than_shared_memory_or_than_the_links_fails_with_the_gpus_states() {
        let said = said(12.0, 14.45, 0);
        assert_eq!(said.outcome(), Outcome::Fail);
        let codes: Vec<_> = said.findings.iter().map(|f| f.code.as_str()).collect();
        assert_eq!(codes, ["NCCL-SLOW", "NCCL-P2P-SLOWER"]);
        assert!(
            said.findings
                .iter()
                .all(|f| f.evidence.contains(&"GPU 0: 35 C".to_owned()))
        );
    }
}
