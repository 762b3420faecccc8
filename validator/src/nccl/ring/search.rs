//! A good ring through more GPUs than can be tried in all orders, and a bound for any ring. Pure.
//!
//! The bound: in a ring each GPU sends to one and receives from one, so no ring is faster than the best
//! assignment of a receiver to each GPU, which is a matching and quickly found. The ring: from several starts, a
//! path is extended to the fastest remaining GPU at each step; then, as long as it helps, the slowest edge is
//! removed and the ring is reassembled without reversing any part of it, because the directions' speeds differ.

use super::{Edges, Ring};

/// A ring and the bound for all rings.
pub(super) fn ring(edges: &Edges) -> Option<Ring> {
    let size = edges.0.len();
    let most = upper_bound(edges)?;
    let mut best: Option<Vec<usize>> = None;
    for first in 0..size {
        let order = improve(edges, greedy_path(edges, first));
        let score = |order: &[usize]| score(edges, order);
        if best.as_ref().is_none_or(|best| score(&order) > score(best)) {
            best = Some(order);
        }
        if best.as_ref().is_some_and(|best| score(best).0 >= most) {
            break;
        }
    }
    let mut order = best?;
    let zero = order.iter().position(|gpu| *gpu == 0)?;
    order.rotate_left(zero);
    edges.with_slowest(order, Some(most))
}

/// The fastest speed at which each GPU can have a separate receiver.
fn upper_bound(edges: &Edges) -> Option<f64> {
    let mut speeds: Vec<f64> = edges.all().map(|(_, _, speed)| speed).collect();
    speeds.sort_by(f64::total_cmp);
    speeds.dedup();
    let possible = speeds.partition_point(|least| has_assignment(edges, *least));
    speeds.get(possible.checked_sub(1)?).copied()
}

/// Whether each GPU can have a separate receiver over edges with at least this speed.
fn has_assignment(edges: &Edges, least: f64) -> bool {
    let size = edges.0.len();
    let mut taken: Vec<Option<usize>> = vec![None; size];
    (0..size).all(|from| assign(edges, least, from, &mut taken, &mut vec![false; size]))
}

/// Assigns a receiver to `from`; the previous sender of that receiver is assigned another one.
fn assign(
    edges: &Edges,
    least: f64,
    from: usize,
    taken: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    for to in 0..taken.len() {
        let good = to != from && edges.speed(from, to).is_some_and(|speed| speed >= least);
        let Some(new) = seen.get_mut(to).filter(|seen| good && !**seen) else {
            continue;
        };
        *new = true;
        let owner = taken.get(to).copied().flatten();
        if owner.is_none_or(|owner| assign(edges, least, owner, taken, seen)) {
            if let Some(slot) = taken.get_mut(to) {
                *slot = Some(from);
            }
            return true;
        }
    }
    false
}

/// A path from `first` on that always continues to the fastest remaining GPU.
fn greedy_path(edges: &Edges, first: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..edges.0.len()).filter(|gpu| *gpu != first).collect();
    let (mut order, mut here) = (vec![first], first);
    while !left.is_empty() {
        let speed = |gpu: usize| edges.speed(here, gpu).unwrap_or_default();
        let fastest = (0..left.len()).max_by(|a, b| {
            let of = |n: &usize| left.get(*n).map_or(0.0, |gpu| speed(*gpu));
            of(a).total_cmp(&of(b)).then(b.cmp(a))
        });
        let Some(next) = fastest else { break };
        here = left.remove(next);
        order.push(here);
    }
    order
}

/// The speed of the slowest edge, and how many edges are as slow: of two rings the one with fewer of them is
/// closer to a better one.
fn score(edges: &Edges, order: &[usize]) -> (f64, std::cmp::Reverse<usize>) {
    let next = order.iter().cycle().skip(1);
    let speeds: Vec<f64> = order
        .iter()
        .zip(next)
        .filter_map(|(a, b)| edges.speed(*a, *b))
        .collect();
    let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
    let alike = speeds.iter().filter(|speed| **speed <= slowest).count();
    (slowest, std::cmp::Reverse(alike))
}

/// Reassembles the ring around its slowest edge, as long as that helps.
fn improve(edges: &Edges, mut order: Vec<usize>) -> Vec<usize> {
    // Each step improves the ring, so this ends; the limit is a safeguard.
    for _ in 0..order.len().saturating_mul(order.len()) {
        let Some(better) = best_reassembly(edges, &order) else {
            break;
        };
        order = better;
    }
    order
}

/// The best of all rings without the slowest edge: with that edge at the seam, the ring has three parts, and
/// the last two are swapped.
fn best_reassembly(edges: &Edges, order: &[usize]) -> Option<Vec<usize>> {
    let size = order.len();
    let edge =
        |order: &[usize], n: usize| edges.speed(*order.get(n % size)?, *order.get((n + 1) % size)?);
    let slowest = (0..size).min_by(|a, b| {
        let of = |n: &usize| edge(order, *n).unwrap_or_default();
        of(a).total_cmp(&of(b))
    })?;
    let mut ring = order.to_vec();
    ring.rotate_left((slowest + 1) % size);
    let at = |n: usize| ring.get(n).copied();
    let speed = |a: usize, b: usize| edges.speed(at(a)?, at(b)?);
    // first .. i | i+1 .. j | j+1 .. last: becomes first .. i, j+1 .. last, i+1 .. j, with three new edges.
    let mut best: Option<(f64, usize, usize)> = None;
    for i in 0..size.saturating_sub(2) {
        for j in i + 1..size - 1 {
            let new = [speed(i, j + 1)?, speed(size - 1, i + 1)?, speed(j, 0)?];
            let least = new.into_iter().fold(f64::INFINITY, f64::min);
            if best.is_none_or(|(known, ..)| least > known) {
                best = Some((least, i, j));
            }
        }
    }
    let (_, i, j) = best?;
    let mut changed = ring.get(..=i)?.to_vec();
    changed.extend_from_slice(ring.get(j + 1..)?);
    changed.extend_from_slice(ring.get(i + 1..=j)?);
    (score(edges, &changed) > score(edges, order)).then_some(changed)
}
