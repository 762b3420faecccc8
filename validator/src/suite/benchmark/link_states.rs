//! The state of the links while data moves: idle GPUs slow their links down, so sysfs on an idle machine says
//! little. NVML and the kernel are both read and compared; neither is trusted alone.

use crate::floors::{link_disagreement, slow_link};
use crate::suite::TestContext;
use machine::GpuId;
use machine::pcie::link::{gts, parse_speed, raw_gb_s};
use machine::pcie::model::{Bdf, Fabric, Link};
use outcome::finding::Finding;
use std::collections::BTreeMap;

/// The best state that was seen of each PCIe link, by device.
#[derive(Debug, Default)]
pub(in crate::suite) struct LinkStates(BTreeMap<Bdf, Readings>);

/// The best state of one link according to NVML and to the kernel.
#[derive(Debug, Clone, Default)]
struct Readings {
    nvml: Option<Link>,
    sysfs: Option<Link>,
}

impl Readings {
    /// The accepted state: the better of both, because a link never runs faster than it can.
    fn link(&self) -> Option<&Link> {
        match (&self.nvml, &self.sysfs) {
            (Some(nvml), Some(sysfs)) if raw(sysfs) > raw(nvml) => Some(sysfs),
            (nvml, sysfs) => nvml.as_ref().or(sysfs.as_ref()),
        }
    }

    fn is_best(&self) -> bool {
        let best = |l: &Link| l.gts >= l.max_gts && l.width >= l.max_width;
        let all = || self.nvml.iter().chain(&self.sysfs);
        all().count() > 0 && all().all(best)
    }

    fn keep(&mut self, other: Self) {
        for (kept, new) in [(&mut self.nvml, other.nvml), (&mut self.sysfs, other.sysfs)] {
            if let Some(new) =
                new.filter(|new| kept.as_ref().is_none_or(|kept| raw(new) > raw(kept)))
            {
                *kept = Some(new);
            }
        }
    }
}

fn raw(link: &Link) -> f64 {
    raw_gb_s(link.gts, link.width)
}

impl LinkStates {
    /// Reads the links of `devices` now and keeps any better state; true when all of them are at their best,
    /// or cannot be read.
    pub(in crate::suite) fn read(&mut self, context: &TestContext, devices: &[Bdf]) -> bool {
        let mut done = true;
        for bdf in devices
            .iter()
            .filter(|bdf| !self.is_best(**bdf))
            .copied()
            .collect::<Vec<_>>()
        {
            let readings = Readings {
                nvml: nvml(context, bdf),
                sysfs: sysfs(context, bdf),
            };
            if readings.link().is_some() {
                self.0.entry(bdf).or_default().keep(readings);
                done &= self.is_best(bdf);
            }
        }
        done
    }

    /// True when the links of all `devices` have been read under load.
    pub(in crate::suite) fn has_all(&self, devices: &[Bdf]) -> bool {
        devices.iter().all(|bdf| self.0.contains_key(bdf))
    }

    fn is_best(&self, bdf: Bdf) -> bool {
        self.0.get(&bdf).is_some_and(Readings::is_best)
    }

    /// What a device's own link carries under load, GB/s.
    pub(in crate::suite) fn own(&self, bdf: Bdf) -> Option<f64> {
        self.0.get(&bdf).and_then(Readings::link).map(raw)
    }

    /// What a device's own link carries at its best according to any source, GB/s.
    pub(in crate::suite) fn most(&self, fabric: &Fabric, bdf: Bdf) -> Option<f64> {
        let at_best = |l: &Link| raw_gb_s(l.gts.max(l.max_gts), l.width.max(l.max_width));
        let read = fabric
            .devices
            .iter()
            .find(|d| d.bdf == bdf)
            .and_then(|d| d.link.as_ref());
        let readings = self
            .0
            .get(&bdf)
            .into_iter()
            .flat_map(|readings| readings.nvml.iter().chain(&readings.sysfs));
        readings
            .chain(read)
            .map(at_best)
            .reduce(f64::max)
            .filter(|most| *most > 0.0)
    }

    /// The fabric with these links applied: a link's state under load is what it can do.
    pub(in crate::suite) fn applied(&self, fabric: &Fabric) -> Fabric {
        let mut fabric = fabric.clone();
        for device in &mut fabric.devices {
            if let Some(link) = self.0.get(&device.bdf).and_then(Readings::link) {
                device.link = Some(Link {
                    max_gts: link.gts,
                    ..link.clone()
                });
            }
        }
        fabric
    }

    /// GPUs whose link stayed below its capability, or for which NVML and the kernel disagree about the link.
    pub(in crate::suite) fn findings(&self, gpus: &[Bdf]) -> Vec<Finding> {
        let found =
            |(gpu, bdf): (GpuId, &Bdf)| {
                let readings = self.0.get(bdf)?;
                let narrow = readings
                    .link()
                    .and_then(|link| slow_link(gpu, *bdf, link, link.max_gts, link.max_width));
                let both = readings.nvml.as_ref().zip(readings.sysfs.as_ref());
                Some(narrow.into_iter().chain(
                    both.and_then(|(nvml, sysfs)| link_disagreement(gpu, *bdf, nvml, sysfs)),
                ))
            };
        GpuId::each(gpus).filter_map(found).flatten().collect()
    }
}

/// The present state of a GPU's link by NVML, and the capability of both ends.
fn nvml(context: &TestContext, bdf: Bdf) -> Option<Link> {
    let readings = context.nvml().ok().and_then(|nvml| nvml.link(bdf).ok())?;
    let rate = |generation: u32| gts(u8::try_from(generation).ok()?);
    let (gts, max_gts) = (rate(readings.generation)?, rate(readings.max_generation)?);
    // NVML's maximum should be that of both ends, but some drivers give that of the GPU alone.
    let link = Link {
        gts,
        width: readings.width,
        max_gts,
        max_width: readings.max_width,
    };
    Some(limited(
        link,
        context
            .fabric
            .as_ref()
            .ok()
            .and_then(|fabric| above(fabric, bdf)),
    ))
}

/// The present state of a device's link by sysfs, and the capability of both ends.
fn sysfs(context: &TestContext, bdf: Bdf) -> Option<Link> {
    let text = |name: &str| {
        context
            .root
            .text(format!("sys/bus/pci/devices/{bdf}/{name}"))
            .ok()
    };
    let link = Link {
        gts: parse_speed(&text("current_link_speed")?).ok()??,
        width: text("current_link_width")?.parse().ok()?,
        max_gts: parse_speed(&text("max_link_speed")?).ok()??,
        max_width: text("max_link_width")?.parse().ok()?,
    };
    let above = context
        .fabric
        .as_ref()
        .ok()
        .and_then(|fabric| above(fabric, bdf));
    Some(limited(link, above))
}

/// The link of the port above a device.
fn above(fabric: &Fabric, bdf: Bdf) -> Option<&Link> {
    let device = |bdf: Bdf| fabric.devices.iter().find(|d| d.bdf == bdf);
    device(bdf)
        .and_then(|d| d.parent)
        .and_then(device)?
        .link
        .as_ref()
}

/// A link cannot exceed the port above it. A port that offers less than is in use is not the real one: hypervisors make
/// such ports.
fn limited(link: Link, above: Option<&Link>) -> Link {
    let Some(above) = above else { return link };
    let max_gts = if above.max_gts < link.gts {
        link.max_gts
    } else {
        link.max_gts.min(above.max_gts)
    };
    let max_width = if above.max_width < link.width {
        link.max_width
    } else {
        link.max_width.min(above.max_width)
    };
    Link {
        max_gts,
        max_width,
        ..link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use outcome::finding::Code;

    fn link(gts: f64, width: u32) -> Link {
        Link {
            gts,
            width,
            max_gts: 16.0,
            max_width: 16,
        }
    }

    fn nvml(gts: f64, width: u32) -> Readings {
        Readings {
            nvml: Some(link(gts, width)),
            sysfs: None,
        }
    }

    #[test]
    fn the_best_state_seen_counts() {
        let fabric = fixture::machine(2);
        let gpu = fabric.gpus[0];
        let mut links = LinkStates::default();
        for seen in [nvml(2.5, 16), nvml(16.0, 8), nvml(8.0, 8)] {
            links.0.entry(gpu).or_default().keep(seen);
        }
        assert!(links.has_all(&[gpu]) && !links.has_all(&fabric.gpus));
        let found = links.findings(&fabric.gpus);
        assert_eq!(found.len(), 1);
        assert!(found[0].is(Code::GpuLinkLoad), "{found:?}");
        let applied = links.applied(&fabric);
        let device = applied.devices.iter().find(|d| d.bdf == gpu).unwrap();
        assert_eq!(device.link.as_ref().unwrap().width, 8);
        links.0.entry(gpu).or_default().keep(nvml(16.0, 16));
        assert_eq!(links.findings(&fabric.gpus), []);
        assert!((links.own(gpu).unwrap() - 31.5).abs() < 0.1);
    }

    #[test]
    fn a_lower_state_from_nvml_is_a_finding_and_lowers_nothing() {
        let fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        let one = Link {
            gts: 2.5,
            width: 1,
            max_gts: 2.5,
            max_width: 1,
        };
        let mut links = LinkStates::default();
        links.0.insert(
            gpu,
            Readings {
                nvml: Some(one.clone()),
                sysfs: Some(link(16.0, 16)),
            },
        );
        let found = links.findings(&fabric.gpus);
        assert!(
            found.len() == 1 && found[0].is(Code::LinkContradicted),
            "{found:?}"
        );
        assert_eq!(found[0].severity, outcome::finding::Severity::Warn);
        assert!(links.own(gpu).unwrap() > 31.0 && links.most(&fabric, gpu).unwrap() > 31.0);
        // A recording that shows less than NVML reports is a finding too.
        links.0.insert(
            gpu,
            Readings {
                nvml: Some(link(16.0, 16)),
                sysfs: Some(one),
            },
        );
        assert_eq!(
            links.findings(&fabric.gpus)[0].severity,
            outcome::finding::Severity::Info
        );
    }

    #[test]
    fn a_link_cannot_exceed_the_port_above_it() {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, fixture::port(0))
            .link
            .as_mut()
            .unwrap()
            .max_width = 8;
        assert_eq!(limited(link(16.0, 8), above(&fabric, gpu)).max_width, 8);
        let mut links = LinkStates::default();
        links.0.insert(
            gpu,
            Readings {
                nvml: Some(limited(link(16.0, 8), above(&fabric, gpu))),
                sysfs: None,
            },
        );
        assert_eq!(
            links.findings(&fabric.gpus),
            [],
            "all lanes that the port offers are in use"
        );
        links.0.insert(
            gpu,
            Readings {
                nvml: Some(limited(link(16.0, 4), above(&fabric, gpu))),
                sysfs: None,
            },
        );
        assert!(
            links.findings(&fabric.gpus)[0]
                .message
                .ends_with("expected x8 at 16 GT/s")
        );
        // The port of a virtual machine says less than is in use.
        assert_eq!(limited(link(16.0, 16), above(&fabric, gpu)).max_width, 16);
        fixture::device(&mut fabric, fixture::port(0))
            .link
            .as_mut()
            .unwrap()
            .max_gts = 2.5;
        assert!((limited(link(8.0, 4), above(&fabric, gpu)).max_gts - 16.0).abs() < 0.1);
    }
}
