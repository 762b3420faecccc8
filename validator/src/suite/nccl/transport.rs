//! Does NCCL use peer-to-peer? With shared memory and the network forbidden it can only start where every
//! connection is peer-to-peer; then every pair talks, every value is checked, and NCCL's own lines say by
//! which way. A second witness is that it finds none where peer-to-peer is forbidden too, a third is how long it
//! takes. Runs before anything about NCCL is believed, and is what the workload's level of peer-to-peer stands on.

use super::arms::{self, Which};
use super::proof;
use super::{again, checked, limits, open, sweep, withheld};
use crate::collective::advice::{self, Advice};
use crate::collective::log::Pairs;
use crate::collective::{Collective, Distance, Row, Sweep};
use crate::config::Level;
use crate::finding::Finding;
use crate::judge::Carrier;
use crate::outcome::{Judgement, Outcome};
use crate::ranks::{Ranks, Trouble};
use crate::schedule::Pair;
use crate::suite::speed::{Links, Ways, judged};
use crate::suite::{Group, Machine, Test};
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "nccl",
    title: "NCCL's way between GPUs",
    proves: "NCCL connects every pair of GPUs by peer-to-peer: with all else forbidden it works, with that forbidden too it does not, and its own lines say so",
    level: Level::Quick,
    deadline: Duration::from_secs(150),
    mandatory: true,
    group: Group::Gpu,
    run,
};

/// Sizes that take the ways for small, middle and large data.
const SIZES: [u64; 3] = [8, 1 << 20, 32 << 20];

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = open(machine)? {
        return Ok(none);
    }
    let later: &[Which] = match machine.config.validate.level {
        Level::Quick => &[],
        Level::Standard | Level::Full => &[Which::P2p, Which::Off, Which::Processes],
    };
    // The arms of later tests start meanwhile; what goes wrong in them is told there.
    arms::begin(machine, &[Which::Strict, Which::Withheld])?;
    let ahead = arms::begin(machine, later);
    let (mut rows, seen) = arms::with(machine, Which::Strict, |ranks| measure(machine, ranks))?;
    let clique = machine.clique()?;
    let carrier = Ways::new(machine, clique).carriers(machine.fabric()?, &Links::default());
    let mut findings: Vec<_> = withheld::ask(machine).into_iter().collect();
    let forbidden = if findings.is_empty() { "; with that forbidden too it finds no way" } else { "" };
    // What goes through the host's memory is not as fast as the links, whatever its lines say.
    let limits = limits(machine, &carrier);
    let mut held = "; not held against the links, which were not measured";
    let mut again = Vec::new();
    if let Some(limits) = &limits {
        let judged = again::judge(machine, Which::Strict, &mut rows, limits)?;
        findings.extend(judged.findings);
        again = judged.rows;
        held = "";
    }
    rows.extend(again);
    findings.splice(0..0, sweep::wrong(Which::Strict, &rows));
    findings.extend(seen.findings);
    findings.extend(ahead.err().map(|finding| *finding));
    let summary = format!("{}{forbidden}{held}; {}", seen.summary, checked::told(&rows));
    let said = judged(summary, findings).with_tables(seen.tables);
    let level = level(said.outcome(), clique.len(), carrier);
    Ok(said.advising(level.into_iter().collect()))
}

/// How far peer-to-peer may reach, once it is proven between all pairs.
fn level(outcome: Outcome, gpus: usize, carrier: impl Fn(Pair) -> Carrier) -> Option<Advice> {
    if !matches!(outcome, Outcome::Pass | Outcome::Warn) {
        return None;
    }
    let pairs = (0..gpus).flat_map(|a| (0..gpus).filter(move |b| *b != a).map(move |b| Pair::new(a, b)));
    let distance = |pair| match carrier(pair) {
        Carrier::NvLink { .. } => Distance::Nvl,
        Carrier::Pcie { kind, .. } => kind.into(),
    };
    pairs.map(distance).max().and_then(advice::level)
}

/// All reduce for the rings and trees, all to all for every pair.
fn measure(machine: &Machine, ranks: &mut Ranks) -> Result<(Vec<Row>, proof::Seen), Trouble> {
    let mut rows = Vec::new();
    for collective in [Collective::AllReduce, Collective::Alltoall] {
        for bytes in SIZES {
            let sweep = Sweep { iterations: 5, ..Sweep::standard(collective).at(bytes) };
            rows.extend(sweep::rows(machine, Which::Strict, ranks, &sweep)?);
        }
    }
    rows.extend(checked::many(machine, Which::Strict, ranks)?);
    let seen = proof::of(Which::Strict, ranks, Pairs::All);
    Ok((rows, seen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcie::model::PathKind;

    #[test]
    fn the_level_is_that_of_the_farthest_pair_and_only_what_is_proven_has_one() {
        let carrier = |pair: Pair| Carrier::Pcie {
            kind: if pair == Pair::new(2, 0) { PathKind::Sys } else { PathKind::Pix },
            raw_gb_s: 31.5,
        };
        let of = |outcome, gpus| level(outcome, gpus, carrier).map(|a| (a.name, a.value));
        let is = |value: &str| Some(("NCCL_P2P_LEVEL".to_owned(), value.to_owned()));
        assert_eq!((of(Outcome::Pass, 2), of(Outcome::Warn, 3)), (is("PIX"), is("SYS")));
        for unproven in [Outcome::Fail, Outcome::Error, Outcome::NotApplicable] {
            assert_eq!(of(unproven, 3), None);
        }
    }
}
