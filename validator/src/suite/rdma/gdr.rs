//! Whether network cards may reach GPU memory (GPUDirect RDMA), and through what: dma-buf, `nvidia_peermem`,
//! or nothing. This shows what the driver offers. Proving that a card really does it requires traffic between
//! two machines, and the summary says so.

use crate::suite::context::unreadable;
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::{Group, Test, TestContext};
use gpu::{DirectRdma, Gpu};
use machine::GpuId;
use machine::host::modules;
use machine::pcie::model::PathKind;
use machine::pcie::path;
use machine::pcie::path::NicPaths;
use outcome::Advice;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::table::{GdrRow, Table};
use outcome::test;
use outcome::text::count;
use outcome::{Judgement, Outcome};
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::GDR,
    title: "GPUDirect RDMA",
    proves: "the kernel has the part that each GPUDirect RDMA mechanism offered by the driver needs",
    level: Level::Standard,
    deadline: Duration::from_secs(30),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The module that implements the old mechanism.
const PEERMEM: &str = "nvidia_peermem";

/// The mechanism by which a card reaches a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RdmaMechanism {
    DmaBuf,
    Peermem,
    /// The GPU supports it, but the kernel part is missing.
    Missing,
    /// The driver does not offer it.
    Unsupported,
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let fabric = context.fabric()?;
    if fabric.rdma.is_empty() {
        return Ok(Judgement::not_applicable("no RDMA device"));
    }
    if let Some(none) = context.no_gpus(false)? {
        return Ok(none);
    }
    if context.outcome("cuda") == Some(Outcome::Error) {
        return Ok(Judgement::not_applicable(
            "CUDA did not start (see the test cuda)",
        ));
    }
    let loaded =
        modules::loaded(&context.root, &[PEERMEM]).map_err(|e| unreadable("sys/module", &e))?;
    let clique = context.clique()?;
    let ask = |gpu: &Gpu| Ok((gpu.id(), gpu.direct_rdma()?));
    let offered = clique.gpus.iter().map(ask).collect::<Result<Vec<_>, _>>();
    let offered = offered.map_err(|e| fault_finding(Subject::Machine, &e))?;
    Ok(judge(
        &offered,
        !loaded.is_empty(),
        &path::nic_paths(fabric),
    ))
}

const fn mechanism(offered: DirectRdma, peermem: bool) -> RdmaMechanism {
    match offered {
        DirectRdma { dma_buf: true, .. } => RdmaMechanism::DmaBuf,
        DirectRdma {
            peer_memory: true, ..
        } if peermem => RdmaMechanism::Peermem,
        DirectRdma {
            peer_memory: true, ..
        } => RdmaMechanism::Missing,
        DirectRdma { .. } => RdmaMechanism::Unsupported,
    }
}

fn judge(offered: &[(GpuId, DirectRdma)], peermem: bool, nic_paths: &[NicPaths]) -> Judgement {
    let of = |wanted| {
        let gpus = offered
            .iter()
            .filter(move |(_, offered)| mechanism(*offered, peermem) == wanted);
        gpus.map(|(gpu, _)| *gpu).collect::<Vec<_>>()
    };
    let findings = [
        (
            RdmaMechanism::Missing,
            Code::GdrNoWay,
            Severity::Warn,
            "has no dma-buf, and nvidia_peermem is not loaded",
        ),
        (
            RdmaMechanism::Unsupported,
            Code::GdrUnsupported,
            Severity::Info,
            "has no GPUDirect RDMA in this driver",
        ),
    ];
    let findings: Vec<_> = findings
        .into_iter()
        .map(|(which, code, severity, what)| (of(which), code, severity, what))
        .filter(|(gpus, ..)| !gpus.is_empty())
        .map(|(gpus, code, severity, what)| {
            let numbers = gpus
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            let message = format!("GPU {numbers} {what}: cards transfer data through host memory");
            // Several are written as `GPU 0, 1`, other than elsewhere.
            let several = || Subject::Other {
                name: format!("GPU {numbers}"),
            };
            let subject = if let [gpu] = gpus.as_slice() {
                gpu.into()
            } else {
                several()
            };
            code.finding(severity, subject, message)
                .seen_all(evidence(offered, peermem))
        })
        .collect();
    let worst = findings.iter().find(|f| f.severity > Severity::Info);
    let summary = worst.map_or_else(|| summary(&of), |f| f.message.to_string());
    let mechanisms: Vec<_> = offered
        .iter()
        .map(|(_, offered)| mechanism(*offered, peermem))
        .collect();
    let judgement = if mechanisms
        .iter()
        .all(|one| *one == RdmaMechanism::Unsupported)
    {
        Judgement::not_applicable(summary).with(findings)
    } else {
        Judgement::of(summary, findings)
    };
    judgement
        .with_tables(vec![table(offered, peermem)])
        .advising(advice(&mechanisms, nic_paths).into_iter().collect())
}

/// `8 GPUs: by dma-buf; card traffic is not tested, which requires a second machine`, or that there is none.
fn summary(of: &impl Fn(RdmaMechanism) -> Vec<GpuId>) -> String {
    let offered = [
        (RdmaMechanism::DmaBuf, "by dma-buf"),
        (RdmaMechanism::Peermem, "by nvidia_peermem"),
        (
            RdmaMechanism::Unsupported,
            "not offered, data goes through host memory",
        ),
    ];
    let offered = offered
        .into_iter()
        .map(|(which, word)| (of(which).len(), word))
        .filter(|(n, _)| *n > 0);
    let offered: Vec<_> = offered
        .map(|(n, word)| format!("{}: {word}", count(n, "GPU")))
        .collect();
    let carried = !of(RdmaMechanism::DmaBuf).is_empty() || !of(RdmaMechanism::Peermem).is_empty();
    let untried = if carried {
        "; card traffic is not tested, which requires a second machine"
    } else {
        ""
    };
    format!("{}{untried}", offered.join(", "))
}

fn evidence(offered: &[(GpuId, DirectRdma)], peermem: bool) -> Vec<String> {
    let line = |(gpu, offered): &(GpuId, DirectRdma)| {
        let (old, new, mapped) = (offered.peer_memory, offered.dma_buf, offered.mapped);
        format!(
            "GPU {gpu}: GPU_DIRECT_RDMA_SUPPORTED {old}, DMA_BUF_SUPPORTED {new}, with mapped memory {mapped}"
        )
    };
    let module = if peermem { "loaded" } else { "not loaded" };
    offered
        .iter()
        .map(line)
        .chain([format!("/sys/module/{PEERMEM}: {module}")])
        .collect()
}

fn table(offered: &[(GpuId, DirectRdma)], peermem: bool) -> Table {
    let row = |(gpu, offered): &(GpuId, DirectRdma)| {
        let by = match mechanism(*offered, peermem) {
            RdmaMechanism::DmaBuf => "dma-buf",
            RdmaMechanism::Peermem => PEERMEM,
            RdmaMechanism::Missing => "nothing",
            RdmaMechanism::Unsupported => "unsupported",
        };
        let DirectRdma {
            dma_buf,
            peer_memory,
            mapped,
        } = *offered;
        GdrRow {
            gpu: *gpu,
            by: by.to_owned(),
            dma_buf,
            peer_memory,
            mapped,
        }
    };
    Table::Gdr(offered.iter().map(row).collect())
}

/// NCCL uses GPUDirect RDMA up to a distance, PXB by default. Cards that share a host bridge with a GPU are
/// close enough too; beyond it the detour is not worthwhile.
fn advice(mechanisms: &[RdmaMechanism], nic_paths: &[NicPaths]) -> Option<Advice> {
    let all = mechanisms
        .iter()
        .all(|c| matches!(c, RdmaMechanism::DmaBuf | RdmaMechanism::Peermem));
    let nearest = nic_paths
        .iter()
        .filter_map(NicPaths::nearest)
        .map(|(kind, _)| kind);
    let far = nearest
        .filter(|kind| *kind <= PathKind::Phb)
        .max()
        .filter(|_| all && !mechanisms.is_empty())?;
    let level = path::letters(far.max(PathKind::Pxb));
    let reason = format!(
        "GPUs have their nearest network card at {level} or nearer, and the driver lets the card access GPU memory"
    );
    Some(Advice::new("NCCL_NET_GDR_LEVEL", level, &reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::pcie::model::Bdf;

    const NONE: DirectRdma = DirectRdma {
        peer_memory: false,
        dma_buf: false,
        mapped: false,
    };
    const OLD: DirectRdma = DirectRdma {
        peer_memory: true,
        ..NONE
    };
    const NEW: DirectRdma = DirectRdma {
        dma_buf: true,
        mapped: true,
        ..OLD
    };

    fn nic_paths(kinds: &[PathKind]) -> Vec<NicPaths> {
        let gpu: Bdf = "0000:01:00.0".parse().unwrap();
        kinds
            .iter()
            .map(|kind| NicPaths {
                gpu,
                to: vec![("mlx5_0".into(), *kind)],
            })
            .collect()
    }

    fn say(offered: &[DirectRdma], peermem: bool) -> Judgement {
        let offered: Vec<_> = GpuId::each(offered.iter().copied()).collect();
        judge(&offered, peermem, &nic_paths(&[PathKind::Pix]))
    }

    #[test]
    fn each_mechanism_is_named_and_none_is_promised() {
        let untried = "; card traffic is not tested, which requires a second machine";
        for (offered, peermem, word) in [
            (NEW, false, format!("2 GPUs: by dma-buf{untried}")),
            (NEW, true, format!("2 GPUs: by dma-buf{untried}")),
            (OLD, true, format!("2 GPUs: by nvidia_peermem{untried}")),
        ] {
            let said = say(&[offered, offered], peermem);
            assert_eq!((said.outcome(), said.summary), (Outcome::Pass, word));
        }
        let said = say(&[NONE, NONE], true);
        let word = "2 GPUs: not offered, data goes through host memory";
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (Outcome::NotApplicable, word)
        );
        assert_eq!(say(&[NONE, NEW], true).outcome(), Outcome::Pass);
    }

    #[test]
    fn a_supported_gpu_without_the_kernel_part_warns() {
        let said = say(&[NEW, OLD], false);
        assert!(said.outcome() == Outcome::Warn && said.findings[0].is(Code::GdrNoWay));
        assert_eq!(said.findings[0].subject, "GPU 1");
        assert!(
            said.findings[0]
                .evidence
                .contains(&"/sys/module/nvidia_peermem: not loaded".to_owned())
        );
        assert!(said.advice.is_empty());
    }

    #[test]
    fn a_geforce_is_reported_and_gets_no_level() {
        let said = say(&[NONE], false);
        assert!(
            said.findings[0].is(Code::GdrUnsupported)
                && said.findings[0].severity == Severity::Info
        );
        assert!(said.advice.is_empty());
        assert_eq!(said.tables[0].json()["rows"][0][1], "unsupported");
    }

    #[test]
    fn the_level_goes_as_far_as_the_host_bridge_and_has_a_name() {
        let level =
            |kinds: &[PathKind]| Some(advice(&[RdmaMechanism::DmaBuf], &nic_paths(kinds))?.value);
        assert_eq!(
            level(&[PathKind::Pix, PathKind::Phb]).as_deref(),
            Some("PHB")
        );
        assert_eq!(level(&[PathKind::Pix]).as_deref(), Some("PXB"));
        assert_eq!(
            level(&[PathKind::Sys, PathKind::Pxb]).as_deref(),
            Some("PXB")
        );
        assert_eq!(level(&[PathKind::Node, PathKind::Sys]), None);
    }
}
