//! NCCL's own picture of the machine: what `NCCL_TOPO_DUMP_FILE` and `NCCL_GRAPH_DUMP_FILE` hold. Which
//! GPUs it saw, and over which kind of path it means to build how many channels. Anything
//! malformed is an error that says what and where; a dump that was cut off is malformed.

mod graph;
mod topology;

pub use graph::{Graph, Hop, Pattern, graphs};
pub use topology::{Gpu, Topology, topology};

use roxmltree::{Document, Node, ParsingOptions};
use std::str::FromStr;

/// Elements of the largest dump that is read. A machine of 16 GPUs with 64 channels has 5000.
const MOST_ELEMENTS: u32 = 100_000;

/// Why a dump cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("NCCL's {dump} dump, line {line}: {what}")]
pub struct BadDump {
    /// `topology` or `graph`.
    pub dump: &'static str,
    /// Counted from 1.
    pub line: u32,
    /// What is wrong there.
    pub what: String,
}

/// One dump, parsed, with what its errors say.
struct Dump<'a> {
    name: &'static str,
    document: Document<'a>,
}

impl<'a> Dump<'a> {
    fn parse(name: &'static str, root: &str, text: &'a str) -> Result<Self, BadDump> {
        let bad = |line, what| BadDump { dump: name, line, what };
        if text.trim().is_empty() {
            return Err(bad(1, "it is empty".to_owned()));
        }
        let options = ParsingOptions { nodes_limit: MOST_ELEMENTS, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options);
        let document = document.map_err(|e| bad(e.pos().row, e.to_string()))?;
        let dump = Self { name, document };
        let top = dump.document.root_element();
        if top.has_tag_name(root) {
            return Ok(dump);
        }
        Err(dump.bad(top, format!("<{}> where <{root}> belongs", top.tag_name().name())))
    }

    fn bad(&self, node: Node<'_, '_>, what: String) -> BadDump {
        let line = self.document.text_pos_at(node.range().start).row;
        BadDump { dump: self.name, line, what }
    }

    /// An attribute that must be there.
    fn needed<T: FromStr>(&self, node: Node<'_, '_>, attribute: &str) -> Result<T, BadDump> {
        let missing = || self.bad(node, format!("<{}> lacks {attribute}", node.tag_name().name()));
        self.known(node, attribute)?.ok_or_else(missing)
    }

    /// An attribute that not every version writes.
    fn known<T: FromStr>(&self, node: Node<'_, '_>, attribute: &str) -> Result<Option<T>, BadDump> {
        let Some(text) = node.attribute(attribute) else { return Ok(None) };
        let name = node.tag_name().name();
        let bad = |_| self.bad(node, format!("{attribute}=\"{text}\" of <{name}> cannot be read"));
        text.trim().parse().map(Some).map_err(bad)
    }
}

#[cfg(test)]
mod tests;
