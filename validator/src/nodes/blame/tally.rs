//! Counts of good and bad measurements for each port, and the limit that separates them.

use super::{Figures, Got, Measure, Network, Port};

/// A rate below this part of the usual one is bad.
const SLOW: f64 = 0.8;

/// The usual rate and the limit, GB/s; `floor` replaces the limit. The usual rate is the upper quartile of the ports'
/// best rates: a port has a good partner as long as most ports are good, however many pairs are slow.
pub(super) fn limits(network: &Network, all: &[Measure], floor: Option<f64>) -> (Option<f64>, Option<f64>) {
    let mut best = vec![0.0_f64; network.nodes.saturating_mul(network.rails)];
    for measure in all {
        if let Got::Rate(rate) = measure.got {
            for node in [measure.pair.0, measure.pair.1] {
                if let Some(best) =
                    place(network, Port { node, rail: measure.rail }).and_then(|n| best.get_mut(n))
                {
                    *best = best.max(rate);
                }
            }
        }
    }
    best.retain(|rate| *rate > 0.0);
    best.sort_by(f64::total_cmp);
    let usual = best.get(best.len().saturating_mul(3) / 4).copied();
    (usual, floor.or(usual.map(|rate| rate * SLOW)))
}

/// Whether a measurement is bad.
pub(super) fn is_bad(got: Got, limit: Option<f64>) -> bool {
    match got {
        Got::Rate(rate) => limit.is_some_and(|limit| rate < limit),
        Got::Wrong | Got::Nothing => true,
    }
}

/// The position of a port in a list of all ports.
fn place(network: &Network, port: Port) -> Option<usize> {
    let is_known = port.node < network.nodes && port.rail < network.rails;
    is_known.then(|| port.rail * network.nodes + port.node)
}

/// A set of ports.
#[derive(Debug, Clone)]
pub(super) struct Ports<'n> {
    network: &'n Network,
    has: Vec<bool>,
}

impl<'n> Ports<'n> {
    pub(super) fn of(network: &'n Network, has: impl Fn(Port) -> bool) -> Self {
        let ports = (0..network.rails).flat_map(|rail| network.ports(rail));
        Self { network, has: ports.map(has).collect() }
    }

    pub(super) fn has(&self, port: Port) -> bool {
        place(self.network, port).and_then(|n| self.has.get(n)).copied().unwrap_or_default()
    }

    pub(super) fn list(&self) -> Vec<Port> {
        let ports = (0..self.network.rails).flat_map(|rail| self.network.ports(rail));
        ports.zip(&self.has).filter(|(_, has)| **has).map(|(port, _)| port).collect()
    }

    pub(super) fn on(&self, rail: usize) -> usize {
        self.network.ports(rail).filter(|port| self.has(*port)).count()
    }
}

/// Counts for each port.
#[derive(Debug)]
pub(super) struct Tally<'n> {
    network: &'n Network,
    counts: Vec<Figures>,
}

impl<'n> Tally<'n> {
    /// Counts the measurements of a port that `counts`, given the port and its partner.
    pub(super) fn of(
        network: &'n Network,
        all: &[Measure],
        limit: Option<f64>,
        counted: impl Fn(Port, Port) -> bool,
    ) -> Self {
        let none = Figures { bad: 0, of: 0, wrong: 0, dead: 0, best_gb_s: None };
        let mut tally = Self { network, counts: vec![none; network.nodes.saturating_mul(network.rails)] };
        for measure in all {
            let [a, b] = ends(measure);
            let bad = is_bad(measure.got, limit);
            for (own, partner) in [(a, b), (b, a)] {
                if counted(own, partner) {
                    tally.add(own, measure.got, bad);
                }
            }
        }
        tally
    }

    fn add(&mut self, port: Port, got: Got, bad: bool) {
        let Some(counts) = place(self.network, port).and_then(|n| self.counts.get_mut(n)) else { return };
        counts.of += 1;
        if !bad {
            return;
        }
        counts.bad += 1;
        match got {
            Got::Rate(rate) => counts.best_gb_s = Some(counts.best_gb_s.map_or(rate, |best| best.max(rate))),
            Got::Wrong => counts.wrong += 1,
            Got::Nothing => counts.dead += 1,
        }
    }

    /// The counts of a port; `None` for a port that does not exist.
    pub(super) fn get(&self, port: Port) -> Option<&Figures> {
        place(self.network, port).and_then(|n| self.counts.get(n))
    }
}

/// The two ports of a measurement.
pub(super) fn ends(measure: &Measure) -> [Port; 2] {
    let rail = measure.rail;
    [measure.pair.0, measure.pair.1].map(|node| Port { node, rail })
}

impl Figures {
    /// More bad ones than good ones.
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
