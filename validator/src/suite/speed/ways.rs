//! The ways between the GPUs: which transfers share nothing, and what carries each pair's data.

use super::load::Links;
use crate::gpu::Clique;
use crate::judge::{Carrier, NVLINK_GB_S};
use crate::pcie::model::{Bdf, Fabric, PathKind};
use crate::pcie::topo::NvLinks;
use crate::schedule::{Pair, Plan, Routes, Way};
use crate::suite::Machine;

/// A pair of which nothing is known.
const UNKNOWN: Carrier = Carrier::Pcie { kind: PathKind::Sys, raw_gb_s: 0.0 };

/// The ways between all GPUs.
#[derive(Debug)]
pub(in crate::suite) struct Ways {
    gpus: Vec<Bdf>,
    nvlinks: NvLinks,
    nvlink_gb_s: f64,
    /// What the ways occupy; without a known way every pair is measured alone.
    pub(in crate::suite) routes: Routes,
}

impl Ways {
    /// As the fabric and NVML show them. NVML may be silent: then there is no NVLink to be seen.
    pub(in crate::suite) fn new(machine: &Machine, clique: &Clique) -> Self {
        let gpus = clique.addresses();
        let nvml = machine.nvml().ok();
        let nvlinks = nvml.and_then(|nvml| nvml.nvlink_pairs(&gpus).ok()).unwrap_or_default();
        let told = nvml.zip(gpus.first()).and_then(|(nvml, gpu)| nvml.nvlink_gb_s(*gpu).ok());
        let routes = machine.fabric.as_ref().ok().and_then(|f| Routes::new(f, &gpus, &nvlinks).ok());
        let routes = routes.unwrap_or_else(|| Routes::staged(&gpus));
        Self { gpus, nvlinks, nvlink_gb_s: told.unwrap_or(NVLINK_GB_S), routes }
    }

    /// Pairs that share nothing, round by round, both directions as one.
    pub(in crate::suite) fn rounds(&self) -> Vec<Vec<Pair>> {
        Plan::unordered(&self.routes).rounds
    }

    /// The addresses of what a pair's data crosses over PCIe; nothing where NVLinks carry it.
    pub(in crate::suite) fn pcie(&self, fabric: &Fabric, pair: Pair) -> Vec<Bdf> {
        if !matches!(self.routes.get(pair).map(|r| r.way), Some(Way::Pcie { .. })) {
            return Vec::new();
        }
        let ends = [pair.from, pair.to].map(|n| self.gpus.get(n).copied());
        let [Some(a), Some(b)] = ends else { return Vec::new() };
        let tree = crate::pcie::tree::Tree::of(fabric);
        let ports = crate::pcie::path::between(&tree, a, b).map(|path| path.ports).unwrap_or_default();
        [a, b].into_iter().chain(ports).collect()
    }

    /// What carries every pair's data, by the links as they were under load.
    pub(in crate::suite) fn carriers(
        &self,
        fabric: &Fabric,
        links: &Links,
    ) -> impl Fn(Pair) -> Carrier + use<> {
        let routes = Routes::new(&links.applied(fabric), &self.gpus, &self.nvlinks).ok();
        let nvlink_gb_s = self.nvlink_gb_s;
        move |pair| {
            let way = routes.as_ref().and_then(|routes| routes.get(pair)).map(|route| route.way);
            way.and_then(|way| Carrier::of(way, nvlink_gb_s)).unwrap_or(UNKNOWN)
        }
    }
}
