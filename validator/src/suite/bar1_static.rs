//! Has the driver mapped all of a GPU's memory into BAR1 for good? Peers write to bus addresses
//! inside of BAR1; what is mapped there only for a while would be another's memory a moment later.
//! The driver tells it in the kernel's log alone, once each time that it starts a GPU.

use super::machine::{Machine, known};
use super::{Group, READING, Test, peer};
use crate::config::Level;
use crate::finding::{Code, Finding, Severity};
use crate::host::kmsg::{self, Line};
use crate::host::nvidia::account::Account;
use crate::host::nvidia::log::{self, Bar1Peer};
use crate::outcome::Judgement;
use crate::pcie::model::Device;
use std::time::Duration;

pub(super) const TEST: Test = Test {
    id: "bar1-static",
    title: "Static BAR1",
    proves: "the kernel's log says that the driver mapped the memory of every GPU that needs it into BAR1 for good",
    level: Level::Quick,
    deadline: READING,
    mandatory: false,
    group: Group::Host,
    run,
};

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(nothing) = machine.idle()? {
        return Ok(nothing);
    }
    let gpus = peer::through_bar1(machine.fabric()?, known(&machine.nvidia.gpus)?);
    if gpus.is_empty() {
        return Ok(Judgement::not_applicable("no GPU here is reached through BAR1"));
    }
    let patched = known(&machine.nvidia.account)?.as_ref().is_some_and(is_patched);
    Ok(judge(machine.log()?, &gpus, patched))
}

/// The image's module carries the patch, and init holds GPUs open, so they were started.
fn is_patched(account: &Account) -> bool {
    let level = account.module("nvidia").and_then(|m| m.patch.as_deref());
    level.is_some_and(|level| !level.is_empty()) && !account.held.is_empty()
}

fn judge(lines: &[Line], gpus: &[&Device], patched: bool) -> Judgement {
    let off: Vec<_> = gpus.iter().filter_map(|gpu| switched_off(gpu, lines)).collect();
    if let Some(first) = off.first() {
        return Judgement::of(first.message.clone(), off);
    }
    let (maps, pairs) = (log::static_maps(lines).len(), log::peer_maps(lines));
    // Lines of other drivers do not name the GPU; then their number has to do.
    let mapped = gpus.iter().filter(|gpu| last(gpu, lines).is_some()).count().max(maps.min(gpus.len()));
    let expected = match () {
        () if mapped + pairs > 0 => gpus.len(),
        () if patched => gpus.iter().filter(|gpu| peer::is_ada(gpu)).count(),
        () => 0,
    };
    match (expected, log::begins(lines)) {
        (0, _) => Judgement::not_applicable("nothing says that this driver maps BAR1 for good"),
        _ if mapped >= expected => Judgement::of(format!("{mapped} of {expected} GPUs"), Vec::new()),
        (_, begins) => Judgement::by(missing(mapped, expected, begins, lines)),
    }
}

/// The last thing that our patches say of a GPU.
fn last<'a>(gpu: &Device, lines: &'a [Line]) -> Option<Bar1Peer<'a>> {
    let address = gpu.bdf.to_string();
    log::bar1_peers(lines).into_iter().rev().find(|line| line.gpu == address)
}

fn switched_off(gpu: &Device, lines: &[Line]) -> Option<Finding> {
    let why = last(gpu, lines)?.off?;
    let message = format!("the driver does not map {} into BAR1: {why}", gpu.bdf);
    let finding = Code::Bar1NotStatic.finding(Severity::Fail, &gpu.bdf, message);
    let words = format!("BAR1 peer-to-peer of {}", gpu.bdf);
    Some(finding.because(why).seen_all(kmsg::mentioning(lines, &[&words], 8)))
}

fn missing(mapped: usize, expected: usize, begins: Option<Duration>, lines: &[Line]) -> Finding {
    let (severity, since) = match begins {
        None => (Severity::Fail, String::new()),
        // What a log that forgot its beginning does not say may have stood there.
        Some(at) => (Severity::Error, format!("; lines before {} s are gone", at.as_secs())),
    };
    let message = format!("{mapped} of {expected} GPUs have their memory in BAR1 for good{since}");
    let seen = kmsg::mentioning(lines, &["tatic bar1", "BAR1 P2P mapping", "BAR1 peer-to-peer"], 8);
    let finding = Code::Bar1NotStatic.finding(severity, "nvidia", message);
    finding.values(mapped, expected, Some("GPUs")).seen_all(seen)
}

#[cfg(test)]
mod tests;
