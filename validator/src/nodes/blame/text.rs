//! Accusations as text. Nodes are named by the caller.

use super::{Figures, Inference, Part, Unclear};

impl Part {
    /// `node a`, `the port of node a on rail 1`; `name` gives a node's name.
    #[must_use]
    pub fn text(&self, name: &dyn Fn(usize) -> String) -> String {
        match self {
            Self::Node(node) => format!("node {}", name(*node)),
            Self::Port(port) => {
                format!("the port of node {} on rail {}, or its cable", name(port.node), port.rail)
            }
            Self::Leaf(leaf) => format!("leaf switch {leaf}"),
            Self::Rail(rail) => format!("rail {rail}"),
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
            how.push(format!("at most {best:.2} GB/s; {usual:.2} are usual, {limit:.2} are the least"));
        }
        format!("{} of {} measurements are bad: {}", self.bad, self.of, how.join(", "))
    }
}

impl Unclear {
    /// The candidates and the reason, in one sentence.
    #[must_use]
    pub fn text(&self, name: &dyn Fn(usize) -> String) -> String {
        let all: Vec<_> = self.candidates.iter().map(|part| part.text(name)).collect();
        format!("{}: {}", all.join(" or "), self.why)
    }
}
