//! The result of one pair of nodes on one rail.

use super::content::Wrong;
use super::messages::Answer;
use crate::net::meeting::LinkError;
use gpu::verbs::{Registration, Verb};

/// The result of testing one pair of nodes on one rail.
#[derive(Debug, Clone)]
pub(super) struct PairResult {
    /// The nodes.
    pub(super) pair: (usize, usize),
    /// The rail.
    pub(super) rail: usize,
    /// How each side's card reaches the memory.
    pub(super) how: Vec<Registration>,
    /// The path's MTU, bytes.
    pub(super) mtu: u32,
    /// Transfers whose every byte was compared.
    pub(super) transfers: u64,
    /// The rates of the bursts.
    pub(super) rates: Vec<Rate>,
    /// The latencies of single transfers.
    pub(super) latencies: Vec<Latency>,
    /// Wrong bytes: the kind of transfer, and the node where they were found.
    pub(super) wrong: Vec<(Verb, usize, Wrong)>,
    /// How much each port has sent, by the requests and by its counters.
    pub(super) sent: Vec<SentBytes>,
    /// Why it ended early.
    pub(super) error: Option<PairError>,
}

/// The number of bytes that a node's port has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SentBytes {
    /// The node.
    pub(super) node: usize,
    /// The bytes of the bursts that the node sent.
    pub(super) bytes: u64,
    /// The increase of the port's counter, bytes, `None` if it has none; or why that is unknown.
    pub(super) counted: Result<Option<u64>, String>,
}

impl SentBytes {
    /// Whether less than half of the bytes passed through the port: headers only add to the counter.
    pub(super) fn bypassed_port(&self) -> bool {
        matches!(self.counted, Ok(Some(counted)) if counted < self.bytes / 2)
    }
}

/// Why a pair ended early.
#[derive(Debug, Clone)]
pub(super) enum PairError {
    /// A call failed on a node.
    Failed {
        node: usize,
        why: String,
        doing: String,
    },
    /// A node's GPU has no GPUDirect RDMA.
    Unsupported { node: usize, why: String },
    /// A node is gone.
    Lost {
        node: usize,
        why: LinkError,
        doing: String,
    },
}

/// The rate of one burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    pub(super) verb: Verb,
    /// The node that requested the transfers, and the other one.
    pub(super) nodes: (usize, usize),
    /// Bytes of each transfer.
    pub(super) bytes: usize,
    pub(super) count: u64,
    pub(super) seconds: f64,
}

impl Rate {
    /// The rate, Gb/s.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn gbit_s(&self) -> f64 {
        self.bytes as f64 * self.count as f64 * 8e-9 / self.seconds
    }
}

/// Times of single transfers, us, in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Latency {
    pub(super) verb: Verb,
    pub(super) nodes: (usize, usize),
    pub(super) times: Vec<f64>,
}

impl Latency {
    /// The time that this fraction of the transfers does not exceed.
    pub(super) fn at(&self, part: f64) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place in the list"
        )]
        let place = (self.times.len().saturating_sub(1) as f64 * part).round() as usize;
        self.times.get(place).copied().unwrap_or_default()
    }
}

impl PairResult {
    pub(super) fn new(pair: (usize, usize), rail: usize) -> Self {
        let none = Vec::new;
        Self {
            pair,
            rail,
            how: none(),
            mtu: 0,
            transfers: 0,
            rates: Vec::new(),
            latencies: Vec::new(),
            wrong: Vec::new(),
            sent: Vec::new(),
            error: None,
        }
    }

    /// The bytes of the bursts that a node sent: by its own writes, and by the other one's reads.
    pub(super) fn bytes_of(&self, node: usize) -> u64 {
        let leaves = |rate: &&Rate| (rate.verb == Verb::Write) == (rate.nodes.0 == node);
        let bytes = |rate: &Rate| rate.count.saturating_mul(rate.bytes as u64);
        self.rates.iter().filter(leaves).map(bytes).sum()
    }

    /// The node of a side, and the other one.
    const fn sides(&self, side: usize) -> (usize, usize) {
        if side == 0 {
            self.pair
        } else {
            (self.pair.1, self.pair.0)
        }
    }

    pub(super) fn fail(&mut self, error: PairError) {
        // If one side is lost, the other side's error is only a consequence.
        if !matches!(
            self.error,
            Some(PairError::Lost { .. } | PairError::Unsupported { .. })
        ) {
            self.error = Some(error);
        }
    }

    pub(super) fn unexpected_answers(&mut self, doing: &str, answers: &[Answer]) {
        let why = format!("the answers do not match the request: {answers:?}");
        self.fail(PairError::Failed {
            node: self.pair.0,
            why,
            doing: doing.to_owned(),
        });
    }

    pub(super) fn rate(&mut self, verb: Verb, side: usize, bytes: usize, count: u64, seconds: f64) {
        self.rates.push(Rate {
            verb,
            nodes: self.sides(side),
            bytes,
            count,
            seconds,
        });
    }

    pub(super) fn times(&mut self, verb: Verb, times: Vec<f64>) {
        self.latencies.push(Latency {
            verb,
            nodes: self.pair,
            times,
        });
    }

    pub(super) fn checked(
        &mut self,
        verb: Verb,
        side: usize,
        transfers: u64,
        wrong: Option<Wrong>,
    ) {
        self.transfers += transfers;
        let (node, _) = self.sides(side);
        self.wrong.extend(wrong.map(|wrong| (verb, node, wrong)));
    }

    /// Adds the result of a second attempt.
    pub(super) fn merge(&mut self, again: Self) {
        self.transfers += again.transfers;
        self.rates.extend(again.rates);
        self.latencies.extend(again.latencies);
        self.wrong.extend(again.wrong);
        self.sent.extend(again.sent);
        if let Some(error) = again.error {
            self.fail(error);
        }
    }

    /// The best rate of a kind of transfer in the direction of the data, Gb/s.
    pub(super) fn best(&self, verb: Verb, nodes: (usize, usize)) -> Option<f64> {
        let of = self
            .rates
            .iter()
            .filter(|rate| rate.verb == verb && rate.nodes == nodes);
        of.map(Rate::gbit_s).max_by(f64::total_cmp)
    }
}
