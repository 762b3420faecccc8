//! What is said of ports in every state, with two GPUs and one or two cards.

use super::super::fixture;
use super::*;
use crate::host::rdma::{Gid, Netdev, Rate, State};
use crate::outcome::Outcome;
use crate::pcie::model::Rdma;

fn port(state: State, physical: &str, layer: &str) -> Port {
    let gid = Gid {
        index: 5,
        kind: "RoCE v2".into(),
        ipv4: Some([10, 0, 0, 1].into()),
        netdev: Some("ens1f0np0".into()),
    };
    Port {
        number: 1,
        state,
        physical: physical.into(),
        layer: layer.into(),
        rate: Rate { gbit_s: 100.0, lanes: 4 },
        gids: vec![gid],
        netdev: Some(Netdev {
            name: "ens1f0np0".into(),
            operstate: "up".into(),
            carrier: Some(state == State::Active),
            mbit_s: Some(100_000),
        }),
    }
}

fn active() -> Port {
    port(State::Active, "LinkUp", "Ethernet")
}

/// The first of the fixture's GPUs stands for the card's function: it has a link.
fn say(ports: Vec<Port>) -> Judgement {
    let mut fabric = fixture::machine(2);
    let bdf = fabric.gpus[1];
    let hcas: Vec<_> =
        (0..).zip(ports).map(|(n, port)| Hca { name: format!("mlx5_{n}"), ports: vec![port] }).collect();
    fabric.rdma = hcas.iter().map(|h| Rdma { name: h.name.clone(), bdf }).collect();
    judge(&fabric, &hcas)
}

fn codes(said: &Judgement) -> Vec<(&str, Severity)> {
    said.findings.iter().map(|f| (f.code.as_str(), f.severity)).collect()
}

#[test]
fn an_active_port_passes_and_is_handed_over_by_its_exact_name() {
    let said = say(vec![active(), port(State::Down, "Disabled", "Ethernet")]);
    assert_eq!(said.outcome(), Outcome::Pass);
    let summary = "1 of 2 ports ACTIVE: mlx5_0 100 Gb/s; GPUs to their nearest card: 2 PIX";
    assert_eq!(said.summary, summary);
    assert_eq!((said.advice[0].name.as_str(), said.advice[0].value.as_str()), ("NCCL_IB_HCA", "=mlx5_0:1"));
    assert_eq!(said.tables[0]["rows"][0][0], "mlx5_0 port 1 ==> ens1f0np0 (Up)");
    assert_eq!(
        (&said.tables[1]["rows"][0][10], &said.tables[1]["rows"][0][11]),
        (&5.into(), &"10.0.0.1".into())
    );
    assert_eq!(said.tables[2]["rows"][0][4], "PIX");
}

#[test]
fn a_port_without_a_link_is_told_and_one_with_a_link_that_is_not_in_use_warns() {
    for (state, physical, severity) in [
        (State::Down, "Disabled", Severity::Info),
        (State::Down, "Polling", Severity::Info),
        (State::Init, "LinkUp", Severity::Warn),
        (State::Armed, "LinkUp", Severity::Warn),
        (State::Down, "LinkErrorRecovery", Severity::Warn),
        (State::Other(0), "Phy Test", Severity::Warn),
    ] {
        let said = say(vec![port(state, physical, "InfiniBand")]);
        assert_eq!(codes(&said), [("NIC-PORT", severity)], "{state} {physical}");
        assert!(said.advice.is_empty());
    }
    let mut lit = port(State::Down, "Disabled", "Ethernet");
    lit.netdev.as_mut().unwrap().carrier = Some(true);
    assert_eq!(say(vec![lit]).outcome(), Outcome::Warn);
}

#[test]
fn an_address_of_a_port_that_is_down_makes_it_no_active_one() {
    let down = port(State::Down, "Disabled", "Ethernet");
    assert!(down.roce_v2_ipv4().is_some());
    assert!(say(vec![down]).advice.is_empty());
}

#[test]
fn a_narrow_infiniband_port_warns_and_ethernet_has_no_lanes() {
    let lanes = |layer, lanes| {
        let mut port = port(State::Active, "LinkUp", layer);
        port.rate.lanes = lanes;
        say(vec![port])
    };
    assert_eq!(codes(&lanes("InfiniBand", 1)), [("NIC-NARROW", Severity::Warn)]);
    assert_eq!(codes(&lanes("InfiniBand", 2)), [("NIC-NARROW", Severity::Info)]);
    assert!(codes(&lanes("InfiniBand", 4)).is_empty() && codes(&lanes("Ethernet", 1)).is_empty());
}

#[test]
fn a_port_faster_than_its_slot_and_one_without_an_address_are_told() {
    let mut fast = active();
    fast.rate.gbit_s = 400.0;
    let said = say(vec![fast]);
    assert_eq!(codes(&said), [("NIC-SLOT", Severity::Info)]);
    assert_eq!((said.findings[0].measured.as_f64(), said.outcome()), (Some(252.1), Outcome::Pass));
    let mut nameless = active();
    nameless.gids.clear();
    assert_eq!(codes(&say(vec![nameless])), [("NIC-NO-GID", Severity::Info)]);
}

#[test]
fn without_an_rdma_device_there_is_nothing_to_look_at() {
    assert_eq!(say(vec![]).outcome(), Outcome::NotApplicable);
}
