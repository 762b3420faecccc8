//! Reads what a prediction is based on.

use super::predict::{self, Driver, GpuFacts, Prediction};
use crate::suite::TestContext;
use crate::suite::context::known;
use crate::suite::fabric::bar1;
use crate::suite::shared::bar1_mapping::{Bar1Mapping, mapping_of};
use crate::suite::shared::peer_mechanism::{self, PeerMechanism};
use gpu::{Clique, Nvml};
use machine::host::cpu::{self, CpuModel};
use machine::host::nvidia::chip;
use machine::host::nvidia::keys::{self, RegistryKeys};
use machine::host::nvidia::{Nvidia, params};
use machine::pcie::model::{Bdf, PathKind};
use machine::pcie::topo::NvLinks;
use outcome::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// What is known about a machine's GPUs and its driver.
#[derive(Debug)]
pub(super) struct Facts {
    gpus: BTreeMap<Bdf, GpuFacts>,
    nvlinks: NvLinks,
    /// Pairs with a switch above both, the lower address first.
    switched: BTreeSet<(Bdf, Bdf)>,
    /// The driver as each GPU has it, by address.
    drivers: BTreeMap<Bdf, Driver>,
    host: Option<CpuModel>,
}

/// Reads what is known about the machine.
///
/// # Errors
/// The fabric or the driver's list of GPUs cannot be read.
pub(super) fn read(
    context: &TestContext,
    clique: &Clique,
    nvml: &Nvml,
) -> Result<Facts, Box<Finding>> {
    let fabric = context.fabric()?;
    let bar1_by_gpu = context.bar1_by_gpu();
    let obstructions = bar1::obstructions(context);
    let gpu_facts = |(gpu, mechanism): (&_, PeerMechanism)| {
        let mapped = match mapping_of(gpu, &bar1_by_gpu) {
            Bar1Mapping::All(_) => Some(true),
            Bar1Mapping::Little(_) => Some(false),
            Bar1Mapping::Part(_) | Bar1Mapping::Unknown(_) => None,
        };
        let chip = chip::number(&gpu.device).and_then(chip::of);
        let obstruction = obstructions.get(&gpu.bdf).copied();
        (
            gpu.bdf,
            GpuFacts {
                chip,
                geforce: mechanism == PeerMechanism::Bar1,
                mapped,
                obstruction,
                clique: gpu.clique,
            },
        )
    };
    let near = fabric
        .paths
        .iter()
        .filter(|path| matches!(path.kind, PathKind::Pix | PathKind::Pxb));
    Ok(Facts {
        gpus: peer_mechanism::mechanisms(fabric, known(&context.nvidia.gpus)?)
            .into_iter()
            .map(gpu_facts)
            .collect(),
        nvlinks: nvml.nvlink_pairs(&clique.addresses()).unwrap_or_default(),
        switched: near
            .map(|path| (path.a.min(path.b), path.a.max(path.b)))
            .collect(),
        drivers: clique
            .addresses()
            .iter()
            .filter_map(|gpu| Some((*gpu, driver(context, *gpu)?)))
            .collect(),
        host: cpu::model(&context.root),
    })
}

/// The driver as one GPU has it, if its version and its parameters can be read.
fn driver(context: &TestContext, gpu: Bdf) -> Option<Driver> {
    let loaded = context.nvidia.loaded.as_ref().ok()?.as_ref()?;
    let version = keys::major(&loaded.version)?;
    let all = params::read(&context.root)
        .ok()
        .filter(|all| !all.is_empty())?;
    let keys = RegistryKeys::of(version, &params::registry_keys(&all, &gpu.to_string()));
    Some(Driver {
        version,
        changed: changed(&context.nvidia),
        keys,
    })
}

/// Whether the loaded module has a patch level of firstlight, according to init's account or the module's file.
fn changed(nvidia: &Nvidia) -> Option<bool> {
    let account = nvidia.account.as_ref().ok()?.as_ref();
    if let Some(module) = account.and_then(|account| account.module("nvidia")) {
        return Some(
            module
                .patch
                .as_deref()
                .is_some_and(|level| !level.is_empty()),
        );
    }
    let file = nvidia.file.as_ref().ok()?.as_ref()?;
    let loaded = nvidia.loaded.as_ref().ok()?.as_ref()?;
    let same = file.srcversion.is_some() && file.srcversion == loaded.hash.srcversion;
    same.then_some(file.patch.is_some())
}

impl Facts {
    /// The prediction for a pair.
    pub(super) fn predict(&self, from: Bdf, to: Bdf) -> Prediction {
        let unknown = GpuFacts {
            chip: None,
            geforce: true,
            mapped: None,
            obstruction: None,
            clique: None,
        };
        let key = (from.min(to), from.max(to));
        predict::predict(&predict::PairFacts {
            gpus: [from, to].map(|gpu| self.gpus.get(&gpu).copied().unwrap_or(unknown)),
            nvlinks: self.nvlinks.get(&key).copied().unwrap_or_default(),
            switch: self.switched.contains(&key),
            driver: self.drivers.get(&from).copied(),
            host: self.host.as_ref(),
        })
    }
}
