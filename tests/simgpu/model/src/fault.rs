//! Which fault a transfer meets.

use crate::scenario::{Engine, Fault, Kind, MemoryKind, Scenario, Way};

/// A transfer that goes directly from one GPU to another.
#[derive(Debug, Clone, Copy)]
pub struct Passage {
    /// The GPU that works.
    pub by: usize,
    /// Where the data leaves.
    pub from: usize,
    /// Where it should arrive.
    pub to: usize,
    /// Who works.
    pub engine: Engine,
    /// What the GPU that works does with its peer's memory.
    pub way: Way,
    /// How the peer's memory was made.
    pub memory: MemoryKind,
    /// How far up in the peer's memory it lies, in bytes.
    pub physical: u64,
    /// Its size.
    pub bytes: u64,
}

impl Fault {
    /// Whether it is one that `passage` meets, were it its turn.
    #[must_use]
    pub fn meets(&self, passage: &Passage) -> bool {
        let concerns = !matches!(
            self.kind,
            Kind::Narrow
                | Kind::Collapse
                | Kind::Refuse
                | Kind::Capability
                | Kind::Missing
                | Kind::Init
                | Kind::Clock
                | Kind::NvlinkDown
                | Kind::NvlinkError
        );
        concerns
            && !self.kind.is_nccl()
            && self.pair.has(passage.from, passage.to)
            && self.engine.is_none_or(|e| e == passage.engine)
            && self.way.is_none_or(|w| w == passage.way)
            && self.memory.is_none_or(|m| m == passage.memory)
            && (self.from_bytes..=self.to_bytes).contains(&passage.bytes)
            && passage.physical + passage.bytes > self.beyond_mib << 20
    }
}

/// Counts how often each fault was met, for those that do not happen each time.
#[derive(Debug, Default)]
pub struct Faults {
    met: Vec<u64>,
}

impl Faults {
    /// The faults that this transfer meets.
    pub fn of(&mut self, scenario: &Scenario, passage: &Passage) -> Vec<Fault> {
        self.met.resize(scenario.fault.len(), 0);
        let mut now = Vec::new();
        for (fault, met) in scenario.fault.iter().zip(&mut self.met) {
            if fault.meets(passage) && turn(fault, met) {
                now.push(fault.clone());
            }
        }
        now
    }

    /// The fault of this place in the list, which something has met, if it is its turn.
    pub fn turn(&mut self, scenario: &Scenario, n: usize) -> Option<Fault> {
        self.met.resize(scenario.fault.len(), 0);
        let (fault, met) = scenario.fault.get(n).zip(self.met.get_mut(n))?;
        turn(fault, met).then(|| fault.clone())
    }
}

fn turn(fault: &Fault, met: &mut u64) -> bool {
    let place = *met % fault.every;
    *met += 1;
    place + fault.burst >= fault.every
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(every: u64, burst: u64) -> String {
        let text = format!("[[fault]]\nkind = \"slow\"\nrate = 0.5\nevery = {every}\nburst = {burst}\n");
        let text = crate::scenario::tests::machine("epyc-8x4090", &text);
        let (scenario, mut faults) = (Scenario::parse(&text).unwrap(), Faults::default());
        (0..8).map(|_| if faults.turn(&scenario, 0).is_some() { 'x' } else { '.' }).collect()
    }

    #[test]
    fn faults_come_each_so_often_and_so_many_in_a_row() {
        assert_eq!([turns(1, 1), turns(4, 1), turns(4, 2)], ["xxxxxxxx", "...x...x", "..xx..xx"]);
    }
}
