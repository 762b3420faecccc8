//! What simultaneous transfers should move. Each moves the same number of bytes, so the link with the most to
//! carry in relation to its rate decides when all are done: a GPU's own link, a bridge's, or a shared
//! resource between them whose rate is only known from measurements.

use crate::schedule::{LinkDirection, Pair, Resource, RouteKind, Routes};
use machine::GpuId;
use machine::pcie::model::Bdf;
use std::collections::BTreeMap;

/// The fraction of a link's raw rate that is available for data: on record 0.81 to 0.89.
const PAYLOAD: f64 = 0.8;

/// One direction of a shared resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ResourceKey<'a> {
    /// A GPU's own links: those of PCIe, or NVLinks.
    Own {
        gpu: GpuId,
        direction: LinkDirection,
        nvlink: bool,
    },
    /// A bridge's link.
    Port(Bdf, LinkDirection),
    /// Any other resource between GPUs, as pairs of one class use it.
    Between(&'a Resource, LinkDirection, usize),
}

/// What is known about the paths.
#[derive(Debug, Clone, Copy)]
pub struct KnownPaths<'a> {
    /// The resources that they occupy.
    pub routes: &'a Routes,
    /// The speed of every ordered pair alone, GB/s.
    pub alone: &'a BTreeMap<Pair, f64>,
    /// How many NVLinks each GPU has up; 0 where unknown.
    pub nvlinks: &'a [u32],
    /// The class of each pair, see [`classes`].
    pub classes: &'a BTreeMap<Pair, usize>,
}

/// Neighbours in speed with a larger ratio belong to different classes: on record comparable pairs differ by
/// 9 % overall, near and far sockets by 13 %.
const GAP: f64 = 1.08;

/// Pairs whose paths seem to be the same: in one group of `like`, and nearly as fast. Whether a link between
/// NUMA nodes is inside one package or between two is not reported anywhere; the speed shows it.
#[must_use]
pub fn classes(
    alone: &BTreeMap<Pair, f64>,
    like: &dyn Fn(Pair) -> String,
) -> BTreeMap<Pair, usize> {
    let mut all: Vec<_> = alone
        .iter()
        .map(|(pair, gb_s)| (like(*pair), *gb_s, *pair))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut classes = BTreeMap::new();
    let mut last: Option<(&str, f64, usize)> = None;
    for (like, gb_s, pair) in &all {
        let class = match last {
            Some((before, slower, class)) if before == like && *gb_s <= slower * GAP => class,
            Some((.., class)) => class + 1,
            None => 0,
        };
        classes.insert(*pair, class);
        last = Some((like, *gb_s, class));
    }
    classes
}

/// Transfers of the same number of bytes that ran together, and what they moved together from the first start
/// to the last stop, GB/s.
#[derive(Debug, Clone, Copy)]
pub struct JointTransfers<'a> {
    /// The transfers.
    pub pairs: &'a [Pair],
    /// GB/s.
    pub total: f64,
}

/// The rates of all resources, GB/s.
#[derive(Debug)]
pub struct ResourceRates<'a> {
    known: KnownPaths<'a>,
    /// The rates of links, from single pairs and from the raw rates.
    links: BTreeMap<ResourceKey<'a>, f64>,
    /// The highest observed rate of each other resource.
    seen: BTreeMap<ResourceKey<'a>, f64>,
}

/// What transfers should move together.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedSpeed {
    /// GB/s; where no rate is known, with the highest observed rate.
    pub total: f64,
    /// GB/s by the links alone.
    pub links: f64,
    /// The limiting resource.
    pub limit: String,
}

impl<'a> ResourceRates<'a> {
    /// The rates from the known paths and the transfers that were measured on them; `raw`: GB/s that the link
    /// of a bridge carries, where known.
    #[must_use]
    pub fn new(
        known: KnownPaths<'a>,
        raw: &dyn Fn(Bdf) -> Option<f64>,
        ran: &[JointTransfers<'a>],
    ) -> Self {
        let mut network = Self {
            known,
            links: BTreeMap::new(),
            seen: BTreeMap::new(),
        };
        for (pair, gb_s) in known.alone {
            for key in network.keys(*pair) {
                let own = gb_s * network.links_of(key, *pair);
                let map = if is_link(&key) {
                    &mut network.links
                } else {
                    &mut network.seen
                };
                let most = map.entry(key).or_insert(0.0);
                *most = most.max(own);
            }
        }
        for (key, most) in &mut network.links {
            if let ResourceKey::Port(port, _) = key {
                *most = most.max(raw(*port).unwrap_or(0.0) * PAYLOAD);
            }
        }
        for JointTransfers { pairs, total } in ran {
            let each = total / count(pairs.len());
            for (key, users) in network.users(pairs) {
                if !is_link(&key) {
                    let most = network.seen.entry(key).or_insert(0.0);
                    *most = most.max(each * users);
                }
            }
        }
        network
    }

    /// What `pairs` should move together; `None` when one of them has no figure alone.
    #[must_use]
    pub fn expected(&self, pairs: &[Pair]) -> Option<ExpectedSpeed> {
        let mut each = pairs
            .iter()
            .map(|pair| Some((*self.known.alone.get(pair)?, format!("{pair} alone"))))
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        let users = self.users(pairs);
        let share = |(key, n): (&ResourceKey<'_>, &f64), map: &BTreeMap<ResourceKey<'a>, f64>| {
            Some(map.get(key)? / n)
        };
        for user in &users {
            if let Some(gb_s) = share(user, &self.links).filter(|gb_s| *gb_s < each.0) {
                each = (gb_s, resource_name(user.0));
            }
        }
        let links = each.0;
        for user in &users {
            if let Some(gb_s) = share(user, &self.seen).filter(|gb_s| *gb_s < each.0) {
                each = (gb_s, resource_name(user.0));
            }
        }
        let all = count(pairs.len());
        Some(ExpectedSpeed {
            total: each.0 * all,
            links: links * all,
            limit: each.1,
        })
    }

    /// How many of `pairs` use each resource.
    fn users(&self, pairs: &[Pair]) -> BTreeMap<ResourceKey<'a>, f64> {
        let mut users = BTreeMap::new();
        for key in pairs.iter().flat_map(|pair| self.keys(*pair)) {
            *users.entry(key).or_insert(0.0) += 1.0;
        }
        users
    }

    fn keys(&self, pair: Pair) -> Vec<ResourceKey<'a>> {
        let kind = self.known.routes.get(pair).map(|route| route.kind);
        let nvlink = matches!(kind, Some(RouteKind::NvLink(_)));
        let class = self.known.classes.get(&pair).copied().unwrap_or(0);
        let key = |(resource, direction): (&'a Resource, LinkDirection)| match resource {
            Resource::Gpu(gpu) => ResourceKey::Own {
                gpu: *gpu,
                direction,
                nvlink,
            },
            Resource::Port(port) => ResourceKey::Port(*port, direction),
            resource => ResourceKey::Between(resource, direction, class),
        };
        self.known
            .routes
            .directed_resources(pair)
            .into_iter()
            .map(key)
            .collect()
    }

    /// How many times the speed of `pair` a GPU's own links carry: GPUs with NVLinks and no switch have
    /// separate links for each peer.
    fn links_of(&self, key: ResourceKey<'_>, pair: Pair) -> f64 {
        let kind = self.known.routes.get(pair).map(|route| route.kind);
        let (
            ResourceKey::Own {
                gpu, nvlink: true, ..
            },
            Some(RouteKind::NvLink(links)),
        ) = (key, kind)
        else {
            return 1.0;
        };
        let all = self.known.nvlinks.get(gpu.index()).copied().unwrap_or(0);
        (f64::from(all) / f64::from(links.max(1))).max(1.0)
    }
}

/// Whether its rate is known: of any other resource only the highest observed rate is known.
const fn is_link(key: &ResourceKey<'_>) -> bool {
    matches!(key, ResourceKey::Own { .. } | ResourceKey::Port(..))
}

#[expect(clippy::cast_precision_loss, reason = "thousands at most")]
const fn count(n: usize) -> f64 {
    n as f64
}

fn resource_name(key: &ResourceKey<'_>) -> String {
    let way = |direction: LinkDirection, up, down| match direction {
        LinkDirection::Up => up,
        LinkDirection::Down => down,
        LinkDirection::Both => "",
    };
    match key {
        ResourceKey::Own { gpu, direction, .. } => {
            format!("GPU {gpu}{}", way(*direction, " out", " in"))
        }
        ResourceKey::Port(port, direction) => format!("{port}{}", way(*direction, " up", " down")),
        ResourceKey::Between(resource, ..) => resource.to_string(),
    }
}

#[cfg(test)]
mod tests;
