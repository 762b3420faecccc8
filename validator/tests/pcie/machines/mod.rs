//! Is each machine read as what it is?

mod links;
mod modelled;
mod unreadable;

use crate::modelled::{Copy, bdf, fabric, names};
use firstlight::machine::pcie::model::Fabric;
use firstlight::outcome::finding::Severity::{self, Error, Info, Warn};
use std::fs;
use std::os::unix::fs::symlink;

/// Code, severity and subject of every finding.
fn findings(fabric: &Fabric) -> Vec<(&str, Severity, &str)> {
    fabric.findings.iter().map(|f| (f.code.as_str(), f.severity, f.subject.as_str())).collect()
}
