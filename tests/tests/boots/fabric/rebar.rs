//! Does the pass grow BAR1 if there is room: for a single GPU, for all GPUs of a switch together, and as far as
//! possible if the full size does not fit? If BAR1 cannot grow, does everything stay as it was, and does the boot say
//! why?

use harness::config_space::{SAVE_ALL_DEVICES, SAVE_PORTS};
use harness::fakepci::Topology;
use harness::{Boot, Booted};

const GIB: u64 = 1 << 30;

fn boot(topology: &Topology) -> Booted {
    let boot = Boot::shipped().fakepci(topology).unwrap();
    boot.workload(SAVE_ALL_DEVICES)
        .on_any_verdict()
        .run()
        .unwrap()
}

/// The codes of the pass's findings about one GPU.
fn finding_codes(booted: &Booted, bdf: &str) -> Vec<String> {
    let journal = booted.json("firstlight/fabric.json");
    let all = journal["findings"].as_array().cloned().unwrap_or_default();
    let about = all.iter().filter(|f| f["subject"] == bdf);
    about
        .map(|f| f["code"].as_str().unwrap().to_owned())
        .collect()
}

/// Two GPUs and a network card share the window of one switch: no BAR can grow while the other devices are in place.
/// The kernel sets ACS again at a rescan; it must be off in the end nevertheless.
#[test]
fn a_shared_window_is_grown_for_all_gpus_of_a_switch() {
    let mut topology = Topology::new();
    let root = topology.root_port(1, "");
    let [a, b, c] = topology.switch(root, ["", "", ""]);
    for port in [a, b] {
        topology.gpu(port, "");
        topology.audio(port);
    }
    topology.nic(c, "");
    topology.parameter("window=0x2000000000");
    let boot = Boot::shipped()
        .fakepci(&topology)
        .unwrap()
        .workload(&[SAVE_ALL_DEVICES, SAVE_PORTS].concat());
    let boot = boot
        .append("pci=config_acs=1111111@pci:0:0")
        .on_any_verdict();
    let booted = boot.run().unwrap();

    let all = ["0001:03:00.0", "0001:04:00.0", "0001:05:00.0"];
    for gpu in &all[..2] {
        assert!(
            booted.bar1(gpu).agrees_on(32 * GIB),
            "{:x?}\n{booted}",
            booted.bar1(gpu)
        );
        assert_eq!(finding_codes(&booted, gpu), ["REBAR-RESIZED"]);
    }
    booted.assert_bars_consistent(&all);
    let report = booted.report();
    for sound in ["0001:03:00.1", "0001:04:00.1"] {
        assert_ne!(
            report.device(sound)["bars"][0]["start"],
            0,
            "{sound} came back without an address"
        );
    }
    for port in ["0001:02:00.0", "0001:02:01.0"] {
        assert_eq!(booted.acs_control(port), 0, "{port}\n{booted}");
    }
    assert_eq!(report.outcome("acs"), "pass", "{}", report.0);
    booted.says("BAR1 2 of 2 full size");
}

#[test]
fn eight_gpus_behind_two_switches_get_their_full_size() {
    let mut topology = Topology::new();
    for dev in [1, 2] {
        let root = topology.root_port(dev, "");
        for port in topology.switch(root, [""; 4]) {
            topology.gpu(port, "");
        }
    }
    topology.parameter("window=0x8000000000");
    let booted = boot(&topology);

    let gpus: Vec<String> = [3, 4, 5, 6, 9, 10, 11, 12]
        .iter()
        .map(|bus| format!("0001:{bus:02x}:00.0"))
        .collect();
    let gpus: Vec<&str> = gpus.iter().map(String::as_str).collect();
    booted.assert_bars_consistent(&gpus);
    for gpu in gpus {
        assert!(
            booted.bar1(gpu).agrees_on(32 * GIB),
            "{gpu}: {:x?}\n{booted}",
            booted.bar1(gpu)
        );
    }
    booted.says("BAR1 8 of 8 full size");
}

#[test]
fn restore_returns_to_the_firmwares_sizes() {
    let mut topology = Topology::new();
    let root = topology.root_port(1, "");
    for port in topology.switch(root, ["", ""]) {
        topology.gpu(port, "");
    }
    let boot = Boot::shipped().fakepci(&topology).unwrap();
    let script = [
        "firstlight fabric restore > /run/kept/restore; echo $? >> /run/kept/restore",
        SAVE_ALL_DEVICES,
    ]
    .concat();
    let booted = boot.workload(&script).on_any_verdict().run().unwrap();

    booted.says("BAR1 2 of 2 full size");
    let gpus = ["0001:03:00.0", "0001:04:00.0"];
    booted.assert_bars_consistent(&gpus);
    let output = booted.text("kept/restore");
    for gpu in gpus {
        assert!(
            output.contains(&format!("{gpu} BAR1 32 GiB -> 256 MiB")),
            "{output}"
        );
        assert!(
            booted.bar1(gpu).agrees_on(256 << 20),
            "{:x?}\n{booted}",
            booted.bar1(gpu)
        );
    }
    assert!(output.ends_with("\n0"), "{output}");
}

/// The GPU that ignores its new size is detected while all are prepared; the other one grows without it.
#[test]
fn a_neighbour_that_ignores_the_write_does_not_keep_the_other_small() {
    let mut topology = Topology::new();
    let root = topology.root_port(1, "");
    let [a, b] = topology.switch(root, ["", ""]);
    topology.gpu(a, "fault=rebar-readonly");
    topology.gpu(b, "");
    let booted = boot(&topology);

    let gpus = ["0001:03:00.0", "0001:04:00.0"];
    booted.assert_bars_consistent(&gpus);
    assert!(
        booted.bar1(gpus[0]).agrees_on(256 << 20),
        "{:x?}\n{booted}",
        booted.bar1(gpus[0])
    );
    assert!(
        booted.bar1(gpus[1]).agrees_on(32 * GIB),
        "{:x?}\n{booted}",
        booted.bar1(gpus[1])
    );
    assert_eq!(finding_codes(&booted, gpus[0]), ["REBAR-IGNORED"]);
    assert_eq!(finding_codes(&booted, gpus[1]), ["REBAR-RESIZED"]);
}

/// A window of 96 GiB is too small for three BARs of 32 GiB and the other BARs: each of the three GPUs gets 16 GiB.
#[test]
fn three_gpus_that_do_not_fit_step_down_together() {
    let mut topology = Topology::new();
    let root = topology.root_port(1, "");
    for port in topology.switch(root, ["", "", ""]) {
        topology.gpu(port, "");
    }
    let booted = boot(&topology);

    let gpus = ["0001:03:00.0", "0001:04:00.0", "0001:05:00.0"];
    for gpu in gpus {
        assert!(
            booted.bar1(gpu).agrees_on(16 * GIB),
            "{:x?}\n{booted}",
            booted.bar1(gpu)
        );
        assert_eq!(
            finding_codes(&booted, gpu),
            ["REBAR-RESIZED", "REBAR-NO-ROOM"]
        );
    }
    booted.assert_bars_consistent(&gpus);
    let tries = &booted.json("firstlight/fabric.json")["bars"][0]["tries"];
    assert_eq!(
        (&tries[0]["bytes"], &tries[0]["together"]),
        (&(32 * GIB).into(), &false.into()),
        "{tries}"
    );
    booted.says("BAR1 0 of 3 full; REBAR-NO-ROOM");
}

/// Three GPUs behind three root ports share 96 GiB: the last one gets what the others leave.
#[test]
fn gpus_behind_separate_root_ports_step_down_one_by_one() {
    let mut topology = Topology::new();
    for dev in [1, 2, 3] {
        let root = topology.root_port(dev, "");
        topology.gpu(root, "");
    }
    let booted = boot(&topology);

    let gpus = ["0001:01:00.0", "0001:02:00.0", "0001:03:00.0"];
    booted.assert_bars_consistent(&gpus);
    let sizes: Vec<u64> = gpus.iter().map(|gpu| booted.bar1(gpu).bytes).collect();
    for (gpu, bytes) in gpus.iter().zip(&sizes) {
        assert!(
            booted.bar1(gpu).agrees_on(*bytes),
            "{:x?}\n{booted}",
            booted.bar1(gpu)
        );
    }
    assert_eq!(sizes[0], 32 * GIB, "{sizes:?}\n{booted}");
    assert!(
        sizes[2] > 256 << 20 && sizes[2] < 32 * GIB,
        "{sizes:?}\n{booted}"
    );
    assert_eq!(
        finding_codes(&booted, gpus[2]),
        ["REBAR-RESIZED", "REBAR-NO-ROOM"]
    );
}

/// The firmware left BAR1 so large that the third GPU's BAR1 got no address.
#[test]
fn a_bar_without_address_gets_a_smaller_size_that_fits() {
    let mut topology = Topology::new();
    for dev in [1, 2, 3] {
        let root = topology.root_port(dev, "");
        topology.gpu(root, "cur=15");
    }
    let booted = boot(&topology);

    let gpus = ["0001:01:00.0", "0001:02:00.0", "0001:03:00.0"];
    booted.assert_bars_consistent(&gpus);
    for gpu in gpus {
        let bar = booted.bar1(gpu);
        assert!(bar.agrees_on(bar.bytes), "{gpu}: {bar:x?}\n{booted}");
    }
}

const FIRMWARE: u64 = 256 << 20;
/// The fake GPU and the fake network card, as `bind=` names them.
const GPU: u32 = 0x2684_10de;
const NIC: u32 = 0x1021_15b3;

/// Two GPUs, each behind its own root port.
fn two_gpus(options: &str) -> Topology {
    let mut topology = Topology::new();
    for dev in [1, 2] {
        let root = topology.root_port(dev, "");
        topology.gpu(root, options);
    }
    topology
}

const BOTH: [&str; 2] = ["0001:01:00.0", "0001:02:00.0"];

/// The pass's only finding about a GPU.
#[track_caller]
fn only_finding(booted: &Booted, bdf: &str) -> serde_json::Value {
    let journal = booted.json("firstlight/fabric.json");
    let all = journal["findings"].as_array().cloned().unwrap_or_default();
    let about: Vec<_> = all.into_iter().filter(|f| f["subject"] == bdf).collect();
    assert_eq!(about.len(), 1, "{about:?}\n{booted}");
    about[0].clone()
}

/// Fails the test unless these GPUs have the sizes that the firmware set, and this finding.
#[track_caller]
fn assert_unchanged(booted: &Booted, gpus: &[&str], code: &str, severity: &str) {
    booted.assert_bars_consistent(gpus);
    for gpu in gpus {
        assert!(
            booted.bar1(gpu).agrees_on(FIRMWARE),
            "{gpu}: {:x?}\n{booted}",
            booted.bar1(gpu)
        );
        let finding = only_finding(booted, gpu);
        assert_eq!(
            (finding["code"].as_str(), finding["severity"].as_str()),
            (Some(code), Some(severity)),
            "{finding}"
        );
    }
    booted.says(code);
}

/// The kernel's own rollback leaves a wrong address in the BAR register, which overlaps the neighbour's BAR.
#[test]
fn without_any_room_every_register_keeps_its_address() {
    let mut topology = two_gpus("");
    topology.parameter("window=0x30000000");
    let booted = boot(&topology);
    assert_unchanged(&booted, &BOTH, "REBAR-NO-ROOM", "warn");
    let evidence = only_finding(&booted, BOTH[0])["evidence"].to_string();
    for part in [
        "firmware left 256 MiB",
        "32 GiB: ENOSPC",
        "512 MiB: ENOSPC",
        "window of 0001:00:01.0",
        "fakepci high",
    ] {
        assert!(evidence.contains(part), "{part} is missing in {evidence}");
    }
}

fn two_gpus_and_a_nic_on_one_switch() -> Topology {
    let mut topology = Topology::new();
    let root = topology.root_port(1, "");
    let [a, b, c] = topology.switch(root, ["", "", ""]);
    topology.gpu(a, "");
    topology.gpu(b, "");
    topology.nic(c, "");
    topology
}

/// If the new sizes do not fit after everything below the port was removed, all GPUs lose their addresses;
/// the pass must restore them.
#[test]
fn without_room_below_a_switch_everything_is_put_back() {
    let mut topology = two_gpus_and_a_nic_on_one_switch();
    topology.parameter("window=0x40000000");
    let booted = boot(&topology);
    assert_unchanged(
        &booted,
        &["0001:03:00.0", "0001:04:00.0"],
        "REBAR-NO-ROOM",
        "warn",
    );
    booted.assert_bars_consistent(&["0001:03:00.0", "0001:04:00.0", "0001:05:00.0"]);
    let evidence = only_finding(&booted, "0001:03:00.0")["evidence"].to_string();
    assert!(
        evidence.contains("together with its neighbours"),
        "{evidence}"
    );
}

/// A rescan below one port that finds no room may remove the windows of all other ports: a device that is in use there,
/// with a driver, must not be affected.
#[test]
fn a_device_in_use_below_another_port_keeps_its_addresses() {
    let mut topology = Topology::new();
    let first = topology.root_port(1, "");
    let [a, b] = topology.switch(first, ["", ""]);
    topology.gpu(a, "");
    topology.gpu(b, "");
    let second = topology.root_port(2, "");
    topology.nic(second, "");
    topology.parameter("window=0x40000000");
    topology.parameter(&format!("bind={NIC:#x}"));
    let script = "
case \" $* \" in *' fabric fix '*)
\tmkdir -p /run/kept
\tcat /sys/bus/pci/devices/0001:05:00.0/resource > /run/kept/before ;;
esac
exec /t/firstlight \"$@\"";
    let boot = Boot::shipped()
        .fakepci(&topology)
        .unwrap()
        .validator(script)
        .unwrap();
    let boot = boot.workload(SAVE_ALL_DEVICES);
    let booted = boot.on_any_verdict().run().unwrap();

    assert_unchanged(
        &booted,
        &["0001:03:00.0", "0001:04:00.0"],
        "REBAR-NO-ROOM",
        "warn",
    );
    let evidence = only_finding(&booted, "0001:03:00.0")["evidence"].to_string();
    assert!(
        evidence.contains("together with its neighbours"),
        "{evidence}"
    );
    assert_eq!(
        booted.text("kept/resource.0001:05:00.0"),
        booted.text("kept/before")
    );
    booted.assert_bars_consistent(&["0001:03:00.0", "0001:04:00.0", "0001:05:00.0"]);
}

#[test]
fn a_neighbour_in_use_is_never_removed() {
    let mut topology = two_gpus_and_a_nic_on_one_switch();
    topology.parameter(&format!("bind={NIC:#x}"));
    let booted = boot(&topology);
    assert_unchanged(
        &booted,
        &["0001:03:00.0", "0001:04:00.0"],
        "REBAR-NO-ROOM",
        "warn",
    );
    let cause = only_finding(&booted, "0001:03:00.0")["cause"].to_string();
    assert!(
        cause.contains("0001:05:00.0 shares the window and has the driver fakepci bound"),
        "{cause}"
    );
    assert_eq!(booted.report().device("0001:05:00.0")["driver"], "fakepci");
}

#[test]
fn firmware_that_forbids_a_resize_is_obeyed() {
    let mut topology = two_gpus("");
    topology.parameter("preserve=1");
    assert_unchanged(&boot(&topology), &BOTH, "REBAR-PRESERVED", "warn");
}

#[test]
fn a_gpu_without_the_capability_is_named() {
    let booted = boot(&two_gpus("sizes=0"));
    booted.assert_bars_consistent(&BOTH);
    for gpu in BOTH {
        assert_eq!(booted.bar1(gpu).bytes, FIRMWARE);
        assert_eq!(only_finding(&booted, gpu)["code"], "REBAR-ABSENT");
    }
    booted.says("BAR1 0 of 2 full; REBAR-ABSENT");
}

#[test]
fn a_gpu_with_a_driver_is_not_touched() {
    let mut topology = two_gpus("");
    topology.parameter(&format!("bind={GPU:#x}"));
    let booted = boot(&topology);
    assert_unchanged(&booted, &BOTH, "REBAR-BUSY", "warn");
    assert!(booted.json("firstlight/fabric.json")["bars"].is_null());
}
