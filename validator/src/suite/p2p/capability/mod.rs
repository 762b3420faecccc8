//! Whether every GPU may use every other's memory. Three sources are asked for each ordered pair: CUDA, NVML
//! (which NCCL obeys), and the enabling itself. Where they disagree, the finding names the one that is wrong.
//! Whether data then arrives is left to `p2p_integrity`.

mod judge;

use crate::config::{Level, numbered};
use crate::gpu::{Clique, Gpu, GpuError, Nvml, P2pAnswers, P2pAttribute};
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::schedule::Pair;
use crate::suite::shared::gpu_fault::during;
use crate::suite::{Group, Machine, Test, nccl};
use judge::Enabling;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "p2p-capability",
    title: "Peer access",
    proves: "CUDA, NVML and actual enabling agree that every GPU may use the memory of every other GPU, or of those in its group",
    level: Level::Quick,
    deadline: Duration::from_secs(30),
    mandatory: true,
    group: Group::Gpu,
    run,
};

/// What the three sources report about one pair.
#[derive(Debug, Clone)]
struct Said {
    pair: Pair,
    /// `cuDeviceCanAccessPeer`
    can: bool,
    /// The attribute that should agree.
    supported: bool,
    /// CUDA's answer on atomics in the owner's memory.
    atomics: bool,
    nvml: P2pAnswers,
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
    // Tests of level quick leave enough memory free; later levels first run tests that need all of it.
    if machine.config.validate.level == Level::Quick {
        nccl::ahead(machine);
    }
    Ok(judge::judge(clique.len(), &all, expected.as_deref()))
}

/// The groups of `expect.peers` by CUDA's numbers.
///
/// # Errors
/// `EXPECT-UNCHECKED`: a group names a GPU that does not exist.
pub(in crate::suite) fn expected(
    machine: &Machine,
    clique: &Clique,
) -> Result<Option<Vec<Vec<usize>>>, Box<Finding>> {
    let gpus: Vec<_> = clique.gpus.iter().map(|gpu| gpu.bdf).collect();
    let wished = machine.config.expect.peers.as_ref().map(|groups| numbered(groups, &gpus));
    wished.transpose().map_err(|why| Box::new(unknown_peer(&why)))
}

/// `EXPECT-UNCHECKED`: `expect.peers` does not fit the machine.
pub(in crate::suite) fn unknown_peer(why: &str) -> Finding {
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

/// Access is on only briefly: without NVSwitch a GPU has eight peers at most.
fn enabling(from: &Gpu, to: &Gpu) -> Result<Enabling, GpuError> {
    match from.enable_peer(to) {
        Ok(()) => from.disable_peer(to).map(|()| Enabling::Works),
        Err(error) if error.is_sticky() => Err(error),
        Err(error) => Ok(Enabling::Refused(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    //! Each way in which the sources can agree or be wrong.

    use super::judge::judge;
    use super::*;
    use crate::gpu::Status;
    use crate::outcome::Outcome;

    fn answers(status: Status) -> P2pAnswers {
        let said = || Ok(status);
        P2pAnswers { read: said(), write: said(), atomics: said(), prop: said() }
    }

    fn said(can: bool, nvml: Status, enabling: Enabling) -> Said {
        Said {
            pair: Pair { from: 0, to: 1 },
            can,
            supported: can,
            atomics: false,
            nvml: answers(nvml),
            enabling,
        }
    }

    fn refused() -> Enabling {
        Enabling::Refused("cuCtxEnablePeerAccess returned 217 CUDA_ERROR_PEER_ACCESS_UNSUPPORTED".into())
    }

    #[track_caller]
    fn finds(said: Said, code: Code, word: &str) {
        let judgement = judge(2, &[said], None);
        assert_eq!(judgement.outcome(), Outcome::Fail);
        assert!(judgement.findings[0].is(code), "{judgement:?}");
        assert!(judgement.summary.contains(word), "{}", judgement.summary);
    }

    #[test]
    fn three_sources_that_agree_on_yes_pass() {
        let judgement = judge(2, &[said(true, Status::Ok, Enabling::Works)], None);
        assert_eq!(judgement.outcome(), Outcome::Pass);
        assert_eq!(judgement.matrices[0].values, [[Some(1.0), Some(1.0)], [Some(0.0), Some(1.0)]]);
    }

    #[test]
    fn disagreement_about_atomics_is_reported_and_passes() {
        let mut one = said(true, Status::Ok, Enabling::Works);
        let judgement = judge(2, &[one.clone()], None);
        assert_eq!((judgement.outcome(), judgement.findings.len()), (Outcome::Pass, 1));
        one.atomics = true;
        assert_eq!(judge(2, &[one], None).findings, []);
    }

    #[test]
    fn three_sources_that_agree_on_no_give_the_drivers_reason() {
        finds(said(false, Status::Chipset, refused()), Code::P2pUnsupported, "CNS");
        let judgement = judge(2, &[said(false, Status::Chipset, refused())], None);
        assert!(judgement.findings[0].cause.contains("stock driver"));
    }

    #[test]
    fn the_source_that_disagrees_is_named() {
        finds(said(true, Status::Chipset, Enabling::Works), Code::P2pWitnesses, "NCCL obeys NVML");
        finds(said(false, Status::Ok, refused()), Code::P2pWitnesses, "CUDA reports that it does not");
        finds(said(true, Status::Chipset, refused()), Code::P2pWitnesses, "enabling it fails");
        finds(said(false, Status::Chipset, Enabling::Works), Code::P2pWitnesses, "can be enabled");
        let mut itself = said(true, Status::Ok, Enabling::Works);
        itself.supported = false;
        finds(itself, Code::P2pWitnesses, "cuDeviceGetP2PAttribute reports no");
    }

    #[test]
    fn promised_access_that_is_refused_fails_with_the_drivers_error() {
        finds(said(true, Status::Ok, refused()), Code::P2pRefused, "217");
    }

    #[test]
    fn a_source_that_does_not_answer_is_an_error() {
        let mut silent = said(true, Status::Ok, Enabling::Works);
        silent.nvml.write = Err("the GPU is lost".into());
        let judgement = judge(2, &[silent], None);
        assert_eq!(judgement.outcome(), Outcome::Error);
        assert!(judgement.summary.contains("the GPU is lost"));
    }

    /// All pairs of `gpus`; those for which `apart` holds have no access, and all sources agree.
    fn pairs(gpus: usize, apart: impl Fn(usize, usize) -> bool) -> Vec<Said> {
        let all = (0..gpus).flat_map(|from| (0..gpus).map(move |to| Pair { from, to }));
        let one = |pair: Pair| match apart(pair.from, pair.to) {
            true => Said { pair, ..said(false, Status::Topology, refused()) },
            false => Said { pair, ..said(true, Status::Ok, Enabling::Works) },
        };
        all.filter(|pair| pair.from != pair.to).map(one).collect()
    }

    /// The codes of findings that are not harmless.
    fn bad(judgement: &Judgement) -> Vec<&str> {
        let bad = judgement.findings.iter().filter(|f| f.severity > Severity::Info);
        bad.map(|f| f.code.as_str()).collect()
    }

    #[test]
    fn bridged_pairs_are_degraded_with_their_groups_and_pass_where_expected() {
        let bridged = pairs(4, |a, b| a / 2 != b / 2);
        let judgement = judge(4, &bridged, None);
        assert_eq!((judgement.outcome(), bad(&judgement)), (Outcome::Warn, vec!["PEERS-GROUPED"]));
        assert!(judgement.summary.contains("[0,1] [2,3]; 8 of 12"), "{}", judgement.summary);
        let meant = judge(4, &bridged, Some(&[vec![0, 1], vec![2, 3]]));
        assert_eq!(meant.outcome(), Outcome::Pass);
        assert!(meant.summary.starts_with("4 of 12 ordered pairs, as expect.peers"), "{}", meant.summary);
    }

    #[test]
    fn expected_access_that_is_missing_fails() {
        let bridged = pairs(4, |a, b| a / 2 != b / 2);
        for groups in [&[vec![0, 1, 2, 3]][..], &[vec![0, 2], vec![1, 3]]] {
            let judgement = judge(4, &bridged, Some(groups));
            assert!(judgement.outcome() == Outcome::Fail, "{groups:?}");
            assert!(judgement.findings.iter().any(|f| f.is(Code::P2pUnsupported)));
        }
    }

    #[test]
    fn access_missing_without_a_pattern_or_everywhere_fails() {
        for said in [
            pairs(2, |_, _| true),
            pairs(4, |_, _| true),
            pairs(4, |a, b| (a, b) == (0, 3)),
            pairs(4, |a, b| a.min(b) == 0 && a.max(b) == 3),
        ] {
            let gpus = if said.len() == 2 { 2 } else { 4 };
            let judgement = judge(gpus, &said, None);
            assert_eq!(judgement.outcome(), Outcome::Fail);
            assert!(bad(&judgement).iter().all(|code| *code == "P2P-UNSUPPORTED"), "{judgement:?}");
        }
    }

    #[test]
    fn a_wrong_answer_between_groups_stays_a_failure() {
        let mut bridged = pairs(4, |a, b| a / 2 != b / 2);
        bridged[1].nvml = answers(Status::Ok);
        for expected in [None, Some(&[vec![0, 1], vec![2, 3]][..])] {
            assert_eq!(judge(4, &bridged, expected).outcome(), Outcome::Fail);
        }
    }
}
