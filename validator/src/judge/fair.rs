//! What transfers at the same time should move: max-min fair sharing of what the things on their
//! ways carry. A thing carries at least what the fastest pair moved over it alone, which is all
//! that is known, so that this is a lower bound: what moves less has collapsed.

use crate::schedule::{Lane, Pair, Resource, Routes};
use std::collections::{BTreeMap, BTreeSet};

/// Half of a thing, by what it joins.
type Key<'a> = (&'a Resource, Lane);

/// GB/s of each of `flows`, in their order, when all run at once; `alone`: what every pair moves
/// by itself. `None` when a flow has no such figure.
#[must_use]
pub fn fair(routes: &Routes, alone: &BTreeMap<Pair, f64>, flows: &[Pair]) -> Option<Vec<f64>> {
    let mut left = capacities(routes, alone);
    let mut flows =
        flows.iter().map(|p| Some(Flow::new(routes, *p, *alone.get(p)?))).collect::<Option<Vec<_>>>()?;
    // Every step fills a thing or satisfies a flow.
    while flows.iter().any(|f| f.open) {
        let users = users(&flows);
        let share = |(key, n): (&Key<'_>, &f64)| left.get(key).map(|left| left / n);
        let room = users.iter().filter_map(share).chain(flows.iter().filter(|f| f.open).map(Flow::wants));
        let step = room.reduce(f64::min).unwrap_or(0.0).max(0.0);
        for (key, n) in &users {
            if let Some(left) = left.get_mut(key) {
                *left -= step * n;
            }
        }
        let full: BTreeSet<_> = users.keys().filter(|k| left.get(*k).is_none_or(|l| *l <= LITTLE)).collect();
        for flow in flows.iter_mut().filter(|f| f.open) {
            flow.rate += step;
            flow.open = flow.wants() > LITTLE && !flow.lanes.iter().any(|lane| full.contains(lane));
        }
    }
    Some(flows.into_iter().map(|f| f.rate).collect())
}

/// A byte a second: less is rounding.
const LITTLE: f64 = 1e-9;

struct Flow<'a> {
    lanes: Vec<Key<'a>>,
    alone: f64,
    rate: f64,
    open: bool,
}

impl<'a> Flow<'a> {
    fn new(routes: &'a Routes, pair: Pair, alone: f64) -> Self {
        Self { lanes: routes.lanes(pair), alone, rate: 0.0, open: alone > LITTLE }
    }

    fn wants(&self) -> f64 {
        self.alone - self.rate
    }
}

fn capacities<'a>(routes: &'a Routes, alone: &BTreeMap<Pair, f64>) -> BTreeMap<Key<'a>, f64> {
    let mut most = BTreeMap::new();
    for (pair, gb_s) in alone {
        for lane in routes.lanes(*pair) {
            let most = most.entry(lane).or_insert(0.0_f64);
            *most = most.max(*gb_s);
        }
    }
    most
}

/// How many open flows cross each thing.
fn users<'a>(flows: &[Flow<'a>]) -> BTreeMap<Key<'a>, f64> {
    let mut users = BTreeMap::new();
    for lane in flows.iter().filter(|f| f.open).flat_map(|f| &f.lanes) {
        *users.entry(*lane).or_insert(0.0) += 1.0;
    }
    users
}
