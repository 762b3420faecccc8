//! Where paths turn, and what ACS does there. Requests climb from their sender to the bridge that is above both
//! ends, or to the root complex, and come down to the other end. ACS redirects what would turn from the port
//! at which it came in to another port below the same bridge; what climbs on, and what comes down, passes it by
//! (PCI Express Base Specification, 6.12.3). `docs/fabric.md` says more. Pure.

use super::acs_bits::EGRESS;
use super::model::{Acs, Bdf, Device, Fabric, Path};
use super::pass_through::is_given_away;
use super::routing::Pch;
use super::tree::Tree;
use crate::host::iommu::IommuMode;
use std::collections::{BTreeMap, BTreeSet};

/// Control bits: request redirect, completion redirect, direct translated.
const REQUESTS: u16 = 0x04;
const COMPLETIONS: u16 = 0x08;
const TRANSLATED: u16 = 0x40;

/// What turns at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    /// Whose requests.
    from: Bdf,
    /// The port at which they go out; `None` where the other end is on the root bus itself.
    out: Option<Bdf>,
}

/// What a port does to the peer traffic that turns at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It passes straight to its peer.
    Direct,
    /// It is sent up, or refused.
    Redirects,
    /// Requests with translated addresses pass, and every sender may send those.
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
    /// Of all paths between functions that this machine uses itself.
    #[must_use]
    pub fn of(fabric: &'a Fabric) -> Self {
        let tree = Tree::of(fabric);
        let used = |bdf| tree.get(bdf).is_some_and(|d| !is_given_away(fabric, d));
        let mut at: BTreeMap<Bdf, BTreeSet<Turn>> = BTreeMap::new();
        for path in fabric.paths.iter().filter(|p| used(p.a) && used(p.b)) {
            let (first, second) = tops(&tree, path);
            for (port, from, out) in [(first, path.a, second), (second, path.b, first)] {
                if let Some(port) = port {
                    at.entry(port).or_default().insert(Turn { from, out });
                }
            }
        }
        Self { tree, at, translating: fabric.iommu.mode != IommuMode::Off }
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

    /// What `acs` at `port` does to what turns there; where nothing does, what it would do.
    #[must_use]
    pub fn effect(&self, port: Bdf, acs: &Acs) -> Effect {
        let Some(turns) = self.at.get(&port) else {
            return if redirects_requests(acs, None) || acs.ctrl & COMPLETIONS != 0 {
                Effect::Redirects
            } else {
                Effect::Direct
            };
        };
        let redirected: Vec<_> =
            turns.iter().filter(|t| redirects_requests(acs, self.port_number(t.out))).copied().collect();
        let translated = acs.ctrl & TRANSLATED != 0 && self.translating;
        let sends_translated = |t: &Turn| self.tree.get(t.from).is_some_and(|d| d.routing.ats);
        match () {
            () if acs.ctrl & COMPLETIONS != 0 => Effect::Redirects,
            () if redirected.is_empty() => Effect::Direct,
            () if translated && redirected.iter().all(sends_translated) => Effect::TranslatedPass,
            () => Effect::Redirects,
        }
    }

    /// True for a port of an older Intel chipset that Linux has isolated, where traffic turns to another port
    /// of that chipset. What goes to the processor climbs all the same.
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

/// Egress control decides by the vector's bit of the port that requests go out at, and then request redirect
/// says whether what is not let through is sent up or refused. Without egress control request redirect alone
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

/// The highest port on each side of a path: there it turns.
fn tops(tree: &Tree, path: &Path) -> (Option<Bdf>, Option<Bdf>) {
    let above = tree.above(path.a);
    let climbs = |port: &&Bdf| above.iter().any(|d| d.bdf == **port);
    let climbed = path.ports.iter().take_while(climbs).count();
    let first = climbed.checked_sub(1).and_then(|last| path.ports.get(last));
    (first.copied(), path.ports.get(climbed).copied())
}

#[cfg(test)]
#[path = "turn/tests.rs"]
mod tests;
