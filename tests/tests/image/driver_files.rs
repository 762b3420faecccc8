//! Does `./run driver-files` describe a driver from NVIDIA's two files as a person has them, and name what is wrong with them?

use harness::driver_bench::{Bench, REGISTRY, one_error};
use std::fs;
use std::path::Path;
use std::process::Output;

const VERSION: &str = "590.1.2";

/// The two files of these versions, under the names of `VERSION`.
fn both(modules: &str, run: &str) -> Bench {
    let bench = Bench::new();
    bench.tree(modules);
    fs::rename(bench.path("tree"), bench.path(&format!("open-gpu-kernel-modules-{VERSION}"))).unwrap();
    let installer = bench.installer(run);
    fs::rename(installer, bench.path(&format!("NVIDIA-Linux-x86_64-{VERSION}.run"))).unwrap();
    bench
}

fn describe(bench: &Bench, families: &[&str]) -> Output {
    let folder = bench.path(".");
    let mut words = vec![Path::new(VERSION), &folder];
    words.extend(families.iter().map(Path::new));
    bench.script("files.sh", &words)
}

#[track_caller]
fn refused(bench: &Bench, families: &[&str], words: &[&str]) {
    one_error(&describe(bench, families), words);
    assert!(!bench.path("driver.toml").exists());
}

#[test]
fn two_files_that_belong_together_are_described_and_the_build_takes_it() {
    let bench = both(VERSION, VERSION);
    let output = describe(&bench, &[]);
    let (said, command) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{said}");
    assert!(
        command.starts_with("FIRSTLIGHT_DRIVER=/") && command.ends_with("/driver.toml ./run image\n"),
        "{command}"
    );
    // The tree is not NVIDIA's, so nothing is changed in it, and one key is not in its header.
    assert!(said.contains("no edits: edits edits: ") && said.contains("modules as they are\n"), "{said}");
    assert!(said.contains(
        "without blackwell: families.toml: family blackwell: 590.1.2: there is no key RMPcieP2PType there"
    ));
    let text = fs::read_to_string(bench.path("driver.toml")).unwrap();
    for line in [
        "version = \"590.1.2\"",
        "source = \"files\"",
        "patches = \"\"",
        "patch = \"\"",
        "families = [\"turing\", \"ampere\", \"hopper\", \"ada\", \"ada-other\", \"blackwell-datacenter\"]",
        "nccl = \"wheel\"",
        "modules = \"open-gpu-kernel-modules-590.1.2\"",
        "run = \"NVIDIA-Linux-x86_64-590.1.2.run\"",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line} in {text}");
    }
    // As far as the compiler, which this tree does not satisfy.
    bench.write("source.toml", text);
    bench.write("kernel/release", "6.12-firstlight\n");
    one_error(&bench.script("build.sh", &[&bench.path("kernel")]), &["the driver's modules do not build"]);
}

#[test]
fn families_that_are_named_are_the_ones_that_are_described() {
    let bench = both(VERSION, VERSION);
    let header = format!("open-gpu-kernel-modules-{VERSION}/src/nvidia/interface/nvrm_registry.h");
    let more = "#define T \"RMPcieP2PType\"\n#define T_BAR1 1\n#define S \"RMForceStaticBar1\"\n#define S_ENABLE 1\n";
    bench.write(&header, REGISTRY.to_owned() + more);
    let output = describe(&bench, &["blackwell"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success()
            && said.contains("blackwell: ForceP2P=17;RMPcieP2PType=1;RMForceStaticBar1=1\n"),
        "{said}"
    );
    assert!(fs::read_to_string(bench.path("driver.toml")).unwrap().contains("families = [\"blackwell\"]\n"));
    one_error(&describe(&bench, &[]), &["driver.toml is there already"]);
}

#[test]
fn what_is_missing_or_wrong_is_named_and_nothing_is_written() {
    let empty = Bench::new();
    refused(
        &empty,
        &[],
        &[
            "lacks open-gpu-kernel-modules-590.1.2.tar.gz, tag 590.1.2 of",
            "; and NVIDIA-Linux-x86_64-590.1.2.run",
        ],
    );
    refused(&both("590.1.3", VERSION), &[], &["open-gpu-kernel-modules-590.1.2 is version 590.1.3"]);
    refused(&both(VERSION, "590.1.3"), &[], &["NVIDIA-Linux-x86_64-590.1.2.run is version 590.1.3"]);
    refused(&both(VERSION, VERSION), &["ada", "blackwell"], &["there is no key RMPcieP2PType there"]);
    refused(&both(VERSION, VERSION), &["adda"], &["'adda' is no family; allowed: turing"]);
    one_error(&empty.script("files.sh", &[Path::new("new")]), &["'new' is no version"]);
    one_error(
        &empty.script("files.sh", &[Path::new(VERSION), Path::new("/does/not/exist")]),
        &["there is no folder"],
    );
    let foreign = Bench::new();
    foreign.tree(VERSION);
    fs::rename(foreign.path("tree"), foreign.path(&format!("open-gpu-kernel-modules-{VERSION}"))).unwrap();
    foreign.installer_for(VERSION, 0xb7);
    refused(&foreign, &[], &["NVIDIA-Linux-x86_64-590.1.2.run is not for x86-64 processors"]);
}
