//! The best ring through all GPUs: the one with the fastest slowest edge. NCCL's ring algorithms cannot be
//! faster than that edge, so busbw at large sizes is judged against it. Exact up to 16 GPUs; beyond that
//! `search` finds a good ring and an upper bound for all rings.

mod search;

/// The most GPUs for which all orders are tried; that stores 2^15 sets of them.
const MOST_EXACT: usize = 16;

/// A ring through all GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Ring {
    /// The GPUs in order; the last sends to the first.
    pub order: Vec<usize>,
    /// Its slowest edge, in the matrix's unit.
    pub slowest: f64,
    /// The two GPUs of that edge: from, to.
    pub edge: (usize, usize),
    /// No ring's slowest edge is faster than this; up to 16 GPUs it equals `slowest`.
    pub most: f64,
}

/// The best ring over `matrix[from][to]`; for more than 16 GPUs a good one, whose speed can really be
/// reached. `None` if it is undefined: fewer than 2 GPUs, a matrix that is not square, or a pair without a
/// positive, finite figure, which might be part of the best ring.
#[must_use]
pub fn best_ring(matrix: &[Vec<Option<f64>>]) -> Option<Ring> {
    let edges = Edges::of(matrix)?;
    if matrix.len() > MOST_EXACT {
        return search::ring(&edges);
    }
    let mut speeds: Vec<f64> = edges.all().map(|(_, _, speed)| speed).collect();
    speeds.sort_by(f64::total_cmp);
    speeds.dedup();
    // The slowest speed always allows a ring; if one speed allows a ring, so does every slower one.
    let possible = speeds.partition_point(|speed| edges.ring(*speed).is_some());
    let order = edges.ring(*speeds.get(possible.checked_sub(1)?)?)?;
    edges.with_slowest(order, None)
}

/// Every ordered pair's speed.
struct Edges(Vec<Vec<f64>>);

impl Edges {
    /// A ring with its slowest edge; `most`: the bound for all rings, if this one is not known to be the
    /// best.
    fn with_slowest(&self, order: Vec<usize>, most: Option<f64>) -> Option<Ring> {
        let next = order.iter().cycle().skip(1);
        let hops = order
            .iter()
            .zip(next)
            .filter_map(|(from, to)| Some((*from, *to, self.speed(*from, *to)?)));
        let (from, to, slowest) = hops.min_by(|a, b| a.2.total_cmp(&b.2))?;
        let most = most.unwrap_or(slowest).max(slowest);
        Some(Ring {
            order,
            slowest,
            edge: (from, to),
            most,
        })
    }

    fn of(matrix: &[Vec<Option<f64>>]) -> Option<Self> {
        let size = matrix.len();
        let square = size >= 2 && matrix.iter().all(|row| row.len() == size);
        let cell = |from: usize, (to, value): (usize, &Option<f64>)| match value {
            _ if from == to => Some(0.0),
            Some(speed) if speed.is_finite() && *speed > 0.0 => Some(*speed),
            _ => None,
        };
        let row =
            |(from, row): (usize, &Vec<_>)| row.iter().enumerate().map(|c| cell(from, c)).collect();
        square
            .then(|| {
                matrix
                    .iter()
                    .enumerate()
                    .map(row)
                    .collect::<Option<Vec<_>>>()
            })
            .flatten()
            .map(Self)
    }

    fn speed(&self, from: usize, to: usize) -> Option<f64> {
        self.0.get(from)?.get(to).copied()
    }

    fn all(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let row = |(from, row): (usize, &Vec<f64>)| {
            row.iter()
                .enumerate()
                .map(move |(to, speed)| (from, to, *speed))
                .collect::<Vec<_>>()
        };
        self.0
            .iter()
            .enumerate()
            .flat_map(row)
            .filter(|(from, to, _)| from != to)
    }

    /// A ring of edges with at least this speed. `ends[set]`: the GPUs at which a path from GPU 0 through exactly
    /// the GPUs of `set` can end, one bit each.
    fn ring(&self, least: f64) -> Option<Vec<usize>> {
        let size = self.0.len();
        let mut to = vec![0_u32; size];
        for (from, target, speed) in self.all() {
            if let Some(bits) = to.get_mut(from).filter(|_| speed >= least) {
                *bits |= 1 << target;
            }
        }
        let mut ends = vec![0_u32; 1 << size];
        *ends.get_mut(1)? = 1;
        for set in (1..1_usize << size).step_by(2) {
            let here = ends.get(set).copied().unwrap_or(0);
            for (last, bits) in to
                .iter()
                .enumerate()
                .filter(|(last, _)| here & (1 << last) != 0)
            {
                debug_assert!(set & (1 << last) != 0);
                for next in
                    (0..size).filter(|next| bits & (1 << next) != 0 && set & (1 << next) == 0)
                {
                    *ends.get_mut(set | (1 << next))? |= 1 << next;
                }
            }
        }
        trace_back(&to, &ends)
    }
}

/// Follows the sets from the full one back to GPU 0.
fn trace_back(to: &[u32], ends: &[u32]) -> Option<Vec<usize>> {
    let size = to.len();
    let mut set = (1_usize << size) - 1;
    let mut order = Vec::new();
    let mut target = 0;
    for _ in 0..size {
        let here = ends.get(set)?;
        let leads = |gpu: &usize| {
            here & (1 << gpu) != 0 && to.get(*gpu).is_some_and(|b| b & (1 << target) != 0)
        };
        let gpu = (0..size).find(leads)?;
        order.push(gpu);
        set &= !(1 << gpu);
        target = gpu;
    }
    order.reverse();
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(size: usize, speed: impl Fn(usize, usize) -> f64) -> Vec<Vec<Option<f64>>> {
        let row = |from| {
            (0..size)
                .map(|to| (from != to).then(|| speed(from, to)))
                .collect()
        };
        (0..size).map(row).collect()
    }

    /// Tries all orders that begin with GPU 0.
    fn slowest_by_trying_all(matrix: &[Vec<Option<f64>>]) -> f64 {
        fn go(matrix: &[Vec<Option<f64>>], order: &mut Vec<usize>, least: f64) -> f64 {
            let last = *order.last().unwrap();
            if order.len() == matrix.len() {
                return least.min(matrix[last][0].unwrap());
            }
            let mut best = 0.0_f64;
            for next in (0..matrix.len())
                .filter(|n| !order.contains(n))
                .collect::<Vec<_>>()
            {
                order.push(next);
                best = best.max(go(matrix, order, least.min(matrix[last][next].unwrap())));
                order.pop();
            }
            best
        }
        go(matrix, &mut vec![0], f64::INFINITY)
    }

    /// Recorded: four GPUs to a socket, 25.5 GB/s inside and 20.57 to 22.53 across.
    #[test]
    fn two_sockets_are_crossed_twice_at_the_fastest_edges() {
        let speed = |from: usize, to: usize| match (from / 4 == to / 4, from, to) {
            (true, ..) => 25.5,
            (_, 1, 6) => 22.53,
            (_, 4, 3) => 22.1,
            _ => 20.57,
        };
        let ring = best_ring(&matrix(8, speed)).unwrap();
        assert_eq!((ring.slowest, ring.edge), (22.1, (4, 3)));
        let mut all = ring.order.clone();
        all.sort_unstable();
        assert_eq!((all, ring.order[0]), ((0..8).collect(), 0));
    }

    #[test]
    fn no_order_is_better() {
        let mut word = 1_u64;
        for size in [2, 3, 4, 5, 6, 7] {
            for _ in 0..12 {
                let mut next = || {
                    word = word
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (word >> 50) as f64 + 1.0
                };
                let cells: Vec<Vec<f64>> = (0..size)
                    .map(|_| (0..size).map(|_| next()).collect())
                    .collect();
                let matrix = matrix(size, |from, to| cells[from][to]);
                assert_eq!(
                    best_ring(&matrix).unwrap().slowest,
                    slowest_by_trying_all(&matrix),
                    "{matrix:?}"
                );
            }
        }
    }

    #[test]
    fn two_gpus_form_a_ring_of_both_directions() {
        let ring = best_ring(&matrix(2, |from, _| if from == 0 { 50.0 } else { 40.0 })).unwrap();
        assert_eq!(
            ring,
            Ring {
                order: vec![0, 1],
                slowest: 40.0,
                edge: (1, 0),
                most: 40.0
            }
        );
    }

    #[test]
    fn sixteen_gpus_are_searched_quickly() {
        let matrix = matrix(16, |from, to| {
            if (from + 5) % 16 == to {
                9.0
            } else {
                1.0 + (from * 16 + to) as f64 / 256.0
            }
        });
        let start = std::time::Instant::now();
        assert_eq!(best_ring(&matrix).unwrap().slowest, 9.0);
        assert!(start.elapsed().as_secs() < 50, "{:?}", start.elapsed());
    }

    /// Four GPUs to a switch, switches in a row: the best ring is known, and found.
    #[test]
    fn too_many_gpus_for_all_orders_get_a_good_ring_and_a_bound() {
        for size in [17, 24, 32, 64] {
            let speed = |from: usize, to: usize| match (from / 4, to / 4) {
                (a, b) if a == b => 25.0,
                (a, b) if a.abs_diff(b) == 1 || a.abs_diff(b) == (size - 1) / 4 => 20.0,
                _ => 10.0 + (from * 7 + to * 3) as f64 % 5.0,
            };
            let ring = best_ring(&matrix(size, speed)).unwrap();
            assert_eq!(
                (ring.slowest, ring.most >= 20.0),
                (20.0, true),
                "{size}: {ring:?}"
            );
            let mut all = ring.order.clone();
            all.sort_unstable();
            assert_eq!(all, (0..size).collect::<Vec<_>>());
        }
        let alike = best_ring(&matrix(64, |_, _| 7.0)).unwrap();
        assert_eq!((alike.slowest, alike.most), (7.0, 7.0));
    }

    /// Compares the search with trying all orders, where that is possible.
    #[test]
    fn a_searched_ring_is_near_the_best_and_never_beyond_its_bound() {
        let mut word = 2_u64;
        for size in [4, 8, 12, 16] {
            for _ in 0..20 {
                let mut next = || {
                    word = word
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    20.0 + (word >> 40) as f64 / 16_777_216.0 * 6.0
                };
                let cells: Vec<Vec<f64>> = (0..size)
                    .map(|_| (0..size).map(|_| next()).collect())
                    .collect();
                let matrix = matrix(size, |from, to| cells[from][to]);
                let best = best_ring(&matrix).unwrap().slowest;
                let found = search::ring(&Edges::of(&matrix).unwrap()).unwrap();
                assert!(
                    found.slowest <= best && best <= found.most,
                    "{found:?}, best {best}"
                );
                assert!(found.slowest >= 0.9 * best, "{found:?}, best {best}");
            }
        }
    }

    #[test]
    fn an_unmeasured_pair_gives_no_ring() {
        let mut missing = matrix(4, |_, _| 1.0);
        missing[2][3] = None;
        assert_eq!(best_ring(&missing), None);
        assert_eq!(best_ring(&matrix(4, |_, _| f64::NAN)), None);
        assert_eq!(best_ring(&matrix(1, |_, _| 1.0)), None);
        assert_eq!(best_ring(&[vec![None, Some(1.0)], vec![Some(1.0)]]), None);
        assert_eq!(best_ring(&[]), None);
    }
}
