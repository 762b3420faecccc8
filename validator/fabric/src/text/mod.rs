//! The text of `firstlight fabric`: 80 columns, no color, pure functions that return the whole text.

mod layout;
mod show;
mod summary;

pub use show::show;

use super::apply::Applied;
use super::plan::Plan;
use super::rebar;
use super::restore::Restored;
use crate::rebar::RebarChoice;
use layout::{cause_and_remedy, message};
use machine::pcie::model::Fabric;
use outcome::finding::FindingEntry;
use outcome::text::count;
use outcome::text::size;
use outcome::text::wrapped;
use std::fmt::Write;

/// Bytes of the configuration space of a PCIe function, and of a conventional one.
const WHOLE: usize = 4096;
const CONVENTIONAL: usize = 256;

/// What the pass would do; `found`: the plan's findings.
#[must_use]
pub fn plan(
    fabric: &Fabric,
    plan: &Plan,
    bars: &rebar::plan::Plan,
    found: &[FindingEntry],
) -> String {
    let mut text = headline("fabric plan", &fabric.root);
    text.push_str(&largest(bars.gpus, bars.full, bars.choice, unread(fabric)));
    for resize in &bars.rebar {
        let _ = writeln!(text, "  would resize  {resize}");
    }
    text.push_str(&covered(plan, fabric));
    for action in &plan.actions {
        let _ = writeln!(text, "  would write  {action}");
    }
    text.push_str(&findings(found));
    text
}

/// What the pass did; `found`: its findings.
#[must_use]
pub fn fixed(
    root: &str,
    plan: &Plan,
    applied: &Applied,
    bars: &rebar::ResizeReport,
    found: &[FindingEntry],
) -> String {
    let mut text = headline("fabric fix", root);
    text.push_str(&largest(bars.gpus, bars.full, bars.choice, 0));
    for grown in &bars.rebar {
        let after = grown
            .after_bytes
            .map_or_else(|| "not read back".to_owned(), size);
        let _ = writeln!(
            text,
            "  {} BAR1 {} -> {after}",
            grown.bdf,
            size(grown.before_bytes)
        );
    }
    for entry in &applied.entries {
        let read = entry
            .readback
            .map_or_else(|| "not read back".to_owned(), |v| format!("reads {v:#06x}"));
        let (bdf, register) = (entry.bdf, &entry.register);
        let _ = writeln!(
            text,
            "  {bdf} {register} {:#06x} -> {:#06x}  {read}",
            entry.before, entry.after
        );
    }
    text.push_str(&findings(found));
    text + &summary(plan, applied, bars) + "\n"
}

/// The pass in one line of at most 58 columns: what was cleared, and the codes of the findings that remain.
#[must_use]
pub fn summary(plan: &Plan, applied: &Applied, bars: &rebar::ResizeReport) -> String {
    summary::line(plan, applied, bars)
}

/// What was restored.
#[must_use]
pub fn restored(root: &str, restored: &Restored) -> String {
    let mut text = headline("fabric restore", root);
    let done = restored.steps.iter().filter(|s| s.is_done()).count();
    let _ = writeln!(
        text,
        "{done} of {} registers have their values from before the pass",
        restored.steps.len()
    );
    for step in &restored.steps {
        text.push_str(&wrapped("  ", "    ", &step.to_string()));
    }
    for step in &restored.bars {
        text.push_str(&wrapped("  ", "    ", &step.to_string()));
    }
    for step in &restored.decode {
        text.push_str(&wrapped("  ", "    ", &step.to_string()));
    }
    text
}

/// A recording is never shown as the live machine.
fn headline(what: &str, root: &str) -> String {
    match root {
        "/" => format!("{what}   this machine\n"),
        dir => format!("{what}   the machine in {dir}\n"),
    }
}

fn covered(plan: &Plan, fabric: &Fabric) -> String {
    let (policy, n, actions) = (plan.policy, plan.covered, plan.actions.len());
    let unread = fabric
        .devices
        .iter()
        .filter(|device| device.config.bytes < CONVENTIONAL)
        .count();
    let unknown = if unread > 0 {
        format!(", {unread} unknown")
    } else {
        String::new()
    };
    format!(
        "ACS policy {policy}: {} with ACS{unknown}, {actions} to write\n",
        count(n, "function")
    )
}

/// How many GPUs have their largest BAR1, before or after the pass.
fn largest(gpus: usize, full: usize, choice: RebarChoice, unread: usize) -> String {
    let only = if choice == RebarChoice::Check {
        " (only checked)"
    } else {
        ""
    };
    match gpus {
        0 => String::new(),
        _ if unread > 0 => {
            format!("BAR1: {full} of {gpus} GPUs have their largest size, {unread} unknown{only}\n")
        }
        _ => format!("BAR1: {full} of {gpus} GPUs have their largest size{only}\n"),
    }
}

/// How many GPUs have configuration space that could not be read as far as the sizes that their BARs may have.
fn unread(fabric: &Fabric) -> usize {
    let gpus = fabric
        .devices
        .iter()
        .filter(|device| fabric.gpus.contains(&device.bdf));
    gpus.filter(|gpu| gpu.config.bytes < WHOLE).count()
}

/// Findings with the same cause and remedy share the lines that show them, at the place of the first one.
fn findings(findings: &[FindingEntry]) -> String {
    let mut groups: Vec<Vec<&FindingEntry>> = Vec::new();
    for finding in findings {
        let same =
            |one: &&FindingEntry| (&one.cause, &one.remedy) == (&finding.cause, &finding.remedy);
        match groups
            .iter_mut()
            .find(|group| group.first().is_some_and(same))
        {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    let block = |group: &Vec<&FindingEntry>| {
        let messages: String = group.iter().copied().map(message).collect();
        messages
            + &group
                .last()
                .map_or_else(String::new, |finding| cause_and_remedy(finding))
    };
    groups.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acs::AcsPolicy;
    use crate::judge;
    use crate::plan as planning;
    use machine::pcie::sample::{fabric, two_gpus};
    use outcome::finding::{Code, Severity, Subject};
    use outcome::platform::Host;

    fn sample() -> Fabric {
        let mut fabric = fabric(two_gpus());
        fabric.findings = judge::all(&fabric);
        fabric
    }

    #[test]
    fn a_plan_lists_what_it_would_write() {
        let fabric = sample();
        let bars = rebar::plan::plan(&fabric, RebarChoice::Check, &[]);
        let text = plan(
            &fabric,
            &planning::plan(&fabric, AcsPolicy::Path),
            &bars,
            &[],
        );
        assert_eq!(
            text,
            "fabric plan   this machine\n\
         BAR1: 0 of 2 GPUs have their largest size (only checked)\n\
         ACS policy path: 2 functions with ACS, 1 to write\n  \
           would write  0000:00:01.0 ACS control 0x001d -> 0x0000\n"
        );
    }

    #[test]
    fn what_only_root_can_read_is_unknown_and_not_none() {
        let mut fabric = sample();
        fabric
            .devices
            .iter_mut()
            .for_each(|device| device.config.bytes = 64);
        let bars = rebar::plan::plan(&fabric, RebarChoice::Check, &[]);
        let text = plan(
            &fabric,
            &planning::plan(&fabric, AcsPolicy::Path),
            &bars,
            &[],
        );
        assert!(
            text.contains(
                "\nBAR1: 0 of 2 GPUs have their largest size, 2 unknown (only checked)\n"
            ),
            "{text}"
        );
        assert!(text.contains(" with ACS, 4 unknown, "), "{text}");
    }

    #[test]
    fn equal_advice_is_given_once_wherever_it_stands() {
        let of = |code: Code, n: u8| {
            code.finding(
                Severity::Error,
                Subject::file(format!("{n}")),
                format!("finding {n}"),
            )
        };
        let all = [
            of(Code::PciUnreadable, 1),
            of(Code::AcsUnknown, 2),
            of(Code::PciUnreadable, 3),
        ];
        let text = findings(&FindingEntry::all(&all, &Host::default()));
        assert_eq!(text.matches("remedy:").count(), 2, "{text}");
        let at = |n: u8| text.find(&format!("finding {n}")).unwrap();
        assert!(at(1) < at(3) && at(3) < at(2), "{text}");
    }

    #[test]
    fn a_recording_is_marked() {
        let mut fabric = sample();
        fabric.root = "/somewhere".into();
        let first = show(&fabric.shown(&Host::default()))
            .lines()
            .next()
            .map(str::to_owned);
        assert_eq!(
            first.as_deref(),
            Some("fabric show   the machine in /somewhere")
        );
    }

    #[test]
    fn show_names_ports_paths_and_findings_in_80_columns() {
        let text = show(&sample().shown(&Host::default()));
        for part in [
            "0000:00:01.0  root-port   0x001d SV RR CR UF  redirects\n",
            "0000:00:02.0  root-port   0x0000  redirect off\n",
            "0000:01:00.0  10de:2684  x16 of x16 at 16 GT/s",
            "GPU-GPU  1 PHB; slowest 31.5 GB/s raw\n",
            "  FAIL   ACS-REDIRECT: 0000:00:01.0",
        ] {
            assert!(text.contains(part), "'{part}' is missing in\n{text}");
        }
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }
}
