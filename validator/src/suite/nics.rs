//! Which ports of RDMA devices carry traffic, how fast, under which address, and how far the GPUs are
//! from them. All of it is read; that traffic really flows takes a second machine.

mod show;

use super::machine::known;
use super::{Group, Machine, READING, Test};
use crate::collective::Advice;
use crate::config::Level;
use crate::finding::{Code, Finding, Severity};
use crate::host::rdma::{self, Hca, Port};
use crate::outcome::Judgement;
use crate::pcie::link::raw_gb_s;
use crate::pcie::model::{Device, Fabric};
use crate::pcie::near;

pub(super) const TEST: Test = Test {
    id: "nics",
    title: "Network cards",
    proves: "every port of an RDMA device that has a link is in use, with all its lanes",
    level: Level::Standard,
    deadline: READING,
    mandatory: false,
    group: Group::Host,
    run,
};

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    let fabric = machine.fabric()?;
    let hcas = rdma::read(&machine.root, fabric.rdma.iter().map(|r| r.name.as_str()));
    Ok(judge(fabric, known(&hcas)?))
}

fn judge(fabric: &Fabric, hcas: &[Hca]) -> Judgement {
    if hcas.is_empty() {
        let others = fabric.nics.len();
        return Judgement::not_applicable(format!("no RDMA device; network functions: {others}"));
    }
    let ways = near::ways(fabric);
    let ports: Vec<(&Hca, &Port)> = hcas.iter().flat_map(|h| h.ports.iter().map(move |p| (h, p))).collect();
    let look = |(hca, port): &(&Hca, &Port)| findings(device(fabric, hca), &name(hca, port), port);
    let findings: Vec<_> = ports.iter().flat_map(look).collect();
    let worst = findings.iter().filter(|f| f.severity > Severity::Info).max_by_key(|f| f.severity);
    let summary = worst.map_or_else(|| show::summary(&ports, &ways), |f| f.message.clone());
    Judgement::of(summary, findings)
        .with_tables(vec![show::ibdev2netdev(hcas), show::ports(&ports), show::ways(hcas, &ways)])
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
    [narrow(name, port), slot(device, name, port), no_address(name, port)].into_iter().flatten().collect()
}

/// A port without a link is one that nobody uses; one with a link should be in use.
fn inactive(name: &str, port: &Port) -> Finding {
    let carrier = port.netdev.as_ref().is_some_and(|n| n.carrier == Some(true));
    let linked = carrier || !matches!(port.physical.as_str(), "Sleep" | "Polling" | "Disabled");
    let severity = if linked { Severity::Warn } else { Severity::Info };
    let (state, physical) = (port.state, &port.physical);
    let message = format!("{name} is {state} and {physical}, expected ACTIVE where it has a link");
    let seen = port.netdev.as_ref().map(|n| {
        let carrier = n.carrier.map_or("not told", |c| if c { "yes" } else { "no" });
        format!("interface {}: {}, carrier {carrier}", n.name, n.operstate)
    });
    let values = (state.to_string(), "ACTIVE");
    let finding = Code::NicPort.finding(severity, name, message).values(values.0, values.1, None);
    finding.seen_all(seen.into_iter().collect())
}

/// All ports of InfiniBand cards have four lanes; two are what a split port of a switch gives (HDR100,
/// NDR200). For Ethernet the kernel makes the number up.
fn narrow(name: &str, port: &Port) -> Option<Finding> {
    let lanes = port.rate.lanes;
    if port.is_ethernet() || lanes >= 4 {
        return None;
    }
    let severity = if lanes == 2 { Severity::Info } else { Severity::Warn };
    let message = format!("{name} runs on {lanes} lanes at {} Gb/s, expected 4 lanes", port.rate.gbit_s);
    Some(Code::NicNarrow.finding(severity, name, message).values(lanes, 4, Some("lanes")))
}

/// What the card's PCIe link carries in one direction, Gb/s, against the port's rate. Cards are built
/// so on purpose, too (two halves that share a port): told and not judged.
fn slot(device: Option<&Device>, name: &str, port: &Port) -> Option<Finding> {
    let link = device?.link.as_ref()?;
    let carries = (raw_gb_s(link.gts, link.width) * 8.0 * 10.0).round() / 10.0;
    if carries <= 0.0 || port.rate.gbit_s <= carries {
        return None;
    }
    let rate = port.rate.gbit_s;
    let (gts, width) = (link.gts, link.width);
    let message =
        format!("{name} runs at {rate} Gb/s, its card's {width} lanes at {gts} GT/s carry {carries}");
    Some(Code::NicSlot.finding(Severity::Info, name, message).values(carries, rate, Some("Gb/s")))
}

fn no_address(name: &str, port: &Port) -> Option<Finding> {
    if !port.is_ethernet() || port.roce_v2_ipv4().is_some() {
        return None;
    }
    let message = format!("{name} is ACTIVE and has no RoCE v2 address on IPv4");
    Some(Code::NicNoGid.finding(Severity::Info, name, message))
}

/// Ports by state: an inactive one in NCCL's list makes its connections fail. `=` makes names exact, for
/// otherwise mlx5_1 stands for mlx5_10 too.
fn advice(ports: &[(&Hca, &Port)]) -> Option<Advice> {
    let active = ports.iter().filter(|(_, port)| port.is_active());
    let names: Vec<_> = active.map(|(hca, port)| format!("{}:{}", hca.name, port.number)).collect();
    let reason = format!("the ports that are ACTIVE, {} of {}", names.len(), ports.len());
    (!names.is_empty()).then(|| Advice::new("NCCL_IB_HCA", format!("={}", names.join(",")), &reason))
}

#[cfg(test)]
mod tests;
