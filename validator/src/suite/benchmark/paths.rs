//! The paths between the GPUs: which transfers share no link, and what carries each pair's data.

use super::link_states::LinkStates;
use crate::floors;
use crate::floors::{Carrier, NVLINK_GB_S, NvLinkGpu, nvlinks};
use crate::schedule::{Pair, Plan, RouteKind, Routes};
use crate::suite::{Test, TestContext, needed_by};
use gpu::{Clique, Gpu, NvLinkStates, Remote, count_nvlinks};
use machine::pcie::model::{Bdf, Fabric, PathKind};
use machine::pcie::topo::{Cell, NvLinks};
use outcome::Judgement;
use outcome::finding::Finding;
use report::Level;
use std::collections::BTreeMap;

/// The carrier of a pair whose path is unknown.
const UNKNOWN: Carrier = Carrier::Pcie {
    kind: PathKind::Sys,
    raw_gb_s: 0.0,
};

/// The paths between all GPUs.
#[derive(Debug)]
pub(in crate::suite) struct GpuPaths {
    gpus: Vec<Bdf>,
    /// What NVML reports of each GPU's NVLinks.
    boards: Vec<NvLinkGpu>,
    nvlinks: NvLinks,
    /// What one NVLink carries in one direction according to NVML, GB/s.
    nvlink_gb_s: Option<f64>,
    /// Whether an NVLink of a GPU ends elsewhere than at another of these GPUs.
    switched: bool,
    /// The distance of the NUMA nodes of each sorted pair, where known.
    distances: BTreeMap<Pair, u32>,
    /// The links that the paths occupy; without known paths every pair is measured alone.
    pub(in crate::suite) routes: Routes,
}

impl GpuPaths {
    /// The paths that the fabric and NVML report.
    pub(in crate::suite) fn new(context: &TestContext, clique: &Clique) -> Self {
        let gpus = clique.addresses();
        let nvml = context.nvml().map_err(str::to_owned);
        let ask = |gpu: &Bdf| {
            nvml.as_ref()
                .map_err(Clone::clone)
                .and_then(|nvml| nvml.nvlinks(*gpu))
        };
        let states: Vec<_> = gpus.iter().map(ask).collect();
        let boards = clique
            .gpus
            .iter()
            .zip(&states)
            .map(|(gpu, states)| board(gpu, states))
            .collect();
        let states: Vec<_> = states.into_iter().map(Result::unwrap_or_default).collect();
        let nvlinks = count_nvlinks(&gpus, &states);
        let ends_elsewhere =
            |link: &gpu::NvLink| !matches!(link.remote, Remote::At(at) if gpus.contains(&at));
        let switched = states
            .iter()
            .flat_map(|states| &states.up)
            .any(ends_elsewhere);
        let nvlink_gb_s = nvml
            .ok()
            .zip(gpus.first())
            .and_then(|(nvml, gpu)| nvml.nvlink_gb_s(*gpu).ok());
        let routes = context
            .fabric
            .as_ref()
            .ok()
            .and_then(|f| Routes::new(f, &gpus, &nvlinks).ok());
        let routes = routes.unwrap_or_else(|| Routes::staged(&gpus));
        let distances = distances(context, &gpus);
        Self {
            gpus,
            boards,
            nvlinks,
            nvlink_gb_s,
            switched,
            distances,
            routes,
        }
    }

    /// Whether NVSwitches connect these GPUs, as far as NVML says.
    pub(in crate::suite) const fn has_nvswitches(&self) -> bool {
        self.switched
    }

    /// The group that a pair is compared with: pairs whose path is of the same kind and distance.
    pub(in crate::suite) fn path_group(&self, pair: Pair) -> String {
        let far = self
            .distances
            .get(&pair.sorted())
            .map_or(String::new(), |far| format!(" at distance {far}"));
        kind(&self.routes, pair) + &far
    }

    /// How far apart the GPUs of a pair are over PCIe; `None` where NVLinks or host memory carry its data.
    pub(in crate::suite) fn distance(&self, pair: Pair) -> Option<floors::Distance> {
        match self.routes.get(pair).map(|route| route.kind)? {
            RouteKind::Pcie { kind, .. } => Some(floors::Distance {
                kind,
                nodes: self.distances.get(&pair.sorted()).copied(),
            }),
            RouteKind::NvLink(_) | RouteKind::Staged => None,
        }
    }

    /// Whether NVLinks carry a pair's data.
    pub(in crate::suite) fn is_nvlink(&self, pair: Pair) -> bool {
        matches!(
            self.routes.get(pair).map(|route| route.kind),
            Some(RouteKind::NvLink(_))
        )
    }

    /// Whether NVLinks carry the data of every pair.
    pub(in crate::suite) fn is_nvlink_only(&self) -> bool {
        let gpus = self.gpus.len();
        let pairs = (0..gpus).flat_map(|from| (from + 1..gpus).map(move |to| Pair::of(from, to)));
        gpus > 1 && pairs.into_iter().all(|pair| self.is_nvlink(pair))
    }

    /// What a pair's links carry at their best in one direction, GB/s; `None` where unknown.
    pub(in crate::suite) fn ceiling(
        &self,
        fabric: &Fabric,
        links: &LinkStates,
        pair: Pair,
    ) -> Option<f64> {
        match self.routes.get(pair).map(|route| route.kind)? {
            RouteKind::NvLink(n) => self.nvlink_gb_s.map(|gb_s| f64::from(n) * gb_s),
            RouteKind::Pcie { .. } | RouteKind::Staged => {
                self.ends(pair, |bdf| links.most(fabric, bdf))
            }
        }
    }

    /// What the GPUs' own links carry under load, GB/s: the smaller of the two.
    pub(in crate::suite) fn own(&self, links: &LinkStates, pair: Pair) -> Option<f64> {
        self.ends(pair, |bdf| links.own(bdf))
    }

    /// The smaller value of the two GPUs of a pair.
    fn ends(&self, pair: Pair, of: impl Fn(Bdf) -> Option<f64>) -> Option<f64> {
        let [a, b] =
            [pair.from, pair.to].map(|gpu| self.gpus.get(gpu.index()).copied().and_then(&of));
        Some(a?.min(b?))
    }

    /// Findings about the NVLinks.
    pub(in crate::suite) fn findings(&self) -> Vec<Finding> {
        nvlinks(&self.boards)
    }

    /// How many NVLinks each GPU has up.
    pub(in crate::suite) fn nvlinks_up(&self) -> Vec<u32> {
        self.boards
            .iter()
            .map(|board| board.links.as_ref().map_or(0, |links| links.up))
            .collect()
    }

    /// Pairs that share no link, round by round, both directions as one.
    pub(in crate::suite) fn rounds(&self) -> Vec<Vec<Pair>> {
        Plan::unordered(&self.routes).rounds
    }

    /// The addresses of the devices that a pair's data crosses over PCIe; empty where NVLinks carry it.
    pub(in crate::suite) fn pcie(&self, fabric: &Fabric, pair: Pair) -> Vec<Bdf> {
        if !matches!(
            self.routes.get(pair).map(|r| r.kind),
            Some(RouteKind::Pcie { .. })
        ) {
            return Vec::new();
        }
        let ends = [pair.from, pair.to].map(|gpu| self.gpus.get(gpu.index()).copied());
        let [Some(a), Some(b)] = ends else {
            return Vec::new();
        };
        let tree = machine::pcie::tree::Tree::of(fabric);
        let ports = machine::pcie::path::between(&tree, a, b)
            .map(|path| path.ports)
            .unwrap_or_default();
        [a, b].into_iter().chain(ports).collect()
    }

    /// What carries every pair's data, with the links as they were under load.
    pub(in crate::suite) fn carriers(
        &self,
        fabric: &Fabric,
        links: &LinkStates,
    ) -> impl Fn(Pair) -> Carrier + use<> {
        let routes = Routes::new(&links.applied(fabric), &self.gpus, &self.nvlinks).ok();
        let nvlink_gb_s = self.nvlink_gb_s.unwrap_or(NVLINK_GB_S);
        move |pair| {
            let way = routes
                .as_ref()
                .and_then(|routes| routes.get(pair))
                .map(|route| route.kind);
            way.and_then(|way| Carrier::of(way, nvlink_gb_s))
                .unwrap_or(UNKNOWN)
        }
    }
}

/// Why a test of level standard that is about paths over PCIe does not run: NVLinks carry the data of all pairs. Level full
/// runs it there too, and so does a machine that needs it at every level; a test requested by name always runs.
///
/// # Errors
/// CUDA does not start, or the fabric cannot be read.
pub(in crate::suite) fn left_to_full(
    context: &TestContext,
    test: &Test,
) -> Result<Option<Judgement>, Box<Finding>> {
    let named = context
        .config
        .validate
        .only
        .iter()
        .any(|id| id == test.id());
    let needed = needed_by(context.fabric()?).contains(&test.id());
    if named || needed || context.config.validate.level > Level::Standard {
        return Ok(None);
    }
    let why = "NVLinks carry the data of all pairs, so level full runs this test and level standard does not";
    let only = GpuPaths::new(context, context.clique()?).is_nvlink_only();
    Ok(only.then(|| Judgement::not_applicable(why)))
}

fn distances(context: &TestContext, gpus: &[Bdf]) -> BTreeMap<Pair, u32> {
    let Ok(fabric) = &context.fabric else {
        return BTreeMap::new();
    };
    let node = |bdf: &Bdf| fabric.devices.iter().find(|d| d.bdf == *bdf)?.numa;
    let nodes: Vec<_> = gpus.iter().map(node).collect();
    let mut known: BTreeMap<(u32, u32), Option<u32>> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for (from, a) in nodes.iter().enumerate() {
        for (to, b) in nodes.iter().enumerate().skip(from + 1) {
            let (Some(a), Some(b)) = (*a, *b) else {
                continue;
            };
            let far = *known
                .entry((a, b))
                .or_insert_with(|| distance(context, a, b));
            all.extend(far.map(|far| (Pair::of(from, to), far)));
        }
    }
    all
}

fn board(gpu: &Gpu, states: &Result<NvLinkStates, String>) -> NvLinkGpu {
    let links = states
        .as_ref()
        .map_err(Clone::clone)
        .map(|states| floors::NvLinkCounts {
            up: u32::try_from(states.up.len()).unwrap_or(u32::MAX),
            down: states.down.clone(),
            silent: states.silent.clone(),
        });
    NvLinkGpu {
        gpu: gpu.id(),
        bdf: gpu.bdf,
        name: gpu.name.clone(),
        links,
    }
}

/// The distance of two NUMA nodes according to the firmware: 10 is the same node.
fn distance(context: &TestContext, a: u32, b: u32) -> Option<u32> {
    let nodes = context
        .root
        .text(format!("sys/devices/system/node/node{a}/distance"))
        .ok()?;
    nodes
        .split_whitespace()
        .nth(usize::try_from(b).ok()?)?
        .parse()
        .ok()
}

/// The kind of a pair's path, in the letters of `nvidia-smi topo -m`.
pub(in crate::suite) fn kind(routes: &Routes, pair: Pair) -> String {
    match routes.get(pair).map(|route| route.kind) {
        Some(RouteKind::NvLink(links)) => Cell::NvLink(links).to_string(),
        Some(RouteKind::Pcie { kind, .. }) => Cell::Pcie(kind).to_string(),
        Some(RouteKind::Staged) | None => "unknown".to_owned(),
    }
}
