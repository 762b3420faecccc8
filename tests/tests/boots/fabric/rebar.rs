//! Does the pass grow BAR1 where there is room: alone, for all GPUs of a switch together, and as far
//! as it goes where it does not go all the way? Where BAR1 cannot grow: is everything as it was, and does the boot say why?

use harness::config_space::{KEEP, KEEP_BARS};
use harness::fakepci::Topology;
use harness::{Boot, Booted};

const GIB: u64 = 1 << 30;

fn boot(topology: &Topology) -> Booted {
    let boot = Boot::shipped().fakepci(topology).unwrap();
    boot.append("firstlight.driver.load=false").workload(KEEP_BARS).whatever_the_verdict().run().unwrap()
}

/// Codes of the pass about one GPU.
fn codes(booted: &Booted, bdf: &str) -> Vec<String> {
    let journal = booted.json("firstlight/fabric.json");
    let all = journal["findings"].as_array().cloned().unwrap_or_default();
    let about = all.iter().filter(|f| f["subject"] == bdf);
    about.map(|f| f["code"].as_str().unwrap().to_owned()).collect()
}

/// Two GPUs and a network card share the window of one switch: none of them can grow while the others
/// are there. ACS, which the kernel sets anew at a rescan, must be off in the end all the same.
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
    let boot = Boot::shipped().fakepci(&topology).unwrap().workload(&[KEEP_BARS, KEEP].concat());
    let boot =
        boot.append("firstlight.driver.load=false pci=config_acs=1111111@pci:0:0").whatever_the_verdict();
    let booted = boot.run().unwrap();

    let all = ["0001:03:00.0", "0001:04:00.0", "0001:05:00.0"];
    for gpu in &all[..2] {
        assert!(booted.bar1(gpu).is(32 * GIB), "{:x?}\n{booted}", booted.bar1(gpu));
        assert_eq!(codes(&booted, gpu), ["REBAR-RESIZED"]);
    }
    booted.bars_are_sound(&all);
    let report = booted.report();
    for sound in ["0001:03:00.1", "0001:04:00.1"] {
        assert_ne!(report.device(sound)["bars"][0]["start"], 0, "{sound} came back without address");
    }
    for port in ["0001:02:00.0", "0001:02:01.0"] {
        assert_eq!(booted.acs_control(port), 0, "{port}\n{booted}");
    }
    assert_eq!(report.outcome("acs"), "pass", "{}", report.0);
    booted.says("BAR1 2 of 2 full size");
}

#[test]
fn eight_gpus_behind_two_switches_become_full() {
    let mut topology = Topology::new();
    for dev in [1, 2] {
        let root = topology.root_port(dev, "");
        for port in topology.switch(root, [""; 4]) {
            topology.gpu(port, "");
        }
    }
    topology.parameter("window=0x8000000000");
    let booted = boot(&topology);

    let gpus: Vec<String> =
        [3, 4, 5, 6, 9, 10, 11, 12].iter().map(|bus| format!("0001:{bus:02x}:00.0")).collect();
    let gpus: Vec<&str> = gpus.iter().map(String::as_str).collect();
    booted.bars_are_sound(&gpus);
    for gpu in gpus {
        assert!(booted.bar1(gpu).is(32 * GIB), "{gpu}: {:x?}\n{booted}", booted.bar1(gpu));
    }
    booted.says("BAR1 8 of 8 full size");
}

#[test]
fn restore_gives_firmwares_sizes_back() {
    let mut topology = Topology::new();
    let root = topology.root_port(1, "");
    for port in topology.switch(root, ["", ""]) {
        topology.gpu(port, "");
    }
    let boot = Boot::shipped().fakepci(&topology).unwrap().append("firstlight.driver.load=false");
    let script =
        ["firstlight fabric restore > /run/kept/restore; echo $? >> /run/kept/restore", KEEP_BARS].concat();
    let booted = boot.workload(&script).whatever_the_verdict().run().unwrap();

    booted.says("BAR1 2 of 2 full size");
    let gpus = ["0001:03:00.0", "0001:04:00.0"];
    booted.bars_are_sound(&gpus);
    let said = booted.text("kept/restore");
    for gpu in gpus {
        assert!(said.contains(&format!("{gpu} BAR1 32 GiB -> 256 MiB")), "{said}");
        assert!(booted.bar1(gpu).is(256 << 20), "{:x?}\n{booted}", booted.bar1(gpu));
    }
    assert!(said.ends_with("\n0"), "{said}");
}

/// The one that takes no size is found out while all are prepared; the other grows without it.
#[test]
fn a_neighbour_that_ignores_the_write_does_not_keep_the_other_small() {
    let mut topology = Topology::new();
    let root = topology.root_port(1, "");
    let [a, b] = topology.switch(root, ["", ""]);
    topology.gpu(a, "fault=rebar-readonly");
    topology.gpu(b, "");
    let booted = boot(&topology);

    let gpus = ["0001:03:00.0", "0001:04:00.0"];
    booted.bars_are_sound(&gpus);
    assert!(booted.bar1(gpus[0]).is(256 << 20), "{:x?}\n{booted}", booted.bar1(gpus[0]));
    assert!(booted.bar1(gpus[1]).is(32 * GIB), "{:x?}\n{booted}", booted.bar1(gpus[1]));
    assert_eq!(codes(&booted, gpus[0]), ["REBAR-IGNORED"]);
    assert_eq!(codes(&booted, gpus[1]), ["REBAR-RESIZED"]);
}

/// 96 GiB do not hold three times 32 GiB beside the rest: the three get 16 GiB, the same for all.
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
        assert!(booted.bar1(gpu).is(16 * GIB), "{:x?}\n{booted}", booted.bar1(gpu));
        assert_eq!(codes(&booted, gpu), ["REBAR-RESIZED", "REBAR-NO-ROOM"]);
    }
    booted.bars_are_sound(&gpus);
    let tries = &booted.json("firstlight/fabric.json")["bars"][0]["tries"];
    assert_eq!((&tries[0]["bytes"], &tries[0]["together"]), (&(32 * GIB).into(), &false.into()), "{tries}");
    booted.says("BAR1 0 of 3 full; REBAR-NO-ROOM");
}

/// Three GPUs behind three root ports share 96 GiB: the last one gets what the others leave.
#[test]
fn root_ports_of_their_own_step_down_one_by_one() {
    let mut topology = Topology::new();
    for dev in [1, 2, 3] {
        let root = topology.root_port(dev, "");
        topology.gpu(root, "");
    }
    let booted = boot(&topology);

    let gpus = ["0001:01:00.0", "0001:02:00.0", "0001:03:00.0"];
    booted.bars_are_sound(&gpus);
    let sizes: Vec<u64> = gpus.iter().map(|gpu| booted.bar1(gpu).bytes).collect();
    for (gpu, bytes) in gpus.iter().zip(&sizes) {
        assert!(booted.bar1(gpu).is(*bytes), "{:x?}\n{booted}", booted.bar1(gpu));
    }
    assert_eq!(sizes[0], 32 * GIB, "{sizes:?}\n{booted}");
    assert!(sizes[2] > 256 << 20 && sizes[2] < 32 * GIB, "{sizes:?}\n{booted}");
    assert_eq!(codes(&booted, gpus[2]), ["REBAR-RESIZED", "REBAR-NO-ROOM"]);
}

/// The firmware left BAR1 so large that the third one got no address at all.
#[test]
fn a_bar_without_address_gets_a_smaller_size_that_fits() {
    let mut topology = Topology::new();
    for dev in [1, 2, 3] {
        let root = topology.root_port(dev, "");
        topology.gpu(root, "cur=15");
    }
    let booted = boot(&topology);

    let gpus = ["0001:01:00.0", "0001:02:00.0", "0001:03:00.0"];
    booted.bars_are_sound(&gpus);
    for gpu in gpus {
        let bar = booted.bar1(gpu);
        assert!(bar.is(bar.bytes), "{gpu}: {bar:x?}\n{booted}");
    }
}

const FIRMWARE: u64 = 256 << 20;
/// The fake GPU and the fake network card, as `bind=` names them.
const GPU: u32 = 0x2684_10de;
const NIC: u32 = 0x1021_15b3;

fn boot_with(topology: &Topology, words: &str) -> Booted {
    let boot_with = Boot::shipped().fakepci(topology).unwrap();
    let boot_with = boot_with.append(&format!("firstlight.driver.load=false {words}"));
    boot_with.workload(KEEP_BARS).whatever_the_verdict().run().unwrap()
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
    let booted = boot_with(&topology, "");
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
    let booted = boot_with(&topology, "");
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
    let boot_with = Boot::shipped().fakepci(&topology).unwrap().validator(script).unwrap();
    let boot_with = boot_with.append("firstlight.driver.load=false").workload(KEEP_BARS);
    let booted = boot_with.whatever_the_verdict().run().unwrap();

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
    let booted = boot_with(&topology, "");
    as_it_was(&booted, &["0001:03:00.0", "0001:04:00.0"], "REBAR-NO-ROOM", "warn");
    let cause = finding(&booted, "0001:03:00.0")["cause"].to_string();
    assert!(cause.contains("0001:05:00.0 shares the window and has the driver fakepci bound"), "{cause}");
    assert_eq!(booted.report().device("0001:05:00.0")["driver"], "fakepci");
}

#[test]
fn firmware_that_forbids_it_is_obeyed() {
    let mut topology = two_gpus("");
    topology.parameter("preserve=1");
    as_it_was(&boot_with(&topology, ""), &BOTH, "REBAR-PRESERVED", "warn");
}

#[test]
fn a_gpu_without_the_capability_is_named() {
    let booted = boot_with(&two_gpus("sizes=0"), "");
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
    let booted = boot_with(&topology, "");
    as_it_was(&booted, &BOTH, "REBAR-BUSY", "warn");
    assert!(booted.json("firstlight/fabric.json")["bars"].is_null());
}
