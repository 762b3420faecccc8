//! What the driver's build refuses: each wrong input gives one clear error, and nothing half-built stays.
//! The tools trees must be there (`./run image`).

use harness::driver_bench::{Bench, one_error};
use std::fs;

#[test]
fn an_installer_that_is_whole_is_unpacked_and_one_that_is_cut_off_is_not() {
    let bench = Bench::new();
    let whole = bench.installer("570.1.2");
    let output = bench.script("run-file.sh", &[&whole, &bench.path("to")]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "570.1.2\n", "{output:?}");
    assert!(bench.path("to/firmware/gsp_ga10x.bin").exists());

    let bytes = fs::read(&whole).unwrap();
    for (length, words) in [
        (bytes.len() - 1, "is cut off or damaged"),
        (bytes.len() / 2, "is cut off or damaged"),
        (20, "names no skip="),
        (0, "names no skip="),
    ] {
        let cut = bench.write("cut.run", &bytes[..length]);
        // its own hash is right: whoever wrote the description had only the cut file
        bench.tree("570.1.2");
        bench.files("570.1.2", &cut, "");
        if length > 20 {
            bench.refuses(&["cut.run", words]);
        } else {
            one_error(&bench.script("run-file.sh", &[&cut, &bench.path("none")]), &["cut.run"]);
        }
    }
    // no MD5 in the header: the packed part itself shows the cut
    let text = String::from_utf8_lossy(&bytes[..200]).replace("MD5=", "NOT=");
    let header = text.split("exit 1\n").next().unwrap().to_owned() + "exit 1\n";
    let cut = [header.as_bytes(), &bytes[header.len()..bytes.len() / 2]].concat();
    let cut = bench.write("cut.run", cut);
    one_error(&bench.script("run-file.sh", &[&cut, &bench.path("none")]), &["cut.run", "cut off"]);
}

#[test]
fn a_file_with_another_hash_is_refused() {
    let bench = Bench::new();
    bench.tree("570.1.2");
    let run = bench.installer("570.1.2");
    bench.files("570.1.2", &run, &"0".repeat(64));
    bench.refuses(&["is not the file that files.run_sha256 names", "expected 0000"]);
}

#[test]
fn a_pair_of_two_versions_is_refused_and_both_are_named() {
    let bench = Bench::new();
    bench.tree("570.1.3");
    let run = bench.installer("570.1.2");
    bench.files("570.1.2", &run, "");
    bench.refuses(&["NVIDIA-Linux-x86_64-570.1.2.run is version 570.1.2", "version 570.1.3"]);
}

#[test]
fn a_tree_that_is_none_is_refused() {
    let bench = Bench::new();
    let run = bench.installer("570.1.2");
    fs::create_dir(bench.path("tree")).unwrap();
    bench.files("570.1.2", &run, "");
    bench.refuses(&["is no tree of NVIDIA's open-gpu-kernel-modules"]);
}

#[test]
fn a_patch_that_does_not_fit_exactly_is_refused_by_name() {
    let bench = Bench::new();
    bench.tree("570.1.2");
    let run = bench.installer("570.1.2");
    bench.files("570.1.2", &run, "");
    let text = fs::read_to_string(bench.path("source.toml")).unwrap();
    bench.write("source.toml", text.replace("patches = \"\"", "patches = \"patches\""));
    bench.write("patches/series", "# order\n0001-good.patch\n0002-fuzzy.patch\n");
    let patch = |context: &str| {
        format!(
            "--- a/kernel-open/nvidia/nv.c\n+++ b/kernel-open/nvidia/nv.c\n@@ -1,3 +1,3 @@\n {context}\n-two\n+TWO\n three\n"
        )
    };
    bench.write("patches/0001-good.patch", patch("one").replace("TWO", "two again"));
    // a line of its surroundings differs: `patch` would take it with fuzz 1
    bench.write("patches/0002-fuzzy.patch", patch("ONE").replace("-two", "-two again"));
    bench.refuses(&["patch 0002-fuzzy.patch does not apply"]);

    bench.write("patches/series", "0003-none.patch\n");
    bench.refuses(&["0003-none.patch", "not there"]);
}

#[test]
fn a_description_with_a_mistake_is_refused() {
    for (from, to, words) in [
        ("patch = \"1\"", "patc = \"1\"", "key patc"),
        ("source = \"debian\"", "source = \"debain\"", "'debain'"),
        ("2400-25ff", "2400..25ff", "no range"),
        ("run_sha256 = \"\"", "run_sha256 = \"abc\"", "no SHA256"),
        ("schema = \"firstlight.driver-source/1\"", "schema = \"2\"", "schema is '2'"),
    ] {
        let bench = Bench::new();
        bench.description(&[(from, to)]);
        let output = bench.script("build.sh", &[&bench.path("kernel")]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(words), "{to}: {text}");
    }
}
