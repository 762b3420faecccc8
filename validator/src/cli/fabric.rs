//! `firstlight fabric` and `topo`: show the fabric, plan the changes, apply them, revert them; show the topology.

use super::args::{Fabric as Action, Place};
use super::output::write_json_or_text;
use super::{CommandError, FAILURE, NOT_DONE, SUCCESS, status};
use crate::config::Config;
use crate::engine;
use crate::suite::NVML_HANGS;
use contract::schema;
use fabric::acs::AcsPolicy;
use fabric::journal::Journal;
use fabric::pass::{self, DemandedPeers, PassOptions, PassPlan, PassResult};
use fabric::rebar::RebarChoice;
use fabric::restore::{self, Restored};
use fabric::text;
use machine::host::nvidia::gpus;
use machine::host::{identity, platform};
use machine::pcie::gpu_block::fabric_block;
use machine::pcie::model::{Bdf, Fabric};
use machine::pcie::topo::{NvLinks, Topology};
use machine::root::Root;
use outcome::finding::{Code, Finding, FindingEntry, Severity};
use outcome::platform::Host;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The JSON document of a command: schema, machine and content.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'static str,
    root: &'a str,
    #[serde(flatten)]
    content: &'a T,
}

/// `fabric ACTION`
pub(super) fn run(root: &Root, config: &Config, action: Action) -> Result<u8, CommandError> {
    let options = |acs: Option<AcsPolicy>, rebar: Option<RebarChoice>| PassOptions {
        acs: acs.unwrap_or(config.fabric.acs),
        rebar: rebar.unwrap_or(config.fabric.rebar),
    };
    let demanded = |fabric: &Fabric| config.expect.demanded(&fabric.gpus);
    match action {
        Action::Show { json } => show(root, json.as_ref()),
        Action::Plan { acs, rebar, json } => {
            make_plan(root, options(acs, rebar), &demanded, json.as_ref())
        }
        Action::Fix {
            acs,
            rebar,
            journal,
            json,
        } => fix(root, options(acs, rebar), &demanded, journal, json.as_ref()),
        Action::Restore { journal, json } => restored(root, journal, json.as_ref()),
    }
}

fn read(root: &Root) -> Result<Fabric, CommandError> {
    fabric::read(root).map_err(|e| CommandError::undone(&e))
}

/// What kind of machine this is, for the remedies. What the driver knows does not matter here.
fn host(root: &Root, fabric: &Fabric) -> Host {
    platform::read(
        root,
        Some(fabric),
        &identity::read(root),
        &BTreeMap::new(),
        &BTreeMap::new(),
    )
}

/// The GPUs by number, with the driver's names where it runs.
pub(super) fn gpu_block(root: &Root, fabric: &Fabric) -> String {
    fabric_block(fabric, &gpus::read(root).unwrap_or_default())
}

/// Logs the lines of a block of GPUs, where standard output is a table that programs read.
pub(super) fn log_gpus(block: &str) {
    block
        .lines()
        .for_each(|line| log::info!("{}", line.trim_start()));
}

/// The text with the GPUs below its first line.
fn with_gpus(text: &str, block: &str) -> String {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    format!("{first}\n{block}{rest}")
}

/// Whether this machine is meant and the user is not root.
fn lacks_root(root: &Root) -> bool {
    root.is_live() && !rustix::process::geteuid().is_root()
}

/// Says once what only root can read.
fn warn_if_not_root(root: &Root) {
    if lacks_root(root) {
        log::warn!(
            "run as root: others read 64 bytes of configuration space, and what is behind them is unknown"
        );
    }
}

/// What writes registers is done by root alone.
fn needs_root(root: &Root, action: &str) -> Result<(), CommandError> {
    let why = || {
        CommandError::Usage(format!(
            "fabric {action}: run it as root; it writes registers of this machine"
        ))
    };
    if lacks_root(root) { Err(why()) } else { Ok(()) }
}

/// The status of a command that only reads: what could not be read is an error, unless a failure was seen.
fn reading_status(findings: &[Finding]) -> u8 {
    let worst = findings.iter().map(|finding| finding.severity);
    match worst.clone().any(|severity| severity == Severity::Fail) {
        false if worst.clone().any(|severity| severity == Severity::Error) => NOT_DONE,
        _ => status(findings),
    }
}

fn show(root: &Root, json: Option<&Place>) -> Result<u8, CommandError> {
    warn_if_not_root(root);
    let fabric = read(root)?;
    if fabric.gpus.is_empty() {
        log::warn!("{}", no_gpu());
    }
    let shown = fabric.shown(&host(root, &fabric));
    write_json_or_text(
        json,
        &shown,
        &with_gpus(&text::show(&shown), &gpu_block(root, &fabric)),
    )?;
    Ok(reading_status(&fabric.findings))
}

/// The ACS and the ReBAR part of a plan, or of the applied changes.
#[derive(Serialize)]
struct AcsAndRebar<'a, A, B> {
    /// One line that is shown at boot; only for applied changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    #[serde(flatten)]
    acs: &'a A,
    findings: &'a [FindingEntry],
    rebar: &'a B,
}

fn make_plan(
    root: &Root,
    options: PassOptions,
    demanded: DemandedPeers,
    json: Option<&Place>,
) -> Result<u8, CommandError> {
    warn_if_not_root(root);
    let PassPlan { fabric, bars, acs } =
        pass::make_plan(root, options, demanded).map_err(|e| CommandError::undone(&e))?;
    if fabric.gpus.is_empty() {
        log::warn!("{}", no_gpu());
    }
    let findings = &FindingEntry::all(&acs.findings, &host(root, &fabric))[..];
    let content = &AcsAndRebar {
        summary: None,
        acs: &acs,
        findings,
        rebar: &bars.rebar,
    };
    let document = Document {
        schema: "firstlight.plan/1",
        root: &fabric.root,
        content,
    };
    let text = with_gpus(
        &text::plan(&fabric, &acs, &bars, findings),
        &gpu_block(root, &fabric),
    );
    write_json_or_text(json, &document, &text)?;
    Ok(reading_status(&acs.findings))
}

fn fix(
    root: &Root,
    options: PassOptions,
    demanded: DemandedPeers,
    journal: Option<PathBuf>,
    json: Option<&Place>,
) -> Result<u8, CommandError> {
    needs_root(root, "fix")?;
    let journal = journal_of(root, journal)?;
    let done =
        pass::run(root, options, demanded, &journal).map_err(|e| CommandError::undone(&e))?;
    let PassResult {
        fabric,
        bars,
        plan,
        applied,
    } = &done;
    let summary = Some(text::summary(plan, applied, bars));
    let findings = &FindingEntry::all(&applied.findings, &host(root, fabric))[..];
    let content = &AcsAndRebar {
        summary,
        acs: applied,
        findings,
        rebar: &bars.rebar,
    };
    let document = Document {
        schema: schema::FIX,
        root: &fabric.root,
        content,
    };
    write_json_or_text(
        json,
        &document,
        &text::fixed(&fabric.root, plan, applied, bars, findings),
    )?;
    Ok(status(&applied.findings))
}

fn restored(
    root: &Root,
    journal: Option<PathBuf>,
    json: Option<&Place>,
) -> Result<u8, CommandError> {
    needs_root(root, "restore")?;
    let journal = journal_of(root, journal)?;
    let content: &Restored =
        &restore::restore(root, &journal).map_err(|e| CommandError::undone(&e))?;
    let here = root.name();
    let document = Document {
        schema: "firstlight.restore/1",
        root: &here,
        content,
    };
    write_json_or_text(json, &document, &text::restored(&here, content))?;
    Ok(if content.is_done() { SUCCESS } else { FAILURE })
}

/// A recorded machine keeps its own journal.
fn journal_of(root: &Root, given: Option<PathBuf>) -> Result<PathBuf, CommandError> {
    given
        .map_or_else(|| Journal::place(root), Ok)
        .map_err(|e| CommandError::undone(&e))
}

/// `topo`
pub(super) fn topo(root: &Root, config: &Config, json: Option<&Place>) -> Result<u8, CommandError> {
    let fabric = read(root)?;
    if fabric.gpus.is_empty() {
        return Err(CommandError::Undone(no_gpu()));
    }
    let topology = Topology::from(
        &fabric,
        &nvlinks(root, config, &fabric)?.unwrap_or_default(),
    );
    let block = gpu_block(root, &fabric);
    let text = if block.is_empty() {
        topology.text()
    } else {
        format!("{block}\n{}", topology.text())
    };
    write_json_or_text(json, &topology, &text)?;
    Ok(SUCCESS)
}

/// What a command for GPUs says on a machine without one.
pub(super) fn no_gpu() -> String {
    format!("{}: there is no NVIDIA GPU", Code::GpuNone)
}

/// NVLinks of the GPUs that the driver is bound to; `None` if they are unknown. A recorded machine has no
/// driver here.
///
/// # Errors
/// NVML hangs: GPUs whose NVLinks are unknown must not be taken for GPUs that are connected by PCIe only.
pub(super) fn nvlinks(
    root: &Root,
    config: &Config,
    fabric: &Fabric,
) -> Result<Option<NvLinks>, CommandError> {
    let held = |bdf: &Bdf| {
        fabric
            .devices
            .iter()
            .any(|d| d.bdf == *bdf && d.driver.as_deref() == Some("nvidia"))
    };
    let gpus: Vec<Bdf> = fabric.gpus.iter().copied().filter(held).collect();
    if gpus.len() < 2 || (root.path() != Path::new("/") && config.validate.library_path.is_empty())
    {
        return Ok(None);
    }
    match engine::nvlinks(root, config, &gpus) {
        Ok(nvlinks) => Ok(Some(nvlinks)),
        Err(why) if why.starts_with(NVML_HANGS) => Err(CommandError::Undone(why)),
        Err(why) => {
            log::warn!("NVLinks are not shown: {why}");
            Ok(None)
        }
    }
}
