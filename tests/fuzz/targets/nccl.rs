//! What NCCL writes.

/// NCCL's log, into which hosts, plugins and torn writes put what they like: reading it ends, and what
/// nothing was said of is never proven.
pub fn nccl_log(bytes: &[u8]) {
    use firstlight::nccl::log::{Expect, Pairs, Proof, Said};

    let text = String::from_utf8_lossy(bytes);
    let said = Said::read(&text);
    assert!(said.links.len() + said.rings.len() + said.warnings.len() <= text.lines().count());
    assert!(said.links.iter().all(|link| text.contains(&link.text())));
    assert_eq!(said.foreign(&[]), said.settings);
    assert!(said.foreign(&said.settings).is_empty());
    for pairs in [Pairs::Ring, Pairs::All] {
        let proven = |expect| matches!(said.proves(4, expect, pairs), Proof::Proven(_));
        let (p2p, none) = (proven(Expect::P2p), proven(Expect::NoP2p));
        assert!(!(p2p && none));
        assert!(!(p2p || none) || said.transports().len() >= 4);
        assert!(!p2p || said.links.iter().all(|link| link.via.is_p2p() == Some(true)));
        assert!(!none || said.links.iter().all(|link| link.via.is_p2p() == Some(false)));
    }
}

/// NCCL's dumps of topology and graphs, cut off or not XML at all: they are refused with a line that
/// exists, or what they hold can be asked for.
pub fn nccl_dump(bytes: &[u8]) {
    use firstlight::nccl::dump::{BadDump, graphs, topology};

    let text = String::from_utf8_lossy(bytes);
    let placed = |bad: &BadDump| assert!(bad.line >= 1 && !bad.to_string().is_empty());
    let topology = topology(&text).inspect_err(placed);
    let graphs = graphs(&text).inspect_err(placed);
    if let Ok(topology) = &topology {
        assert!(!topology.gpus.is_empty() && graphs.is_err());
    }
    if let Ok(graphs) = graphs {
        for graph in &graphs {
            assert!(graph.gb_s.is_finite() && !graph.pattern.to_string().is_empty());
        }
    }
}
