//! Reads the facts that a prediction needs.

use super::predict::{self, Driver, Prediction, Side};
use crate::gpu::{Clique, Nvml};
use crate::machine::host::cpu::{self, Model};
use crate::machine::host::nvidia::chip;
use crate::machine::host::nvidia::keys::{self, Keys};
use crate::machine::host::nvidia::{Nvidia, params};
use crate::machine::pcie::model::{Bdf, PathKind};
use crate::machine::pcie::topo::NvLinks;
use crate::outcome::finding::Finding;
use crate::suite::Machine;
use crate::suite::machine::known;
use crate::suite::shared::peer::{self, Way};
use crate::suite::shared::window::{Count, counted};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a machine.
#[derive(Debug)]
pub(super) struct Facts {
    sides: BTreeMap<Bdf, Side>,
    nvlinks: NvLinks,
    /// Pairs with a switch above both, the lower address first.
    switched: BTreeSet<(Bdf, Bdf)>,
    /// The driver as each GPU has it, by address.
    drivers: BTreeMap<Bdf, Driver>,
    host: Option<Model>,
}

/// Reads the facts.
///
/// # Errors
/// The fabric or the driver's list of GPUs cannot be read.
pub(super) fn of(machine: &Machine, clique: &Clique, nvml: &Nvml) -> Result<Facts, Box<Finding>> {
    let fabric = machine.fabric()?;
    let windows = machine.windows();
    let side = |(gpu, way): (&_, Way)| {
        let mapped = match counted(gpu, windows) {
            Count::All(_) => Some(true),
            Count::Little(_) => Some(false),
            Count::Part(_) | Count::Unknown(_) => None,
        };
        let chip = chip::number(&gpu.device).and_then(chip::of);
        (gpu.bdf, Side { chip, geforce: way == Way::Bar1, mapped })
    };
    let near = fabric.paths.iter().filter(|path| matches!(path.kind, PathKind::Pix | PathKind::Pxb));
    Ok(Facts {
        sides: peer::ways(fabric, known(&machine.nvidia.gpus)?).into_iter().map(side).collect(),
        nvlinks: nvml.nvlink_pairs(&clique.addresses()).unwrap_or_default(),
        switched: near.map(|path| (path.a.min(path.b), path.a.max(path.b))).collect(),
        drivers: clique.addresses().iter().filter_map(|gpu| Some((*gpu, driver(machine, *gpu)?))).collect(),
        host: cpu::model(&machine.root),
    })
}

/// The driver as one GPU has it, if its version and its parameters can be read.
fn driver(machine: &Machine, gpu: Bdf) -> Option<Driver> {
    let loaded = machine.nvidia.loaded.as_ref().ok()?.as_ref()?;
    let version = keys::major(&loaded.version)?;
    let all = params::read(&machine.root).ok().filter(|all| !all.is_empty())?;
    let keys = Keys::of(version, &params::registry_keys(&all, &gpu.to_string()));
    Some(Driver { version, changed: changed(&machine.nvidia), keys })
}

/// Whether the loaded module has a patch level of firstlight, according to init's account or the module's file.
fn changed(nvidia: &Nvidia) -> Option<bool> {
    let account = nvidia.account.as_ref().ok()?.as_ref();
    if let Some(module) = account.and_then(|account| account.module("nvidia")) {
        return Some(module.patch.as_deref().is_some_and(|level| !level.is_empty()));
    }
    let file = nvidia.file.as_ref().ok()?.as_ref()?;
    let loaded = nvidia.loaded.as_ref().ok()?.as_ref()?;
    let same = file.srcversion.is_some() && file.srcversion == loaded.hash.srcversion;
    same.then_some(file.patch.is_some())
}

impl Facts {
    /// The prediction for a pair.
    pub(super) fn predict(&self, from: Bdf, to: Bdf) -> Prediction {
        let unknown = Side { chip: None, geforce: true, mapped: None };
        let key = (from.min(to), from.max(to));
        predict::predict(&predict::Pair {
            gpus: [from, to].map(|gpu| self.sides.get(&gpu).copied().unwrap_or(unknown)),
            nvlinks: self.nvlinks.get(&key).copied().unwrap_or_default(),
            switch: self.switched.contains(&key),
            driver: self.drivers.get(&from).copied(),
            host: self.host.as_ref(),
        })
    }
}
