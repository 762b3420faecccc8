//! `firstlight fabric show`: the state of the machine, its GPUs and NICs, the ports between them.

use super::{findings, headline};
use crate::acs::{self, AcsState};
use crate::turn::{Effect, Turns};
use machine::host::iommu::IommuMode;
use machine::pcie::model::{Bdf, Device, Fabric, Kind, Link, Path, PathKind};
use machine::pcie::topo::Cell;
use machine::pcie::tree::Tree;
use outcome::finding::FindingEntry;
use outcome::text::size;
use outcome::text::wrapped;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The whole fabric as text.
#[must_use]
pub fn show(fabric: &Fabric<FindingEntry>) -> String {
    let tree = Tree::of(fabric);
    let ports = acs::ports_on_paths(fabric);
    let mut text = headline("fabric show", &fabric.root);
    text.push_str(&wrapped("  iommu    ", "           ", &iommu(fabric)));
    let cpus = fabric.cpus;
    let _ = writeln!(
        text,
        "  cpus     {} possible, {} present, {} online",
        cpus.possible, cpus.present, cpus.online
    );
    let (gpus, nics) = (fabric.gpus.len(), fabric.nics.len());
    let (functions, crossed) = (fabric.devices.len(), ports.len());
    let _ = writeln!(
        text,
        "  devices  functions {functions}, GPUs {gpus}, NICs {nics}, ports on GPU paths {crossed}"
    );
    for (title, ends) in [("GPU", &fabric.gpus), ("NIC", &fabric.nics)] {
        section(
            &mut text,
            &format!("{title:<12}  id         link"),
            &tree,
            ends.iter(),
            end,
        );
    }
    let turns = Turns::of(fabric);
    section(
        &mut text,
        "port          kind        ACS",
        &tree,
        ports.iter(),
        |d| port(d, &turns),
    );
    text.push_str(&paths(fabric));
    if !fabric.findings.is_empty() {
        text.push_str("\nfindings\n");
        text.push_str(&findings(&fabric.findings));
    }
    text
}

fn section<'a>(
    text: &mut String,
    title: &str,
    tree: &Tree,
    members: impl Iterator<Item = &'a Bdf>,
    line: impl Fn(&Device) -> String,
) {
    let lines: String = members.filter_map(|b| tree.get(*b)).map(line).collect();
    if !lines.is_empty() {
        let _ = write!(text, "\n{title}\n{lines}");
    }
}

fn iommu(fabric: &Fabric<FindingEntry>) -> String {
    let iommu = &fabric.iommu;
    let mode = match iommu.mode {
        IommuMode::Off => "off",
        IommuMode::Identity => "identity",
        IommuMode::Translated => "translated",
        IommuMode::Unknown => "unknown",
    };
    let list = |names: &[String]| {
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(" ")
        }
    };
    format!(
        "{mode}: class devices {}; {} groups; firmware tables {}",
        list(&iommu.classes),
        iommu.groups,
        list(&iommu.firmware_tables)
    )
}

fn end(device: &Device) -> String {
    let hex = |id: &str| id.trim_start_matches("0x").to_owned();
    let ids = format!("{}:{}", hex(&device.vendor), hex(&device.device));
    let link = device
        .link
        .as_ref()
        .map_or_else(|| "no link".to_owned(), words);
    let bar = device
        .aperture()
        .map(|b| format!("  BAR1 {}", size(b.bytes)));
    let gone = if device.config.gone { "  GONE" } else { "" };
    let driver = device.driver.as_deref().unwrap_or("-");
    format!(
        "{}  {ids}  {link:<24}{}  {driver}{gone}\n",
        device.bdf,
        bar.unwrap_or_default()
    )
}

fn words(link: &Link) -> String {
    format!(
        "x{} of x{} at {} GT/s",
        link.width, link.max_width, link.gts
    )
}

fn port(device: &Device, turns: &Turns) -> String {
    let kind = match device.kind {
        Kind::RootPort => "root-port",
        Kind::Upstream => "upstream",
        Kind::Downstream => "downstream",
        Kind::Endpoint => "endpoint",
        Kind::Bridge => "bridge",
        Kind::Other => "other",
    };
    let acs = match acs::state(device) {
        AcsState::Absent => "none".to_owned(),
        AcsState::NoEcam => "unknown: no ECAM".to_owned(),
        AcsState::Unknown => "unknown".to_owned(),
        AcsState::Known(acs) => {
            let effect = match turns.effect(device.bdf, acs) {
                Effect::Direct => "redirect off",
                Effect::Redirects if turns.contains(device.bdf) => "redirects",
                Effect::Redirects => "no path turns here",
                Effect::TranslatedPass => "translated requests pass",
            };
            let bits = acs
                .enabled
                .iter()
                .map(|b| format!(" {b}"))
                .collect::<String>();
            format!("{:#06x}{bits}  {effect}", acs.ctrl)
        }
    };
    format!("{}  {kind:<10}  {acs}\n", device.bdf)
}

/// The number of pairs at each distance, and the slowest of them.
fn paths(fabric: &Fabric<FindingEntry>) -> String {
    let (peers, network): (Vec<&Path>, Vec<&Path>) = fabric
        .paths
        .iter()
        .partition(|p| fabric.gpus.contains(&p.b));
    let line = |title: &str, paths: &[&Path]| {
        let mut kinds: BTreeMap<PathKind, usize> = BTreeMap::new();
        for path in paths {
            *kinds.entry(path.kind).or_default() += 1;
        }
        let kinds: Vec<String> = kinds
            .iter()
            .map(|(k, n)| format!("{n} {}", Cell::Pcie(*k)))
            .collect();
        let slowest = paths.iter().map(|p| p.raw_gb_s).reduce(f64::min)?;
        Some(format!(
            "{title}  {}; slowest {slowest:.1} GB/s raw\n",
            kinds.join(", ")
        ))
    };
    let lines: String = [line("GPU-GPU", &peers), line("GPU-NIC", &network)]
        .into_iter()
        .flatten()
        .collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\npaths\n{lines}")
    }
}
