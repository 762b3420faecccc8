//! Describes a fake PCI domain: ports, GPUs and NICs with faults, as the kernel word that tests/fakepci/topology.c reads.

use std::fmt::Write;

/// A port or device of a topology, under which others can be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node(usize);

/// The kernel word that reserves the memory for [`Topology::registers`]; the machine needs 2 GiB.
pub const REGISTERS_WORD: &str = "memmap=256M%0x60000000-1";

/// A function's options besides its kind; see tests/fakepci/topology.c for the keys.
pub type Options<'a> = &'a str;

/// The description of a PCI domain.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    nodes: Vec<String>,
    parameters: String,
}

impl Topology {
    /// An empty domain 1.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A module parameter other than the topology: `domain=2`, `window=..`, `preserve=1`, `bind=ID`.
    pub fn parameter(&mut self, parameter: &str) {
        let _ = write!(self.parameters, ";{parameter}");
    }

    /// Gives every GPU an interrupt line.
    pub fn interrupts(&mut self) {
        self.parameter("irq=11");
    }

    /// Gives BAR 0 of every GPU the registers that identify its board's chip (registers.c): it is placed on memory that
    /// [`REGISTERS_WORD`] reserves.
    pub fn registers(&mut self) {
        self.parameter("registers=0x60000000");
    }

    /// A root port with device number `dev` on the root bus.
    pub fn root_port(&mut self, dev: u8, options: Options<'_>) -> Node {
        self.add(format!("rp:dev={dev}"), options)
    }

    /// A switch below `above`: its upstream port and one downstream port for each of `options`.
    pub fn switch<const N: usize>(&mut self, above: Node, options: [Options<'_>; N]) -> [Node; N] {
        let up = self.add(format!("up:parent={}", above.0), "");
        let mut dev = 0;
        options.map(|options| {
            let down = self.add(format!("dn:parent={}:dev={dev}", up.0), options);
            dev += 1;
            down
        })
    }

    /// An NVIDIA GPU with Resizable BAR, 64 MiB to 32 GiB.
    pub fn gpu(&mut self, above: Node, options: Options<'_>) -> Node {
        self.add(format!("gpu:parent={}:sizes=0xffc0", above.0), options)
    }

    /// A Mellanox network card.
    pub fn nic(&mut self, above: Node, options: Options<'_>) -> Node {
        self.add(format!("nic:parent={}", above.0), options)
    }

    /// A GPU's sound function, next to the GPU.
    pub fn audio(&mut self, above: Node) -> Node {
        self.add(format!("audio:parent={}:fn=1", above.0), "")
    }

    fn add(&mut self, mut node: String, options: Options<'_>) -> Node {
        for option in options.split_whitespace() {
            let _ = write!(node, ":{option}");
        }
        self.nodes.push(node);
        Node(self.nodes.len() - 1)
    }

    /// The kernel word.
    #[must_use]
    pub fn word(&self) -> String {
        format!("fakepci=topo={}{}", self.nodes.join(","), self.parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_is_one_kernel_word() {
        let mut topology = Topology::new();
        let root = topology.root_port(1, "");
        let [a, b] = topology.switch(root, ["fw=0x1d", "fw=0x1d fault=acs-revert"]);
        topology.gpu(a, "");
        topology.nic(b, "width=8");
        topology.parameter("domain=2");
        assert_eq!(
            topology.word(),
            "fakepci=topo=rp:dev=1,up:parent=0,dn:parent=1:dev=0:fw=0x1d,\
             dn:parent=1:dev=1:fw=0x1d:fault=acs-revert,gpu:parent=2:sizes=0xffc0,\
             nic:parent=3:width=8;domain=2"
        );
    }
}
