//! May network cards reach GPU memory (GPUDirect RDMA), and by what: dma-buf, `nvidia_peermem`, nothing?
//! This is what the driver offers. That a card really does it takes traffic between two machines, and
//! the summary says so.

use crate::config::Level;
use crate::gpu::{DirectRdma, Gpu};
use crate::machine::host::modules;
use crate::machine::pcie::model::PathKind;
use crate::machine::pcie::near;
use crate::machine::pcie::near::Ways;
use crate::outcome::Advice;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::outcome::{Judgement, Outcome};
use crate::suite::machine::unreadable;
use crate::suite::shared::gpu_fault::during;
use crate::suite::{Group, Machine, Test};
use serde_json::{Value, json};
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "gdr",
    title: "GPUDirect RDMA",
    proves: "whatever GPUDirect RDMA the driver offers for a GPU, the kernel has the part that carries it",
    level: Level::Standard,
    deadline: Duration::from_secs(30),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The module that carries the old form.
const PEERMEM: &str = "nvidia_peermem";

/// What carries a card's access to a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Carrier {
    DmaBuf,
    Peermem,
    /// The GPU could, and nothing carries it.
    Missing,
    /// The driver does not offer it.
    Unsupported,
}

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    let fabric = machine.fabric()?;
    if fabric.rdma.is_empty() {
        return Ok(Judgement::not_applicable("no RDMA device"));
    }
    if let Some(none) = machine.no_gpus(false)? {
        return Ok(none);
    }
    if machine.outcome("cuda") == Some(Outcome::Error) {
        return Ok(Judgement::not_applicable("CUDA did not start (see the test cuda)"));
    }
    let loaded = modules::loaded(&machine.root, &[PEERMEM]).map_err(|e| unreadable("sys/module", &e))?;
    let clique = machine.clique()?;
    let ask = |gpu: &Gpu| Ok((gpu.ordinal, gpu.direct_rdma()?));
    let told = clique.gpus.iter().map(ask).collect::<Result<Vec<_>, _>>();
    let told = told.map_err(|e| during("machine", &e))?;
    Ok(judge(&told, !loaded.is_empty(), &near::ways(fabric)))
}

const fn carrier(told: DirectRdma, peermem: bool) -> Carrier {
    match told {
        DirectRdma { dma_buf: true, .. } => Carrier::DmaBuf,
        DirectRdma { peer_memory: true, .. } if peermem => Carrier::Peermem,
        DirectRdma { peer_memory: true, .. } => Carrier::Missing,
        DirectRdma { .. } => Carrier::Unsupported,
    }
}

fn judge(told: &[(usize, DirectRdma)], peermem: bool, ways: &[Ways]) -> Judgement {
    let of = |wanted| {
        let gpus = told.iter().filter(move |(_, told)| carrier(*told, peermem) == wanted);
        gpus.map(|(gpu, _)| gpu.to_string()).collect::<Vec<_>>()
    };
    let findings = [
        (
            Carrier::Missing,
            Code::GdrNoWay,
            Severity::Warn,
            "has no dma-buf, and nvidia_peermem is not loaded",
        ),
        (Carrier::Unsupported, Code::GdrUnsupported, Severity::Info, "has no GPUDirect RDMA in this driver"),
    ];
    let findings: Vec<_> = findings
        .into_iter()
        .map(|(which, code, severity, what)| (of(which), code, severity, what))
        .filter(|(gpus, ..)| !gpus.is_empty())
        .map(|(gpus, code, severity, what)| {
            let subject = format!("GPU {}", gpus.join(", "));
            let message = format!("{subject} {what}: cards go by way of the host's memory");
            code.finding(severity, &subject, message).seen_all(evidence(told, peermem))
        })
        .collect();
    let worst = findings.iter().find(|f| f.severity > Severity::Info);
    let summary = worst.map_or_else(|| summary(&of), |f| f.message.clone());
    let carried: Vec<_> = told.iter().map(|(_, told)| carrier(*told, peermem)).collect();
    Judgement::of(summary, findings)
        .with_tables(vec![table(told, peermem)])
        .advising(advice(&carried, ways).into_iter().collect())
}

/// `8 GPUs by dma-buf; no card's traffic was tried, which takes a second machine`, or that there is none.
fn summary(of: &impl Fn(Carrier) -> Vec<String>) -> String {
    let told = [
        (Carrier::DmaBuf, "by dma-buf"),
        (Carrier::Peermem, "by nvidia_peermem"),
        (Carrier::Unsupported, "not offered, by way of the host's memory"),
    ];
    let told = told.into_iter().map(|(which, word)| (of(which).len(), word)).filter(|(n, _)| *n > 0);
    let told: Vec<_> = told.map(|(n, word)| format!("{n} GPUs: {word}")).collect();
    let carried = !of(Carrier::DmaBuf).is_empty() || !of(Carrier::Peermem).is_empty();
    let untried = if carried { "; no card's traffic was tried, which takes a second machine" } else { "" };
    format!("{}{untried}", told.join(", "))
}

fn evidence(told: &[(usize, DirectRdma)], peermem: bool) -> Vec<String> {
    let line = |(gpu, told): &(usize, DirectRdma)| {
        let (old, new, mapped) = (told.peer_memory, told.dma_buf, told.mapped);
        format!(
            "GPU {gpu}: GPU_DIRECT_RDMA_SUPPORTED {old}, DMA_BUF_SUPPORTED {new}, with mapped memory {mapped}"
        )
    };
    let module = if peermem { "loaded" } else { "not loaded" };
    told.iter().map(line).chain([format!("/sys/module/{PEERMEM}: {module}")]).collect()
}

fn table(told: &[(usize, DirectRdma)], peermem: bool) -> Value {
    let columns = [("GPU", ""), ("by", ""), ("dma-buf", ""), ("peer memory", ""), ("mapped memory", "")];
    let row = |(gpu, told): &(usize, DirectRdma)| {
        let by = match carrier(*told, peermem) {
            Carrier::DmaBuf => "dma-buf",
            Carrier::Peermem => PEERMEM,
            Carrier::Missing => "nothing",
            Carrier::Unsupported => "unsupported",
        };
        vec![json!(gpu), json!(by), json!(told.dma_buf), json!(told.peer_memory), json!(told.mapped)]
    };
    crate::suite::shared::speed::table("GPUDirect RDMA", &columns, &told.iter().map(row).collect::<Vec<_>>())
}

/// NCCL uses GPUDirect RDMA up to a distance, PXB unless told. Cards that share a host bridge with a GPU
/// are within reach too; beyond it nothing speaks for the detour.
fn advice(carried: &[Carrier], ways: &[Ways]) -> Option<Advice> {
    let all = carried.iter().all(|c| matches!(c, Carrier::DmaBuf | Carrier::Peermem));
    let nearest = ways.iter().filter_map(Ways::nearest).map(|(kind, _)| kind);
    let far = nearest.filter(|kind| *kind <= PathKind::Phb).max().filter(|_| all && !carried.is_empty())?;
    let level = near::letters(far.max(PathKind::Pxb));
    let reason =
        format!("GPUs have their nearest network card at {level} or nearer, and the driver lets it in");
    Some(Advice::new("NCCL_NET_GDR_LEVEL", level, &reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::pcie::model::Bdf;

    const NONE: DirectRdma = DirectRdma { peer_memory: false, dma_buf: false, mapped: false };
    const OLD: DirectRdma = DirectRdma { peer_memory: true, ..NONE };
    const NEW: DirectRdma = DirectRdma { dma_buf: true, mapped: true, ..OLD };

    fn ways(kinds: &[PathKind]) -> Vec<Ways> {
        let gpu: Bdf = "0000:01:00.0".parse().unwrap();
        kinds.iter().map(|kind| Ways { gpu, to: vec![("mlx5_0".into(), *kind)] }).collect()
    }

    fn say(told: &[DirectRdma], peermem: bool) -> Judgement {
        let told: Vec<_> = told.iter().copied().enumerate().collect();
        judge(&told, peermem, &ways(&[PathKind::Pix]))
    }

    #[test]
    fn each_way_is_named_and_none_is_promised() {
        let untried = "; no card's traffic was tried, which takes a second machine";
        for (told, peermem, word) in [
            (NEW, false, format!("2 GPUs: by dma-buf{untried}")),
            (NEW, true, format!("2 GPUs: by dma-buf{untried}")),
            (OLD, true, format!("2 GPUs: by nvidia_peermem{untried}")),
            (NONE, true, "2 GPUs: not offered, by way of the host's memory".to_owned()),
        ] {
            let said = say(&[told, told], peermem);
            assert_eq!((said.outcome(), said.summary), (Outcome::Pass, word));
        }
    }

    #[test]
    fn a_gpu_that_could_and_that_nothing_carries_warns() {
        let said = say(&[NEW, OLD], false);
        assert!(said.outcome() == Outcome::Warn && said.findings[0].is(Code::GdrNoWay));
        assert_eq!(said.findings[0].subject, "GPU 1");
        assert!(said.findings[0].evidence.contains(&"/sys/module/nvidia_peermem: not loaded".to_owned()));
        assert!(said.advice.is_empty());
    }

    #[test]
    fn a_geforce_is_told_and_gets_no_level() {
        let said = say(&[NONE], false);
        assert!(said.findings[0].is(Code::GdrUnsupported) && said.findings[0].severity == Severity::Info);
        assert!(said.advice.is_empty());
        assert_eq!(said.tables[0]["rows"][0][1], "unsupported");
    }

    #[test]
    fn the_level_goes_as_far_as_the_host_bridge_and_has_a_name() {
        let level = |kinds: &[PathKind]| Some(advice(&[Carrier::DmaBuf], &ways(kinds))?.value);
        assert_eq!(level(&[PathKind::Pix, PathKind::Phb]).as_deref(), Some("PHB"));
        assert_eq!(level(&[PathKind::Pix]).as_deref(), Some("PXB"));
        assert_eq!(level(&[PathKind::Sys, PathKind::Pxb]).as_deref(), Some("PXB"));
        assert_eq!(level(&[PathKind::Node, PathKind::Sys]), None);
    }
}
