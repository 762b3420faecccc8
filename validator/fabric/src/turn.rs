//! Where paths turn, and what ACS does there. Requests go up from their sender to the bridge above both ends,
//! or to the root complex, and down to the other end. ACS redirects requests that would turn from the port at
//! which they came in to another port below the same bridge; it does not affect requests that go further up,
//! or that come down (PCI Express Base Specification, 6.12.3). See `docs/fabric.md` for more. Pure.

use super::pass_through::is_passed_through;
use machine::host::iommu::IommuMode;
use machine::pcie::model::{Acs, Bdf, Device, Fabric, Path};
use machine::pcie::routing::{EGRESS, Pch};
use machine::pcie::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Control bits: request redirect, completion redirect, direct translated.
const REQUESTS: u16 = 0x04;
const COMPLETIONS: u16 = 0x08;
const TRANSLATED: u16 = 0x40;

/// Requests that turn at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    /// The sender.
    from: Bdf,
    /// The port through which they leave; `None` if the other end is on the root bus itself.
    out: Option<Bdf>,
}

/// What a port does to the peer traffic that turns at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It goes directly to its peer.
    Direct,
    /// It is sent up or blocked.
    Redirects,
    /// Requests with translated addresses pass, and every sender may send them.
    TranslatedPass,
}

/// Where the paths of a fabric turn.
#[derive(Debug)]
pub struct Turns<'a> {
    tree: Tree<'a>,
    at: BTreeMap<Bdf, BTreeSet<Turn>>,
    translating: bool,
}

impl<'a> Turns<'a> {
    /// The turns of all paths between peers that this machine uses itself.
    #[must_use]
    pub fn of<F>(fabric: &'a Fabric<F>) -> Self {
        let tree = Tree::of(fabric);
        let used = |bdf| tree.get(bdf).is_some_and(|d| !is_passed_through(fabric, d));
        let mut at: BTreeMap<Bdf, BTreeSet<Turn>> = BTreeMap::new();
        for path in fabric.peer_paths().filter(|p| used(p.a) && used(p.b)) {
            let (first, second) = tops(&tree, path);
            for (port, from, out) in [(first, path.a, second), (second, path.b, first)] {
                if let Some(port) = port {
                    at.entry(port).or_default().insert(Turn { from, out });
                }
            }
        }
        Self {
            tree,
            at,
            translating: fabric.iommu.mode != IommuMode::Off,
        }
    }

    /// The ports, sorted.
    #[must_use]
    pub fn ports(&self) -> BTreeSet<Bdf> {
        self.at.keys().copied().collect()
    }

    /// True for a port at which paths turn.
    #[must_use]
    pub fn contains(&self, port: Bdf) -> bool {
        self.at.contains_key(&port)
    }

    /// What `acs` at `port` does to traffic that turns there; if none does, what it would do.
    #[must_use]
    pub fn effect(&self, port: Bdf, acs: &Acs) -> Effect {
        let Some(turns) = self.at.get(&port) else {
            return if redirects_requests(acs, None) || acs.ctrl & COMPLETIONS != 0 {
                Effect::Redirects
            } else {
                Effect::Direct
            };
        };
        let redirected: Vec<_> = turns
            .iter()
            .filter(|t| redirects_requests(acs, self.port_number(t.out)))
            .copied()
            .collect();
        let translated = acs.ctrl & TRANSLATED != 0 && self.translating;
        let sends_translated = |t: &Turn| self.tree.get(t.from).is_some_and(|d| d.routing.ats);
        match () {
            () if acs.ctrl & COMPLETIONS != 0 => Effect::Redirects,
            () if redirected.is_empty() => Effect::Direct,
            () if translated && redirected.iter().all(sends_translated) => Effect::TranslatedPass,
            () => Effect::Redirects,
        }
    }

    /// True for a port of an older Intel chipset that Linux has isolated, if traffic turns to another port of
    /// that chipset. Traffic to the processor goes up anyway.
    #[must_use]
    pub fn isolates(&self, port: &Device) -> bool {
        let older = |bdf: Bdf| self.tree.get(bdf).is_some_and(|d| d.routing.pch.is_some());
        let turns = self.at.get(&port.bdf).into_iter().flatten();
        port.routing.pch == Some(Pch::Isolated) && turns.filter_map(|t| t.out).any(older)
    }

    fn port_number(&self, port: Option<Bdf>) -> Option<u8> {
        self.tree.get(port?)?.routing.port_number
    }
}

/// Egress control uses the bit of the vector for the port at which requests leave, and request redirect then
/// decides whether a disallowed request is sent up or blocked. Without egress control only request redirect
/// decides. (Table "ACS P2P Request Redirect and ACS P2P Egress Control Interactions".)
fn redirects_requests(acs: &Acs, out: Option<u8>) -> bool {
    if acs.ctrl & EGRESS == 0 {
        return acs.ctrl & REQUESTS != 0;
    }
    match (&acs.egress, out) {
        (None, _) => true,
        (Some(blocked), None) => !blocked.is_empty(),
        (Some(blocked), Some(out)) => blocked.contains(&out),
    }
}

/// The highest port on each side of a path: the path turns there.
fn tops(tree: &Tree, path: &Path) -> (Option<Bdf>, Option<Bdf>) {
    let above = tree.above(path.a);
    let climbs = |port: &&Bdf| above.iter().any(|d| d.bdf == **port);
    let climbed = path.ports.iter().take_while(climbs).count();
    let first = climbed.checked_sub(1).and_then(|last| path.ports.get(last));
    (first.copied(), path.ports.get(climbed).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::pcie::model::Kind;
    use machine::pcie::sample::{bdf, device, fabric, gpu, two_gpus, with_acs};

    /// A GPU below a switch that is below another one, beside a second GPU.
    fn nested() -> Vec<Device> {
        vec![
            device("0000:00:01.0", Kind::RootPort, None),
            device("0000:01:00.0", Kind::Upstream, Some("0000:00:01.0")),
            device("0000:02:00.0", Kind::Downstream, Some("0000:01:00.0")),
            device("0000:02:01.0", Kind::Downstream, Some("0000:01:00.0")),
            gpu("0000:03:00.0", "0000:02:00.0"),
            device("0000:04:00.0", Kind::Upstream, Some("0000:02:01.0")),
            device("0000:05:00.0", Kind::Downstream, Some("0000:04:00.0")),
            gpu("0000:06:00.0", "0000:05:00.0"),
        ]
    }

    fn ports(fabric: &Fabric) -> Vec<String> {
        Turns::of(fabric)
            .ports()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_path_turns_at_two_ports_and_only_passes_the_others() {
        assert_eq!(ports(&fabric(nested())), ["0000:02:00.0", "0000:02:01.0"]);
        assert_eq!(
            ports(&fabric(two_gpus())),
            ["0000:00:01.0", "0000:00:02.0"],
            "in the root complex"
        );
        let mut devices = nested();
        let root = device("0000:00:02.0", Kind::RootPort, None);
        devices.extend([root, gpu("0000:07:00.0", "0000:00:02.0")]);
        let all = [
            "0000:00:01.0",
            "0000:00:02.0",
            "0000:02:00.0",
            "0000:02:01.0",
        ];
        assert_eq!(ports(&fabric(devices)), all, "a third GPU, elsewhere");
    }

    #[test]
    fn with_a_function_on_the_root_bus_only_the_other_port_turns() {
        let mut devices = two_gpus();
        devices[3].parent = None;
        assert_eq!(ports(&fabric(devices)), ["0000:00:01.0"]);
    }

    #[test]
    fn passed_through_functions_make_no_port_turn() {
        let mut fabric = fabric(two_gpus());
        fabric.devices[3].driver = Some("vfio-pci".into());
        assert_eq!(
            ports(&fabric).len(),
            2,
            "without an IOMMU group nothing is passed through"
        );
        fabric.iommu.groups = 4;
        assert!(ports(&fabric).is_empty());
    }

    /// What the first of two root ports does with these bits; the ports have numbers 1 and 2.
    fn effect(ctrl: u16, egress: Option<&[u8]>, change: impl Fn(&mut Fabric)) -> Effect {
        let mut devices = two_gpus();
        devices[0] = with_acs(devices[0].clone(), ctrl);
        devices[0].acs.as_mut().unwrap().egress = egress.map(<[u8]>::to_vec);
        devices[0].routing.port_number = Some(1);
        devices[1].routing.port_number = Some(2);
        let mut fabric = fabric(devices);
        change(&mut fabric);
        let acs = fabric.devices[0].acs.clone().unwrap();
        Turns::of(&fabric).effect(bdf("0000:00:01.0"), &acs)
    }

    #[test]
    fn bits_that_only_check_let_everything_pass() {
        assert_eq!(effect(0x53, None, |_| ()), Effect::Direct);
        assert_eq!(effect(0x04, None, |_| ()), Effect::Redirects);
        assert_eq!(effect(0x08, None, |_| ()), Effect::Redirects);
    }

    /// E, R and the vector's bit, as the specification's table has them.
    #[test]
    fn egress_control_decides_by_the_outgoing_port() {
        for (ctrl, egress, expected) in [
            (0x20, Some(&[][..]), Effect::Direct),
            (0x24, Some(&[][..]), Effect::Direct),
            (0x24, Some(&[1, 7][..]), Effect::Direct),
            (0x20, Some(&[2][..]), Effect::Redirects),
            (0x24, Some(&[2][..]), Effect::Redirects),
            (0x28, Some(&[][..]), Effect::Redirects),
            (0x20, None, Effect::Redirects),
        ] {
            assert_eq!(
                effect(ctrl, egress, |_| ()),
                expected,
                "{ctrl:#x} {egress:?}"
            );
        }
        let unnumbered = |fabric: &mut Fabric| fabric.devices[1].routing.port_number = None;
        assert_eq!(
            effect(0x20, Some(&[7]), unnumbered),
            Effect::Redirects,
            "its own bit is unknown"
        );
        assert_eq!(effect(0x20, Some(&[]), unnumbered), Effect::Direct);
    }

    #[test]
    fn translated_requests_pass_where_every_sender_can_translate() {
        let with = |mode, ats| {
            move |fabric: &mut Fabric| {
                fabric.iommu.mode = mode;
                fabric.devices[2].routing.ats = ats;
            }
        };
        assert_eq!(
            effect(0x44, None, with(IommuMode::Translated, true)),
            Effect::TranslatedPass
        );
        assert_eq!(
            effect(0x44, None, with(IommuMode::Translated, false)),
            Effect::Redirects
        );
        assert_eq!(
            effect(0x44, None, with(IommuMode::Off, true)),
            Effect::Redirects,
            "no sender can translate"
        );
        assert_eq!(
            effect(0x04, None, with(IommuMode::Translated, true)),
            Effect::Redirects
        );
        assert_eq!(
            effect(0x4c, None, with(IommuMode::Translated, true)),
            Effect::Redirects,
            "completions"
        );
    }

    #[test]
    fn an_older_chipset_isolates_only_its_own_ports() {
        let isolates = |first, second| {
            let mut devices = two_gpus();
            (devices[0].routing.pch, devices[1].routing.pch) = (first, second);
            let fabric = fabric(devices);
            Turns::of(&fabric).isolates(&fabric.devices[0])
        };
        assert!(isolates(Some(Pch::Isolated), Some(Pch::Open)));
        assert!(!isolates(Some(Pch::Open), Some(Pch::Open)));
        assert!(
            !isolates(Some(Pch::Isolated), None),
            "traffic to a port of the processor goes up anyway"
        );
    }
}
