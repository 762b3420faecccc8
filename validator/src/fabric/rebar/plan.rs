//! What the Resizable BAR pass wants, as data: which GPU's BAR1 should become how large, and what it
//! leaves alone and why. Pure.

use super::resize::Resize;
use super::said;
use crate::machine::host::screen::Framebuffer;
use crate::machine::pcie::model::{Device, Fabric, Untold};
use crate::machine::pcie::tree::Tree;
use crate::outcome::finding::{Finding, Severity};
use serde::{Deserialize, Serialize};

/// What is done about Resizable BARs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum RebarChoice {
    /// Grown where they are small.
    Fix,
    /// Only looked at.
    Check,
}

/// What the pass would do to a fabric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Whether anything may be changed.
    #[serde(skip)]
    pub choice: RebarChoice,
    /// How many GPUs there are to look at.
    #[serde(skip)]
    pub gpus: usize,
    /// How many of them have their largest size already.
    #[serde(skip)]
    pub full: usize,
    /// What to resize, in the order of the addresses.
    pub rebar: Vec<Resize>,
    /// What is left alone although it is small.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

/// What is to be done about the BAR1s of `fabric`, on which `screens` are shown.
#[must_use]
pub fn plan(fabric: &Fabric, choice: RebarChoice, screens: &[Framebuffer]) -> Plan {
    let tree = Tree::of(fabric);
    let first = |d: &&Device| fabric.gpus.contains(&d.bdf) && d.bdf.function == 0;
    let gpus: Vec<&Device> = fabric.devices.iter().filter(first).collect();
    let mut plan = Plan { choice, gpus: gpus.len(), full: 0, rebar: Vec::new(), findings: Vec::new() };
    for gpu in gpus {
        match step(gpu, &tree, screens) {
            Step::Full => plan.full += 1,
            Step::Grow(resize) => plan.rebar.push(resize),
            Step::Leave(finding) => {
                // A size that is fixed and large is all that there can be.
                plan.full += usize::from(finding.severity == Severity::Info);
                plan.findings.push(*finding);
            }
            Step::Nothing => {}
        }
    }
    let locked = fabric.lockdown.as_deref().filter(|mode| *mode != "none");
    if choice == RebarChoice::Check {
        plan.rebar.clear();
    } else if let Some(mode) = locked.filter(|_| !plan.rebar.is_empty()) {
        plan.rebar.clear();
        plan.findings.push(said::locked(mode));
    }
    plan
}

/// What is to be done about one GPU.
enum Step {
    /// Other findings tell that nothing can be told about it.
    Nothing,
    /// BAR1 is as large as it can be.
    Full,
    /// BAR1 should grow.
    Grow(Resize),
    /// BAR1 is left as it is.
    Leave(Box<Finding>),
}

fn step(gpu: &Device, tree: &Tree<'_>, screens: &[Framebuffer]) -> Step {
    if gpu.config.gone || gpu.config.bytes == 0 || gpu.config.untold.contains(&Untold::Rebar) {
        return Step::Nothing;
    }
    let leave = |finding| Step::Leave(Box::new(finding));
    let sizes = gpu.aperture_sizes().and_then(|r| Some((r, r.supported_bytes.last().copied()?)));
    let Some((rebar, wanted)) = sizes else { return leave(said::absent(gpu)) };
    // The kernel's line is empty when it found no addresses: then the hardware says how large it is.
    let bar = gpu.aperture().filter(|b| b.start != 0);
    let present = bar.map_or(rebar.current_bytes, |b| b.bytes);
    // Whoever made them differ is not undone by making BAR1 larger.
    if let Some(finding) = said::disagrees(gpu) {
        return leave(finding);
    }
    if bar.is_some() && present >= wanted {
        return Step::Full;
    }
    if let Some(driver) = &gpu.driver {
        return leave(said::busy(gpu, present, wanted, &format!("the driver {driver} is bound to it")));
    }
    let at = gpu.bdf.to_string();
    if let Some(screen) = screens.iter().find(|s| s.device.split('/').any(|name| name == at)) {
        return leave(said::screen(gpu, present, wanted, &screen.name));
    }
    Step::Grow(Resize {
        bdf: gpu.bdf,
        bar: rebar.bar,
        before_bytes: present,
        assigned: bar.is_some(),
        wanted_bytes: wanted,
        supported_bytes: rebar.supported_bytes.clone(),
        port: tree.above(gpu.bdf).last().map(|d| d.bdf),
    })
}
