//! A run that is limited to some of the machine's GPUs: which are tested, and which are left out. Pure.

use super::{Expect, GpuName, numbered};
use machine::GpuId;
use machine::pcie::model::{Bdf, Fabric};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The limits of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The GPUs that are tested, each with its number among all.
    pub gpus: Vec<(usize, Bdf)>,
    /// All others.
    pub left_out: Vec<(usize, Bdf)>,
    /// The GPUs that CUDA may show, as a value of `CUDA_VISIBLE_DEVICES`.
    pub visible: String,
}

impl Limit {
    /// The limit to `names` among the GPUs on the bus; `held` are those that the driver is bound to, in CUDA's order.
    /// `None` if all GPUs are named.
    ///
    /// # Errors
    /// A name that is not a GPU of this machine, or a second one of the same GPU.
    pub fn of(names: &[GpuName], bus: &[Bdf], held: &[Bdf]) -> Result<Option<Self>, String> {
        let mut chosen = BTreeSet::new();
        for name in names {
            let number = name
                .among(bus)
                .ok_or_else(|| format!("--gpus {name}: there are {} NVIDIA GPUs", bus.len()))?;
            if !chosen.insert(number) {
                return Err(format!("--gpus {name}: GPU {number} is named twice"));
            }
        }
        let all = bus.iter().copied().enumerate();
        let (gpus, left_out): (Vec<_>, Vec<_>) =
            all.partition(|(number, _)| chosen.contains(number));
        let order = if held.is_empty() { bus } else { held };
        let place = |(_, bdf): &(usize, Bdf)| order.iter().position(|gpu| gpu == bdf);
        let visible: Vec<_> = gpus
            .iter()
            .filter_map(place)
            .map(|n| n.to_string())
            .collect();
        let limit = Self {
            gpus,
            left_out,
            visible: visible.join(","),
        };
        Ok((!limit.left_out.is_empty()).then_some(limit))
    }

    /// The visible GPUs as CUDA ordinals.
    #[must_use]
    pub fn ordinals(&self) -> Vec<GpuId> {
        self.visible
            .split(',')
            .filter_map(|number| number.parse().ok().map(GpuId::new))
            .collect()
    }

    /// Removes the other GPUs from the fabric that the run sees.
    pub fn apply(&self, fabric: &mut Fabric) {
        let out = |bdf: &Bdf| self.left_out.iter().any(|(_, left)| left == bdf);
        fabric.gpus.retain(|gpu| !out(gpu));
        fabric.paths.retain(|path| !out(&path.a) && !out(&path.b));
        fabric.peers.leave_out(|bdf| out(&bdf));
    }

    /// Narrows the expectations to the tested GPUs: groups of peers keep their tested members.
    pub fn narrow(&self, expect: &mut Expect, bus: &[Bdf]) {
        let Some(groups) = expect
            .peers
            .as_ref()
            .and_then(|groups| numbered(groups, bus).ok())
        else {
            return;
        };
        let kept = |number: &usize| {
            self.gpus
                .iter()
                .find(|(n, _)| n == number)
                .map(|(_, bdf)| GpuName::Address(*bdf))
        };
        let groups = groups
            .iter()
            .map(|group| group.iter().filter_map(kept).collect::<Vec<_>>());
        expect.peers = Some(groups.filter(|group| !group.is_empty()).collect());
    }

    /// `GPU 1 (0000:41:00.0), GPU 3 (0000:c1:00.0)`
    #[must_use]
    pub fn left_out(&self) -> String {
        let one = |(number, bdf): &(usize, Bdf)| format!("GPU {number} ({bdf})");
        self.left_out.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bus() -> Vec<Bdf> {
        (0..4)
            .map(|n| format!("0000:{n}1:00.0").parse().unwrap())
            .collect()
    }

    fn names(names: &[&str]) -> Vec<GpuName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn gpus_are_selected_by_number_and_address_and_the_others_are_named() {
        let limit = Limit::of(&names(&["2", "01:00.0"]), &bus(), &[])
            .unwrap()
            .unwrap();
        assert_eq!(
            limit.gpus.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
            [0, 2]
        );
        assert_eq!(
            (limit.visible.as_str(), limit.left_out().as_str()),
            ("0,2", "GPU 1 (0000:11:00.0), GPU 3 (0000:31:00.0)")
        );
        assert_eq!(
            Limit::of(&names(&["0", "1", "2", "3"]), &bus(), &[]),
            Ok(None)
        );
        assert_eq!(
            Limit::of(&names(&["1", "0000:11:00.0"]), &bus(), &[]).unwrap_err(),
            "--gpus 0000:11:00.0: GPU 1 is named twice"
        );
        assert_eq!(
            Limit::of(&names(&["4"]), &bus(), &[]).unwrap_err(),
            "--gpus 4: there are 4 NVIDIA GPUs"
        );
    }

    #[test]
    fn cuda_counts_the_gpus_that_the_driver_holds() {
        let held = bus()[1..].to_vec();
        assert_eq!(
            Limit::of(&names(&["2"]), &bus(), &held)
                .unwrap()
                .unwrap()
                .visible,
            "1"
        );
    }

    #[test]
    fn groups_keep_their_tested_members() {
        let limit = Limit::of(&names(&["0", "1", "2"]), &bus(), &[])
            .unwrap()
            .unwrap();
        let group = |numbers: &[usize]| {
            numbers
                .iter()
                .map(|n| GpuName::Number(*n))
                .collect::<Vec<_>>()
        };
        let mut expect = Expect {
            peers: Some(vec![group(&[0, 1]), group(&[2]), group(&[3])]),
            ..Expect::default()
        };
        limit.narrow(&mut expect, &bus());
        let kept: Vec<_> = expect.peers.unwrap().iter().map(Vec::len).collect();
        assert_eq!(kept, [2, 1]);
    }
}
