//! A GPU's own link: what it is under load against what it can be, and copies to and from the
//! host's memory against what the links up to the root carry.

use super::carrier::{Floor, Grade};
use super::told;
use crate::finding::{Code, Finding, Severity};
use crate::pcie::link::raw_gb_s;
use crate::pcie::model::{Bdf, Link};
use crate::pcie::tree::Tree;

/// Copies between host and GPU reach at least this part of the raw link: on record 0.87 (H200,
/// Gen5 x16: 54.9 of 63.0 GB/s); the encoding of packets alone takes 10 to 20 %.
const HOST: f64 = 0.75;

/// A GPU's link, read while data moves: narrower or slower than it can be. `can_gts`,
/// `can_width`: what both its ends can.
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
    Some(finding.values(told(measured), told(expected), Some("GB/s")))
}

/// What the narrowest link between `gpu` and the root carries in one direction, GB/s; `None` when
/// no link on the way tells.
#[must_use]
pub fn raw_to_host(tree: &Tree, gpu: Bdf) -> Option<f64> {
    let devices = tree.get(gpu).into_iter().chain(tree.above(gpu));
    let raw = devices.filter_map(|d| d.link.as_ref()).map(|l| raw_gb_s(l.gts, l.width));
    raw.reduce(f64::min).filter(|raw| *raw > 0.0)
}

/// One copy between host and GPU; `what`: as in `from the host`; `raw`: what the links carry. It is
/// a warning however slow: peer-to-peer does not go through the host's memory.
#[must_use]
pub fn host(gpu: usize, what: &str, gb_s: f64, raw: Option<f64>) -> Option<Finding> {
    let subject = format!("GPU {gpu}");
    let Some(raw) = raw else {
        let message = format!("{subject}: {gb_s:.2} GB/s {what}, and what its link can carry cannot be told");
        let finding = Code::HostSlow.finding(Severity::Warn, &subject, message);
        return Some(finding.values(told(gb_s), serde_json::Value::Null, Some("GB/s")));
    };
    let floor = Floor { least: raw * HOST, because: String::new() };
    if floor.grade(gb_s) == Grade::Good {
        return None;
    }
    let least = floor.least;
    let message = format!(
        "{subject}: {gb_s:.2} GB/s {what}, expected at least {least:.2} GB/s ({HOST} of the {raw:.1} GB/s \
         that its link carries)"
    );
    let finding = Code::HostSlow.finding(Severity::Warn, &subject, message);
    Some(finding.values(told(gb_s), told(least), Some("GB/s")))
}
