//! GPUs behind one PCIe switch that send to GPUs behind several other root ports. Some switches then lose nearly all their rate
//! for writes and none for reads, and log nothing (37 to 2.7 GB/s on a board of 8 RTX PRO 6000). So one of a switch's GPUs sends,
//! then two of them, to all of them, each to two GPUs behind different root ports: written by the senders, and read by the
//! receivers, which moves the same data over the same links. Machines without switches have nothing to try. Pure.

use crate::schedule::Pair;
use machine::GpuId;
use machine::pcie::model::{Bdf, Fabric, Kind};
use machine::pcie::tree::Tree;
use outcome::finding::{Code, Finding, Severity};
use std::collections::{BTreeMap, BTreeSet};

/// Writes below this part of the reads are far below: on healthy machines reads are the slower ones.
const LEAST: f64 = 0.5;

/// GPUs of one switch, and what they send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SwitchTransfers {
    /// The upstream port of the switch.
    pub(super) switch: Bdf,
    /// How many of its GPUs send.
    pub(super) senders: usize,
    /// From each sender to two GPUs behind different root ports.
    pub(super) pairs: Vec<Pair>,
}

impl SwitchTransfers {
    /// The unordered pairs that need peer access.
    pub(super) fn access(&self) -> Vec<Pair> {
        self.pairs
            .iter()
            .map(|pair| pair.sorted())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// `2 GPUs of the switch at 0000:41:00.0 to 4 others`
    pub(super) fn name(&self) -> String {
        let gpus = if self.senders == 1 {
            "1 GPU"
        } else {
            &format!("{} GPUs", self.senders)
        };
        format!(
            "{gpus} of the switch at {} to others, {} transfers",
            self.switch,
            self.pairs.len()
        )
    }
}

/// The figures of [`SwitchTransfers`], GB/s of all together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SwitchSpeed {
    pub(super) transfers: SwitchTransfers,
    /// Written by the senders.
    pub(super) writes: f64,
    /// Read by the receivers.
    pub(super) reads: f64,
    /// Written by the senders, measured again.
    pub(super) again: Option<f64>,
}

impl SwitchSpeed {
    pub(super) fn best(&self) -> f64 {
        self.again
            .map_or(self.writes, |again| again.max(self.writes))
    }

    /// The finding that the writes are far below the reads. It names a speed, so it is a warning.
    pub(super) fn finding(&self) -> Option<Finding> {
        let least = self.reads * LEAST;
        // NaN is not enough.
        if self.best() >= least {
            return None;
        }
        let again = self.again.map_or(String::new(), |again| {
            format!(" ({again:.2} when measured again)")
        });
        let message = format!(
            "{}: writes move {:.2} GB/s{again}, reads {:.2} GB/s, expected at least {least:.2} GB/s of writes",
            self.transfers.name(),
            self.writes,
            self.reads
        );
        let finding = Code::P2pCollapse.finding(Severity::Warn, self.transfers.switch, message);
        let rounded = |gb_s: f64| (gb_s * 100.0).round() / 100.0;
        Some(finding.values(rounded(self.best()), rounded(least), Some("GB/s")))
    }
}

/// The transfers of each switch, in the order of their number of senders; `gpus`: the GPUs by their numbers; `over_pcie`: whether
/// a pair's data crosses PCIe.
pub(super) fn plan(
    fabric: &Fabric,
    gpus: &[Bdf],
    over_pcie: impl Fn(Pair) -> bool,
) -> Vec<SwitchTransfers> {
    let tree = Tree::of(fabric);
    let places: Vec<_> = GpuId::each(gpus)
        .map(|(gpu, bdf)| (gpu, Place::of(&tree, *bdf)))
        .collect();
    let mut switches: BTreeMap<Bdf, Vec<GpuId>> = BTreeMap::new();
    for (gpu, place) in &places {
        if let Some(Place {
            switch: Some(switch),
            ..
        }) = place
        {
            switches.entry(*switch).or_default().push(*gpu);
        }
    }
    let mut all = Vec::new();
    for (switch, own) in switches {
        let root = |gpu: GpuId| {
            places
                .iter()
                .find(|(other, _)| *other == gpu)
                .and_then(|(_, p)| Some(p.as_ref()?.root))
        };
        let Some(here) = own.first().and_then(|gpu| root(*gpu)) else {
            continue;
        };
        let is_target = |gpu: &GpuId| {
            root(*gpu).is_some_and(|root| root != here)
                && own.iter().all(|from| over_pcie(Pair::new(*from, *gpu)))
        };
        let mut by_root: BTreeMap<Bdf, Vec<GpuId>> = BTreeMap::new();
        for gpu in places.iter().map(|(gpu, _)| *gpu).filter(is_target) {
            by_root
                .entry(root(gpu).unwrap_or(here))
                .or_default()
                .push(gpu);
        }
        let roots: Vec<_> = by_root.into_values().collect();
        if roots.len() < 2 {
            continue;
        }
        for senders in 1..=own.len() {
            let each = |(n, from): (usize, &GpuId)| {
                // Two root ports for each sender, and other GPUs behind them in turn.
                let to = |step: usize| {
                    let behind = roots.get((n + step) % roots.len())?;
                    behind
                        .get(n / roots.len() % behind.len().max(1))
                        .map(|to| Pair::new(*from, *to))
                };
                [to(0), to(1)]
            };
            let pairs = own
                .iter()
                .take(senders)
                .enumerate()
                .flat_map(each)
                .flatten()
                .collect();
            all.push(SwitchTransfers {
                switch,
                senders,
                pairs,
            });
        }
    }
    all
}

/// Where a GPU is.
struct Place {
    /// The root port above it.
    root: Bdf,
    /// The upstream port of the switch next to the root port, if there is one.
    switch: Option<Bdf>,
}

impl Place {
    fn of(tree: &Tree<'_>, gpu: Bdf) -> Option<Self> {
        let above = tree.above(gpu);
        let root = above
            .iter()
            .rev()
            .find(|device| device.kind == Kind::RootPort)?
            .bdf;
        let switch = above
            .iter()
            .rev()
            .find(|device| device.kind == Kind::Upstream)
            .map(|device| device.bdf);
        Some(Self { root, switch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::pcie::model::Device;
    use machine::pcie::sample;

    /// Three root ports: a switch with three GPUs below the first, and one with two below each other.
    fn machine() -> (Fabric, Vec<Bdf>) {
        let (mut devices, mut gpus) = (Vec::new(), Vec::new());
        for (n, below) in [(1_u8, 3_u8), (2, 2), (3, 2)] {
            let at = |bus: u8, device: u8| format!("0000:{:02x}:{device:02x}.0", n * 0x20 + bus);
            let parse = |text: &str| text.parse::<Bdf>().unwrap();
            let (root, up) = (at(0, 1), at(1, 0));
            devices.push(sample::device(&root, Kind::RootPort, None));
            devices.push(sample::device(&up, Kind::Upstream, Some(&root)));
            for gpu in 0..below {
                let (down, own) = (at(2, gpu), at(3 + gpu, 0));
                devices.push(sample::device(&down, Kind::Downstream, Some(&up)));
                devices.push(sample::device(&own, Kind::Endpoint, Some(&down)));
                gpus.push(parse(&own));
            }
        }
        let devices: Vec<Device> = devices;
        (sample::fabric(devices), gpus)
    }

    #[test]
    fn each_number_of_a_switchs_gpus_sends_to_two_root_ports() {
        let (fabric, gpus) = machine();
        let plan = plan(&fabric, &gpus, |_| true);
        let shown: Vec<_> = plan
            .iter()
            .map(|t| (t.switch.to_string(), t.senders, t.pairs.len()))
            .collect();
        let of = |switch: &str, senders: usize| (switch.to_owned(), senders, senders * 2);
        let (a, b, c) = ("0000:21:00.0", "0000:41:00.0", "0000:61:00.0");
        assert_eq!(
            shown,
            [
                of(a, 1),
                of(a, 2),
                of(a, 3),
                of(b, 1),
                of(b, 2),
                of(c, 1),
                of(c, 2)
            ]
        );
        assert_eq!(plan[0].pairs, [Pair::of(0, 3), Pair::of(0, 5)]);
        assert_eq!(plan[1].pairs[2..], [Pair::of(1, 5), Pair::of(1, 3)]);
        assert_eq!(plan[2].pairs[4..], [Pair::of(2, 4), Pair::of(2, 6)]);
    }

    #[test]
    fn without_switches_or_over_nvlink_or_with_one_other_root_port_there_is_nothing_to_try() {
        let (fabric, gpus) = machine();
        assert_eq!(plan(&fabric, &gpus, |_| false), []);
        assert_eq!(plan(&fabric, &gpus[..5], |_| true), []);
        let plain = crate::suite::shared::fixture::machine(4);
        assert_eq!(plan(&plain, &plain.gpus, |_| true), []);
    }

    #[test]
    fn writes_far_below_the_reads_are_named_and_warn() {
        let (fabric, gpus) = machine();
        let transfers = plan(&fabric, &gpus, |_| true).remove(1);
        let speed = |writes, again| SwitchSpeed {
            transfers: transfers.clone(),
            writes,
            reads: 37.0,
            again,
        };
        for good in [37.0, 26.0, 19.0] {
            assert_eq!(speed(good, None).finding(), None);
        }
        assert_eq!(
            speed(2.7, Some(36.0)).finding(),
            None,
            "it was low only once"
        );
        let finding = speed(2.7, Some(2.8)).finding().unwrap();
        assert!(finding.is(Code::P2pCollapse) && finding.severity == Severity::Warn);
        let text = "2 GPUs of the switch at 0000:21:00.0 to others, 4 transfers: writes move 2.70 GB/s (2.80 when measured again), reads 37.00 GB/s";
        assert!(finding.message.starts_with(text), "{}", finding.message);
    }
}
