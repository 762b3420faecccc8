//! A plan as people read it. Pure.

use crate::apply::shown;
use crate::state::State;
use crate::step::{By, Plan};
use machine::host::iommu::IommuMode;
use outcome::text::{shown_text, wrapped};

/// The machine in one line, the steps with their literal actions, and what is refused.
#[must_use]
pub fn plan(state: &State, plan: &Plan) -> String {
    let mut text = format!("{}\n", about(state));
    for note in &plan.notes {
        text.push_str(&paragraph("  ", note));
    }
    for (n, step) in plan.steps.iter().enumerate() {
        let by = if step.by == By::Apply {
            "setup --apply"
        } else {
            "you"
        };
        text.push_str(&paragraph(
            &format!("{:>2}  ", n + 1),
            &format!("[{by}] {}", step.what),
        ));
        for action in &step.actions {
            shown(action)
                .lines()
                .for_each(|line| text.push_str(&format!("        {line}\n")));
        }
    }
    if !plan.refused.is_empty() {
        text.push_str("--apply does nothing here:\n");
        plan.refused
            .iter()
            .for_each(|why| text.push_str(&paragraph("  ", why)));
    }
    shown_text(&text)
}

/// A text whose first line begins so, and whose other lines are below it.
fn paragraph(beginning: &str, text: &str) -> String {
    format!(
        "{}\n",
        wrapped(beginning, &" ".repeat(beginning.len()), text).trim_end()
    )
}

/// The machine in one line.
fn about(state: &State) -> String {
    let mut models: Vec<(String, usize)> = Vec::new();
    for gpu in &state.gpus {
        let name = gpu
            .model
            .clone()
            .unwrap_or_else(|| format!("GPU 10de:{:04x}", gpu.device));
        match models.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => models.push((name, 1)),
        }
    }
    let gpus: Vec<_> = models
        .into_iter()
        .map(|(name, count)| format!("{count} x {name}"))
        .collect();
    let gpus = if gpus.is_empty() {
        "no GPU on a card of its own".to_owned()
    } else {
        gpus.join(", ")
    };
    let driver = state.driver.loaded.as_ref().map_or_else(
        || "no driver loaded".to_owned(),
        |loaded| {
            format!(
                "driver {} ({})",
                loaded.version,
                if loaded.open { "open" } else { "closed" }
            )
        },
    );
    let distribution = if state.distribution.is_empty() {
        "unknown distribution"
    } else {
        &state.distribution
    };
    let iommu = match state.iommu {
        IommuMode::Off => "off",
        IommuMode::Identity => "on, translates nothing",
        IommuMode::Translated => "translates",
        IommuMode::Unknown => "unknown",
    };
    format!("{distribution}: {gpus}; {driver}; IOMMU: {iommu}")
}
