//! Does NCCL use peer-to-peer? With shared memory and the network forbidden it can only start where every
//! connection is peer-to-peer; then every pair talks, every value is checked, and NCCL's own lines say by
//! which way. Runs before anything about NCCL is believed.

use super::arms::{self, Which};
use super::proof;
use super::{open, sweep};
use crate::collective::log::Pairs;
use crate::collective::{Collective, Row, Sweep};
use crate::config::Level;
use crate::finding::Finding;
use crate::outcome::Judgement;
use crate::ranks::{Ranks, Trouble};
use crate::suite::speed::judged;
use crate::suite::{Group, Machine, Test};
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "nccl",
    title: "NCCL's way between GPUs",
    proves: "NCCL connects every pair of GPUs by peer-to-peer: with all else forbidden it works, and its own lines say so",
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
    arms::begin(machine, &[Which::Strict])?;
    let ahead = arms::begin(machine, later);
    let (rows, seen) = arms::with(machine, Which::Strict, |ranks| measure(machine, ranks))?;
    arms::end(machine, Which::Strict);
    let mut findings = sweep::wrong(Which::Strict, &rows);
    findings.extend(seen.findings);
    findings.extend(ahead.err().map(|finding| *finding));
    Ok(judged(seen.summary, findings).with_tables(seen.tables))
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
    let seen = proof::of(Which::Strict, ranks, Pairs::All);
    Ok((rows, seen))
}
