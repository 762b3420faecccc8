//! RDMA devices and the PCI functions that they stand on. Soft devices (rxe, siw) stand on none
//! and are no NICs to `nvidia-smi` either.

use super::attributes::unreadable;
use crate::finding::Finding;
use crate::pcie::model::{Device, Rdma};
use crate::root::Root;
use std::io::ErrorKind;

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
    let mut devices: Vec<Rdma> = names.filter_map(|name| one(root, name, listed, findings)).collect();
    devices.sort_by(|a, b| (a.bdf, &a.name).cmp(&(b.bdf, &b.name)));
    devices
}

fn one(root: &Root, name: String, listed: &[Device], findings: &mut Vec<Finding>) -> Option<Rdma> {
    let file = format!("{CLASS}/{name}/device");
    let target = match root.link(&file) {
        Ok(target) => target,
        Err(e) if e.kind() == ErrorKind::NotFound => return None,
        Err(e) => {
            findings.push(unreadable(&file, &name, &e));
            return None;
        }
    };
    let bdf = target.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok());
    let bdf = bdf.filter(|bdf| listed.iter().any(|d| d.bdf == *bdf));
    if bdf.is_none() {
        let why = format!("it links to {}, which is no listed PCI function", target.display());
        findings.push(unreadable(&file, &name, &why));
    }
    bdf.map(|bdf| Rdma { name, bdf })
}
