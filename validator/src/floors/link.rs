//! A GPU's own link: its state under load against its capability, and copies to and from the host's memory against what the
//! links up to the root carry. Also the upper limits of figures: what links carry at their best.

use super::carrier::{Floor, Grade};
use super::rounded;
use machine::GpuId;
use machine::pcie::link::raw_gb_s;
use machine::pcie::model::{Bdf, Link};
use machine::pcie::tree::Tree;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::metric::Metric;
use outcome::text::names::name_in_sentence;

/// Copies between host and GPU reach at least this fraction of the raw link: on record 0.87 (H200, Gen5 x16:
/// 54.9 of 63.0 GB/s); the encoding of packets alone takes 10 to 20 %.
const HOST: f64 = 0.75;

/// A GPU's link, read while data moves, that is narrower or slower than it can be. `can_gts`, `can_width`:
/// the capability of both ends.
#[must_use]
pub fn slow_link(
    gpu: GpuId,
    bdf: Bdf,
    now: &Link,
    can_gts: f64,
    can_width: u32,
) -> Option<Finding> {
    if now.gts >= can_gts && now.width >= can_width {
        return None;
    }
    let words = |gts: f64, width: u32| format!("x{width} at {gts} GT/s");
    let (is, can) = (words(now.gts, now.width), words(can_gts, can_width));
    let message = format!("GPU {gpu} ({bdf}): {is} under load, expected {can}");
    let (measured, expected) = (raw_gb_s(now.gts, now.width), raw_gb_s(can_gts, can_width));
    let finding = Code::GpuLinkLoad.finding(Severity::Warn, gpu, message);
    Some(finding.values(rounded(measured), rounded(expected), Some("GB/s")))
}

/// What the narrowest link between `gpu` and the root carries in one direction, GB/s; `None` when no link on
/// the path reports it.
#[must_use]
pub fn raw_to_host(tree: &Tree, gpu: Bdf) -> Option<f64> {
    let devices = tree.get(gpu).into_iter().chain(tree.above(gpu));
    let raw = devices
        .filter_map(|d| d.link.as_ref())
        .map(|l| raw_gb_s(l.gts, l.width));
    raw.reduce(f64::min).filter(|raw| *raw > 0.0)
}

/// One copy between host and GPU; `what`: as in `from the host`; `again`: the second measurement; `raw`: what
/// the links carry. It is at most a warning: peer-to-peer does not use host memory. A figure slightly below
/// the floor is only information: other tenants of a shared host keep its memory busy.
#[must_use]
pub fn slow_host_copy(
    gpu: GpuId,
    what: &str,
    (first, again): (f64, Option<f64>),
    raw: Option<f64>,
) -> Option<Finding> {
    let gb_s = again.map_or(first, |again| again.max(first));
    let again = again.map_or(String::new(), |again| {
        format!(" ({again:.2} when measured again)")
    });
    let Some(raw) = raw else {
        let message = format!(
            "GPU {gpu}: {first:.2} GB/s{again} {what}, but what its link can carry is unknown"
        );
        let finding = Code::HostSlow.finding(Severity::Warn, gpu, message);
        return Some(finding.values(rounded(gb_s), serde_json::Value::Null, Some("GB/s")));
    };
    let floor = Floor {
        least: raw * HOST,
        because: String::new(),
    };
    let severity = match floor.grade(gb_s) {
        Grade::Good => return None,
        Grade::Low => Severity::Info,
        Grade::Bad => Severity::Warn,
    };
    let least = floor.least;
    let message = format!(
        "GPU {gpu}: {first:.2} GB/s{again} {what}, expected at least {least:.2} GB/s ({HOST} of the {raw:.1} GB/s \
         that its link carries)"
    );
    let finding = Code::HostSlow.finding(severity, gpu, message);
    Some(finding.values(rounded(gb_s), rounded(least), Some("GB/s")))
}

/// NVML's and the kernel's readings of one GPU's link, taken at the same time under load. A lower reading of
/// NVML would lower only what is expected; the kernel's may come from a recording or a virtual machine.
#[must_use]
pub fn link_disagreement(gpu: GpuId, bdf: Bdf, nvml: &Link, sysfs: &Link) -> Option<Finding> {
    let (by_nvml, by_kernel) = (
        raw_gb_s(nvml.gts, nvml.width),
        raw_gb_s(sysfs.gts, sysfs.width),
    );
    if (by_nvml - by_kernel).abs() < f64::EPSILON {
        return None;
    }
    let severity = if by_nvml < by_kernel {
        Severity::Warn
    } else {
        Severity::Info
    };
    let words = |link: &Link| format!("x{} at {} GT/s", link.width, link.gts);
    let message = format!(
        "GPU {gpu} ({bdf}): under load NVML reports {}, but the kernel {}, expected the same",
        words(nvml),
        words(sysfs)
    );
    let finding = Code::LinkContradicted.finding(severity, gpu, message);
    Some(finding.values(rounded(by_nvml), rounded(by_kernel), Some("GB/s")))
}

/// Data never reaches a link's raw rate, because packets have headers; this much is allowed for rounding.
const ROUNDING: f64 = 1.02;

/// A figure above what is physically possible. `subject`: a pair or a GPU; `what`: the matrix; `most`: GB/s
/// that the links carry at their best, `None` where unknown.
#[must_use]
pub fn impossible_speed(
    subject: impl Into<Subject>,
    what: Metric,
    gb_s: f64,
    most: Option<f64>,
) -> Option<Finding> {
    let most = most.filter(|most| gb_s > most * ROUNDING)?;
    let subject = subject.into();
    let name = name_in_sentence(what.name());
    let message = format!(
        "{subject}: {name}: {gb_s:.2} GB/s, expected at most {most:.2} GB/s, which its links carry at their best: \
         either the figure or the reported link state is wrong"
    );
    let finding = Code::SpeedImpossible.finding(Severity::Error, subject, message);
    Some(finding.values(rounded(gb_s), rounded(most), Some("GB/s")))
}

/// A figure above what the links on the path report to carry now, `raw`, though not above what they carry at
/// their best. `own`: what the ends' own links report; if that explains the figure, a port between them is
/// reported wrongly, as in virtual machines.
#[must_use]
pub fn contradicted_link(
    subject: impl Into<Subject>,
    gb_s: f64,
    raw: Option<f64>,
    own: Option<f64>,
) -> Option<Finding> {
    let raw = raw.filter(|raw| gb_s > raw * ROUNDING)?;
    let explained = own.is_some_and(|own| gb_s <= own * ROUNDING);
    let severity = if explained {
        Severity::Info
    } else {
        Severity::Warn
    };
    let subject = subject.into();
    let message = format!(
        "{subject}: {gb_s:.2} GB/s moved over links that report {raw:.2} GB/s under load, expected at most that"
    );
    let finding = Code::LinkContradicted.finding(severity, subject, message);
    Some(finding.values(rounded(gb_s), rounded(raw), Some("GB/s")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Pair;

    const PAIR: Pair = Pair::of(0, 1);

    #[test]
    fn more_than_a_link_carries_at_its_best_is_an_error() {
        assert_eq!(
            impossible_speed(PAIR, Metric::CE_WRITE, 31.6, Some(31.5)),
            None
        );
        assert_eq!(
            impossible_speed(PAIR, Metric::CE_WRITE, 26_000.0, None),
            None,
            "nothing is known"
        );
        let finding = impossible_speed(PAIR, Metric::CE_WRITE, 52.0, Some(31.5)).unwrap();
        assert!(finding.is(Code::SpeedImpossible) && finding.severity == Severity::Error);
        assert!(finding.message.starts_with(
            "GPU 0 -> 1: copy engine, write: 52.00 GB/s, expected at most 31.50 GB/s"
        ));
    }

    #[test]
    fn more_than_a_link_reports_to_carry_contradicts_it() {
        let severity = |own| contradicted_link(PAIR, 25.0, Some(0.25), own).map(|f| f.severity);
        assert_eq!(
            [severity(Some(0.25)), severity(None), severity(Some(31.5))],
            [
                Some(Severity::Warn),
                Some(Severity::Warn),
                Some(Severity::Info)
            ]
        );
        assert_eq!(contradicted_link(PAIR, 25.0, Some(31.5), None), None);
        assert_eq!(contradicted_link(PAIR, 25.0, None, None), None);
    }
}
