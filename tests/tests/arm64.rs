//! The arm64 image in QEMU, with an emulated processor. `./run test-arm64` builds the image and runs these tests; no other
//! recipe does. They prove nothing about real arm64 hardware.

use harness::simgpu::{Scenario, overlay};
use harness::{Boot, Booted, End, Image, Medium};

/// The largest size of a UKI without a driver, in bytes.
const MOST: u64 = 25_000_000;

/// The UKI on a disk that UEFI firmware boots from, with a USB controller behind the first of two root ports, and no GPU.
fn uki() -> Boot {
    let ports = [
        "pcie-root-port,id=rp1,chassis=1,slot=1",
        "pcie-root-port,id=rp2,chassis=2,slot=2",
    ];
    let boot = Boot::arm64().from(Medium::Disk(Image::arm64().uki().unwrap()));
    let boot = ports.iter().fold(boot, |boot, port| boot.device(port));
    boot.device("qemu-xhci,bus=rp1")
        .append("firstlight.expect.gpus=0 firstlight.policy.on_fail=poweroff")
}

/// The line of a test on the console.
#[track_caller]
fn row<'a>(booted: &'a Booted, test: &str) -> &'a str {
    let is_row = |line: &&str| line.split_whitespace().nth(1) == Some(test);
    booted
        .lines()
        .find(is_row)
        .unwrap_or_else(|| panic!("no row of {test}\n{booted}"))
}

#[test]
fn the_uki_is_small_and_boots_from_a_disk_to_its_verdict() {
    let bytes = std::fs::metadata(Image::arm64().uki().unwrap())
        .unwrap()
        .len();
    assert!(bytes <= MOST, "{bytes} bytes");
    let booted = uki().run().unwrap();
    assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
    // There is an SMMU, which maps every address to itself; an IOMMU class without groups would be a different machine.
    let iommu = row(&booted, "iommu");
    assert!(
        iommu.contains("PASS") && iommu.contains("groups, all identity"),
        "{iommu}\n{booted}"
    );
    assert!(
        row(&booted, "cmdline").contains("3 of 3 required parameters"),
        "{booted}"
    );
    println!(
        "{bytes} bytes; from QEMU's start to its end {:.1} s",
        booted.took.as_secs_f64()
    );
    booted.ended(&End::PowerOff);
}

#[test]
fn an_smmu_that_translates_is_a_failure() {
    let booted = uki().append("iommu.passthrough=0").run().unwrap();
    let verdict = booted.verdict();
    assert_eq!(
        (verdict.verdict.as_str(), &verdict.failed[..]),
        ("FAIL", &["iommu".to_owned()][..]),
        "{booted}"
    );
    assert_eq!(verdict.codes, ["IOMMU-TRANSLATING"], "{booted}");
}

/// One of two nodes, with two simulated GPUs; its network ports assign themselves link-local addresses.
fn node() -> Boot {
    let scenario = "on = \"epyc-8x4090\"\n[nccl]\nhca = \"host\"\n"
        .parse()
        .unwrap();
    let files = overlay(&Scenario::of(scenario).unwrap().gpus(2)).unwrap();
    let config = r#"
[network]
mode = "link-local"
soft_roce = true
timeout_s = 120
[nodes]
size = 2
token = "a token of the simulation"
rendezvous = "mdns"
timeout_s = 240
"#;
    let words = "firstlight.validate.level=quick firstlight.policy.on_fail=poweroff firstlight.policy.on_error=poweroff";
    Boot::arm64()
        .memory(1024)
        .overlay(|_| files)
        .config(config)
        .append(words)
}

#[test]
fn two_machines_find_each_other_over_two_cables_and_pass() {
    let both = Boot::cabled([node(), node()], &[[0, 0], [1, 1]])
        .unwrap()
        .map(|running| running.finish().unwrap());
    for booted in &both {
        assert_eq!(booted.verdict().verdict, "PASS", "{booted}");
        let machine =
            |line: &&str| line.starts_with("FIRSTLIGHT ") && line.contains(" scope=machine ");
        assert!(
            booted
                .lines()
                .find(machine)
                .unwrap()
                .ends_with(" nodes=PASS"),
            "{booted}"
        );
        println!("two machines: {:.1} s", booted.took.as_secs_f64());
        booted.ended(&End::PowerOff);
    }
    // Either node may lead. rdma_rxe is the kernel's own and libibverbs the image's own.
    let leads = |text: &str| both.iter().any(|booted| booted.console.contains(text));
    for text in [
        "PASS   nodes-nccl-socket",
        "PASS   rdma-host       2 pairs of ports, host memory",
    ] {
        assert!(leads(text), "{text}\n{}\n{}", both[0], both[1]);
    }
}
