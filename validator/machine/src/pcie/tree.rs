//! The fabric as a tree: finds a function, and walks from it to its root bus.

use super::model::{Bdf, Device, Fabric};
use std::collections::BTreeMap;

/// No chain of bridges is longer than the number of buses.
const DEEPEST: usize = 256;

/// Every function by its address.
#[derive(Debug)]
pub struct Tree<'a>(BTreeMap<Bdf, &'a Device>);

impl<'a> Tree<'a> {
    /// The tree of all `devices`.
    #[must_use]
    pub fn new(devices: &'a [Device]) -> Self {
        Self(devices.iter().map(|d| (d.bdf, d)).collect())
    }

    /// The tree of a whole fabric.
    #[must_use]
    pub fn of<F>(fabric: &'a Fabric<F>) -> Self {
        Self::new(&fabric.devices)
    }

    /// The function at `bdf`.
    #[must_use]
    pub fn get(&self, bdf: Bdf) -> Option<&'a Device> {
        self.0.get(&bdf).copied()
    }

    /// The bridges above `bdf`, nearest first. Bounded, because a fabric file may contain a loop.
    #[must_use]
    pub fn above(&self, bdf: Bdf) -> Vec<&'a Device> {
        let parent = |d: &&'a Device| d.parent.and_then(|p| self.get(p));
        let first = self.get(bdf).as_ref().and_then(parent);
        std::iter::successors(first, parent).take(DEEPEST).collect()
    }

    /// The number of the slot that a function is in: that of the nearest port above it that leads to a slot. 0 means
    /// that the firmware does not number slots.
    #[must_use]
    pub fn slot(&self, bdf: Bdf) -> Option<u16> {
        self.above(bdf)
            .iter()
            .find_map(|port| port.slot)
            .filter(|slot| *slot > 0)
    }

    /// The unread bridge at which the chain above `bdf` ends: paths in sysfs name it, but the list of
    /// functions does not. `None` if the chain reaches a root bus.
    #[must_use]
    pub fn unread(&self, bdf: Bdf) -> Option<Bdf> {
        let top = self.above(bdf).last().copied().or_else(|| self.get(bdf))?;
        top.parent.filter(|p| self.get(*p).is_none())
    }
}
