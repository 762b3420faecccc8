//! May every GPU use every other's memory? Three witnesses are asked for each ordered pair: CUDA,
//! NVML (which NCCL obeys), and the enabling itself. Where they disagree somebody lies, and the
//! finding says who. What then really arrives is left to `p2p_integrity`.

mod judge;
#[cfg(test)]
mod tests;

use super::gpu_fault::during;
use super::nccl;
use super::{Group, Machine, Test};
use crate::config::{Level, numbered};
use crate::finding::{Code, Finding, Severity};
use crate::gpu::{Clique, Gpu, GpuError, Nvml, P2pAttribute, P2pTold};
use crate::outcome::Judgement;
use crate::schedule::Pair;
use judge::Enabling;
use std::time::Duration;

pub(super) const TEST: Test = Test {
    id: "p2p-capability",
    title: "Peer access",
    proves: "CUDA, NVML and enabling it agree that every GPU may use every other's memory, or that of its group",
    level: Level::Quick,
    deadline: Duration::from_secs(30),
    mandatory: true,
    group: Group::Gpu,
    run,
};

/// What the three witnesses say about one pair.
#[derive(Debug, Clone)]
struct Said {
    pair: Pair,
    /// `cuDeviceCanAccessPeer`
    can: bool,
    /// The attribute that should say the same.
    supported: bool,
    /// CUDA's word on atomics at the owner.
    atomics: bool,
    nvml: P2pTold,
    enabling: Enabling,
}

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = machine.no_gpus(true)? {
        return Ok(none);
    }
    let clique = machine.clique()?;
    let nvml =
        machine.nvml().map_err(|why| Box::new(Code::CudaMissing.finding(Severity::Error, "machine", why)))?;
    let ask = |(from, to): (&Gpu, &Gpu)| {
        let pair = Pair { from: from.ordinal, to: to.ordinal };
        machine.doing(&format!("{pair}: asking about peer access"));
        said(nvml, from, to, pair).map_err(|e| during(&pair.to_string(), &e))
    };
    let all = clique.pairs().map(ask).collect::<Result<Vec<_>, _>>()?;
    let expected = expected(machine, clique)?;
    // The tests of quick leave memory enough; later levels have tests that want all of it first.
    if machine.config.validate.level == Level::Quick {
        nccl::ahead(machine);
    }
    Ok(judge::judge(clique.len(), &all, expected.as_deref()))
}

/// The groups of `expect.peers` by CUDA's numbers.
///
/// # Errors
/// `EXPECT-UNCHECKED`: one names a GPU that is not there.
pub(super) fn expected(machine: &Machine, clique: &Clique) -> Result<Option<Vec<Vec<usize>>>, Box<Finding>> {
    let gpus: Vec<_> = clique.gpus.iter().map(|gpu| gpu.bdf).collect();
    let wished = machine.config.expect.peers.as_ref().map(|groups| numbered(groups, &gpus));
    wished.transpose().map_err(|why| Box::new(unknown_peer(&why)))
}

/// `EXPECT-UNCHECKED`: `expect.peers` does not fit the machine.
pub(super) fn unknown_peer(why: &str) -> Finding {
    Code::ExpectUnchecked.finding(Severity::Error, "machine", format!("expect.peers {why}"))
}

fn said(nvml: &Nvml, from: &Gpu, to: &Gpu, pair: Pair) -> Result<Said, GpuError> {
    let attribute = |attribute| from.p2p_attribute(attribute, to).map(|value| value != 0);
    Ok(Said {
        pair,
        can: from.can_access(to)?,
        supported: attribute(P2pAttribute::AccessSupported)?,
        atomics: attribute(P2pAttribute::NativeAtomics)?,
        nvml: nvml.p2p(from.bdf, to.bdf),
        enabling: enabling(from, to)?,
    })
}

/// Access is on for a moment only: a GPU has eight peers at most on machines without NVSwitch.
fn enabling(from: &Gpu, to: &Gpu) -> Result<Enabling, GpuError> {
    match from.enable_peer(to) {
        Ok(()) => from.disable_peer(to).map(|()| Enabling::Works),
        Err(error) if error.is_sticky() => Err(error),
        Err(error) => Ok(Enabling::Refused(error.to_string())),
    }
}
