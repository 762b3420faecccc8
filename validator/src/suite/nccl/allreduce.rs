//! All reduce with peer-to-peer and without, both in processes of their own, taken in turns so that drift
//! decides nothing: are the values right, is the speed what the links allow, and what is peer-to-peer worth?

use super::arms::{self, Which};
use super::proof;
use super::speed::{Speed, judge, speed};
use super::{connected, sweep, told};
use crate::collective::advice::{self, Advice};
use crate::collective::gain::{self, Gain};
use crate::collective::log::Pairs;
use crate::collective::{Collective, Distance, Placement, Row, Sweep, Timed};
use crate::config::Level;
use crate::finding::{Code, Finding, Severity};
use crate::host::interfaces;
use crate::judge::Carrier;
use crate::outcome::Judgement;
use crate::schedule::Pair;
use crate::suite::speed::{Links, Watch, Ways, judged, rounded};
use crate::suite::{Group, Machine, Test};
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "nccl-allreduce",
    title: "All reduce",
    proves: "all reduce gives right values at every size, as fast as the slowest link of the best ring, and what peer-to-peer is worth",
    level: Level::Standard,
    deadline: Duration::from_secs(240),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// How often each arm is measured, in turns.
const TURNS: usize = 2;
/// The matrix against which the ring is held.
const EDGES: (&str, &str) = ("p2p-bandwidth", "ce.write");

/// Both arms' sweeps, and what NCCL's lines prove of them.
struct Taken {
    on: Vec<Vec<Row>>,
    off: Vec<Vec<Row>>,
    seen: [proof::Seen; 2],
}

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = connected(machine)? {
        return Ok(none);
    }
    let clique = machine.clique()?;
    // All arms are at rest before a clock runs.
    for which in [Which::Processes, Which::P2p, Which::Off] {
        arms::settle(machine, which);
    }
    let watch = Watch::begin(machine, &clique.addresses());
    let taken = measure(machine)?;
    arms::end(machine, Which::Off);
    let (watched, states) = watch.end(machine);
    let (on, off) = (mean(&taken.on), mean(&taken.off));
    let edges = machine.matrix(EDGES.0, EDGES.1);
    let ways = Ways::new(machine, clique);
    let carrier = ways.carriers(machine.fabric()?, &Links::default());
    let reached = speed(&on, edges.as_ref());
    let gains = gain::gains(&taken.off, &taken.on, Placement::OutOfPlace).map_err(|e| incomplete(&e))?;
    let all: Vec<Row> = taken.on.iter().flatten().cloned().collect();
    let mut findings = sweep::wrong(Which::P2p, &all);
    let all: Vec<Row> = taken.off.iter().flatten().cloned().collect();
    findings.extend(sweep::wrong(Which::Off, &all));
    let mut slow: Vec<_> = reached.as_ref().and_then(|speed| judge(speed, &carrier)).into_iter().collect();
    slow.extend(slower(&gains));
    for finding in &mut slow {
        finding.evidence.extend(states.iter().cloned());
    }
    let [seen_on, seen_off] = taken.seen;
    findings.extend(slow);
    findings.extend(watched);
    findings.extend(seen_on.findings);
    findings.extend(seen_off.findings);
    let rows = [told::rows("nccl.all_reduce", &on), told::rows("nccl.all_reduce.off", &off)];
    let tables =
        std::iter::once(told::gains(&gains)).chain(rows).chain(seen_on.tables).chain(seen_off.tables);
    let said = judged(summary(&on, &off, reached.as_ref(), &gains), findings).with_tables(tables.collect());
    let effects = gain::effects(&gains).into_iter().map(|(name, times)| (name, rounded(times))).collect();
    Ok(said.with_effects(effects).advising(advice(machine, clique.len(), &carrier)))
}

fn measure(machine: &Machine) -> Result<Taken, Box<Finding>> {
    let sweep = Sweep::standard(Collective::AllReduce);
    for which in [Which::P2p, Which::Off] {
        arms::with(machine, which, |ranks| sweep::warm_up(machine, which, ranks, &sweep))?;
    }
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        for (which, sweeps) in [(Which::P2p, &mut on), (Which::Off, &mut off)] {
            sweeps.push(arms::with(machine, which, |ranks| {
                // This arm has rested while the other worked: its first row would pay for that.
                let first = Sweep { to: sweep.from, check: false, ..sweep.clone() };
                sweep::rows(machine, which, ranks, &first)?;
                sweep::rows(machine, which, ranks, &sweep)
            })?);
        }
    }
    let seen = |which| arms::with(machine, which, |ranks| Ok(proof::of(which, ranks, Pairs::Ring)));
    Ok(Taken { on, off, seen: [seen(Which::P2p)?, seen(Which::Off)?] })
}

/// One row for each size, with the mean of its times.
fn mean(sweeps: &[Vec<Row>]) -> Vec<Row> {
    let Some((first, rest)) = sweeps.split_first() else { return Vec::new() };
    let one = |(n, row): (usize, &Row)| {
        let others: Vec<_> = rest.iter().filter_map(|sweep| sweep.get(n)).collect();
        let timed = |of: fn(&Row) -> &Timed| {
            let own = of(row);
            let sum: f64 = own.us + others.iter().map(|row| of(row).us).sum::<f64>();
            // The number of sweeps is 2.
            Timed { us: sum / (others.len() as f64 + 1.0), wrong: own.wrong.clone() }
        };
        Row { out_of_place: timed(|r| &r.out_of_place), in_place: timed(|r| &r.in_place), ..row.clone() }
    };
    first.iter().enumerate().map(one).collect()
}

/// Arms that did not measure the same cannot be compared.
fn incomplete(why: &gain::NoGain) -> Box<Finding> {
    Box::new(Code::NcclError.finding(Severity::Error, "all_reduce", format!("all_reduce: {why}")))
}

/// Large sizes at which peer-to-peer is slower in every turn.
fn slower(gains: &[Gain]) -> Option<Finding> {
    let bad = gain::slower(gains);
    let worst = bad.iter().min_by(|a, b| a.speedup.total_cmp(&b.speedup))?;
    let message = format!(
        "all_reduce of {} takes {:.1} us with peer-to-peer and {:.1} us without, expected no more",
        gain::size(worst.bytes),
        worst.on_us,
        worst.off_us
    );
    let seen =
        bad.iter().map(|gain| format!("{}: {:.2} times as fast", gain::size(gain.bytes), gain.speedup));
    let finding = Code::NcclP2pSlower.finding(Severity::Fail, "all_reduce", message);
    Some(finding.values(rounded(worst.on_us), rounded(worst.off_us), Some("us")).seen_all(seen.collect()))
}

/// `20.6 GB/s at 128 MiB, 14.5 without peer-to-peer. P2P: +43 % at 128 MiB; 1.00 of the best ring's slowest edge`
fn summary(on: &[Row], off: &[Row], reached: Option<&Speed>, gains: &[Gain]) -> String {
    let last = |rows: &[Row]| rows.last().map(|row| (row.busbw(&row.out_of_place), row.bytes));
    let (Some((with, bytes)), Some((without, _))) = (last(on), last(off)) else {
        return "nothing was measured".to_owned();
    };
    let headline = gain::headline(gains).unwrap_or_default();
    let ring = reached.and_then(|speed| Some(speed.busbw / speed.ring.as_ref()?.slowest));
    let ring = ring.map_or(String::new(), |part| format!("; {part:.2} of the best ring's slowest edge"));
    format!("{with:.1} GB/s at {}, {without:.1} without peer-to-peer. {headline}{ring}", gain::size(bytes))
}

/// What the workload is told, once it is proven.
fn advice(machine: &Machine, gpus: usize, carrier: &dyn Fn(Pair) -> Carrier) -> Vec<Advice> {
    let pairs = (0..gpus).flat_map(|a| (0..gpus).filter(move |b| *b != a).map(move |b| Pair::new(a, b)));
    let distance = |pair| match carrier(pair) {
        Carrier::NvLink { .. } => Distance::Nvl,
        Carrier::Pcie { kind, .. } => kind.into(),
    };
    let level = pairs.map(distance).max().and_then(advice::level);
    let interfaces = interfaces::up(&machine.root).ok().map(|up| advice::interfaces(&up));
    let nvls = advice::nvls(machine.config.validate.nvls);
    level.into_iter().chain(interfaces).chain([nvls]).collect()
}
