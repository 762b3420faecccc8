//! A GPU's own link: its state under load against its capability, and copies to and from the host's memory
//! against what the links up to the root carry.

use super::carrier::{Floor, Grade};
use super::rounded;
use crate::machine::pcie::link::raw_gb_s;
use crate::machine::pcie::model::{Bdf, Link};
use crate::machine::pcie::tree::Tree;
use crate::outcome::finding::{Code, Finding, Severity};

/// Copies between host and GPU reach at least this part of the raw link: on record 0.87 (H200,
/// Gen5 x16: 54.9 of 63.0 GB/s); the encoding of packets alone takes 10 to 20 %.
const HOST: f64 = 0.75;

/// A GPU's link, read while data moves, that is narrower or slower than it can be. `can_gts`, `can_width`:
/// the capability of both ends.
#[must_use]
pub fn loaded(gpu: usize, bdf: Bdf, now: &Link, can_gts: f64, can_width: u32) -> Option<Finding> {
    if now.gts >= can_gts && now.width >= can_width {
        return None;
    }
    let told_link = |gts: f64, width: u32| format!("x{width} at {gts} GT/s");
    let (is, can) = (told_link(now.gts, now.width), told_link(can_gts, can_width));
    let message = format!("GPU {gpu} ({bdf}): {is} under load, expected {can}");
    let (measured, expected) = (raw_gb_s(now.gts, now.width), raw_gb_s(can_gts, can_width));
    let finding = Code::GpuLinkLoad.finding(Severity::Warn, &format!("GPU {gpu}"), message);
    Some(finding.values(rounded(measured), rounded(expected), Some("GB/s")))
}

/// What the narrowest link between `gpu` and the root carries in one direction, GB/s; `None` when no link on
/// the path reports it.
#[must_use]
pub fn raw_to_host(tree: &Tree, gpu: Bdf) -> Option<f64> {
    let devices = tree.get(gpu).into_iter().chain(tree.above(gpu));
    let raw = devices.filter_map(|d| d.link.as_ref()).map(|l| raw_gb_s(l.gts, l.width));
    raw.reduce(f64::min).filter(|raw| *raw > 0.0)
}

/// One copy between host and GPU; `what`: as in `from the host`; `again`: the second measurement; `raw`: what
/// the links carry. It is at most a warning: peer-to-peer does not use host memory. Slightly below the floor
/// it is not even that: other tenants of a shared host keep its memory busy.
#[must_use]
pub fn host(gpu: usize, what: &str, (first, again): (f64, Option<f64>), raw: Option<f64>) -> Option<Finding> {
    let subject = format!("GPU {gpu}");
    let gb_s = again.map_or(first, |again| again.max(first));
    let again = again.map_or(String::new(), |again| format!(" ({again:.2} when measured again)"));
    let Some(raw) = raw else {
        let message =
            format!("{subject}: {first:.2} GB/s{again} {what}, but what its link can carry is unknown");
        let finding = Code::HostSlow.finding(Severity::Warn, &subject, message);
        return Some(finding.values(rounded(gb_s), serde_json::Value::Null, Some("GB/s")));
    };
    let floor = Floor { least: raw * HOST, because: String::new() };
    let severity = match floor.grade(gb_s) {
        Grade::Good => return None,
        Grade::Low => Severity::Info,
        Grade::Bad => Severity::Warn,
    };
    let least = floor.least;
    let message = format!(
        "{subject}: {first:.2} GB/s{again} {what}, expected at least {least:.2} GB/s ({HOST} of the {raw:.1} GB/s \
         that its link carries)"
    );
    let finding = Code::HostSlow.finding(severity, &subject, message);
    Some(finding.values(rounded(gb_s), rounded(least), Some("GB/s")))
}

/// NVML's and the kernel's readings of one GPU's link, taken at the same time under load. A lower reading of
/// NVML would lower only what is expected; the kernel's may be a recording, or a virtual machine's.
#[must_use]
pub fn disagree(gpu: usize, bdf: Bdf, nvml: &Link, sysfs: &Link) -> Option<Finding> {
    let (by_nvml, by_kernel) = (raw_gb_s(nvml.gts, nvml.width), raw_gb_s(sysfs.gts, sysfs.width));
    if (by_nvml - by_kernel).abs() < f64::EPSILON {
        return None;
    }
    let severity = if by_nvml < by_kernel { Severity::Warn } else { Severity::Info };
    let told_link = |link: &Link| format!("x{} at {} GT/s", link.width, link.gts);
    let message = format!(
        "GPU {gpu} ({bdf}): under load NVML reports {}, but the kernel {}, expected the same",
        told_link(nvml),
        told_link(sysfs)
    );
    let finding = Code::LinkContradicted.finding(severity, &format!("GPU {gpu}"), message);
    Some(finding.values(rounded(by_nvml), rounded(by_kernel), Some("GB/s")))
}
