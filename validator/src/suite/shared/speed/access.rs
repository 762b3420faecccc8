//! Peer access for the pairs of one round only: without NVSwitch a GPU has eight peers at most.

use super::super::gpu_fault::during;
use crate::gpu::{GpuError, PeerAccess};
use crate::outcome::finding::Finding;
use crate::schedule::Pair;
use crate::suite::Machine;

/// The pairs of a round that have peer access as long as this value lives.
#[derive(Debug, Default)]
pub(in crate::suite) struct Access {
    pub(in crate::suite) pairs: Vec<Pair>,
    /// Pairs without access, and why.
    pub(in crate::suite) apart: Vec<(Pair, String)>,
    on: Vec<PeerAccess>,
}

impl Access {
    /// Enables both directions for each of `round`, where that works.
    ///
    /// # Errors
    /// A fault after which no test can go on.
    pub(in crate::suite) fn of(machine: &Machine, round: &[Pair]) -> Result<Self, Box<Finding>> {
        let mut access = Self::default();
        for pair in round {
            match enabled(machine, *pair)? {
                Ok(on) => {
                    access.on.push(on);
                    access.pairs.push(*pair);
                }
                Err(why) => access.apart.push((*pair, why)),
            }
        }
        Ok(access)
    }
}

fn enabled(machine: &Machine, pair: Pair) -> Result<Result<PeerAccess, String>, Box<Finding>> {
    let avoid = &machine.config.validate.avoid;
    if [(pair.from, pair.to), (pair.to, pair.from)].iter().any(|way| avoid.contains(way)) {
        return Ok(Err("data does not arrive between them".to_owned()));
    }
    let fault = |e: GpuError| during(&pair.to_string(), &e);
    let clique = machine.clique()?;
    let (Some(a), Some(b)) = (clique.gpu(pair.from), clique.gpu(pair.to)) else {
        return Ok(Err("there is no such GPU".to_owned()));
    };
    let can = a.can_access(b).and_then(|there| Ok(there && b.can_access(a)?));
    if !can.map_err(fault)? {
        return Ok(Err("CUDA reports that they cannot reach each other".to_owned()));
    }
    machine.doing(&format!("{pair}: enabling peer access"));
    match PeerAccess::both_ways(a, b) {
        Ok(on) => Ok(Ok(on)),
        Err(e) if e.is_sticky() => Err(fault(e)),
        Err(e) => Ok(Err(e.to_string())),
    }
}
