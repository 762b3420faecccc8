//! Where BAR1 cannot grow: is everything as it was, and does the boot say why?

use harness::config_space::KEEP_BARS;
use harness::fakepci::Topology;
use harness::{Boot, Booted};

const FIRMWARE: u64 = 256 << 20;
/// The fake GPU and the fake network card, as `bind=` names them.
const GPU: u32 = 0x2684_10de;
const NIC: u32 = 0x1021_15b3;

fn boot(topology: &Topology, words: &str) -> Booted {
    let boot = Boot::shipped().fakepci(topology).unwrap();
    let boot = boot.append(&format!("firstlight.driver.load=false {words}"));
    boot.workload(KEEP_BARS).whatever_the_verdict().run().unwrap()
}

/// Two GPUs, each behind a root port of its own.
fn two_gpus(options: &str) -> Topology {
    let mut topology = Topology::new();
    for dev in [1, 2] {
        let root = topology.root_port(dev, "");
        topology.gpu(root, options);
    }
    topology
}

const BOTH: [&str; 2] = ["0001:01:00.0", "0001:02:00.0"];

/// The only finding of the pass about a GPU.
#[track_caller]
fn finding(booted: &Booted, bdf: &str) -> serde_json::Value {
    let journal = booted.json("firstlight/fabric.json");
    let all = journal["findings"].as_array().cloned().unwrap_or_default();
    let about: Vec<_> = all.into_iter().filter(|f| f["subject"] == bdf).collect();
    assert_eq!(about.len(), 1, "{about:?}\n{booted}");
    about[0].clone()
}

#[track_caller]
fn as_it_was(booted: &Booted, gpus: &[&str], code: &str, severity: &str) {
    booted.bars_are_sound(gpus);
    for gpu in gpus {
        assert!(booted.bar1(gpu).is(FIRMWARE), "{gpu}: {:x?}\n{booted}", booted.bar1(gpu));
        let said = finding(booted, gpu);
        assert_eq!(
            (said["code"].as_str(), said["severity"].as_str()),
            (Some(code), Some(severity)),
            "{said}"
        );
    }
    booted.says(code);
}

/// The kernel's own way back leaves the BAR register at the wrong address, on the neighbour's BAR.
#[test]
fn no_room_at_all_leaves_every_register_where_it_was() {
    let mut topology = two_gpus("");
    topology.parameter("window=0x30000000");
    let booted = boot(&topology, "");
    as_it_was(&booted, &BOTH, "REBAR-NO-ROOM", "warn");
    let evidence = finding(&booted, BOTH[0])["evidence"].to_string();
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

/// Moving everything below the port aside costs all GPUs their addresses when it does not fit.
#[test]
fn no_room_below_a_switch_puts_everything_back() {
    let mut topology = two_gpus_and_a_nic_on_one_switch();
    topology.parameter("window=0x40000000");
    let booted = boot(&topology, "");
    as_it_was(&booted, &["0001:03:00.0", "0001:04:00.0"], "REBAR-NO-ROOM", "warn");
    booted.bars_are_sound(&["0001:03:00.0", "0001:04:00.0", "0001:05:00.0"]);
    let evidence = finding(&booted, "0001:03:00.0")["evidence"].to_string();
    assert!(evidence.contains("together with its neighbours"), "{evidence}");
}

/// A rescan below one port may, when it finds no room, take the windows of all others away: who works
/// there, with a driver, must not notice anything.
#[test]
fn a_device_in_use_below_another_port_stays_where_it_is() {
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
    let boot = Boot::shipped().fakepci(&topology).unwrap().validator(script).unwrap();
    let boot = boot.append("firstlight.driver.load=false").workload(KEEP_BARS);
    let booted = boot.whatever_the_verdict().run().unwrap();

    as_it_was(&booted, &["0001:03:00.0", "0001:04:00.0"], "REBAR-NO-ROOM", "warn");
    let evidence = finding(&booted, "0001:03:00.0")["evidence"].to_string();
    assert!(evidence.contains("together with its neighbours"), "{evidence}");
    assert_eq!(booted.text("kept/resource.0001:05:00.0"), booted.text("kept/before"));
    booted.bars_are_sound(&["0001:03:00.0", "0001:04:00.0", "0001:05:00.0"]);
}

#[test]
fn a_neighbour_in_use_is_never_taken_away() {
    let mut topology = two_gpus_and_a_nic_on_one_switch();
    topology.parameter(&format!("bind={NIC:#x}"));
    let booted = boot(&topology, "");
    as_it_was(&booted, &["0001:03:00.0", "0001:04:00.0"], "REBAR-NO-ROOM", "warn");
    let cause = finding(&booted, "0001:03:00.0")["cause"].to_string();
    assert!(cause.contains("0001:05:00.0 shares the window and has the driver fakepci bound"), "{cause}");
    assert_eq!(booted.report().device("0001:05:00.0")["driver"], "fakepci");
}

#[test]
fn firmware_that_forbids_it_is_obeyed() {
    let mut topology = two_gpus("");
    topology.parameter("preserve=1");
    as_it_was(&boot(&topology, ""), &BOTH, "REBAR-PRESERVED", "warn");
}

/// The kernel reports success; only the control register knows better.
#[test]
fn a_gpu_that_ignores_the_write_is_named() {
    as_it_was(&boot(&two_gpus("fault=rebar-readonly"), ""), &BOTH, "REBAR-IGNORED", "warn");
}

#[test]
fn a_gpu_without_the_capability_is_named() {
    let booted = boot(&two_gpus("sizes=0"), "");
    booted.bars_are_sound(&BOTH);
    for gpu in BOTH {
        assert_eq!(booted.bar1(gpu).bytes, FIRMWARE);
        assert_eq!(finding(&booted, gpu)["code"], "REBAR-ABSENT");
    }
    booted.says("BAR1 0 of 2 full; REBAR-ABSENT");
}

#[test]
fn a_gpu_with_a_driver_is_not_touched() {
    let mut topology = two_gpus("");
    topology.parameter(&format!("bind={GPU:#x}"));
    let booted = boot(&topology, "");
    as_it_was(&booted, &BOTH, "REBAR-BUSY", "warn");
    assert!(booted.json("firstlight/fabric.json")["bars"].is_null());
}

#[test]
fn who_asks_only_to_look_gets_nothing_changed() {
    let booted = boot(&two_gpus(""), "firstlight.fabric.rebar=check");
    booted.bars_are_sound(&BOTH);
    assert!(BOTH.iter().all(|gpu| booted.bar1(gpu).is(FIRMWARE)), "{booted}");
    booted.says("BAR1 0 of 2 full size");
}
