//! Counts of good and bad measurements for each port, and the limit that separates them.

use super::{Figures, Measurement, MeasurementResult, Network, Port};

/// A rate below this fraction of the usual one is bad.
const SLOW_FRACTION: f64 = 0.8;

/// The usual rate and the limit, GB/s; `floor` replaces the limit. The usual rate is the upper quartile of the ports'
/// best rates: a port has a good partner as long as most ports are good, however many pairs are slow.
pub(super) fn limits(
    network: &Network,
    all: &[Measurement],
    floor: Option<f64>,
) -> (Option<f64>, Option<f64>) {
    let mut best = vec![0.0_f64; network.nodes.saturating_mul(network.rails)];
    for measure in all {
        if let MeasurementResult::Rate(rate) = measure.result {
            for node in [measure.pair.0, measure.pair.1] {
                if let Some(best) = port_index(
                    network,
                    Port {
                        node,
                        rail: measure.rail,
                    },
                )
                .and_then(|n| best.get_mut(n))
                {
                    *best = best.max(rate);
                }
            }
        }
    }
    best.retain(|rate| *rate > 0.0);
    best.sort_by(f64::total_cmp);
    let usual = best.get(best.len().saturating_mul(3) / 4).copied();
    (usual, floor.or(usual.map(|rate| rate * SLOW_FRACTION)))
}

/// Whether a measurement is bad.
pub(super) fn is_bad(got: MeasurementResult, limit: Option<f64>) -> bool {
    match got {
        MeasurementResult::Rate(rate) => limit.is_some_and(|limit| rate < limit),
        MeasurementResult::WrongData | MeasurementResult::NoTransfer => true,
    }
}

/// The position of a port in a list of all ports.
fn port_index(network: &Network, port: Port) -> Option<usize> {
    let is_known = port.node < network.nodes && port.rail < network.rails;
    is_known.then(|| port.rail * network.nodes + port.node)
}

/// A set of ports.
#[derive(Debug, Clone)]
pub(super) struct PortSet<'n> {
    network: &'n Network,
    has: Vec<bool>,
}

impl<'n> PortSet<'n> {
    pub(super) fn of(network: &'n Network, has: impl Fn(Port) -> bool) -> Self {
        let ports = (0..network.rails).flat_map(|rail| network.ports(rail));
        Self {
            network,
            has: ports.map(has).collect(),
        }
    }

    pub(super) fn contains(&self, port: Port) -> bool {
        port_index(self.network, port)
            .and_then(|n| self.has.get(n))
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn list(&self) -> Vec<Port> {
        let ports = (0..self.network.rails).flat_map(|rail| self.network.ports(rail));
        ports
            .zip(&self.has)
            .filter(|(_, has)| **has)
            .map(|(port, _)| port)
            .collect()
    }

    pub(super) fn count_on(&self, rail: usize) -> usize {
        self.network
            .ports(rail)
            .filter(|port| self.contains(*port))
            .count()
    }
}

/// Counts for each port.
#[derive(Debug)]
pub(super) struct Tally<'n> {
    network: &'n Network,
    counts: Vec<Figures>,
}

impl<'n> Tally<'n> {
    /// Counts the measurements for which `counted` returns true, given a port and its partner.
    pub(super) fn of(
        network: &'n Network,
        all: &[Measurement],
        limit: Option<f64>,
        counted: impl Fn(Port, Port) -> bool,
    ) -> Self {
        let none = Figures {
            bad: 0,
            of: 0,
            wrong: 0,
            dead: 0,
            best_gb_s: None,
        };
        let mut tally = Self {
            network,
            counts: vec![none; network.nodes.saturating_mul(network.rails)],
        };
        for measure in all {
            let [a, b] = ports_of(measure);
            let bad = is_bad(measure.result, limit);
            for (own, partner) in [(a, b), (b, a)] {
                if counted(own, partner) {
                    tally.add(own, measure.result, bad);
                }
            }
        }
        tally
    }

    fn add(&mut self, port: Port, got: MeasurementResult, bad: bool) {
        let Some(counts) = port_index(self.network, port).and_then(|n| self.counts.get_mut(n))
        else {
            return;
        };
        counts.of += 1;
        if !bad {
            return;
        }
        counts.bad += 1;
        match got {
            MeasurementResult::Rate(rate) => {
                counts.best_gb_s = Some(counts.best_gb_s.map_or(rate, |best| best.max(rate)));
            }
            MeasurementResult::WrongData => counts.wrong += 1,
            MeasurementResult::NoTransfer => counts.dead += 1,
        }
    }

    /// The counts of a port; `None` for a port that does not exist.
    pub(super) fn get(&self, port: Port) -> Option<&Figures> {
        port_index(self.network, port).and_then(|n| self.counts.get(n))
    }
}

/// The two ports of a measurement.
pub(super) fn ports_of(measure: &Measurement) -> [Port; 2] {
    let rail = measure.rail;
    [measure.pair.0, measure.pair.1].map(|node| Port { node, rail })
}

impl Figures {
    /// Whether there are more bad measurements than good ones.
    pub(super) const fn mostly_bad(&self) -> bool {
        self.bad * 2 > self.of
    }

    /// The sum of several ports' figures.
    pub(super) fn and(&self, more: &Self) -> Self {
        let best = match (self.best_gb_s, more.best_gb_s) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        Self {
            bad: self.bad + more.bad,
            of: self.of + more.of,
            wrong: self.wrong + more.wrong,
            dead: self.dead + more.dead,
            best_gb_s: best,
        }
    }
}
