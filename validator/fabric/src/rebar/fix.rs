//! The pass itself: handles the plan's GPUs one root port at a time, keeps the journal, reads the state of
//! all GPUs once more at the end, and makes the findings.

use super::group::{Group, Member, StopReason};
use super::plan::{Plan, RebarChoice};
use super::resize::Resize;
use super::{Kernel, Machine, reasons};
use crate::apply::now;
use crate::journal::{Grown, Journal, JournalError, KeptFinding};
use machine::pcie::model::Bdf;
use machine::root::Root;
use outcome::finding::{Code, Finding};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// No new attempt is started later than this after the start. An attempt takes some milliseconds; init gives
/// the whole fabric pass a minute.
const LONGEST: Duration = Duration::from_secs(30);

/// The result of the Resizable BAR pass.
#[derive(Debug, Clone, PartialEq)]
pub struct ResizeReport {
    /// Whether changes were allowed.
    pub choice: RebarChoice,
    /// How many GPUs there are.
    pub gpus: usize,
    /// How many of them have the largest BAR1 that they offer.
    pub full: usize,
    /// Each GPU whose BAR1 should be enlarged.
    pub rebar: Vec<Grown>,
    /// The findings about each of these GPUs, and about GPUs that were not changed.
    pub findings: Vec<Finding>,
}

impl ResizeReport {
    /// True when addresses or sizes may have changed since the plan was made.
    #[must_use]
    pub fn touched(&self) -> bool {
        self.rebar.iter().any(|g| !g.tries.is_empty())
    }
}

/// Carries out `plan` and updates `journal`.
///
/// # Errors
/// If the journal cannot be read or written; nothing is tried that is not in the journal.
pub fn fix(
    root: &Root,
    kernel: &dyn Kernel,
    plan: &Plan,
    journal: &Path,
) -> Result<ResizeReport, JournalError> {
    let machine = Machine { root, kernel };
    let earlier = Journal::load(journal, root.path())?;
    let mut kept = earlier.unwrap_or_else(|| Journal::new(root.path()));
    let Plan {
        choice, gpus, full, ..
    } = *plan;
    let mut fixed = ResizeReport {
        choice,
        gpus,
        full,
        rebar: Vec::new(),
        findings: Vec::new(),
    };
    let until = Instant::now() + LONGEST;
    let before = kept.bars.len();
    let mut done: Vec<Member> = Vec::new();
    for (_, gpus) in by_port(&plan.rebar) {
        let mut members: Vec<Member> = gpus.into_iter().map(member).collect();
        let shared = machine.record_decode(&resizes(&members), &mut kept.decode);
        let why = shared.err().map(|e| e.to_string());
        let joint_allowed = why.is_none();
        members
            .iter_mut()
            .for_each(|member| member.blocked.clone_from(&why));
        let mut save =
            |now: &[Member]| save(root, &mut kept, before, done.iter().chain(now), journal);
        Group {
            machine,
            until,
            joint_allowed,
        }
        .grow(&mut members, &mut save)?;
        done.extend(members);
    }
    // Only now, because changes below one port may have affected the GPUs below another.
    for member in &mut done {
        fixed.findings.extend(finish(machine, member));
    }
    if !done.is_empty() {
        machine.drop_restored(&mut kept.decode);
        save(root, &mut kept, before, done.iter(), journal)?;
    }
    fixed.full += done.iter().filter(|m| m.entry.is_full()).count();
    fixed.rebar.extend(done.into_iter().map(|m| m.entry));
    fixed.findings.extend(plan.findings.iter().cloned());
    if !fixed.findings.is_empty() {
        let anew = |old: &KeptFinding| !fixed.findings.iter().any(|f| f.subject == *old.about());
        kept.findings.retain(anew);
        kept.findings
            .extend(fixed.findings.iter().map(KeptFinding::of));
        kept.save(journal)?;
    }
    Ok(fixed)
}

/// Writes the journal: its previous content and the progress of these GPUs.
fn save<'a>(
    root: &Root,
    kept: &mut Journal,
    before: usize,
    members: impl Iterator<Item = &'a Member>,
    journal: &Path,
) -> Result<(), JournalError> {
    kept.bars.truncate(before);
    kept.bars.extend(members.map(|m| m.entry.clone()));
    kept.identify(root);
    kept.save(journal)
}

fn resizes(members: &[Member]) -> Vec<Resize> {
    members.iter().map(|m| m.gpu.clone()).collect()
}

/// The GPUs of each root port; one directly on a root bus is alone.
fn by_port(gpus: &[Resize]) -> BTreeMap<Bdf, Vec<Resize>> {
    let mut ports: BTreeMap<Bdf, Vec<Resize>> = BTreeMap::new();
    for gpu in gpus {
        ports
            .entry(gpu.port.unwrap_or(gpu.bdf))
            .or_default()
            .push(gpu.clone());
    }
    ports
}

fn member(gpu: Resize) -> Member {
    let entry = Grown {
        bdf: gpu.bdf,
        bar: gpu.bar,
        port: gpu.port,
        assigned: gpu.assigned,
        before_bytes: gpu.before_bytes,
        wanted_bytes: gpu.wanted_bytes,
        after_bytes: None,
        tries: Vec::new(),
        finding: None,
        when: now(),
    };
    Member {
        gpu,
        entry,
        reached: None,
        blocked: None,
        stopped: None,
    }
}

/// Reads the state of a GPU once more, when the GPUs of all ports are done, and makes its findings.
fn finish(machine: Machine<'_>, member: &mut Member) -> Vec<Finding> {
    let gpu = &member.gpu;
    let look = machine.state(gpu.bdf, gpu.bar).and_then(|now| {
        machine.correct_registers(&now)?;
        machine.state(gpu.bdf, gpu.bar)
    });
    let expected = member.reached.unwrap_or(gpu.before_bytes);
    let assigned = gpu.assigned || member.reached.is_some();
    let mut findings = Vec::new();
    let wrong = match (&look, member.stopped.take()) {
        (_, Some(StopReason::Broken(why))) => Some(why),
        (Err(e), _) => Some(e.to_string()),
        (Ok(now), _) if assigned && !now.has_size(gpu.bar, expected) => Some(now.describe(gpu.bar)),
        (Ok(_), Some(StopReason::Never(code, why))) => {
            findings.push(reasons::never(gpu, code, &why));
            None
        }
        (Ok(_), None) => None,
    };
    let present = look.ok().and_then(|now| Some(now.bar(gpu.bar)?.bar.bytes));
    member.entry.after_bytes = present;
    if let Some(why) = wrong {
        findings = vec![reasons::broken(gpu, &why)];
    } else {
        findings.extend(
            member
                .reached
                .filter(|n| *n != gpu.before_bytes)
                .map(|n| reasons::resized(gpu, n)),
        );
        if findings.iter().all(|f| f.is(Code::RebarResized))
            && member.reached != Some(gpu.wanted_bytes)
        {
            let blocked = member.blocked.as_deref();
            findings.push(reasons::no_room(
                gpu,
                present.unwrap_or(expected),
                assigned,
                blocked,
            ));
        }
    }
    let mut tried = reasons::tried(&member.entry);
    tried.extend(
        gpu.port
            .map(|port| machine.windows(port))
            .unwrap_or_default(),
    );
    let with_evidence = |f: Finding| {
        if f.is(Code::RebarResized) {
            f
        } else {
            f.seen_all(tried.clone())
        }
    };
    let findings: Vec<Finding> = findings.into_iter().map(with_evidence).collect();
    member.entry.finding = findings
        .iter()
        .rfind(|f| !f.is(Code::RebarResized))
        .map(|f| f.code.as_str().to_owned());
    findings
}
