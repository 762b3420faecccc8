//! Readable names of measurements. Matrices and tables have ids, such as `ce.write`, for programs; people read names. Pure.

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
pub fn readable_name(id: &str) -> String {
    if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == id) {
        return (*name).to_owned();
    }
    let arm = |prefix: &str, what: &str| id.strip_prefix(prefix).map(|arm| format!("NCCL {what}, {arm}"));
    let arm = arm("nccl.transport.", "transport").or_else(|| arm("nccl.graph.", "graph"));
    arm.unwrap_or_else(|| id.to_owned())
}

/// The readable name inside a sentence: `copy engine, write`.
#[must_use]
pub fn name_in_sentence(id: &str) -> String {
    let name = readable_name(id);
    let mut letters = name.chars();
    match (letters.next(), letters.next()) {
        // An abbreviation keeps its capitals.
        (_, Some(second)) if second.is_uppercase() => name,
        (Some(first), _) => first.to_lowercase().chain(name.chars().skip(1)).collect(),
        (None, _) => name,
    }
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
            ["ce.write", "nccl.gain", "order.hop", "new", ""].map(name_in_sentence),
            [
                "copy engine, write",
                "NCCL all_reduce with and without peer-to-peer",
                "a flag from GPU to GPU",
                "new",
                ""
            ]
        );
        let ids: std::collections::BTreeSet<_> = NAMES.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), NAMES.len());
    }
}
