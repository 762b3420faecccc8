//! RDMA between nodes without NCCL: pairs of ports use reliable connections, and every received byte is compared, first in
//! the host's memory and then in the GPUs'. The leading node sends requests; on each node a child process calls libibverbs.

mod content;
mod judge;
mod member;
mod messages;
mod pair_result;
mod pairs;

pub use member::{COMMAND, Rail, VerbsProcess, serve};
pub use messages::{Answer, Ask};

use super::blame::rounds;
use super::cluster::Cluster;
use super::rails::{self, port_name};
use super::watcher::{TestInfo, Watcher};
use outcome::Judgement;
use pair_result::{PairError, PairResult};
use pairs::RoundRun;
use std::collections::BTreeSet;

/// Each node is tried with this many others on each rail; NCCL's test tries all pairs.
const PARTNERS: usize = 2;

/// How often the slow pairs of a round are measured again at the same time, before each is measured alone.
const MAX_RETRIES: usize = 2;

/// The memory between which data is transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// The host's.
    Host,
    /// The GPU's next to the port.
    Gpu,
}

/// The tests, in order.
pub(super) const TESTS: [(TestInfo, Memory); 2] = [
    (
        TestInfo {
            id: "rdma-host",
            title: "RDMA between host memory",
            proves: "each rail delivers every byte between the host memory of two nodes, at the rate of its port",
        },
        Memory::Host,
    ),
    (
        TestInfo {
            id: "rdma-gpu",
            title: "RDMA between GPU memory",
            proves: "each rail delivers every byte between the GPU memory of two nodes (GPUDirect RDMA), as fast as host memory",
        },
        Memory::Gpu,
    ),
];

/// The results of both tests; `host` has those of the test between host memory.
#[derive(Debug, Default)]
pub(super) struct RdmaResults {
    host: Vec<PairResult>,
    /// The rails that carried nearly nothing of the data that they should have carried.
    pub(super) idle: BTreeSet<usize>,
}

impl RdmaResults {
    /// Runs one test on all rails; all nodes have the same number of ports.
    pub(super) fn test(
        &mut self,
        cluster: &mut Cluster,
        memory: Memory,
        watcher: &mut dyn Watcher,
    ) -> Judgement {
        let rails = rails::rail_count(cluster);
        let mut all: Vec<PairResult> = Vec::new();
        for round in rounds(cluster.len(), rails)
            .into_iter()
            .take(PARTNERS * rails)
        {
            let mut results = RoundRun::new(cluster, round.rail, memory, &round.pairs).run();
            // Slow pairs are measured again later; the better figure counts.
            for _ in 0..MAX_RETRIES {
                let slow = results
                    .iter()
                    .filter(|result| self.is_slow(cluster, result, memory));
                let pairs: Vec<_> = slow.map(|result| result.pair).collect();
                if pairs.is_empty() {
                    break;
                }
                for again in RoundRun::new(cluster, round.rail, memory, &pairs).run() {
                    if let Some(result) =
                        results.iter_mut().find(|result| result.pair == again.pair)
                    {
                        result.merge(again);
                    }
                }
            }
            all.extend(results);
        }
        let slow = all
            .iter()
            .enumerate()
            .filter(|(_, result)| self.is_slow(cluster, result, memory));
        let slow: Vec<_> = slow
            .map(|(n, result)| (n, result.pair, result.rail))
            .collect();
        for (n, pair, rail) in slow {
            let again = RoundRun::new(cluster, rail, memory, &[pair]).run().pop();
            if let (Some(result), Some(again)) = (all.get_mut(n), again) {
                result.merge(again);
            }
        }
        watcher.text(&judge::console_text(&all, memory, &|node, rail| {
            port_name(cluster, node, rail)
        }));
        let judgement = judge::judge(&all, &self.host, memory, cluster);
        let idle = all.iter().filter(|result| {
            result
                .sent
                .iter()
                .any(pair_result::SentBytes::bypassed_port)
        });
        self.idle.extend(idle.map(|result| result.rail));
        if memory == Memory::Host {
            self.host = all;
        }
        judgement
    }

    fn is_slow(&self, cluster: &Cluster, result: &PairResult, memory: Memory) -> bool {
        !judge::slow_findings(result, &self.host, memory, cluster).is_empty()
    }
}
