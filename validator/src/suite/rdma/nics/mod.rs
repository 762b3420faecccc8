//! The ports of RDMA devices: which carry traffic, how fast, under which address, and how far the GPUs are
//! from them. This only reads; testing traffic requires a second machine.

mod show;

use crate::nccl::advice::HCA;
use crate::suite::context::known;
use crate::suite::{FILE_DEADLINE, Group, Test, TestContext};
use machine::host::rdma;
use machine::host::rdma::{Hca, Port};
use machine::pcie::link::raw_gb_s;
use machine::pcie::model::{Device, Fabric};
use machine::pcie::path;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use outcome::text::count;
use outcome::{Advice, Judgement};
use report::Level;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::NICS,
    title: "Network cards",
    proves: "every port of an RDMA device that has a link is in use, with all its lanes",
    level: Level::Standard,
    deadline: FILE_DEADLINE,
    mandatory: false,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let fabric = context.fabric()?;
    let hcas = rdma::read(&context.root, fabric.rdma.iter().map(|r| r.name.as_str()));
    Ok(judge(fabric, known(&hcas)?))
}

fn judge(fabric: &Fabric, hcas: &[Hca]) -> Judgement {
    if hcas.is_empty() {
        let others = fabric.nics.len();
        return Judgement::not_applicable(format!("no RDMA device; network functions: {others}"));
    }
    let nic_paths = path::nic_paths(fabric);
    let ports: Vec<(&Hca, &Port)> = hcas
        .iter()
        .flat_map(|h| h.ports.iter().map(move |p| (h, p)))
        .collect();
    let look = |(hca, port): &(&Hca, &Port)| findings(device(fabric, hca), &name(hca, port), port);
    let findings: Vec<_> = ports.iter().flat_map(look).collect();
    let worst = findings
        .iter()
        .filter(|f| f.severity > Severity::Info)
        .max_by_key(|f| f.severity);
    let judgement = match worst {
        Some(worst) => Judgement::of(worst.message.to_string(), findings),
        None if ports.is_empty() => {
            let devices = count(hcas.len(), "RDMA device");
            Judgement::not_applicable(format!("{devices} without a port")).with(findings)
        }
        None if !ports.iter().any(|(_, port)| port.is_active()) => {
            let why = format!("no port has a link; {}", show::summary(&ports, &nic_paths));
            Judgement::not_applicable(why).with(findings)
        }
        None => Judgement::of(show::summary(&ports, &nic_paths), findings),
    };
    judgement
        .with_tables(vec![
            show::ibdev2netdev(hcas),
            show::ports(&ports),
            show::nic_paths(hcas, &nic_paths),
        ])
        .advising(advice(&ports).into_iter().collect())
}

/// `mlx5_0 port 1`
fn name(hca: &Hca, port: &Port) -> String {
    format!("{} port {}", hca.name, port.number)
}

fn device<'a>(fabric: &'a Fabric, hca: &Hca) -> Option<&'a Device> {
    let bdf = fabric.rdma.iter().find(|r| r.name == hca.name)?.bdf;
    fabric.devices.iter().find(|d| d.bdf == bdf)
}

fn findings(device: Option<&Device>, name: &str, port: &Port) -> Vec<Finding> {
    if !port.is_active() {
        return vec![inactive(name, port)];
    }
    [
        narrow(name, port),
        slot(device, name, port),
        no_address(name, port),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A port without a link is unused; one with a link should be in use.
fn inactive(name: &str, port: &Port) -> Finding {
    let carrier = port
        .netdev
        .as_ref()
        .is_some_and(|n| n.carrier == Some(true));
    let linked = carrier || !matches!(port.physical.as_str(), "Sleep" | "Polling" | "Disabled");
    let severity = if linked {
        Severity::Warn
    } else {
        Severity::Info
    };
    let (state, physical) = (port.state, &port.physical);
    let message = format!("{name} is {state} and {physical}, expected ACTIVE if it has a link");
    let seen = port.netdev.as_ref().map(|n| {
        let carrier = n
            .carrier
            .map_or("unknown", |c| if c { "yes" } else { "no" });
        format!("interface {}: {}, carrier {carrier}", n.name, n.operstate)
    });
    let values = (state.to_string(), "ACTIVE");
    let finding = Code::NicPort
        .finding(severity, Subject::port(name), message)
        .values(values.0, values.1, None);
    finding.seen_all(seen.into_iter().collect())
}

/// All ports of InfiniBand cards have four lanes; two are what a split switch port provides (HDR100, NDR200).
/// For Ethernet the kernel invents the number.
fn narrow(name: &str, port: &Port) -> Option<Finding> {
    let lanes = port.rate.lanes;
    if port.is_ethernet() || lanes >= 4 {
        return None;
    }
    let severity = if lanes == 2 {
        Severity::Info
    } else {
        Severity::Warn
    };
    let message = format!(
        "{name} runs on {lanes} lanes at {} Gb/s, expected 4 lanes",
        port.rate.gbit_s
    );
    Some(
        Code::NicNarrow
            .finding(severity, Subject::port(name), message)
            .values(lanes, 4, Some("lanes")),
    )
}

/// What the card's PCIe link carries in one direction, Gb/s, against the port's rate. Some cards are built
/// this way on purpose (two halves that share a port): reported and not judged.
fn slot(device: Option<&Device>, name: &str, port: &Port) -> Option<Finding> {
    let link = device?.link.as_ref()?;
    let carries = (raw_gb_s(link.gts, link.width) * 8.0 * 10.0).round() / 10.0;
    if carries <= 0.0 || port.rate.gbit_s <= carries {
        return None;
    }
    let rate = port.rate.gbit_s;
    let (gts, width) = (link.gts, link.width);
    let message = format!(
        "{name} runs at {rate} Gb/s, its card's {width} lanes at {gts} GT/s carry {carries}"
    );
    Some(
        Code::NicSlot
            .finding(Severity::Info, Subject::port(name), message)
            .values(carries, rate, Some("Gb/s")),
    )
}

fn no_address(name: &str, port: &Port) -> Option<Finding> {
    if !port.is_ethernet() || port.roce_v2_ipv4().is_some() {
        return None;
    }
    let message = format!("{name} is ACTIVE but has no RoCE v2 address on IPv4");
    Some(Code::NicNoGid.finding(Severity::Info, Subject::port(name), message))
}

/// Selects ports by state: an inactive port in NCCL's list makes its connections fail. `=` makes names exact,
/// because otherwise mlx5_1 also matches mlx5_10.
fn advice(ports: &[(&Hca, &Port)]) -> Option<Advice> {
    let active = ports.iter().filter(|(_, port)| port.is_active());
    let names: Vec<_> = active
        .map(|(hca, port)| format!("{}:{}", hca.name, port.number))
        .collect();
    let reason = format!(
        "the ports that are ACTIVE, {} of {}",
        names.len(),
        ports.len()
    );
    (!names.is_empty()).then(|| Advice::new(HCA, format!("={}", names.join(",")), &reason))
}

#[cfg(test)]
mod tests {
    //! Findings about ports in every state, with two GPUs and one or two cards.

    use super::*;
    use crate::suite::shared::fixture;
    use machine::host::rdma::{Gid, Netdev, PortState, Rate};
    use machine::pcie::model::Rdma;
    use outcome::Outcome;
    use outcome::table::Table;

    fn port(state: PortState, physical: &str, layer: &str) -> Port {
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
            rate: Rate {
                gbit_s: 100.0,
                lanes: 4,
            },
            gids: vec![gid],
            netdev: Some(Netdev {
                name: "ens1f0np0".into(),
                operstate: "up".into(),
                carrier: Some(state == PortState::Active),
                mbit_s: Some(100_000),
            }),
        }
    }

    fn active() -> Port {
        port(PortState::Active, "LinkUp", "Ethernet")
    }

    /// The first of the fixture's GPUs serves as the card's function, because it has a link.
    fn say(ports: Vec<Port>) -> Judgement {
        let mut fabric = fixture::machine(2);
        let bdf = fabric.gpus[1];
        let hcas: Vec<_> = (0..)
            .zip(ports)
            .map(|(n, port)| Hca {
                name: format!("mlx5_{n}"),
                ports: vec![port],
            })
            .collect();
        fabric.rdma = hcas
            .iter()
            .map(|h| Rdma {
                name: h.name.clone(),
                bdf,
            })
            .collect();
        judge(&fabric, &hcas)
    }

    fn codes(said: &Judgement) -> Vec<(&str, Severity)> {
        said.findings
            .iter()
            .map(|f| (f.code.as_str(), f.severity))
            .collect()
    }

    #[test]
    fn an_active_port_passes_and_is_handed_over_by_its_exact_name() {
        let said = say(vec![
            active(),
            port(PortState::Down, "Disabled", "Ethernet"),
        ]);
        assert_eq!(said.outcome(), Outcome::Pass);
        let summary = "1 of 2 ports ACTIVE: mlx5_0 100 Gb/s; GPUs to their nearest card: 2 PIX";
        assert_eq!(said.summary, summary);
        assert_eq!(
            (said.advice[0].name.as_str(), said.advice[0].value.as_str()),
            ("NCCL_IB_HCA", "=mlx5_0:1")
        );
        assert_eq!(
            said.tables[0].json()["rows"][0][0],
            "mlx5_0 port 1 ==> ens1f0np0 (Up)"
        );
        let Table::Ports(ports) = &said.tables[1] else {
            panic!("{:?}", said.tables)
        };
        assert_eq!(
            (ports[0].gid_index, ports[0].address),
            (Some(5), "10.0.0.1".parse().ok())
        );
        assert_eq!(said.tables[2].json()["rows"][0][4], "PIX");
    }

    #[test]
    fn a_port_without_a_link_is_reported_and_an_unused_one_with_a_link_warns() {
        for (state, physical, severity) in [
            (PortState::Down, "Disabled", Severity::Info),
            (PortState::Down, "Polling", Severity::Info),
            (PortState::Init, "LinkUp", Severity::Warn),
            (PortState::Armed, "LinkUp", Severity::Warn),
            (PortState::Down, "LinkErrorRecovery", Severity::Warn),
            (PortState::Other(0), "Phy Test", Severity::Warn),
        ] {
            let said = say(vec![port(state, physical, "InfiniBand")]);
            assert_eq!(codes(&said), [("NIC-PORT", severity)], "{state} {physical}");
            assert!(said.advice.is_empty());
        }
        let mut lit = port(PortState::Down, "Disabled", "Ethernet");
        lit.netdev.as_mut().unwrap().carrier = Some(true);
        assert_eq!(say(vec![lit]).outcome(), Outcome::Warn);
    }

    #[test]
    fn an_address_does_not_make_a_port_active() {
        let down = port(PortState::Down, "Disabled", "Ethernet");
        assert!(down.roce_v2_ipv4().is_some());
        assert!(say(vec![down]).advice.is_empty());
    }

    #[test]
    fn a_narrow_infiniband_port_warns_and_ethernet_has_no_lanes() {
        let lanes = |layer, lanes| {
            let mut port = port(PortState::Active, "LinkUp", layer);
            port.rate.lanes = lanes;
            say(vec![port])
        };
        assert_eq!(
            codes(&lanes("InfiniBand", 1)),
            [("NIC-NARROW", Severity::Warn)]
        );
        assert_eq!(
            codes(&lanes("InfiniBand", 2)),
            [("NIC-NARROW", Severity::Info)]
        );
        assert!(
            codes(&lanes("InfiniBand", 4)).is_empty() && codes(&lanes("Ethernet", 1)).is_empty()
        );
    }

    #[test]
    fn a_port_faster_than_its_slot_and_one_without_an_address_are_reported() {
        let mut fast = active();
        fast.rate.gbit_s = 400.0;
        let said = say(vec![fast]);
        assert_eq!(codes(&said), [("NIC-SLOT", Severity::Info)]);
        assert_eq!(
            (said.findings[0].measured.as_f64(), said.outcome()),
            (Some(252.1), Outcome::Pass)
        );
        let mut nameless = active();
        nameless.gids.clear();
        assert_eq!(
            codes(&say(vec![nameless])),
            [("NIC-NO-GID", Severity::Info)]
        );
    }

    #[test]
    fn no_rdma_device_no_port_and_no_link_are_not_applicable() {
        assert_eq!(say(vec![]).outcome(), Outcome::NotApplicable);
        let without = Hca {
            name: "mlx5_0".into(),
            ports: vec![],
        };
        let said = judge(&fixture::machine(1), &[without]);
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (Outcome::NotApplicable, "1 RDMA device without a port")
        );
        let said = say(vec![port(PortState::Down, "Disabled", "InfiniBand"); 2]);
        assert_eq!(
            (said.outcome(), said.findings.len()),
            (Outcome::NotApplicable, 2)
        );
        assert!(
            said.summary
                .starts_with("no port has a link; 0 of 2 ports ACTIVE"),
            "{}",
            said.summary
        );
        let said = say(vec![
            port(PortState::Down, "Disabled", "InfiniBand"),
            active(),
        ]);
        assert_eq!(said.outcome(), Outcome::Pass);
    }
}
