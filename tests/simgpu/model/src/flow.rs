//! How traffic shares links: each flow receives its share of the most loaded link on its route (max-min fairness), and
//! never more than it could use alone.

use std::collections::BTreeMap;

/// One stream of bytes.
#[derive(Debug, Clone)]
pub struct Flow<R> {
    /// Its maximum rate when alone, in GB/s.
    pub max_rate: f64,
    /// The links that it uses, and how much of each it uses per byte.
    pub uses: Vec<(R, f64)>,
}

/// A link while its capacity is being shared out.
struct LinkShare {
    left: f64,
    /// Total weight of the flows whose rates are not decided yet.
    weight: f64,
    flows: Vec<usize>,
}

impl LinkShare {
    /// The rate at which the undecided flows use up what is left of it.
    fn saturating_rate(&self) -> f64 {
        if self.weight > 1e-12 {
            (self.left / self.weight).max(0.0)
        } else {
            f64::INFINITY
        }
    }
}

/// The rate of each flow in GB/s; `capacity` returns what a link carries.
pub fn share<R: Ord + Copy>(flows: &[&Flow<R>], capacity: impl Fn(R) -> f64) -> Vec<f64> {
    let mut links: BTreeMap<R, LinkShare> = BTreeMap::new();
    for (n, flow) in flows.iter().enumerate() {
        for (link, weight) in &flow.uses {
            let new = || LinkShare {
                left: capacity(*link),
                weight: 0.0,
                flows: Vec::new(),
            };
            let shared = links.entry(*link).or_insert_with(new);
            shared.weight += weight;
            shared.flows.push(n);
        }
    }
    let mut rates = unshared_rates(flows, &mut links);
    let mut alone: Vec<(usize, f64)> = flows.iter().map(|f| f.max_rate).enumerate().collect();
    alone.sort_by(|a, b| b.1.total_cmp(&a.1));
    loop {
        while alone
            .last()
            .is_some_and(|(n, _)| rates.get(*n).is_none_or(Option::is_some))
        {
            alone.pop();
        }
        let Some((slowest, max_rate)) = alone.last().copied() else {
            break;
        };
        let fullest = links
            .iter()
            .min_by(|a, b| a.1.saturating_rate().total_cmp(&b.1.saturating_rate()));
        let (rate, settled) = match fullest {
            Some((_, link)) if link.saturating_rate() < max_rate => {
                (link.saturating_rate(), link.flows.clone())
            }
            _ => (max_rate, vec![slowest]),
        };
        for n in settled {
            let (Some(slot @ None), Some(flow)) = (rates.get_mut(n), flows.get(n)) else {
                continue;
            };
            *slot = Some(rate);
            for (link, weight) in &flow.uses {
                if let Some(shared) = links.get_mut(link) {
                    shared.left -= rate * weight;
                    shared.weight -= weight;
                }
            }
        }
    }
    rates.into_iter().map(Option::unwrap_or_default).collect()
}

/// The rates of flows that share no link with another flow, which are most of them; removes their links from `links`.
fn unshared_rates<R: Ord + Copy>(
    flows: &[&Flow<R>],
    links: &mut BTreeMap<R, LinkShare>,
) -> Vec<Option<f64>> {
    let mut rates = vec![None; flows.len()];
    for (flow, slot) in flows.iter().zip(&mut rates) {
        let own = |link: &R| links.get(link).filter(|shared| shared.flows.len() == 1);
        let full = flow
            .uses
            .iter()
            .map(|(link, _)| own(link).map(LinkShare::saturating_rate));
        let Some(full) = full.collect::<Option<Vec<_>>>() else {
            continue;
        };
        *slot = Some(full.into_iter().fold(flow.max_rate, f64::min));
        for (link, _) in &flow.uses {
            links.remove(link);
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(max_rate: f64, uses: &[(u8, f64)]) -> Flow<u8> {
        Flow {
            max_rate,
            uses: uses.to_vec(),
        }
    }

    fn rates(flows: &[Flow<u8>]) -> Vec<f64> {
        let flows: Vec<_> = flows.iter().collect();
        // Link n carries 10 * n GB/s.
        share(&flows, |link| 10.0 * f64::from(link))
            .iter()
            .map(|r| (r * 1e6).round() / 1e6)
            .collect()
    }

    #[test]
    fn a_single_flow_gets_its_own_rate_or_the_links() {
        assert_eq!(rates(&[flow(5.0, &[(1, 1.0)])]), [5.0]);
        assert_eq!(rates(&[flow(50.0, &[(1, 1.0)])]), [10.0]);
        assert_eq!(rates(&[flow(50.0, &[])]), [50.0]);
    }

    #[test]
    fn unused_bandwidth_goes_to_the_other_flows() {
        assert_eq!(
            rates(&[flow(2.0, &[(1, 1.0)]), flow(50.0, &[(1, 1.0)])]),
            [2.0, 8.0]
        );
        let flows = [
            flow(50.0, &[(1, 1.0), (3, 1.0)]),
            flow(50.0, &[(1, 1.0)]),
            flow(50.0, &[(3, 1.0)]),
        ];
        assert_eq!(rates(&flows), [5.0, 5.0, 25.0]);
    }

    #[test]
    fn a_flow_may_use_a_link_twice_per_byte() {
        assert_eq!(
            rates(&[flow(50.0, &[(1, 2.0)]), flow(50.0, &[(1, 1.0)])]),
            [10.0 / 3.0, 10.0 / 3.0].map(|r: f64| (r * 1e6).round() / 1e6)
        );
    }

    #[test]
    fn four_thousand_flows_are_shared_out() {
        let flows: Vec<_> = (0..64u8)
            .flat_map(|a| {
                (0..64)
                    .filter(move |b| *b != a)
                    .map(move |b| flow(26.0, &[(a + 1, 1.0), (b + 100, 1.0)]))
            })
            .collect();
        let rates = rates(&flows);
        assert_eq!(rates.len(), 64 * 63);
        assert!(rates.iter().all(|r| *r > 0.1), "{rates:?}");
    }
}
