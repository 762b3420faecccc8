//! NCCL loses the GPU code of other architectures and nothing else.

use harness::driver_bench::{Bench, one_error};
use harness::workspace;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A container of GPU code: header, then (kind, architecture, payload) each.
fn fatbin(entries: &[(u16, u32, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, arch, payload) in entries {
        let mut header = vec![0; 64];
        header[..2].copy_from_slice(&kind.to_le_bytes());
        header[4..8].copy_from_slice(&64_u32.to_le_bytes());
        header[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        header[28..32].copy_from_slice(&arch.to_le_bytes());
        body.extend(header);
        body.extend(*payload);
    }
    [&[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0][..], &(body.len() as u64).to_le_bytes(), &body].concat()
}

fn prune(bench: &Bench) -> Output {
    let tools = workspace().join("image/in-tools.sh");
    let bind = |from: PathBuf, to: &str| format!("{}:/build/{to}", from.display());
    Command::new(tools)
        .args(["tools", "--bind", &bind(workspace().join("image/driver"), "scripts")])
        .args(["--bind", &bind(bench.path("gpu"), "gpu")])
        .args(["python3", "-B", "scripts/prune.py", "gpu/from", "gpu/to", "8.0", "8.9", "9.0"])
        .env("FIRSTLIGHT_CACHE", bench.path("cache"))
        .output()
        .unwrap()
}

#[test]
fn pruning_zeros_other_architectures_and_touches_nothing_else() {
    let bench = Bench::new();
    let entries: [(u16, u32, &[u8]); 5] = [
        (2, 52, b"stub"),
        (2, 70, b"seventy."),
        (2, 80, b"eighty.."),
        (2, 90, b"ninety.."),
        (1, 90, b"ptx90.."),
    ];
    let library =
        [b"library".as_slice(), &fatbin(&entries), b"more", &fatbin(&entries[1..]), b"end"].concat();
    bench.write("gpu/from", &library);
    let output = prune(&bench);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("dropped  sm_70") && text.contains("dropped  PTX compute_90"), "{text}");
    let zeroed = [
        (2, 52, b"stub".as_slice()),
        (2, 70, &[0; 8]),
        (2, 80, b"eighty.."),
        (2, 90, b"ninety.."),
        (1, 90, &[0; 7]),
    ];
    let wanted = [b"library".as_slice(), &fatbin(&zeroed), b"more", &fatbin(&zeroed[1..]), b"end"].concat();
    assert_eq!(fs::read(bench.path("gpu/to")).unwrap(), wanted);
}

#[test]
fn pruning_that_finds_nothing_or_not_what_it_must_keep_is_an_error() {
    for library in [
        b"no container in it".to_vec(),
        fatbin(&[(2, 80, b"a"), (2, 90, b"b")]),
        fatbin(&[(2, 70, b"a"), (2, 80, b"b")]),
        // newer code than a GPU of 8.0 runs
        fatbin(&[(2, 70, b"a"), (2, 86, b"b"), (2, 90, b"c")]),
        // PTX alone
        fatbin(&[(1, 80, b"a"), (2, 90, b"b")]),
        fatbin(&[(2, 70, b"a"), (9, 80, b"b"), (2, 90, b"c")]),
    ] {
        let bench = Bench::new();
        bench.write("gpu/from", &library);
        one_error(&prune(&bench), &["gpu/from"]);
        assert!(!bench.path("gpu/to").exists());
    }
}
