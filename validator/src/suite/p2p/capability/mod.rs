//! Whether every GPU may use every other's memory. Three sources are queried for each ordered pair: CUDA, NVML
//! (which NCCL obeys), and an attempt to enable access. If they disagree, the finding names the one that is wrong.
//! Their answers are predicted before they are asked.
//! Whether data then arrives is left to `p2p_integrity`.

mod comparison;
mod facts;
mod judge;
mod predict;

use crate::config::{Level, numbered};
use crate::schedule::Pair;
use crate::suite::protocol::Activity;
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::{Group, Test, TestContext, nccl};
use gpu::{Clique, Gpu, GpuError, Nvml, P2pAnswers, P2pAttribute};
use machine::GpuId;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use predict::Prediction;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::P2P_CAPABILITY,
    title: "Peer access",
    proves: "CUDA, NVML and an actual attempt agree that every GPU has access to the memory of every other GPU, or of those in its group",
    level: Level::Quick,
    deadline: Duration::from_secs(30),
    mandatory: true,
    group: Group::Gpu,
    run,
};

/// The result of actually enabling access.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EnableResult {
    /// It was enabled and disabled again.
    Works,
    /// The driver's error.
    Refused(String),
}

/// The answers of the three sources about one pair.
#[derive(Debug, Clone)]
struct Answers {
    pair: Pair,
    /// `cuDeviceCanAccessPeer`
    can: bool,
    /// `cuDeviceGetP2PAttribute` about access, which should agree.
    supported: bool,
    /// CUDA's answer about atomics in the owner's memory.
    atomics: bool,
    nvml: P2pAnswers,
    enabling: EnableResult,
    /// What was expected before any of them was asked.
    predicted: Prediction,
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = context.no_gpus(true)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    let nvml = context.nvml().map_err(|why| {
        Box::new(Code::CudaMissing.finding(Severity::Error, Subject::Machine, why))
    })?;
    let facts = facts::read(context, clique, nvml)?;
    let ask = |(from, to): (&Gpu, &Gpu)| {
        let pair = Pair {
            from: from.id(),
            to: to.id(),
        };
        let predicted = facts.predict(from.bdf, to.bdf);
        context.doing(Activity::of_pair(pair, "asking about peer access"));
        answers(nvml, from, to, (pair, predicted)).map_err(|e| fault_finding(pair, &e))
    };
    let all = clique.pairs().map(ask).collect::<Result<Vec<_>, _>>()?;
    let expected = expected(context, clique)?;
    // Tests of level quick leave enough memory free; later levels first run tests that need all of it.
    if context.config.validate.level == Level::Quick {
        nccl::start_ahead(context);
    }
    Ok(judge::judge(clique.len(), &all, expected.as_deref()))
}

/// The groups of `expect.peers` by CUDA's numbers.
///
/// # Errors
/// `EXPECT-UNCHECKED`: a group names a GPU that does not exist.
pub(in crate::suite) fn expected(
    context: &TestContext,
    clique: &Clique,
) -> Result<Option<Vec<Vec<GpuId>>>, Box<Finding>> {
    let gpus: Vec<_> = clique.gpus.iter().map(|gpu| gpu.bdf).collect();
    let wished = context
        .config
        .expect
        .peers
        .as_ref()
        .map(|groups| numbered(groups, &gpus));
    let groups = wished
        .transpose()
        .map_err(|why| Box::new(unknown_peer(&why)))?;
    let of = |group: Vec<usize>| group.into_iter().map(GpuId::new).collect();
    Ok(groups.map(|groups| groups.into_iter().map(of).collect()))
}

/// `EXPECT-UNCHECKED`: `expect.peers` does not fit the machine.
pub(in crate::suite) fn unknown_peer(why: &str) -> Finding {
    Code::ExpectUnchecked.finding(
        Severity::Error,
        Subject::Machine,
        format!("expect.peers {why}"),
    )
}

fn answers(
    nvml: &Nvml,
    from: &Gpu,
    to: &Gpu,
    (pair, predicted): (Pair, Prediction),
) -> Result<Answers, GpuError> {
    let attribute = |attribute| from.p2p_attribute(attribute, to).map(|value| value != 0);
    Ok(Answers {
        pair,
        can: from.can_access(to)?,
        supported: attribute(P2pAttribute::AccessSupported)?,
        atomics: attribute(P2pAttribute::NativeAtomics)?,
        nvml: nvml.p2p(from.bdf, to.bdf),
        enabling: try_enable(from, to)?,
        predicted,
    })
}

/// Enables access and disables it again, because without NVSwitch a GPU can have at most eight peers.
fn try_enable(from: &Gpu, to: &Gpu) -> Result<EnableResult, GpuError> {
    match from.enable_peer(to) {
        Ok(()) => from.disable_peer(to).map(|()| EnableResult::Works),
        Err(error) if error.is_sticky() => Err(error),
        Err(error) => Ok(EnableResult::Refused(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
