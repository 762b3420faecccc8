//! NCCL's own view of the machine: the content of `NCCL_TOPO_DUMP_FILE` and `NCCL_GRAPH_DUMP_FILE`. It shows
//! the GPUs that NCCL found, the kind of path between them, and how many channels NCCL builds. Malformed content
//! is an error that names the fault and the line; a truncated dump is malformed.

mod graph;

pub use graph::{Graph, Hop, Pattern, graphs};

use machine::Rank;
use machine::pcie::model::Bdf;
use roxmltree::{Document, Node, ParsingOptions};
use std::str::FromStr;

/// The most elements that a dump may have. That of a machine of 16 GPUs with 64 channels has 5000.
const MOST_ELEMENTS: u32 = 100_000;

/// Why a dump cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("NCCL's {dump} dump, line {line}: {what}")]
pub struct BadDump {
    /// `topology` or `graph`.
    pub dump: &'static str,
    /// The line, counted from 1.
    pub line: u32,
    /// What is wrong.
    pub what: String,
}

/// One parsed dump, with its name for errors.
struct Dump<'a> {
    name: &'static str,
    document: Document<'a>,
}

impl<'a> Dump<'a> {
    fn parse(name: &'static str, root: &str, text: &'a str) -> Result<Self, BadDump> {
        let bad = |line, what| BadDump {
            dump: name,
            line,
            what,
        };
        if text.trim().is_empty() {
            return Err(bad(1, "it is empty".to_owned()));
        }
        let options = ParsingOptions {
            nodes_limit: MOST_ELEMENTS,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(text, options);
        let document = document.map_err(|e| bad(e.pos().row, e.to_string()))?;
        let dump = Self { name, document };
        let top = dump.document.root_element();
        if top.has_tag_name(root) {
            return Ok(dump);
        }
        Err(dump.error(
            top,
            format!("<{}> where <{root}> belongs", top.tag_name().name()),
        ))
    }

    fn error(&self, node: Node<'_, '_>, what: String) -> BadDump {
        let line = self.document.text_pos_at(node.range().start).row;
        BadDump {
            dump: self.name,
            line,
            what,
        }
    }

    /// A required attribute.
    fn required<T: FromStr>(&self, node: Node<'_, '_>, attribute: &str) -> Result<T, BadDump> {
        let missing = || {
            self.error(
                node,
                format!("<{}> lacks {attribute}", node.tag_name().name()),
            )
        };
        self.optional(node, attribute)?.ok_or_else(missing)
    }

    /// An attribute that not every version writes.
    fn optional<T: FromStr>(
        &self,
        node: Node<'_, '_>,
        attribute: &str,
    ) -> Result<Option<T>, BadDump> {
        let Some(text) = node.attribute(attribute) else {
            return Ok(None);
        };
        let name = node.tag_name().name();
        let bad = |_| {
            self.error(
                node,
                format!("{attribute}=\"{text}\" of <{name}> cannot be read"),
            )
        };
        text.trim().parse().map(Some).map_err(bad)
    }
}

/// What NCCL found on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// GPUs of the communicator, in the order of the dump.
    pub gpus: Vec<Gpu>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// NVML's number.
    pub dev: u64,
    /// Its rank; a GPU outside the communicator has none.
    pub rank: Option<Rank>,
    /// Its address.
    pub bdf: Bdf,
    /// Compute capability times ten: 89, 90, 120.
    pub sm: u32,
}

/// Reads the dump of `NCCL_TOPO_DUMP_FILE`.
///
/// # Errors
/// See [`BadDump`]; a dump without a GPU is one too.
pub fn topology(text: &str) -> Result<Topology, BadDump> {
    let dump = Dump::parse("topology", "system", text)?;
    let all = dump.document.descendants();
    let gpus = all
        .filter(|n| n.has_tag_name("gpu"))
        .map(|n| gpu(&dump, n))
        .collect::<Result<Vec<_>, _>>()?;
    if gpus.is_empty() {
        return Err(dump.error(dump.document.root_element(), "there is no <gpu>".to_owned()));
    }
    Ok(Topology { gpus })
}

fn gpu(dump: &Dump<'_>, node: Node<'_, '_>) -> Result<Gpu, BadDump> {
    let outside = || dump.error(node, "<gpu> outside of a <pci>".to_owned());
    let bdf = pci_address(dump, node)?.ok_or_else(outside)?;
    let (dev, rank) = (
        dump.required(node, "dev")?,
        dump.optional(node, "rank")?.map(Rank::new),
    );
    Ok(Gpu {
        dev,
        rank,
        bdf,
        sm: dump.required(node, "sm")?,
    })
}

/// The PCIe function of a device.
fn pci_address(dump: &Dump<'_>, node: Node<'_, '_>) -> Result<Option<Bdf>, BadDump> {
    let Some(pci) = node.ancestors().find(|n| n.has_tag_name("pci")) else {
        return Ok(None);
    };
    dump.required(pci, "busid").map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::Distance;

    /// Two PCIe GPUs behind one processor, an `NVLink` pair behind another, an HCA and a virtual interface.
    const SYSTEM: &str = r#"<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="ffff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:40:01.1" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:41:00.0" class="0x030000" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="89" rank="1" gdr="0"/>
      </pci>
      <pci busid="0000:42:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="8">
        <nic>
          <net name="mlx5_0" dev="0" latency="0" speed="100000" port="1" guid="0x1" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <nic>
      <net name="eth0" dev="1" speed="10000" port="0" guid="0x0" maxconn="65536"/>
    </nic>
  </cpu>
  <cpu numaid="1">
    <pci busid="0000:81:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="90" rank="0" gdr="1">
        <nvlink target="ffff:ff:ff.f" count="16" tclass="0x068000"/>
        <nvlink target="0000:82:00.0" count="2" tclass="0x030200"/>
      </gpu>
    </pci>
  </cpu>
</system>
"#;

    const GRAPHS: &str = r#"<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="12.5" speedinter="12.5" latencyinter="0" typeintra="SYS" typeinter="PIX" samechannels="1">
    <channel>
      <net dev="0"/>
      <gpu dev="0"/>
      <gpu dev="1"/>
      <net dev="0"/>
    </channel>
    <channel>
      <gpu dev="0x1"/>
      <gpu dev="0x100000000000000"/>
    </channel>
  </graph>
  <graph id="2" pattern="9" nchannels="0" speedintra="0" speedinter="0" typeintra="LOC" typeinter="PIX" samechannels="1"/>
</graphs>
"#;

    #[test]
    fn gpus_are_read_among_other_elements() {
        let topology = topology(SYSTEM).unwrap();
        let gpus: Vec<_> = topology
            .gpus
            .iter()
            .map(|g| (g.dev, g.rank, g.bdf.to_string(), g.sm))
            .collect();
        let expected = [
            (0, Some(1.into()), "0000:41:00.0".to_owned(), 89),
            (1, Some(0.into()), "0000:81:00.0".to_owned(), 90),
        ];
        assert_eq!(gpus, expected);
    }

    #[test]
    fn graphs_are_read_and_their_gpus_become_ranks() {
        let graphs = graphs(GRAPHS).unwrap();
        let ring = &graphs[0];
        assert_eq!(
            (ring.id, ring.pattern, ring.gb_s, ring.distance),
            (0, Pattern::Ring, 12.5, Distance::Sys)
        );
        assert_eq!(
            ring.orders(&topology(SYSTEM).unwrap()),
            Some(vec![Rank::list([1, 0]), Rank::list([0, 1])])
        );
        assert_eq!(
            (graphs[1].pattern, graphs[1].channels.len()),
            (Pattern::Other(9), 0)
        );
        assert_eq!(
            (Pattern::Ring.to_string(), Pattern::Other(9).to_string()),
            ("ring".into(), "pattern 9".into())
        );
        let other = topology(&SYSTEM.replace("dev=\"0\"", "dev=\"7\"")).unwrap();
        assert_eq!(ring.orders(&other), None);
    }

    #[test]
    fn malformed_dumps_are_reported_with_their_line() {
        let error = |text: &str| topology(text).unwrap_err().to_string();
        assert_eq!(error(""), "NCCL's topology dump, line 1: it is empty");
        let bare = SYSTEM.replace(" sm=\"89\"", "");
        assert_eq!(error(&bare), "NCCL's topology dump, line 5: <gpu> lacks sm");
        let odd = SYSTEM.replace("sm=\"89\"", "sm=\"x\"");
        assert_eq!(
            error(&odd),
            "NCCL's topology dump, line 5: sm=\"x\" of <gpu> cannot be read"
        );
        let place = SYSTEM.replace("0000:41:00.0", "41.0");
        assert_eq!(
            error(&place),
            "NCCL's topology dump, line 4: busid=\"41.0\" of <pci> cannot be read"
        );
        assert_eq!(
            error(GRAPHS),
            "NCCL's topology dump, line 1: <graphs> where <system> belongs"
        );
        assert_eq!(
            error("<system version=\"1\"/>"),
            "NCCL's topology dump, line 1: there is no <gpu>"
        );
        assert!(
            error("<system><gpu dev=\"0\" sm=\"89\"/></system>")
                .ends_with("<gpu> outside of a <pci>")
        );
        let (head, _) = SYSTEM.split_at(SYSTEM.len() / 2);
        assert!(
            error(head).starts_with("NCCL's topology dump, line "),
            "{}",
            error(head)
        );
    }

    #[test]
    fn an_inconsistent_graph_is_rejected() {
        let error =
            |from: &str, to: &str| graphs(&GRAPHS.replace(from, to)).unwrap_err().to_string();
        let counted = error("nchannels=\"2\"", "nchannels=\"3\"");
        assert_eq!(
            counted,
            "NCCL's graph dump, line 2: nchannels=\"3\", but there are 2"
        );
        assert!(
            error("speedintra=\"12.5\"", "speedintra=\"inf\"")
                .ends_with("speedintra=\"inf\" is not a speed")
        );
        assert!(
            error("typeintra=\"SYS\"", "typeintra=\"QPI\"")
                .ends_with("typeintra=\"QPI\" of <graph> cannot be read")
        );
        assert_eq!(
            graphs("<graphs/>").unwrap_err().to_string(),
            "NCCL's graph dump, line 1: there is no <graph>"
        );
    }

    #[test]
    fn nesting_and_entities_do_no_harm() {
        let deep = "<system>".repeat(50_000);
        assert!(topology(&deep).is_err());
        let bomb = "<!DOCTYPE system [<!ENTITY a \"aaaaaaaa\">]><system>&a;</system>";
        assert!(topology(bomb).is_err());
    }
}
