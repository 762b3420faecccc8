//! The plan of the Resizable BAR pass, as data: which GPU's BAR1 should get which size, and what is not
//! changed and why. Pure.

use super::reasons;
use super::resize::Resize;
use machine::host::framebuffer::Framebuffer;
use machine::pcie::model::{Device, Fabric, Undetermined};
use machine::pcie::tree::Tree;
use outcome::finding::{Finding, Severity};
use serde::{Deserialize, Serialize};

/// What is done about Resizable BARs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum RebarChoice {
    /// Enlarged if they are small.
    Fix,
    /// Only checked.
    Check,
}

/// What the pass would do to a fabric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Whether changes are allowed.
    #[serde(skip)]
    pub choice: RebarChoice,
    /// How many GPUs there are.
    #[serde(skip)]
    pub gpus: usize,
    /// How many of them have their largest size already.
    #[serde(skip)]
    pub full: usize,
    /// What to resize, ordered by address.
    pub rebar: Vec<Resize>,
    /// What is not changed although it is small.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

/// What to do about the BAR1s of `fabric`; `screens` are its framebuffers.
#[must_use]
pub fn plan(fabric: &Fabric, choice: RebarChoice, screens: &[Framebuffer]) -> Plan {
    let tree = Tree::of(fabric);
    let first = |d: &&Device| fabric.gpus.contains(&d.bdf) && d.bdf.function == 0;
    let gpus: Vec<&Device> = fabric.devices.iter().filter(first).collect();
    let mut plan = Plan {
        choice,
        gpus: gpus.len(),
        full: 0,
        rebar: Vec::new(),
        findings: Vec::new(),
    };
    for gpu in gpus {
        match step(gpu, &tree, screens) {
            Step::Full => plan.full += 1,
            Step::Grow(resize) => plan.rebar.push(resize),
            Step::Leave(finding) => {
                // A fixed size that is not small counts as the largest one.
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
        plan.findings.push(reasons::locked(mode));
    }
    plan
}

/// What to do about one GPU.
enum Step {
    /// Its state is unknown; other findings report that.
    Nothing,
    /// BAR1 is as large as it can be.
    Full,
    /// BAR1 should be enlarged.
    Grow(Resize),
    /// BAR1 is not changed.
    Leave(Box<Finding>),
}

fn step(gpu: &Device, tree: &Tree<'_>, screens: &[Framebuffer]) -> Step {
    if gpu.config.gone
        || gpu.config.bytes == 0
        || gpu.config.undetermined.contains(&Undetermined::Rebar)
    {
        return Step::Nothing;
    }
    let leave = |finding| Step::Leave(Box::new(finding));
    let sizes = gpu
        .aperture_sizes()
        .and_then(|r| Some((r, r.supported_bytes.last().copied()?)));
    let Some((rebar, wanted)) = sizes else {
        return leave(reasons::absent(gpu));
    };
    // The kernel's line is empty if it found no addresses: then the hardware gives the size.
    let bar = gpu.aperture().filter(|b| b.start != 0);
    let present = bar.map_or(rebar.current_bytes, |b| b.bytes);
    // If they differ, enlarging BAR1 does not correct it.
    if let Some(finding) = reasons::disagrees(gpu) {
        return leave(finding);
    }
    if bar.is_some() && present >= wanted {
        // The largest size may be that of a VBIOS without Resizable BAR.
        let limited = || reasons::limited(gpu, wanted);
        return limited().map_or(Step::Full, leave);
    }
    if let Some(driver) = &gpu.driver {
        return leave(reasons::busy(
            gpu,
            present,
            wanted,
            &format!("the driver {driver} is bound to it"),
        ));
    }
    let at = gpu.bdf.to_string();
    if let Some(screen) = screens
        .iter()
        .find(|s| s.device.split('/').any(|name| name == at))
    {
        return leave(reasons::screen(gpu, present, wanted, &screen.name));
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
