//! The findings about a fabric that need no test: functions that do not answer, malformed or unreachable
//! configuration space, ports that redirect, links with fewer lanes than possible. Pure. The tests judge the
//! IOMMU, processors, displays and drivers.

use super::acs::{self, AcsState};
use super::turn::{Effect, Turns};
use machine::pcie::model::{Bdf, Device, Fabric, Kind, Link, Undetermined};
use machine::pcie::nic;
use machine::pcie::tree::Tree;
use outcome::finding::{Code, Finding, Reason, Severity};
use std::collections::BTreeMap;

/// Every finding about `fabric`, in the order of the devices.
#[must_use]
pub fn all(fabric: &Fabric) -> Vec<Finding> {
    let turns = Turns::of(fabric);
    let on_path = acs::ports_on_paths(fabric);
    let elsewhere = fabric.devices.iter().filter(|d| !turns.contains(d.bdf));
    let mut findings = unlisted(fabric);
    findings.extend(fabric.devices.iter().filter_map(|d| gone(fabric, d)));
    findings.extend(
        fabric
            .devices
            .iter()
            .filter_map(|d| malformed(fabric, d, on_path.contains(&d.bdf))),
    );
    findings.extend(fabric.devices.iter().filter_map(|d| quirk(d, &turns)));
    findings.extend(
        elsewhere
            .filter(|d| acs::state(d) == AcsState::NoEcam)
            .map(harmless_no_ecam),
    );
    findings.extend(acs::judge(fabric));
    findings.extend(links(fabric));
    findings
}

/// Bridges that are in the paths of functions but are not listed, each once.
fn unlisted(fabric: &Fabric) -> Vec<Finding> {
    let tree = Tree::of(fabric);
    let missing = fabric
        .devices
        .iter()
        .filter_map(|d| Some((tree.unread(d.bdf)?, d.bdf)));
    // The evidence names the first function below each.
    let missing: BTreeMap<Bdf, Bdf> = missing.rev().collect();
    let findings = missing.into_iter().map(|(bridge, below)| {
        let message = format!("{bridge} is above {below} but is not in /sys/bus/pci/devices");
        let finding = Code::PciUnreadable.finding(Severity::Error, bridge, message);
        finding.seen(format!("/sys/bus/pci/devices/{below} leads below {bridge}"))
    });
    findings.collect()
}

fn gone(fabric: &Fabric, device: &Device) -> Option<Finding> {
    let gpu = fabric.gpus.contains(&device.bdf);
    let (code, what) = if gpu {
        (Code::GpuGone, "GPU")
    } else {
        (Code::PciGone, "function")
    };
    let message = format!(
        "{what} {} does not answer: its registers read as all ones",
        device.bdf
    );
    let severity = if gpu { Severity::Fail } else { Severity::Warn };
    device.config.gone.then(|| {
        code.finding(severity, device.bdf, message).values(
            "0xffffffff",
            device.vendor.as_str(),
            None,
        )
    })
}

/// Malformed data is an error only if it hides the Resizable BAR or the link of a GPU. Other malformed data of a GPU
/// is a warning, as is data that hides the ACS of a port on a GPU path, which has a separate error. The rest is
/// information.
fn malformed(fabric: &Fabric, device: &Device, on_path: bool) -> Option<Finding> {
    let first = device.config.faults.first()?;
    let gpu = fabric.gpus.contains(&device.bdf);
    let matters: &[Undetermined] = match () {
        () if gpu => &[Undetermined::PortType, Undetermined::Rebar],
        () if on_path => &[Undetermined::PortType, Undetermined::Acs],
        () => &[],
    };
    let hides = device
        .config
        .undetermined
        .iter()
        .any(|hidden| matters.contains(hidden));
    let severity = match (gpu, hides) {
        (true, true) => Severity::Error,
        (true, false) | (false, true) => Severity::Warn,
        (false, false) => Severity::Info,
    };
    let mut finding =
        Code::PciMalformed.finding(severity, device.bdf, format!("{}: {first}", device.bdf));
    finding
        .evidence
        .extend(device.config.faults.iter().cloned());
    Some(finding)
}

/// A quirk port that does no harm here; a harmful one is reported with the ports of GPU paths.
fn quirk(device: &Device, turns: &Turns) -> Option<Finding> {
    let acs = device.acs.as_ref().filter(|a| a.quirk)?;
    let harmless = !turns.contains(device.bdf) || turns.effect(device.bdf, acs) == Effect::Direct;
    harmless.then(|| acs::quirk(device, acs, Severity::Info))
}

fn harmless_no_ecam(device: &Device) -> Finding {
    acs::no_ecam(device, Severity::Info)
}

/// The links of GPUs, of NICs that exchange data with them, and of the switches above GPUs, each once, seen
/// from its lower end. The width of other links does not matter.
pub fn links(fabric: &Fabric) -> Vec<Finding> {
    let tree = Tree::of(fabric);
    let switches = fabric
        .devices
        .iter()
        .filter(|d| d.kind == Kind::Upstream)
        .filter(|s| {
            fabric
                .gpus
                .iter()
                .any(|g| tree.above(*g).iter().any(|d| d.bdf == s.bdf))
        });
    let nics = nic::exchanging(fabric);
    let ends = fabric.gpus.iter().chain(&nics).filter_map(|b| tree.get(*b));
    // Findings about a virtual function's link belong to its physical function.
    ends.chain(switches)
        .filter(|d| !d.config.gone && d.physfn.is_none())
        .flat_map(|d| link(&tree, d))
        .collect()
}

/// A link can reach what both of its ends support. Missing lanes are a contact problem and are visible
/// immediately; full speed is only visible under load, because idle GPUs lower it.
fn link(tree: &Tree, lower: &Device) -> Vec<Finding> {
    let Some(link) = &lower.link else {
        return Vec::new();
    };
    let upper = lower
        .parent
        .and_then(|p| tree.get(p))
        .and_then(|p| p.link.as_ref());
    let gts = upper.map_or(link.max_gts, |u| u.max_gts.min(link.max_gts));
    let bdf = lower.bdf;
    let mut findings: Vec<_> = narrow(lower, link, upper).into_iter().collect();
    if link.gts < gts {
        let message = format!(
            "{bdf} runs at {} GT/s now, both ends support {gts} GT/s",
            link.gts
        );
        let finding = Code::LinkSlow.finding(Severity::Info, bdf, message);
        findings.push(finding.values(link.gts, gts, Some("GT/s")));
    }
    findings
}

/// Fewer lanes than the device has. If the port above it offers no more (a split slot, a chipset's slot, a soldered
/// device), nothing is wrong with the contact.
fn narrow(lower: &Device, link: &Link, upper: Option<&Link>) -> Option<Finding> {
    let bdf = lower.bdf;
    let what = if lower.kind == Kind::Upstream {
        format!("the switch at {bdf}")
    } else {
        bdf.to_string()
    };
    let Link {
        width, max_width, ..
    } = *link;
    if width >= max_width {
        return None;
    }
    // A port that offers fewer lanes than are in use is not the real one: hypervisors make such ports.
    let offered = upper
        .map(|port| port.max_width)
        .filter(|offered| (width..max_width).contains(offered));
    let expected = offered.unwrap_or(max_width);
    if width == expected {
        let lanes = if width == 1 {
            "the one lane".to_owned()
        } else {
            format!("all {width} lanes")
        };
        let itself = if lower.kind == Kind::Upstream {
            "the switch itself"
        } else {
            "the device itself"
        };
        let message = format!("{what} uses {lanes} that its port offers; {itself} has {max_width}");
        let finding = Code::LinkNarrow
            .finding(Severity::Info, bdf, message)
            .because(Reason::NarrowPort);
        return Some(finding.values(width, expected, Some("lanes")));
    }
    let port = offered.map_or_else(String::new, |offered| {
        format!(" (its port offers {offered})")
    });
    let lanes = if width == 1 {
        "1 lane"
    } else {
        &format!("{width} lanes")
    };
    let message = format!("{what} uses {lanes} of its {max_width}, expected {expected}{port}");
    Some(
        Code::LinkNarrow
            .finding(Severity::Warn, bdf, message)
            .values(width, expected, Some("lanes")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::pcie::sample::{device, fabric, two_gpus};

    /// The finding about a device of 16 lanes that uses `width`, below a port of `port` lanes.
    fn narrow_of(width: u32, port: Option<u32>) -> Option<(Severity, String, String)> {
        let link = |width, max_width| Link {
            gts: 16.0,
            width,
            max_gts: 16.0,
            max_width,
        };
        let port = port.map(|lanes| link(width, lanes));
        let finding = narrow(
            &device("0000:01:00.0", Kind::Endpoint, None),
            &link(width, 16),
            port.as_ref(),
        )?;
        Some((
            finding.severity,
            finding.message.to_string(),
            finding.shown_remedy(),
        ))
    }

    #[test]
    fn a_port_with_fewer_lanes_than_its_card_is_information_and_no_reason_to_reseat() {
        for lanes in [8, 4, 2, 1] {
            let (severity, message, remedy) = narrow_of(lanes, Some(lanes)).unwrap();
            assert_eq!(severity, Severity::Info);
            let all = if lanes == 1 {
                "uses the one lane".to_owned()
            } else {
                format!("uses all {lanes} lanes")
            };
            assert!(
                message.contains(&format!("0000:01:00.0 {all} that its port offers")),
                "{message}"
            );
            assert!(
                remedy.contains("bifurcation") && !remedy.contains("seat"),
                "{remedy}"
            );
        }
    }

    #[test]
    fn a_switch_below_a_narrow_port_is_called_a_switch() {
        let link = |max_width| Link {
            gts: 16.0,
            width: 8,
            max_gts: 16.0,
            max_width,
        };
        let switch = device("0000:01:00.0", Kind::Upstream, None);
        let said = |port| {
            narrow(&switch, &link(16), Some(&link(port)))
                .unwrap()
                .message
                .to_string()
        };
        assert_eq!(
            said(8),
            "the switch at 0000:01:00.0 uses all 8 lanes that its port offers; the switch itself has 16"
        );
        assert_eq!(
            said(16),
            "the switch at 0000:01:00.0 uses 8 lanes of its 16, expected 16"
        );
    }

    #[test]
    fn fewer_lanes_than_both_ends_offer_are_a_warning() {
        let warned = |width, port| {
            let (severity, message, remedy) = narrow_of(width, port).unwrap();
            assert!(
                severity == Severity::Warn && remedy.contains("reseat"),
                "{message}"
            );
            message
        };
        assert_eq!(
            warned(8, Some(16)),
            "0000:01:00.0 uses 8 lanes of its 16, expected 16"
        );
        assert_eq!(
            warned(8, Some(32)),
            "0000:01:00.0 uses 8 lanes of its 16, expected 16"
        );
        assert_eq!(
            warned(4, Some(8)),
            "0000:01:00.0 uses 4 lanes of its 16, expected 8 (its port offers 8)"
        );
        // Nothing is known about the port, or what it says cannot be.
        assert_eq!(
            warned(8, None),
            "0000:01:00.0 uses 8 lanes of its 16, expected 16"
        );
        assert_eq!(
            warned(8, Some(1)),
            "0000:01:00.0 uses 8 lanes of its 16, expected 16"
        );
        assert_eq!(narrow_of(16, Some(1)), None);
    }

    #[test]
    fn a_gpu_that_does_not_answer_fails_and_another_function_warns() {
        let mut devices = two_gpus();
        devices.push(device("0000:03:00.0", Kind::Endpoint, None));
        for gone in ["0000:02:00.0", "0000:03:00.0"] {
            devices
                .iter_mut()
                .filter(|d| d.bdf.to_string() == gone)
                .for_each(|d| d.config.gone = true);
        }
        let all = all(&fabric(devices));
        let of = |at: &str| {
            let found = all
                .iter()
                .filter(|f| f.subject == at && f.measured.as_str() == Some("0xffffffff"));
            found
                .map(|f| (f.code.as_str(), f.severity))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("0000:01:00.0"), []);
        assert_eq!(of("0000:02:00.0"), [("GPU-GONE", Severity::Fail)]);
        assert_eq!(of("0000:03:00.0"), [("PCI-GONE", Severity::Warn)]);
    }
}
