//! Texts that several renderers share: outcomes, severities, facts of the machine, names of measurements.

use crate::machine::GpuId;
use crate::machine::pcie::model::Bdf;
use crate::machine::pcie::tree::Tree;
use crate::outcome::Outcome;
use crate::outcome::finding::Severity;
use crate::report::{Report, TestEntry};

/// The word for an outcome.
pub(super) const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "PASS",
        Outcome::Warn => "WARN",
        Outcome::Fail => "FAIL",
        Outcome::Error => "ERROR",
        Outcome::NotApplicable => "N/A",
    }
}

/// The word for a severity.
pub(super) const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "INFO",
        Severity::Warn => "WARN",
        Severity::Fail => "FAIL",
        Severity::Error => "ERROR",
    }
}

/// `12 passed, 1 not applicable`
pub(super) fn counts(tests: &[TestEntry]) -> String {
    let count = |wanted| tests.iter().filter(|t| t.outcome == wanted).count();
    let part = |n: usize, word: &str| (n > 0).then(|| format!("{n} {word}"));
    let counts = [
        part(count(Outcome::Error), "without answer"),
        part(count(Outcome::Fail), "failed"),
        part(count(Outcome::Warn), "warned"),
        part(count(Outcome::Pass), "passed"),
        part(count(Outcome::NotApplicable), "not applicable"),
    ];
    let counts: Vec<_> = counts.into_iter().flatten().collect();
    if counts.is_empty() { "no test ran".to_owned() } else { counts.join(", ") }
}

/// firstlight's version, and the image's if there is one.
pub(super) fn version(report: &Report) -> &str {
    report.appliance.as_ref().map_or(env!("CARGO_PKG_VERSION"), |a| a.version.as_str())
}

/// The machine's host name.
pub(super) fn host(report: &Report) -> &str {
    report.machine.host.as_deref().unwrap_or("unknown")
}

/// The machine and its software, by short names; absent parts are omitted.
pub(super) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    all_facts(report).into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Every fact with or without its value. The names are also labels of a metric, which allows letters, digits and `_`.
pub(super) fn all_facts(report: &Report) -> [(&'static str, Option<String>); 18] {
    let driver = &report.driver;
    let dmi = |name: &str| report.machine.dmi.get(name)?.as_deref();
    let product: Vec<_> = ["sys_vendor", "product_name"].into_iter().filter_map(dmi).collect();
    let first = report.causes.first().map(|cause| format!("{} ({})", cause.remedy, cause.code));
    [
        ("answer", Some(report.answer.clone())),
        ("first", first),
        ("scope", Some(report.scope.to_string())),
        ("covers", Some(report.covers.clone())),
        ("gpus", Some(report.gpu_names())),
        ("recorded", report.is_recorded().then(|| report.root.clone())),
        ("product", (!product.is_empty()).then(|| product.join(" "))),
        ("host", Some(host(report).to_owned())),
        ("machine_id", report.machine.machine_id.clone()),
        ("serial", report.machine.serial.clone()),
        ("kernel", report.machine.kernel.clone()),
        ("driver", Some(driver.module.clone().unwrap_or_else(|| "none".to_owned()))),
        ("cuda", driver.cuda.clone()),
        ("nccl", driver.nccl.clone()),
        ("level", Some(report.level.to_string())),
        ("version", Some(version(report).to_owned())),
        ("image", report.appliance.as_ref().and_then(|a| a.image_id.clone())),
        ("fingerprint", Some(report.machine.fingerprint.clone())),
    ]
}

/// `GPU 0, 0000:01:00.0, slot 3`: a GPU by its number in the report; with its slot if the firmware numbers slots.
pub(crate) fn gpu(report: &Report, number: GpuId) -> String {
    let Some(gpu) = report.gpus.get(number.index()) else { return format!("GPU {number}") };
    let slot = slot(report, gpu.bdf).map(|slot| format!(", slot {slot}")).unwrap_or_default();
    format!("GPU {number}, {}{slot}", gpu.bdf)
}

/// The number of the slot that a function is in: that of the nearest port above it that leads to a slot. 0 means that
/// the firmware does not number slots.
pub(crate) fn slot(report: &Report, bdf: Bdf) -> Option<u16> {
    let tree = Tree::of(report.fabric.as_ref()?);
    tree.above(bdf).iter().find_map(|port| port.slot).filter(|slot| *slot > 0)
}

/// Readable names for the ids of matrices and tables.
const NAMES: [(&str, &str); 49] = [
    ("p2p.connectivity", "Peer access"),
    ("p2p.expected", "Peer access, expected and found"),
    ("p2p.pairs", "Pairs"),
    ("order.hop", "A flag from GPU to GPU"),
    ("sample.uni.off", "Copy, one direction, without peer access"),
    ("sample.uni.on", "Copy, one direction, with peer access"),
    ("sample.bi.off", "Copy, both directions, without peer access"),
    ("sample.bi.on", "Copy, both directions, with peer access"),
    ("sample.latency.off.gpu", "Latency without peer access, GPU time"),
    ("sample.latency.off.cpu", "Latency without peer access, processor time"),
    ("sample.latency.on.gpu", "Latency with peer access, GPU time"),
    ("sample.latency.on.cpu", "Latency with peer access, processor time"),
    ("chase", "One load from the peer's memory"),
    ("ce.write", "Copy engine, write"),
    ("ce.read", "Copy engine, read"),
    ("sm.write", "Kernel, write"),
    ("sm.read", "Kernel, read"),
    ("ce.bi.write", "Copy engine, write, both directions at once"),
    ("ce.bi.read", "Copy engine, read, both directions at once"),
    ("sm.bi.write", "Kernel, write, both directions at once"),
    ("sm.bi.read", "Kernel, read, both directions at once"),
    ("host.to.ce", "From the processor's memory, copy engine"),
    ("host.from.ce", "To the processor's memory, copy engine"),
    ("host.bi.to.ce", "From the processor's memory, both directions at once"),
    ("host.bi.from.ce", "To the processor's memory, both directions at once"),
    ("host.to.all.ce", "From the processor's memory, all GPUs at once"),
    ("host.from.all.ce", "To the processor's memory, all GPUs at once"),
    ("local", "Copy inside the GPU"),
    ("together.ring", "Ring, all at once"),
    ("together.ring.back", "Ring backwards, all at once"),
    ("together.all", "All pairs at once"),
    ("together.to-one", "All GPUs to one"),
    ("together.from-one", "One GPU to all"),
    ("together", "Patterns of transfers at once"),
    ("bandwidth.by-size", "Bandwidth by size"),
    ("bandwidth.spread", "Spread of the samples"),
    ("nccl.gain", "NCCL all_reduce with and without peer-to-peer"),
    ("nccl.all_reduce", "NCCL all_reduce"),
    ("nccl.all_reduce.off", "NCCL all_reduce without peer-to-peer"),
    ("nccl.all_reduce.odd", "NCCL all_reduce, odd counts"),
    ("nccl.collectives", "NCCL collectives"),
    ("nccl.collectives.odd", "NCCL collectives, odd counts"),
    ("nccl.types", "NCCL types and reductions"),
    ("nccl.processes", "NCCL, one process for each GPU"),
    ("nccl.channels", "NCCL channels"),
    ("tried", "What was transferred"),
    ("soak", "Each second of the load"),
    ("seconds", "Each second of the load"),
    ("allreduce", "All-reduce by our own kernels"),
];

/// The readable name of a matrix or table; without one, its id.
pub(crate) fn readable_name(id: &str) -> String {
    if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == id) {
        return (*name).to_owned();
    }
    let arm = |prefix: &str, what: &str| id.strip_prefix(prefix).map(|arm| format!("NCCL {what}, {arm}"));
    let arm = arm("nccl.transport.", "transport").or_else(|| arm("nccl.graph.", "graph"));
    arm.unwrap_or_else(|| id.to_owned())
}

/// A sentence of a finding with readable names instead of ids such as `ce.write`; only ids with a dot are replaced.
pub(crate) fn with_readable_names(text: &str) -> String {
    let word = |word: &str| {
        let known = NAMES.iter().find(|(id, _)| *id == word && id.contains('.'));
        known.map_or_else(|| word.to_owned(), |(_, name)| format!("({name})"))
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_names_and_unknown_ids_stay() {
        assert_eq!(
            [readable_name("ce.write"), readable_name("nccl.graph.off"), readable_name("new")],
            ["Copy engine, write", "NCCL graph, off", "new"]
        );
        assert_eq!(
            with_readable_names("GPU 0 -> 1: ce.write 8.44 GB/s, local"),
            "GPU 0 -> 1: (Copy engine, write) 8.44 GB/s, local"
        );
        let ids: std::collections::BTreeSet<_> = NAMES.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), NAMES.len());
    }
}
