//! What `firstlight fabric` says to people: 80 columns, no colour, pure functions that return the
//! whole text.

mod last;
pub(crate) mod layout;
mod show;

pub use show::show;

use super::apply::Applied;
use super::model::Fabric;
use super::plan::Plan;
use super::restore::Restored;
use crate::finding::Finding;
use layout::{cause_and_remedy, message, wrapped};
use std::fmt::Write;

/// What the pass would do.
#[must_use]
pub fn plan(fabric: &Fabric, plan: &Plan) -> String {
    let mut text = headline("fabric plan", &fabric.root);
    text.push_str(&covered(plan));
    for action in &plan.actions {
        let _ = writeln!(text, "  would write  {action}");
    }
    text.push_str(&findings(&plan.findings));
    text
}

/// What the pass did. Resizable BARs are only looked at here.
#[must_use]
pub fn fixed(fabric: &Fabric, plan: &Plan, applied: &Applied) -> String {
    let mut text = headline("fabric fix", &fabric.root);
    for entry in &applied.entries {
        let read = entry.readback.map_or_else(|| "not read back".to_owned(), |v| format!("reads {v:#06x}"));
        let (bdf, register) = (entry.bdf, &entry.register);
        let _ = writeln!(text, "  {bdf} {register} {:#06x} -> {:#06x}  {read}", entry.before, entry.after);
    }
    text.push_str(&resizable(fabric));
    text.push_str(&findings(&applied.findings));
    text + &last::line(plan, applied) + "\n"
}

/// What was put back.
#[must_use]
pub fn restored(root: &str, restored: &Restored) -> String {
    let mut text = headline("fabric restore", root);
    let done = restored.steps.iter().filter(|s| s.is_done()).count();
    let _ =
        writeln!(text, "{done} of {} registers hold what they held before the pass", restored.steps.len());
    for step in &restored.steps {
        text.push_str(&wrapped("  ", "    ", &step.to_string()));
    }
    text
}

/// Nothing that was recorded is shown as if it were live.
fn headline(what: &str, root: &str) -> String {
    match root {
        "/" => format!("{what}   this machine\n"),
        dir => format!("{what}   recorded machine {dir}\n"),
    }
}

fn covered(plan: &Plan) -> String {
    let (policy, n, actions) = (plan.policy, plan.covered, plan.actions.len());
    format!("ACS policy {policy}: {n} functions with ACS, {actions} to write\n")
}

fn resizable(fabric: &Fabric) -> String {
    let sizes = fabric.devices.iter().filter(|d| fabric.gpus.contains(&d.bdf)).flat_map(|d| {
        d.rebar.iter().map(move |r| {
            let largest = r.supported_bytes.last().copied().unwrap_or(r.current_bytes);
            format!("{} BAR{} {} of {}", d.bdf, r.bar, layout::size(r.current_bytes), layout::size(largest))
        })
    });
    let sizes: Vec<String> = sizes.collect();
    let sizes = if sizes.is_empty() { "no GPU offers any".to_owned() } else { sizes.join(", ") };
    wrapped("", "  ", &format!("Resizable BARs are checked, not changed: {sizes}"))
}

/// Findings of one kind that follow each other share the lines with cause and remedy.
fn findings(findings: &[Finding]) -> String {
    let advice = |f: &Finding| (f.cause.clone(), f.remedy.clone());
    let groups = findings.chunk_by(|a, b| advice(a) == advice(b));
    let said = |group: &[Finding]| {
        let messages: String = group.iter().map(message).collect();
        messages + &group.last().map_or_else(String::new, cause_and_remedy)
    };
    groups.map(said).collect()
}

#[cfg(test)]
mod tests;
