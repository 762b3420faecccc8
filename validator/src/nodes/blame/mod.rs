//! Finds which node, port, rail or leaf switch is at fault, from measurements between pairs of nodes. Pure: `plan` chooses
//! the pairs that are measured at the same time, `tally` counts, `accuse` decides; the caller measures. A part is accused
//! only if no other part can be the cause; otherwise the candidates are listed. This file also has the sentences for people.

mod accuse;
mod plan;
mod tally;

pub use accuse::infer;
pub use plan::{Round, retry_rounds, rounds};

use outcome::finding::{Code, Finding, Severity, Subject};

/// The network as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// How many nodes.
    pub nodes: usize,
    /// How many rails: networks between all nodes, of which each node has one port.
    pub rails: usize,
    /// The leaf switch of each node's port on each rail, `leaves[node][rail]`; `None`: unknown.
    pub leaves: Option<Vec<Vec<usize>>>,
}

impl Network {
    /// The leaf switch of a port.
    fn leaf(&self, port: Port) -> Option<usize> {
        self.leaves
            .as_ref()?
            .get(port.node)?
            .get(port.rail)
            .copied()
    }

    /// The ports of all nodes on one rail.
    fn ports(&self, rail: usize) -> impl Iterator<Item = Port> {
        (0..self.nodes).map(move |node| Port { node, rail })
    }
}

/// The port of a node on a rail, with its cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// The node.
    pub node: usize,
    /// The rail.
    pub rail: usize,
}

/// What was measured between two nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MeasurementResult {
    /// All data arrived intact, at this many GB/s.
    Rate(f64),
    /// Wrong data arrived.
    WrongData,
    /// No connection, or the transfer did not end.
    NoTransfer,
}

/// One measurement between two nodes on one rail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement {
    /// The two nodes.
    pub pair: (usize, usize),
    /// The rail.
    pub rail: usize,
    /// The result of the measurement.
    pub result: MeasurementResult,
}

/// A part that can be at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A node: it is bad on all its rails, or there is only one rail.
    Node(usize),
    /// A node's port on one rail, or its cable.
    Port(Port),
    /// A leaf switch.
    Leaf(usize),
    /// A whole rail.
    Rail(usize),
}

/// The counts behind an accusation.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Bad measurements with proven partners.
    pub bad: usize,
    /// Measurements with proven partners.
    pub of: usize,
    /// Of the bad ones, those with wrong data.
    pub wrong: usize,
    /// Of the bad ones, those without a connection, or that did not end.
    pub dead: usize,
    /// The best of the bad ones with a rate, GB/s.
    pub best_gb_s: Option<f64>,
}

/// A part that is at fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Blame {
    /// The part.
    pub part: Part,
    /// The counts that prove it.
    pub figures: Figures,
}

/// A fault that cannot be attributed to one part.
#[derive(Debug, Clone, PartialEq)]
pub struct UnclearFault {
    /// The parts that can be its cause, in order.
    pub candidates: Vec<Part>,
    /// Why no part is accused.
    pub why: &'static str,
}

/// The result of [`infer`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inference {
    /// A measurement below this is bad, GB/s; `None`: nothing has a rate.
    pub limit_gb_s: Option<f64>,
    /// The usual rate, GB/s.
    pub usual_gb_s: Option<f64>,
    /// The parts at fault.
    pub blames: Vec<Blame>,
    /// The faults that cannot be attributed to one part.
    pub unclear: Vec<UnclearFault>,
    /// Ports that were bad at first and good when they were tried again.
    pub passing: Vec<Port>,
    /// Ports whose measurements are mostly bad; `retry_rounds` chooses the partners with which they are tried again.
    pub suspects: Vec<Port>,
    /// Ports that are good by majority.
    pub proven: Vec<Port>,
}

impl Inference {
    /// Whether nothing was bad.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.blames.is_empty() && self.unclear.is_empty() && self.passing.is_empty()
    }
}

/// Functions that return the names of parts.
pub struct Names<'a> {
    /// The name of a node.
    pub node: &'a dyn Fn(usize) -> String,
    /// The name of a leaf switch.
    pub leaf: &'a dyn Fn(usize) -> String,
}

impl Part {
    /// `node a`, `the port of node a on rail 1`
    #[must_use]
    pub fn text(&self, names: &Names<'_>) -> String {
        match self {
            Self::Node(node) => format!("node {}", (names.node)(*node)),
            Self::Port(port) => {
                let node = (names.node)(port.node);
                format!(
                    "the port of node {node} on rail {}, or its cable",
                    port.rail
                )
            }
            Self::Leaf(leaf) => format!("leaf switch {}", (names.leaf)(*leaf)),
            Self::Rail(rail) => format!("rail {rail}"),
        }
    }

    /// The same as a finding's subject.
    fn subject(&self, names: &Names<'_>) -> Subject {
        let text = self.text(names);
        match self {
            Self::Node(_) => Subject::node(text),
            Self::Port(_) => Subject::port(text),
            Self::Leaf(_) | Self::Rail(_) => Subject::part(text),
        }
    }
}

impl Figures {
    /// `7 of 7 measurements with proven nodes are bad: at most 3.1 GB/s, 8.0 is the least`
    #[must_use]
    pub fn text(&self, inference: &Inference) -> String {
        let mut how = Vec::new();
        if self.wrong > 0 {
            how.push(format!("wrong data in {}", self.wrong));
        }
        if self.dead > 0 {
            how.push(format!("no end or no connection in {}", self.dead));
        }
        if let (Some(best), Some(limit), Some(usual)) =
            (self.best_gb_s, inference.limit_gb_s, inference.usual_gb_s)
        {
            how.push(format!(
                "at most {best:.2} GB/s; {usual:.2} are usual, {limit:.2} are the least"
            ));
        }
        format!(
            "{} of {} measurements are bad: {}",
            self.bad,
            self.of,
            how.join(", ")
        )
    }
}

impl UnclearFault {
    /// The candidates and the reason, in one sentence.
    #[must_use]
    pub fn text(&self, names: &Names<'_>) -> String {
        let all: Vec<_> = self
            .candidates
            .iter()
            .map(|part| part.text(names))
            .collect();
        format!("{}: {}", all.join(" or "), self.why)
    }
}

/// The findings about an inference; `node` and `leaf` return the names of nodes and leaf switches.
#[must_use]
pub fn blame_findings(
    inference: &Inference,
    node: &dyn Fn(usize) -> String,
    leaf: &dyn Fn(usize) -> String,
) -> Vec<Finding> {
    let name = Names { node, leaf };
    let bad = inference.blames.iter().map(|blame| {
        let subject = blame.part.subject(&name);
        let message = format!("{subject}: {}", blame.figures.text(inference));
        Code::NodesBad.finding(Severity::Fail, subject, message)
    });
    let unclear = inference.unclear.iter().map(|unclear| {
        let text = unclear.text(&name);
        Code::NodesUnclear.finding(Severity::Fail, Subject::Nodes, text)
    });
    let passing = inference.passing.iter().map(|port| {
        let name = node(port.node);
        let message = format!(
            "node {name} was bad with most others on rail {}, and good when tried again",
            port.rail
        );
        Code::NodesUnclear.finding(Severity::Warn, Subject::node(name), message)
    });
    bad.chain(unclear).chain(passing).collect()
}

#[cfg(test)]
mod tests;
