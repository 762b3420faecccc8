//! The leading node's side: pairs of nodes go through the same steps at the same time. A pair that fails does not stop the
//! others.

use super::content::Plan;
use super::member::ANSWER_TIMEOUT;
use super::messages::{Answer, Ask};
use super::pair_result::SentBytes;
use super::{Memory, PairError, PairResult};
use crate::nodes::cluster::{Cluster, NodeReply};
use crate::nodes::measure::read_counters_of;
use crate::nodes::order::{Order, Reply};
use gpu::pattern::Nonces;
use gpu::verbs::Verb;
use machine::host::rdma::{Bytes, RdmaCounters};
use std::time::Duration;

/// Extra time beyond a node's own time limit, for its answer to arrive.
const ANSWER_MARGIN: Duration = Duration::from_secs(10);
/// The sizes of bursts, bytes.
pub(super) const BURSTS: [usize; 2] = [64 << 10, 1 << 20];

/// Runs the tests of the pairs of one round, on one rail.
pub(super) struct RoundRun<'c> {
    cluster: &'c mut Cluster,
    rail: usize,
    memory: Memory,
    results: Vec<PairResult>,
    nonces: Nonces,
}

impl<'c> RoundRun<'c> {
    pub(super) fn new(
        cluster: &'c mut Cluster,
        rail: usize,
        memory: Memory,
        pairs: &[(usize, usize)],
    ) -> Self {
        let results = pairs
            .iter()
            .map(|pair| PairResult::new(*pair, rail))
            .collect();
        Self {
            cluster,
            rail,
            memory,
            results,
            nonces: Nonces::new(),
        }
    }

    /// Runs all steps; returns the result of each pair.
    pub(super) fn run(mut self) -> Vec<PairResult> {
        self.connect();
        let before = self.read_counters();
        for verb in [Verb::Write, Verb::Read] {
            self.integrity(verb);
            for bytes in BURSTS {
                self.burst(verb, bytes);
            }
            self.latency(verb);
        }
        self.store_sent_bytes(&before);
        let all: Vec<_> = self
            .results
            .iter()
            .flat_map(|result| [result.pair.0, result.pair.1])
            .collect();
        let close = |node: usize| {
            all.contains(&node)
                .then_some(Order::Rdma(Box::new(Ask::Close)))
        };
        // A node that does not answer is noticed by the next test.
        self.cluster
            .execute(close, ANSWER_TIMEOUT + ANSWER_MARGIN, false);
        self.results
    }

    /// The counters of this rail's port on each node.
    fn read_counters(&mut self) -> Vec<(usize, Result<Option<Bytes>, String>)> {
        let going: Vec<_> = self
            .results
            .iter()
            .filter(|result| result.error.is_none())
            .map(|result| result.pair)
            .collect();
        let wanted = |node: usize| going.iter().any(|(a, b)| node == *a || node == *b);
        let counted = read_counters_of(self.cluster, &wanted).into_iter();
        let rail = self.rail;
        let own = |ports: Vec<RdmaCounters>| ports.get(rail).and_then(|counted| counted.bytes);
        counted
            .map(|(node, counted)| (node, counted.map(own)))
            .collect()
    }

    /// Stores how much both ports of each pair have sent since `before`.
    fn store_sent_bytes(&mut self, before: &[(usize, Result<Option<Bytes>, String>)]) {
        let after = self.read_counters();
        let of = |counts: &[(usize, Result<Option<Bytes>, String>)], node: usize| {
            let found = counts
                .iter()
                .find(|(other, _)| *other == node)
                .map(|(_, counted)| counted.clone());
            found.unwrap_or_else(|| Err("its counters were not read".to_owned()))
        };
        for result in self
            .results
            .iter_mut()
            .filter(|result| result.error.is_none())
        {
            for node in [result.pair.0, result.pair.1] {
                let since = |before: Option<Bytes>, after: Option<Bytes>| {
                    before
                        .zip(after)
                        .map(|(before, after)| after.since(&before).0)
                };
                let counted = of(before, node).and_then(|old| Ok(since(old, of(&after, node)?)));
                result.sent.push(SentBytes {
                    node,
                    bytes: result.bytes_of(node),
                    counted,
                });
            }
        }
    }

    /// Opens the ports of all pairs, and connects them.
    fn connect(&mut self) {
        let (rail, gpu) = (self.rail, self.memory == Memory::Gpu);
        let opened = self.ask_both_sides("opening the port", &|_, _| Some(Ask::Open { rail, gpu }));
        let mut endpoints = Vec::new();
        for (result, answers) in self.results.iter_mut().zip(opened) {
            endpoints.push(match answers {
                Some(
                    [
                        Answer::Made {
                            endpoint: a,
                            how: of_a,
                        },
                        Answer::Made {
                            endpoint: b,
                            how: of_b,
                        },
                    ],
                ) => {
                    result.how = vec![of_a, of_b];
                    Some([b, a])
                }
                Some(other) => {
                    result.unexpected_answers("opening the port", &other);
                    None
                }
                None => None,
            });
        }
        let connected = self.ask_both_sides("connecting", &|pair, side| {
            Some(Ask::Connect(
                endpoints.get(pair)?.as_ref()?.get(side)?.clone(),
            ))
        });
        for (result, answers) in self.results.iter_mut().zip(connected) {
            match answers {
                Some([Answer::Connected(a), Answer::Connected(b)]) => result.mtu = a.min(b),
                Some(other) => result.unexpected_answers("connecting", &other),
                None => {}
            }
        }
    }

    /// Transfers of all sizes in both directions at the same time, each byte compared.
    fn integrity(&mut self, verb: Verb) {
        let seeds = self.fill();
        let doing = format!("transferring all sizes by {verb}");
        self.ask_both_sides(&doing, &|_, _| Some(Ask::Sizes(verb)));
        self.check(Plan::Sizes, &seeds, [true, true], verb);
    }

    /// Many transfers of one size at the same time, in one direction after the other; the received data is compared.
    fn burst(&mut self, verb: Verb, bytes: usize) {
        for from in [0, 1] {
            let seeds = self.fill();
            let doing = format!("{verb} of {bytes} B");
            let rates = self.ask_both_sides(&doing, &|_, side| {
                (side == from).then_some(Ask::Burst { verb, bytes })
            });
            for (result, answers) in self.results.iter_mut().zip(rates) {
                let Some(answers) = answers else { continue };
                match answers.get(from) {
                    Some(Answer::Rate { count, seconds }) if *seconds > 0.0 => {
                        result.rate(verb, from, bytes, *count, *seconds);
                    }
                    _ => result.unexpected_answers(&doing, &answers),
                }
            }
            // A write arrives at the other side, a read at this one.
            let arrives = if verb == Verb::Write { 1 - from } else { from };
            self.check(
                Plan::Whole(bytes),
                &seeds,
                [arrives == 0, arrives == 1],
                verb,
            );
        }
    }

    fn latency(&mut self, verb: Verb) {
        let doing = format!("the latency of a {verb}");
        let times =
            self.ask_both_sides(&doing, &|_, side| (side == 0).then_some(Ask::Latency(verb)));
        for (result, answers) in self.results.iter_mut().zip(times) {
            match answers {
                Some([Answer::Times(times), _]) if !times.is_empty() => result.times(verb, times),
                Some(other) => result.unexpected_answers(&doing, &other),
                None => {}
            }
        }
    }

    /// Fills the boxes of all nodes; returns the two seeds of each pair's two sides: for the sent data and the sentinel.
    fn fill(&mut self) -> Vec<[(u64, u64); 2]> {
        let mut two = || (self.nonces.next(), self.nonces.next());
        let seeds: Vec<_> = self.results.iter().map(|_| [two(), two()]).collect();
        let fill = |pair: usize, side: usize| {
            let (source, sentinel) = *seeds.get(pair)?.get(side)?;
            Some(Ask::Fill { source, sentinel })
        };
        self.ask_both_sides("filling the memory", &fill);
        seeds
    }

    /// Compares the boxes of the sides that have received data.
    fn check(&mut self, plan: Plan, seeds: &[[(u64, u64); 2]], sides: [bool; 2], verb: Verb) {
        let ask = |pair: usize, side: usize| {
            let seeds = seeds.get(pair)?;
            let ((source, _), (_, sentinel)) = (*seeds.get(1 - side)?, *seeds.get(side)?);
            sides.get(side)?.then_some(Ask::Check {
                plan,
                source,
                sentinel,
            })
        };
        let checked = self.ask_both_sides("comparing", &ask);
        for (result, answers) in self.results.iter_mut().zip(checked) {
            let Some(answers) = answers else { continue };
            for (side, answer) in answers
                .iter()
                .enumerate()
                .filter(|(side, _)| sides.get(*side) == Some(&true))
            {
                match answer {
                    Answer::Checked { transfers, wrong } => {
                        result.checked(verb, side, *transfers, *wrong);
                    }
                    _ => result.unexpected_answers("comparing", &answers),
                }
            }
        }
    }

    /// Sends requests to both sides of each pair at the same time, and returns the answers; a side without a request
    /// has the answer `Done`. `None` for a pair that has failed, now or before.
    fn ask_both_sides(
        &mut self,
        doing: &str,
        ask: &dyn Fn(usize, usize) -> Option<Ask>,
    ) -> Vec<Option<[Answer; 2]>> {
        let alive: Vec<_> = self
            .results
            .iter()
            .map(|result| result.error.is_none())
            .collect();
        let pairs: Vec<_> = self.results.iter().map(|result| result.pair).collect();
        let of = |node: usize| {
            let place = |(n, (a, b)): (usize, &(usize, usize))| match node {
                _ if node == *a => Some((n, 0)),
                _ if node == *b => Some((n, 1)),
                _ => None,
            };
            pairs.iter().enumerate().find_map(place)
        };
        let order = |node: usize| {
            let (pair, side) = of(node)?;
            let alive = alive.get(pair).copied().unwrap_or_default();
            Some(Order::Rdma(Box::new(ask(pair, side).filter(|_| alive)?)))
        };
        let replies = self
            .cluster
            .execute(order, ANSWER_TIMEOUT + ANSWER_MARGIN, false);
        let mut all: Vec<_> = alive
            .iter()
            .map(|alive| alive.then_some([Answer::Done, Answer::Done]))
            .collect();
        for (node, reply) in replies {
            let Some((pair, side)) = of(node) else {
                continue;
            };
            let (Some(result), Some(place)) = (self.results.get_mut(pair), all.get_mut(pair))
            else {
                continue;
            };
            let error = match reply {
                NodeReply::Reply(Reply::Rdma(answer)) => match *answer {
                    Answer::Failed(why) => Some(PairError::Failed {
                        node,
                        why,
                        doing: doing.to_owned(),
                    }),
                    Answer::Unsupported(why) => Some(PairError::Unsupported { node, why }),
                    answer => {
                        if let Some(into) = place.as_mut().and_then(|answers| answers.get_mut(side))
                        {
                            *into = answer;
                        }
                        None
                    }
                },
                NodeReply::Reply(other) => Some(PairError::Failed {
                    node,
                    why: format!("it answered {other:?}"),
                    doing: doing.to_owned(),
                }),
                NodeReply::Failed(failure) => Some(PairError::Failed {
                    node,
                    why: failure.text,
                    doing: doing.to_owned(),
                }),
                NodeReply::Lost(why) => Some(PairError::Lost {
                    node,
                    why,
                    doing: doing.to_owned(),
                }),
                NodeReply::Abandoned => None,
            };
            if let Some(error) = error {
                *place = None;
                result.fail(error);
            }
        }
        all
    }
}
