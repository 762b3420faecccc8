//! RDMA devices and the PCI functions that they belong to. Soft devices (rxe, siw) belong to none;
//! `nvidia-smi` does not count them as NICs either.

use super::attributes::unreadable;
use crate::machine::pcie::model::{Bdf, Device, Rdma};
use crate::machine::root::Root;
use crate::outcome::finding::Finding;
use crate::text::shown::shown;
use std::io::ErrorKind;
use std::path::Path;

const CLASS: &str = "sys/class/infiniband";

/// Sorted by address, then name. A kernel without RDMA has no such class: no devices.
pub(super) fn read(root: &Root, listed: &[Device], findings: &mut Vec<Finding>) -> Vec<Rdma> {
    let names = match root.names(CLASS) {
        Ok(names) => names,
        Err(e) if e.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(e) => {
            findings.push(unreadable(CLASS, "machine", &e));
            return Vec::new();
        }
    };
    let names = names.into_iter().map(|n| n.to_string_lossy().into_owned());
    let mut devices: Vec<Rdma> = names.filter_map(|name| one(root, &name, listed, findings)).collect();
    devices.sort_by(|a, b| (a.bdf, &a.name).cmp(&(b.bdf, &b.name)));
    devices
}

fn one(root: &Root, name: &str, listed: &[Device], findings: &mut Vec<Finding>) -> Option<Rdma> {
    let file = format!("{CLASS}/{name}/device");
    let told = shown(name);
    let target = match root.link(&file) {
        Ok(target) => target,
        Err(e) if e.kind() == ErrorKind::NotFound => return None,
        Err(e) => {
            findings.push(unreadable(&file, &told, &e));
            return None;
        }
    };
    // Some drivers put an auxiliary device between the two (`irdma.roce.0`, `bnxt_en.rdma.0`): the path of the
    // RDMA device's own folder names the function then.
    let folder = root.place(&file).unwrap_or_default();
    let own = |bdf: &Bdf| listed.iter().any(|d| d.bdf == *bdf);
    let functions: Vec<Bdf> = [&target, &folder].into_iter().flat_map(|path| functions(path)).collect();
    if let Some(bdf) = functions.iter().copied().find(own) {
        return Some(Rdma { name: told, bdf });
    }
    // No PCI function above it: a soft device, or one of the platform's.
    let named = functions.first()?;
    let why = format!("it leads to {named}, which is not a listed PCI function");
    findings.push(unreadable(&file, &told, &why));
    None
}

/// The PCI functions that a path names, the last one first.
fn functions(path: &Path) -> Vec<Bdf> {
    path.iter().rev().filter_map(|name| name.to_str()?.parse().ok()).collect()
}
