//! Does the Resizable BAR pass end with BAR1 where it says, or with everything as it was, whatever
//! the kernel answers?

mod answers;
mod killed;
mod restored;
mod room;
mod wanted;

use crate::kernel::{Lie, Simulated};
use crate::modelled::{Copy, bdf};
use firstlight::fabric::journal::Journal;
use firstlight::fabric::rebar::plan::{Plan, plan};
use firstlight::fabric::rebar::{Fixed, Kernel, RebarChoice, fix, restore};
use firstlight::fabric::restore::Restored;
use firstlight::machine::pcie::model::Fabric;
use firstlight::outcome::finding::{Finding, Severity};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

const GIB: u64 = 1 << 30;
const FIRMWARE: u64 = 256 << 20;
const ALONE: &str = "0000:06:00.0";
const SWITCHED: [&str; 2] = ["0000:03:00.0", "0000:04:00.0"];
const CARD: &str = "0000:05:00.0";
const JOURNAL: &str = "run/firstlight/fabric.json";

fn machine() -> Copy {
    Copy::of("rebar-small")
}

fn planned(copy: &Copy) -> Plan {
    plan(&copy.fabric(), RebarChoice::Fix, &[])
}

#[track_caller]
fn fixed(copy: &Copy, kernel: &dyn Kernel) -> Fixed {
    fix(&copy.root(), kernel, &planned(copy), &copy.at("run/firstlight/fabric.json")).unwrap()
}

fn said(findings: &[Finding], gpu: &str) -> Vec<(String, Severity)> {
    findings.iter().filter(|f| f.subject == gpu).map(|f| (f.code.clone(), f.severity)).collect()
}

/// BAR1 of each GPU as all three witnesses have it; a message where they differ.
fn sizes(fabric: &Fabric) -> BTreeMap<String, Result<u64, String>> {
    let wrong =
        |bdf: String| fabric.findings.iter().find(|f| f.subject == bdf && f.severity >= Severity::Fail);
    let gpus = fabric.devices.iter().filter(|d| fabric.gpus.contains(&d.bdf));
    let size = |d: &firstlight::machine::pcie::model::Device| match (
        wrong(d.bdf.to_string()),
        d.aperture(),
        d.aperture_sizes(),
    ) {
        (Some(finding), _, _) => Err(finding.message.clone()),
        (_, Some(bar), Some(rebar)) if bar.bytes == rebar.current_bytes => Ok(bar.bytes),
        (_, bar, rebar) => Err(format!("{bar:?} {rebar:?}")),
    };
    gpus.map(|d| (d.bdf.to_string(), size(d))).collect()
}

#[track_caller]
fn has(copy: &Copy, gpu: &str, bytes: u64) {
    assert_eq!(sizes(&copy.fabric())[gpu], Ok(bytes), "{gpu}");
}

/// Every configuration space and `resource` of the machine.
fn files(copy: &Copy) -> BTreeMap<String, (Vec<u8>, String)> {
    let read = |bdf: &str| {
        (fs::read(copy.file(bdf, "config")).unwrap(), fs::read_to_string(copy.file(bdf, "resource")).unwrap())
    };
    copy.fabric().devices.iter().map(|d| (d.bdf.to_string(), read(&d.bdf.to_string()))).collect()
}

fn lying<'a>(copy: &'a Copy, gpu: &str, lie: Lie) -> Simulated<'a> {
    Simulated { lies: BTreeMap::from([(bdf(gpu), lie)]), ..Simulated::new(copy) }
}
