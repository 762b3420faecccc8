//! NCCL's dumps of topology and graphs: a second source besides its log lines. NCCL was asked for them, so a
//! dump that is missing, unreadable or without one of the GPUs is a finding.

use super::arms::ArmKind;
use crate::nccl::dump;
use crate::nccl::dump::{Graph, Topology};
use crate::nccl::ranks::Ranks;
use crate::suite::benchmark::rounded;
use machine::Rank;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::table::{GraphRow, Table};

/// What the dumps contain, and the finding if they are not sufficient.
pub(super) struct DumpCheck {
    /// One row for each graph that NCCL searched for.
    pub(super) table: Table,
    pub(super) finding: Option<Finding>,
}

/// Reads an arm's dumps.
pub(super) fn of(which: ArmKind, ranks: &Ranks) -> DumpCheck {
    judge(
        which,
        ranks.topology().as_deref(),
        ranks.graph().as_deref(),
        ranks.ranks(),
    )
}

fn judge(which: ArmKind, topology: Option<&str>, graph: Option<&str>, ranks: usize) -> DumpCheck {
    let read = read(topology, graph);
    let why = match &read {
        Ok((topology, graphs)) => missing_evidence(topology, graphs, ranks),
        Err(why) => Some(why.clone()),
    };
    let finding = why.map(|why| {
        let message = format!("NCCL {which}: {why}");
        Code::NcclUnproven.finding(Severity::Warn, Subject::operation(which), message)
    });
    let graphs = read.map(|(_, graphs)| graphs).unwrap_or_default();
    DumpCheck {
        table: graph_table(which, &graphs),
        finding,
    }
}

fn read(topology: Option<&str>, graph: Option<&str>) -> Result<(Topology, Vec<Graph>), String> {
    let there = |text: Option<&'_ str>, what| match text {
        Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
        _ => Err(format!("it wrote no {what}")),
    };
    let topology = dump::topology(&there(topology, "topology")?).map_err(|e| e.to_string())?;
    let graphs = dump::graphs(&there(graph, "graph")?).map_err(|e| e.to_string())?;
    Ok((topology, graphs))
}

fn missing_evidence(topology: &Topology, graphs: &[Graph], ranks: usize) -> Option<String> {
    let gpus = topology.gpus.len();
    if gpus < ranks {
        return Some(format!("its topology has {gpus} of {ranks} GPUs"));
    }
    let used = graphs.iter().filter(|graph| !graph.channels.is_empty());
    let orders = used.filter_map(|graph| graph.orders(topology)).flatten();
    let whole = orders
        .filter(|order| Rank::all(ranks).all(|rank| order.contains(&rank)))
        .count();
    (whole == 0).then(|| format!("no channel of its graphs leads through all {ranks} ranks"))
}

fn graph_table(which: ArmKind, graphs: &[Graph]) -> Table {
    let row = |graph: &Graph| GraphRow {
        graph: graph.pattern.to_string(),
        channels: graph.channels.len(),
        speed: rounded(graph.gb_s),
        way: graph.distance.name().to_owned(),
    };
    Table::Graphs(which.arm(), graphs.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPOLOGY: &str = r#"<system version="1"><cpu numaid="0">
        <pci busid="0000:41:00.0" class="0x030000"><gpu dev="0" sm="89" rank="0" gdr="0"/></pci>
        <pci busid="0000:42:00.0" class="0x030000"><gpu dev="1" sm="89" rank="1" gdr="0"/></pci>
    </cpu></system>"#;
    const GRAPHS: &str = r#"<graphs version="1">
        <graph id="0" pattern="4" nchannels="1" speedintra="12.5" speedinter="12.5" typeintra="SYS" typeinter="PIX">
        <channel><gpu dev="0"/><gpu dev="1"/></channel></graph></graphs>"#;

    fn missing_evidence(
        topology: Option<&str>,
        graph: Option<&str>,
        ranks: usize,
    ) -> Option<String> {
        judge(ArmKind::P2p, topology, graph, ranks)
            .finding
            .map(|finding| finding.message.to_string())
    }

    #[test]
    fn dumps_with_all_ranks_are_shown_and_raise_no_doubt() {
        let seen = judge(ArmKind::P2p, Some(TOPOLOGY), Some(GRAPHS), 2);
        assert_eq!(seen.finding, None);
        assert_eq!(seen.table.name().as_deref(), Some("nccl.graph.p2p"));
        assert_eq!(
            seen.table.json()["rows"][0],
            serde_json::json!(["ring", 1, 12.5, "SYS"])
        );
    }

    #[test]
    fn a_dump_that_is_missing_broken_or_without_a_gpu_is_reported() {
        let said = |topology, graph, ranks| missing_evidence(topology, graph, ranks).unwrap();
        assert!(said(None, Some(GRAPHS), 2).ends_with("it wrote no topology"));
        assert!(said(Some(TOPOLOGY), Some(" "), 2).ends_with("it wrote no graph"));
        assert!(said(Some("<system"), Some(GRAPHS), 2).contains("NCCL's topology dump, line 1"));
        assert!(said(Some(TOPOLOGY), Some(GRAPHS), 3).ends_with("its topology has 2 of 3 GPUs"));
        let short = GRAPHS.replace(r#"<gpu dev="1"/>"#, "");
        assert!(said(Some(TOPOLOGY), Some(&short), 2).ends_with("leads through all 2 ranks"));
    }
}
