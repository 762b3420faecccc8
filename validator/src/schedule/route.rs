//! The path of every pair of GPUs, and what it occupies: from the fabric's paths, or over NVLink, where it is
//! only the two GPUs.

use super::{Pair, Resource};
use machine::GpuId;
use machine::pcie::model::{Bdf, Device, Fabric, Path, PathKind};
use machine::pcie::path::between;
use machine::pcie::routing::REDIRECT;
use machine::pcie::topo::NvLinks;
use machine::pcie::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// How two GPUs reach each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RouteKind {
    /// This many NVLinks, direct or through NVSwitches.
    NvLink(u32),
    /// Over PCIe.
    Pcie {
        /// The distance.
        kind: PathKind,
        /// What the narrowest link on the path can carry in one direction, GB/s; 0 when unknown.
        raw_gb_s: f64,
    },
    /// Peer access is off: copies go through host memory.
    Staged,
}

/// A pair's path, and the resources that it occupies.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The kind.
    pub kind: RouteKind,
    /// The resources that it occupies, including the two GPUs.
    pub resources: BTreeSet<Resource>,
}

/// The direction in which traffic occupies a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkDirection {
    /// From a GPU towards the root.
    Up,
    /// From the root towards a GPU.
    Down,
    /// Both, for a resource without separate directions, as far as known.
    Both,
}

/// The paths of all pairs of some GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Routes {
    gpus: Vec<Bdf>,
    /// By GPU: the bridges between it and the root.
    above: Vec<BTreeSet<Bdf>>,
    /// By the sorted pair.
    routes: BTreeMap<Pair, Route>,
}

/// A GPU is not in the fabric, so its paths are unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pair}: the fabric has no path between {a} and {b}")]
pub struct NoRoute {
    /// The pair.
    pub pair: Pair,
    /// One end's address.
    pub a: Bdf,
    /// The other end's address.
    pub b: Bdf,
}

impl Routes {
    /// The paths with peer access on. `gpus`: addresses by number (CUDA's ordinals, or the order of the
    /// addresses); `nvlinks`: from NVML, empty without it.
    ///
    /// # Errors
    /// When a GPU is not in the fabric.
    pub fn new(fabric: &Fabric, gpus: &[Bdf], nvlinks: &NvLinks) -> Result<Self, NoRoute> {
        let tree = Tree::of(fabric);
        let routes = Self::of(gpus, |pair, a, b| {
            let ends = [Resource::Gpu(pair.from), Resource::Gpu(pair.to)];
            if let Some(links) = nvlinks.get(&(a.min(b), a.max(b))).filter(|n| **n > 0) {
                return Ok(Route {
                    kind: RouteKind::NvLink(*links),
                    resources: BTreeSet::from(ends),
                });
            }
            let path = between(&tree, a, b).ok_or(NoRoute { pair, a, b })?;
            let resources = ends.into_iter().chain(crossed(&tree, &path)).collect();
            Ok(Route {
                kind: RouteKind::Pcie {
                    kind: path.kind,
                    raw_gb_s: path.raw_gb_s,
                },
                resources,
            })
        })?;
        let above = |gpu: &Bdf| tree.above(*gpu).iter().map(|d| d.bdf).collect();
        Ok(Self {
            above: gpus.iter().map(above).collect(),
            ..routes
        })
    }

    /// The paths with peer access off: every copy goes through host memory, which all share. Also the plan
    /// for GPUs with unknown paths: one pair at a time.
    #[must_use]
    pub fn staged(gpus: &[Bdf]) -> Self {
        let staged = |pair: Pair, _, _| -> Result<Route, std::convert::Infallible> {
            let shared = [
                Resource::Gpu(pair.from),
                Resource::Gpu(pair.to),
                Resource::Host,
            ];
            Ok(Route {
                kind: RouteKind::Staged,
                resources: BTreeSet::from(shared),
            })
        };
        match Self::of(gpus, staged) {
            Ok(routes) => routes,
        }
    }

    fn of<E>(
        gpus: &[Bdf],
        mut route: impl FnMut(Pair, Bdf, Bdf) -> Result<Route, E>,
    ) -> Result<Self, E> {
        let numbered = || gpus.iter().copied().enumerate();
        let mut routes = BTreeMap::new();
        for (from, a) in numbered() {
            for (to, b) in numbered().skip(from + 1) {
                let pair = Pair::of(from, to);
                routes.insert(pair, route(pair, a, b)?);
            }
        }
        Ok(Self {
            gpus: gpus.to_vec(),
            above: Vec::new(),
            routes,
        })
    }

    /// The GPUs' addresses by number.
    #[must_use]
    pub fn gpus(&self) -> &[Bdf] {
        &self.gpus
    }

    /// A pair's path, the same in both directions; `None` when there is no such pair.
    #[must_use]
    pub fn get(&self, pair: Pair) -> Option<&Route> {
        self.routes.get(&pair.sorted())
    }

    /// The resources that a transfer in one direction occupies, and in which direction: links carry both
    /// directions at once. Empty when there is no such pair.
    #[must_use]
    pub fn directed_resources(&self, pair: Pair) -> Vec<(&Resource, LinkDirection)> {
        let resources = self.get(pair).into_iter().flat_map(|r| &r.resources);
        let directed = |r| {
            self.directions(r, pair)
                .into_iter()
                .map(move |direction| (r, direction))
        };
        resources.flat_map(directed).collect()
    }

    fn directions(&self, resource: &Resource, pair: Pair) -> Vec<LinkDirection> {
        let over = |gpu: GpuId, port: &Bdf| {
            self.above
                .get(gpu.index())
                .is_some_and(|ports| ports.contains(port))
        };
        let (up, down) = match resource {
            Resource::Gpu(n) => (*n == pair.from, *n == pair.to),
            Resource::Port(port) => (over(pair.from, port), over(pair.to, port)),
            _ => (false, false),
        };
        let directions = [
            up.then_some(LinkDirection::Up),
            down.then_some(LinkDirection::Down),
        ];
        let directions: Vec<_> = directions.into_iter().flatten().collect();
        if directions.is_empty() {
            vec![LinkDirection::Both]
        } else {
            directions
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Route> {
        self.routes.values()
    }
}

/// The resources of a PCIe path besides its two ends.
fn crossed(tree: &Tree, path: &Path) -> BTreeSet<Resource> {
    let mut crossed: BTreeSet<_> = path.ports.iter().copied().map(Resource::Port).collect();
    let ends = [path.a, path.b].map(|end| tree.get(end));
    match path.kind {
        PathKind::Pix | PathKind::Pxb if redirected(tree, path) => {
            let above = [path.a, path.b].into_iter().flat_map(|end| tree.above(end));
            crossed.extend(above.map(|d| Resource::Port(d.bdf)));
            crossed.extend(ends.map(bridge));
        }
        PathKind::Pix | PathKind::Pxb => {}
        PathKind::Phb => crossed.extend(ends.map(bridge)),
        PathKind::Node => crossed.extend(ends.map(bridge).into_iter().chain(ends.map(node))),
        PathKind::Sys => {
            crossed.extend(ends.map(bridge).into_iter().chain(ends.map(node)));
            crossed.insert(Resource::Interconnect);
        }
    }
    crossed
}

/// ACS redirects the traffic to the root complex instead of directly to the peer.
fn redirected(tree: &Tree, path: &Path) -> bool {
    let ports = path.ports.iter().filter_map(|p| tree.get(*p));
    ports
        .filter_map(|p| p.acs.as_ref())
        .any(|acs| acs.ctrl & REDIRECT != 0)
}

fn bridge(end: Option<&Device>) -> Resource {
    end.and_then(|d| d.root_bus.clone())
        .map_or(Resource::Host, Resource::HostBridge)
}

fn node(end: Option<&Device>) -> Resource {
    end.map_or(Resource::Host, |d| Resource::Node(d.numa))
}
