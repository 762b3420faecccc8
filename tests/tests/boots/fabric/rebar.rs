//! Does the pass grow BAR1 where there is room: alone, for all GPUs of a switch together, and as far
//! as it goes where it does not go all the way?

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

#[test]
fn gpus_alone_behind_their_root_ports_get_all_they_offer() {
    let mut topology = Topology::new();
    for dev in [1, 2] {
        let root = topology.root_port(dev, "");
        topology.gpu(root, "");
        topology.audio(root);
    }
    // The kernel rounds the window of 32 GiB and 32 MiB up to 48 GiB.
    topology.parameter("window=0x2000000000");
    let booted = boot(&topology);

    let gpus = ["0001:01:00.0", "0001:02:00.0"];
    for gpu in gpus {
        assert!(booted.bar1(gpu).is(32 * GIB), "{:x?}\n{booted}", booted.bar1(gpu));
        assert_eq!(codes(&booted, gpu), ["REBAR-RESIZED"]);
        assert_eq!(booted.report().device(gpu)["bars"][1]["bytes"], 32 * GIB);
    }
    booted.bars_are_sound(&gpus);
    booted.says("BAR1 2 of 2 full size");
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
