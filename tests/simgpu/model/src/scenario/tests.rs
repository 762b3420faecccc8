use super::*;
use std::path::Path;

/// A scenario's text as it is laid out: the machine's, the figures', the faults'.
pub(crate) fn machine(name: &str, more: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../machines/{name}.toml"));
    std::fs::read_to_string(path).unwrap() + more
}

#[test]
fn the_machines_can_be_read() {
    for (name, gpus) in [("epyc-8x4090", 8), ("h200-nvlink", 4)] {
        let scenario = Scenario::parse(&machine(name, "")).unwrap();
        assert_eq!(scenario.machine.gpus, gpus);
        assert!(scenario.machine.bdf.len() >= gpus);
    }
}

#[test]
fn sockets_share_the_gpus_evenly() {
    let machine = Scenario::parse(&machine("epyc-8x4090", "")).unwrap().machine;
    let sockets: Vec<_> = (0..8).map(|g| machine.socket(g)).collect();
    assert_eq!(sockets, [0, 0, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn what_nobody_knows_is_refused() {
    for (more, what) in [
        ("[[fault]]\nkind = \"zeroes\"\n", "zeroes"),
        ("[[fault]]\nkind = \"zeros\"\nparts = 1\n", "parts"),
        ("[[fault]]\nkind = \"zeros\"\npair = [0, 9]\n", "GPU 9"),
        ("[[fault]]\nkind = \"zeros\"\npair = \"all\"\n", "any"),
        ("[[fault]]\nkind = \"slow\"\n", "rate"),
        ("[[fault]]\nkind = \"capability\"\nnvml = \"NO\"\n", "NO"),
        ("[[fault]]\nkind = \"nccl-hang\"\nevery = 2\n", "every"),
        ("[faults]\n", "faults"),
    ] {
        let error = Scenario::parse(&machine("epyc-8x4090", more)).unwrap_err();
        assert!(error.contains(what), "{more}: {error}");
    }
}
