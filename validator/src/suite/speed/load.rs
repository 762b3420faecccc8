//! Links as they are while data moves: idle GPUs slow theirs down, so what sysfs said before says
//! little. NVML is asked for the GPUs' own, sysfs for the ports between them.

use super::super::Machine;
use crate::finding::Finding;
use crate::judge::loaded;
use crate::pcie::link::{gts, parse_speed, raw_gb_s};
use crate::pcie::model::{Bdf, Fabric, Link};
use std::collections::BTreeMap;

/// The best that was seen of each link.
#[derive(Debug, Default)]
pub(in crate::suite) struct Links(BTreeMap<Bdf, Link>);

impl Links {
    /// Reads the links of `devices` now and keeps what is better than before; true when all of them
    /// are at their best, or cannot be read.
    pub(in crate::suite) fn look(&mut self, machine: &Machine, devices: &[Bdf]) -> bool {
        let mut done = true;
        for bdf in devices.iter().filter(|bdf| !self.is_best(**bdf)).copied().collect::<Vec<_>>() {
            if let Some(link) = read(machine, bdf) {
                self.keep(bdf, link);
                done &= self.is_best(bdf);
            }
        }
        done
    }

    /// True when every one of `devices` has been seen under load.
    pub(in crate::suite) fn know(&self, devices: &[Bdf]) -> bool {
        devices.iter().all(|bdf| self.0.contains_key(bdf))
    }

    fn keep(&mut self, bdf: Bdf, link: Link) {
        let raw = |l: &Link| raw_gb_s(l.gts, l.width);
        let kept = self.0.entry(bdf).or_insert_with(|| link.clone());
        if raw(&link) > raw(kept) {
            *kept = link;
        }
    }

    fn is_best(&self, bdf: Bdf) -> bool {
        self.0.get(&bdf).is_some_and(|l| l.gts >= l.max_gts && l.width >= l.max_width)
    }

    /// The fabric with these links in it: what a link was under load is what it can be.
    pub(in crate::suite) fn applied(&self, fabric: &Fabric) -> Fabric {
        let mut fabric = fabric.clone();
        for device in &mut fabric.devices {
            if let Some(link) = self.0.get(&device.bdf) {
                device.link = Some(Link { max_gts: link.gts, ..link.clone() });
            }
        }
        fabric
    }

    /// GPUs whose link stayed below what it can be.
    pub(in crate::suite) fn findings(&self, gpus: &[Bdf]) -> Vec<Finding> {
        let found = |(n, bdf): (usize, &Bdf)| {
            let link = self.0.get(bdf)?;
            loaded(n, *bdf, link, link.max_gts, link.max_width)
        };
        gpus.iter().enumerate().filter_map(found).collect()
    }
}

/// A link now, and what both of its ends can.
fn read(machine: &Machine, bdf: Bdf) -> Option<Link> {
    let told = machine.nvml().ok().and_then(|nvml| nvml.link(bdf).ok());
    let told = told.and_then(|l| {
        let rate = |generation: u32| gts(u8::try_from(generation).ok()?);
        let (gts, max_gts) = (rate(l.generation)?, rate(l.max_generation)?);
        Some(Link { gts, width: l.width, max_gts, max_width: l.max_width })
    });
    told.or_else(|| sysfs(machine, bdf))
}

fn sysfs(machine: &Machine, bdf: Bdf) -> Option<Link> {
    let text = |name: &str| machine.root.text(format!("sys/bus/pci/devices/{bdf}/{name}")).ok();
    let link = Link {
        gts: parse_speed(&text("current_link_speed")?).ok()??,
        width: text("current_link_width")?.parse().ok()?,
        max_gts: parse_speed(&text("max_link_speed")?).ok()??,
        max_width: text("max_link_width")?.parse().ok()?,
    };
    let above = machine.fabric.as_ref().ok().and_then(|fabric| above(fabric, bdf));
    Some(limited(link, above))
}

/// The link of the port above a device.
fn above(fabric: &Fabric, bdf: Bdf) -> Option<&Link> {
    let device = |bdf: Bdf| fabric.devices.iter().find(|d| d.bdf == bdf);
    device(bdf).and_then(|d| d.parent).and_then(device)?.link.as_ref()
}

/// A link can be no more than the port above it can.
fn limited(link: Link, above: Option<&Link>) -> Link {
    let Some(above) = above else { return link };
    Link { max_gts: link.max_gts.min(above.max_gts), max_width: link.max_width.min(above.max_width), ..link }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture;
    use super::*;
    use crate::finding::Code;

    fn link(gts: f64, width: u32) -> Link {
        Link { gts, width, max_gts: 16.0, max_width: 16 }
    }

    #[test]
    fn the_best_that_was_seen_counts() {
        let fabric = fixture::machine(2);
        let gpu = fabric.gpus[0];
        let mut links = Links::default();
        for seen in [link(2.5, 16), link(16.0, 8), link(8.0, 8)] {
            links.keep(gpu, seen);
        }
        assert!(links.know(&[gpu]) && !links.know(&fabric.gpus));
        let found = links.findings(&fabric.gpus);
        assert_eq!(found.len(), 1);
        assert!(found[0].is(Code::GpuLinkLoad), "{found:?}");
        let applied = links.applied(&fabric);
        let device = applied.devices.iter().find(|d| d.bdf == gpu).unwrap();
        assert_eq!(device.link.as_ref().unwrap().width, 8);
        links.keep(gpu, link(16.0, 16));
        assert_eq!(links.findings(&fabric.gpus), []);
    }

    #[test]
    fn a_link_can_be_no_more_than_the_port_above_it() {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, fixture::port(0)).link.as_mut().unwrap().max_width = 8;
        assert_eq!(limited(link(16.0, 8), above(&fabric, gpu)).max_width, 8);
    }
}
