//! `firstlight fabric` and `topo`: what the fabric is, what would be done, doing it, undoing it.

use super::output::either;
use super::{CommandError, FAILING, FINE, status};
use crate::args::{Fabric as Action, Place};
use crate::config::Config;
use crate::pcie::acs::AcsPolicy;
use crate::pcie::apply::{self, Applied};
use crate::pcie::model::Fabric;
use crate::pcie::plan::{Plan, plan};
use crate::pcie::restore::{self, Restored};
use crate::pcie::text;
use crate::pcie::topo::{NvLinks, Topology};
use crate::root::Root;
use serde::Serialize;
use std::path::PathBuf;

/// What a command did, for files: which form, which machine, and the thing itself.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'static str,
    root: &'a str,
    #[serde(flatten)]
    content: &'a T,
}

/// `fabric ACTION`
pub(super) fn run(root: &Root, config: &Config, action: Action) -> Result<u8, CommandError> {
    let asked = |acs: Option<AcsPolicy>| acs.unwrap_or(config.fabric.acs);
    match action {
        Action::Show { json } => show(root, json.as_ref()),
        Action::Plan { acs, json, .. } => planned(root, asked(acs), json.as_ref()),
        Action::Fix { acs, journal, json, .. } => fix(root, asked(acs), journal, json.as_ref()),
        Action::Restore { journal, json } => restored(root, journal, json.as_ref()),
    }
}

fn read(root: &Root) -> Result<Fabric, CommandError> {
    Fabric::read(root).map_err(|e| CommandError::undone(&e))
}

fn show(root: &Root, json: Option<&Place>) -> Result<u8, CommandError> {
    let fabric = read(root)?;
    either(json, &fabric, &text::show(&fabric))?;
    Ok(status(&fabric.findings))
}

fn planned(root: &Root, policy: AcsPolicy, json: Option<&Place>) -> Result<u8, CommandError> {
    let fabric = read(root)?;
    let content: &Plan = &plan(&fabric, policy);
    let document = Document { schema: "firstlight.plan/1", root: &fabric.root, content };
    either(json, &document, &text::plan(&fabric, content))?;
    Ok(status(&content.findings))
}

fn fix(
    root: &Root,
    policy: AcsPolicy,
    journal: Option<PathBuf>,
    json: Option<&Place>,
) -> Result<u8, CommandError> {
    let fabric = read(root)?;
    let plan = plan(&fabric, policy);
    let content: &Applied =
        &apply::fix(root, &plan, &journal_of(root, journal)).map_err(|e| CommandError::undone(&e))?;
    let document = Document { schema: "firstlight.fix/1", root: &fabric.root, content };
    either(json, &document, &text::fixed(&fabric, &plan, content))?;
    Ok(status(&content.findings))
}

fn restored(root: &Root, journal: Option<PathBuf>, json: Option<&Place>) -> Result<u8, CommandError> {
    let content: &Restored =
        &restore::restore(root, &journal_of(root, journal)).map_err(|e| CommandError::undone(&e))?;
    let here = root.path().display().to_string();
    let document = Document { schema: "firstlight.restore/1", root: &here, content };
    either(json, &document, &text::restored(&here, content))?;
    Ok(if content.steps.iter().all(restore::Step::is_done) { FINE } else { FAILING })
}

/// A recorded machine keeps its own journal.
fn journal_of(root: &Root, given: Option<PathBuf>) -> PathBuf {
    given.unwrap_or_else(|| root.join("run/firstlight/fabric.json"))
}

/// `topo`
pub(super) fn topo(root: &Root, json: Option<&Place>) -> Result<u8, CommandError> {
    let topology = Topology::from(&read(root)?, &NvLinks::new());
    either(json, &topology, &topology.text())?;
    Ok(FINE)
}
