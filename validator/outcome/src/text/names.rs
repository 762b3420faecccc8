//! Readable names of measurements. Matrices and tables have ids, such as `ce.write`, for programs; people read names. Pure.

use crate::metric::Metric;

/// Readable names for the ids of tables; [`Metric`] has those of matrices.
const TABLES: [(&str, &str); 18] = [
    ("p2p.expected", "Peer access, expected and found"),
    ("p2p.pairs", "Pairs"),
    ("together", "Patterns of transfers at once"),
    ("bandwidth.by-size", "Bandwidth by size"),
    ("bandwidth.spread", "Spread of the samples"),
    ("nccl.gain", "NCCL all_reduce with and without peer-to-peer"),
    ("nccl.all_reduce", "NCCL all_reduce"),
    (
        "nccl.all_reduce.off",
        "NCCL all_reduce without peer-to-peer",
    ),
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
    let table = || {
        TABLES
            .iter()
            .find(|(known, _)| *known == id)
            .map(|(_, name)| *name)
    };
    if let Some(name) = Metric::named(id).map(Metric::title).or_else(table) {
        return name.to_owned();
    }
    let arm = |prefix: &str, what: &str| {
        id.strip_prefix(prefix)
            .map(|arm| format!("NCCL {what}, {arm}"))
    };
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
            [
                readable_name("ce.write"),
                readable_name("nccl.graph.off"),
                readable_name("new")
            ],
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
        let ids: std::collections::BTreeSet<_> = TABLES.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), TABLES.len());
        assert!(ids.iter().all(|id| Metric::named(id).is_none()));
    }
}
