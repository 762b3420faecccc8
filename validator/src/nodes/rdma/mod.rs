//! RDMA between nodes without NCCL: pairs of ports use reliable connections, and every received byte is compared, first in
//! the host's memory and then in the GPUs'. The leading node sends requests; on each node a child process calls libibverbs.

mod content;
mod judge;
mod member;
mod messages;
mod pairs;
mod pass;

pub use member::{COMMAND, Rail, Verbs, serve};
pub use messages::{Answer, Ask};

use super::blame::rounds;
use super::cluster::Cluster;
use super::rails::{self, port};
use super::watcher::{About, Watcher};
use crate::outcome::Judgement;
use pairs::Pairs;
use pass::{Pass, Trouble};
use std::collections::BTreeSet;

/// Each node is tried with this many others on each rail; NCCL's test tries all pairs.
const PARTNERS: usize = 2;

/// How often the slow pairs of a round are tried again together, before each is tried alone.
const AGAIN: usize = 2;

/// Which memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// The host's.
    Host,
    /// The GPU's next to the port.
    Gpu,
}

/// The tests, in order.
pub(super) const TESTS: [(About, Memory); 2] = [
    (
        About {
            id: "rdma-host",
            title: "RDMA between host memory",
            proves: "each rail delivers every byte between the host memory of two nodes, at the rate of its port",
        },
        Memory::Host,
    ),
    (
        About {
            id: "rdma-gpu",
            title: "RDMA between GPU memory",
            proves: "each rail delivers every byte between the GPU memory of two nodes (GPUDirect RDMA), as fast as host memory",
        },
        Memory::Gpu,
    ),
];

/// The results of both tests; `host` has those of the first one.
#[derive(Debug, Default)]
pub(super) struct Results {
    host: Vec<Pass>,
    /// The rails that carried nearly nothing of the data that they should have carried.
    pub(super) idle: BTreeSet<usize>,
}

impl Results {
    /// Runs one test on all rails; all nodes have the same number of ports.
    pub(super) fn test(
        &mut self,
        cluster: &mut Cluster,
        memory: Memory,
        watcher: &mut dyn Watcher,
    ) -> Judgement {
        let rails = rails::number(cluster);
        let mut all: Vec<Pass> = Vec::new();
        for round in rounds(cluster.len(), rails).into_iter().take(PARTNERS * rails) {
            let mut passes = Pairs::new(cluster, round.rail, memory, &round.pairs).run();
            // Slow pairs are measured again later; the better figure counts.
            for _ in 0..AGAIN {
                let slow = passes.iter().filter(|pass| self.is_slow(cluster, pass, memory));
                let pairs: Vec<_> = slow.map(|pass| pass.pair).collect();
                if pairs.is_empty() {
                    break;
                }
                for again in Pairs::new(cluster, round.rail, memory, &pairs).run() {
                    if let Some(pass) = passes.iter_mut().find(|pass| pass.pair == again.pair) {
                        pass.merge(again);
                    }
                }
            }
            all.extend(passes);
        }
        let slow = all.iter().enumerate().filter(|(_, pass)| self.is_slow(cluster, pass, memory));
        let slow: Vec<_> = slow.map(|(n, pass)| (n, pass.pair, pass.rail)).collect();
        for (n, pair, rail) in slow {
            let again = Pairs::new(cluster, rail, memory, &[pair]).run().pop();
            if let (Some(pass), Some(again)) = (all.get_mut(n), again) {
                pass.merge(again);
            }
        }
        watcher.text(&judge::text(&all, memory, &|node, rail| port(cluster, node, rail)));
        let judgement = judge::judge(&all, &self.host, memory, cluster);
        let idle = all.iter().filter(|pass| pass.sent.iter().any(pass::Sent::is_elsewhere));
        self.idle.extend(idle.map(|pass| pass.rail));
        if memory == Memory::Host {
            self.host = all;
        }
        judgement
    }

    fn is_slow(&self, cluster: &Cluster, pass: &Pass, memory: Memory) -> bool {
        !judge::slow(pass, &self.host, memory, cluster).is_empty()
    }
}
