//! NCCL's dumps of topology and graphs, cut off or not XML at all: they are refused with a line that
//! exists, or what they hold can be asked for.
#![no_main]

use firstlight::nccl::dump::{BadDump, graphs, topology};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
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
});
