//! Does the fabric pass change exactly what it says, and can it be undone?

mod undone;
mod written;

use crate::modelled::{Copy, bdf};
use firstlight::fabric::acs::AcsPolicy;
use firstlight::fabric::apply::{Applied, fix};
use firstlight::fabric::journal::Journal;
use firstlight::fabric::plan::plan;
use firstlight::fabric::restore::restore;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

fn journal(copy: &Copy) -> PathBuf {
    copy.at("run/firstlight/fabric.json")
}

#[track_caller]
fn fixed(copy: &Copy, policy: AcsPolicy) -> Applied {
    fix(&copy.root(), &plan(&copy.fabric(), policy), &journal(copy)).unwrap()
}

/// Every configuration space of the machine.
fn configs(copy: &Copy) -> BTreeMap<String, Vec<u8>> {
    let devices = copy.fabric().devices;
    devices
        .iter()
        .map(|d| (d.bdf.to_string(), fs::read(copy.file(&d.bdf.to_string(), "config")).unwrap()))
        .collect()
}

/// Where two machines differ: function, offset, before, after.
fn changes(before: &BTreeMap<String, Vec<u8>>, copy: &Copy) -> Vec<(String, usize, u8, u8)> {
    let after = configs(copy);
    let changed = before.iter().flat_map(|(bdf, old)| {
        let pairs = old.iter().zip(&after[bdf]).enumerate();
        pairs.filter(|(_, (a, b))| a != b).map(move |(at, (a, b))| (bdf.clone(), at, *a, *b))
    });
    changed.collect()
}
