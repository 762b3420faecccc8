//! Whose device a line of the kernel log is about: one that the tests use, or another one. The GPUs matter, the network cards
//! that exchange data with them, NVSwitches, and the ports above all of these. Where the fabric is unknown, every device
//! matters. Pure.

use super::place::Place;
use crate::host::kmsg::Line;
use crate::host::nvidia::managers::is_nvswitch;
use crate::pcie::model::{Bdf, Fabric};
use crate::pcie::nic;
use crate::pcie::tree::Tree;
use std::collections::BTreeSet;

/// What lines of the log are judged against. `Default` is a machine about which nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scene {
    devices: Option<Devices>,
    driver_loaded: bool,
    started: BTreeSet<Bdf>,
    running: BTreeSet<Bdf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Devices {
    /// Every function.
    known: BTreeSet<Bdf>,
    /// GPUs, network cards and NVSwitches.
    ends: BTreeSet<Bdf>,
    /// The ports above them.
    ports: BTreeSet<Bdf>,
    /// GPUs.
    gpus: BTreeSet<Bdf>,
    /// GPUs that answer.
    answering: BTreeSet<Bdf>,
    /// GPUs, and the ports between two of them.
    between_gpus: BTreeSet<Bdf>,
}

/// Whose a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// A device that matters; `None`: the machine, or the driver without a certain GPU.
    Ours(Option<Place>),
    /// Another device.
    Others(Option<Place>),
    /// The line does not name its device.
    Unnamed,
}

impl Whose {
    /// Whether both are about one device, or both about devices that do not matter.
    pub(super) fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Ours(Some(one)), Self::Ours(Some(other))) => one.overlaps(other),
            (Self::Others(_), Self::Others(_)) => true,
            (one, other) => one == other,
        }
    }
}

/// Which functions a fault of an address concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// That function only: it made the request.
    Function,
    /// All functions of the device: they share the link.
    Link,
}

impl Scene {
    /// The scene of a fabric, or one in which every device matters.
    #[must_use]
    pub fn of<F>(fabric: Option<&Fabric<F>>) -> Self {
        Self {
            devices: fabric.map(Devices::of),
            ..Self::default()
        }
    }

    /// With what the driver shows: whether it is loaded, the GPUs that it has started at some time, and those that run now.
    #[must_use]
    pub fn with_driver(self, loaded: bool, started: BTreeSet<Bdf>, running: BTreeSet<Bdf>) -> Self {
        Self {
            driver_loaded: loaded,
            started,
            running,
            ..self
        }
    }

    /// The functions that matter; empty where the fabric is unknown.
    pub fn functions(&self) -> impl Iterator<Item = Bdf> {
        self.devices
            .iter()
            .flat_map(|devices| devices.ends.union(&devices.ports).copied())
    }

    pub(super) fn has_started(&self, place: Place) -> bool {
        self.started.iter().any(|gpu| place.matches(*gpu))
    }

    pub(super) fn is_running(&self, place: Place) -> bool {
        self.running.iter().any(|gpu| place.matches(*gpu))
    }

    /// Whether it is known to be a GPU.
    pub(super) fn is_gpu(&self, place: Place) -> bool {
        self.devices
            .as_ref()
            .is_some_and(|d| d.gpus.iter().any(|bdf| place.matches(*bdf)))
    }

    /// Whether it is a GPU whose registers could be read before the tests.
    pub(super) fn answers(&self, place: Place) -> bool {
        self.devices
            .as_ref()
            .is_some_and(|d| d.answering.iter().any(|bdf| place.matches(*bdf)))
    }

    /// Whether it is a GPU, or a port between two GPUs.
    pub(super) fn is_between_gpus(&self, place: Place) -> bool {
        self.devices
            .as_ref()
            .is_some_and(|d| d.between_gpus.iter().any(|bdf| place.matches(*bdf)))
    }

    /// Whose the first of `places` is that the machine has. A device that it does not have any more is NVIDIA's if the
    /// driver's name precedes it.
    pub(super) fn whose(
        &self,
        text: &str,
        extent: Extent,
        places: impl IntoIterator<Item = Place>,
    ) -> Whose {
        let places: Vec<_> = places.into_iter().collect();
        let Some(first) = places.first().copied() else {
            return Whose::Unnamed;
        };
        let Some(devices) = &self.devices else {
            return Whose::Ours(Some(first));
        };
        let known = |place: &&Place| devices.known.iter().any(|bdf| place.matches(*bdf));
        let Some(place) = places.iter().find(known).copied() else {
            let of_driver = ["nvidia ", "NVRM"]
                .iter()
                .any(|word| text.starts_with(word));
            return if of_driver {
                Whose::Ours(Some(first))
            } else {
                Whose::Others(Some(first))
            };
        };
        devices
            .owner(place, extent)
            .map_or(Whose::Others(Some(place)), |own| Whose::Ours(Some(own)))
    }

    /// The position of the line with which the loaded driver was started. `Some(0)` if the log begins later.
    pub(super) fn driver_start(&self, lines: &[Line]) -> Option<usize> {
        let begun = lines.iter().rposition(|line| is_driver_start(&line.text));
        let later = self.driver_loaded && lines.first().is_some_and(|line| line.seq > 0);
        begun.or(later.then_some(0))
    }
}

/// Whether the driver's module says that it was loaded.
pub(super) fn is_driver_start(text: &str) -> bool {
    [
        "NVRM: loading NVIDIA UNIX",
        "nvidia: module loaded",
        "nvidia-nvlink: Nvlink Core is being initialized",
    ]
    .iter()
    .any(|words| text.contains(words))
}

impl Devices {
    fn of<F>(fabric: &Fabric<F>) -> Self {
        let tree = Tree::of(fabric);
        let switches = fabric
            .devices
            .iter()
            .filter(|d| is_nvswitch(d) || d.leads_to_nvswitches)
            .map(|d| d.bdf);
        let whole: BTreeSet<Bdf> = fabric
            .gpus
            .iter()
            .copied()
            .chain(nic::exchanging(fabric))
            .chain(switches)
            .collect();
        let parts = fabric
            .devices
            .iter()
            .filter(|d| d.physfn.is_some_and(|whole_bdf| whole.contains(&whole_bdf)));
        let parts: Vec<_> = parts.map(|d| d.bdf).collect();
        let ends: BTreeSet<Bdf> = whole.into_iter().chain(parts).collect();
        let ports = ends
            .iter()
            .flat_map(|end| tree.above(*end))
            .map(|port| port.bdf)
            .collect();
        let is_gpu = |bdf: &Bdf| fabric.gpus.contains(bdf);
        let between = fabric
            .paths
            .iter()
            .filter(|path| is_gpu(&path.a) && is_gpu(&path.b));
        let between_gpus = between
            .flat_map(|p| p.ports.iter().copied())
            .chain(fabric.gpus.iter().copied())
            .collect();
        Self {
            known: fabric.devices.iter().map(|d| d.bdf).collect(),
            gpus: fabric.gpus.iter().copied().collect(),
            answering: fabric
                .devices
                .iter()
                .filter(|d| is_gpu(&d.bdf) && !d.config.gone)
                .map(|d| d.bdf)
                .collect(),
            ends,
            ports,
            between_gpus,
        }
    }

    /// The address of the device that matters, if it is one.
    fn owner(&self, place: Place, extent: Extent) -> Option<Place> {
        let exact = self
            .ends
            .union(&self.ports)
            .find(|bdf| place.matches(**bdf));
        if let Some(bdf) = exact {
            return Some(place.in_domain_of(*bdf));
        }
        let beside = self
            .ends
            .iter()
            .find(|bdf| extent == Extent::Link && place.shares_slot(**bdf));
        beside.map(|bdf| Place::from(*bdf))
    }
}
