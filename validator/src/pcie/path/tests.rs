use super::*;
use crate::pcie::sample::{bdf, device, gpu, two_gpus};

#[track_caller]
fn way(devices: &[Device], a: &str, b: &str) -> (PathKind, Vec<String>) {
    let path = between(&Tree::new(devices), bdf(a), bdf(b)).unwrap();
    (path.kind, path.ports.iter().map(ToString::to_string).collect())
}

/// Root port, switch with two GPUs, and a second switch with a GPU behind its third port.
fn switches() -> Vec<Device> {
    vec![
        device("0000:00:01.0", Kind::RootPort, None),
        device("0000:01:00.0", Kind::Upstream, Some("0000:00:01.0")),
        device("0000:02:08.0", Kind::Downstream, Some("0000:01:00.0")),
        device("0000:02:09.0", Kind::Downstream, Some("0000:01:00.0")),
        device("0000:02:0a.0", Kind::Downstream, Some("0000:01:00.0")),
        gpu("0000:03:00.0", "0000:02:08.0"),
        gpu("0000:04:00.0", "0000:02:09.0"),
        device("0000:05:00.0", Kind::Upstream, Some("0000:02:0a.0")),
        device("0000:06:00.0", Kind::Downstream, Some("0000:05:00.0")),
        gpu("0000:07:00.0", "0000:06:00.0"),
    ]
}

#[test]
fn inside_one_switch_is_pix_and_turns_below_the_upstream_port() {
    let (kind, ports) = way(&switches(), "0000:03:00.0", "0000:04:00.0");
    assert_eq!(kind, PathKind::Pix);
    assert_eq!(ports, ["0000:02:08.0", "0000:02:09.0"]);
}

#[test]
fn through_two_switches_is_pxb() {
    let (kind, ports) = way(&switches(), "0000:03:00.0", "0000:07:00.0");
    assert_eq!(kind, PathKind::Pxb);
    assert_eq!(ports, ["0000:02:08.0", "0000:02:0a.0", "0000:05:00.0", "0000:06:00.0"]);
}

#[test]
fn the_way_back_is_the_way_there_reversed() {
    let (there, back) =
        (way(&switches(), "0000:03:00.0", "0000:07:00.0"), way(&switches(), "0000:07:00.0", "0000:03:00.0"));
    assert_eq!(there.0, back.0);
    assert_eq!(there.1, back.1.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn functions_of_one_card_are_pix_without_a_port() {
    let mut devices = two_gpus();
    devices.push(gpu("0000:01:00.1", "0000:00:01.0"));
    assert_eq!(way(&devices, "0000:01:00.0", "0000:01:00.1"), (PathKind::Pix, vec![]));
}

#[test]
fn root_ports_of_one_host_bridge_are_phb() {
    let (kind, ports) = way(&two_gpus(), "0000:01:00.0", "0000:02:00.0");
    assert_eq!(kind, PathKind::Phb);
    assert_eq!(ports, ["0000:00:01.0", "0000:00:02.0"]);
}

#[test]
fn host_bridges_of_one_numa_node_are_node_and_of_two_are_sys() {
    let mut devices = two_gpus();
    devices[3].root_bus = Some("pci0000:40".into());
    assert_eq!(way(&devices, "0000:01:00.0", "0000:02:00.0").0, PathKind::Node);
    devices[3].numa = Some(1);
    assert_eq!(way(&devices, "0000:01:00.0", "0000:02:00.0").0, PathKind::Sys);
}

#[test]
fn a_missing_node_is_not_the_same_node_and_unread_root_buses_are_not_one() {
    let mut devices = two_gpus();
    devices[2].root_bus = None;
    devices[3].root_bus = None;
    assert_eq!(way(&devices, "0000:01:00.0", "0000:02:00.0").0, PathKind::Node);
    devices[3].numa = None;
    assert_eq!(way(&devices, "0000:01:00.0", "0000:02:00.0").0, PathKind::Sys);
}

#[track_caller]
fn speed(devices: &[Device]) -> f64 {
    between(&Tree::new(devices), bdf("0000:03:00.0"), bdf("0000:07:00.0")).unwrap().raw_gb_s
}

#[test]
fn the_narrowest_link_decides() {
    let mut devices = switches();
    assert!((speed(&devices) - 31.508).abs() < 0.001);
    devices[7].link.as_mut().unwrap().width = 4;
    assert!((speed(&devices) - 7.877).abs() < 0.001, "the inner switch's uplink");
}

#[test]
fn an_idle_links_rate_is_not_what_it_can_carry_and_the_slower_end_decides() {
    let mut devices = switches();
    devices[5].link.as_mut().unwrap().gts = 2.5;
    devices[2].link.as_mut().unwrap().gts = 2.5;
    assert!((speed(&devices) - 31.508).abs() < 0.001, "it is idle");
    devices[2].link.as_mut().unwrap().max_gts = 8.0;
    assert!((speed(&devices) - 15.754).abs() < 0.001, "the port can no more");
}

#[test]
fn a_link_beside_the_way_does_not_count() {
    let mut devices = switches();
    devices[1].link.as_mut().unwrap().width = 1;
    assert!((speed(&devices) - 31.508).abs() < 0.001, "the outer switch's uplink is not crossed");
}

#[test]
fn a_link_that_is_down_or_an_end_that_is_gone_has_no_speed() {
    let mut devices = switches();
    devices[9].config.gone = true;
    assert!(speed(&devices).abs() < f64::EPSILON);
    let mut devices = switches();
    devices[8].link.as_mut().unwrap().width = 0;
    assert!(speed(&devices).abs() < f64::EPSILON);
}

#[test]
fn every_unordered_pair_is_listed_once() {
    let devices = switches();
    let gpus = ["0000:03:00.0", "0000:04:00.0", "0000:07:00.0"].map(bdf);
    let nics = [bdf("0000:02:08.0")];
    assert_eq!(all(&Tree::new(&devices), &gpus, &nics).len(), 3 + 3);
}

#[test]
fn a_loop_of_parents_ends() {
    let mut devices = two_gpus();
    devices[0].parent = Some(bdf("0000:00:02.0"));
    devices[1].parent = Some(bdf("0000:00:01.0"));
    assert!(between(&Tree::new(&devices), bdf("0000:01:00.0"), bdf("0000:02:00.0")).is_some());
}
