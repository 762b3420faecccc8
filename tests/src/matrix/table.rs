//! The table of a run: a row for each class and machine, a column for each level and number of GPUs, and the counts below
//! it.

use super::GPUS;
use super::class::{Claim, FaultClass, LEVELS};
use super::run::{Assessment, CaseResult};
use crate::error::Result;
use std::collections::BTreeSet;
use std::fmt;

/// The counts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatrixCounts {
    /// Different faults: a class, a variant and a pair of GPUs.
    pub faults: usize,
    /// Healthy machines.
    pub healthy: usize,
    /// Runs of the program.
    pub runs: usize,
    /// Faults that passed although a level claims to find them.
    pub false_pass: usize,
    /// Healthy machines that did not receive the required verdict.
    pub false_fail: usize,
    /// Faults found with a wrong verdict, or by a wrong test.
    pub otherwise_wrong: usize,
    /// Faults that passed at a level that does not look for them.
    pub not_covered: usize,
}

/// Counts a run.
#[must_use]
pub fn counts(results: &[CaseResult]) -> MatrixCounts {
    let count = |assessments: &[Assessment]| {
        results
            .iter()
            .filter(|s| assessments.contains(&s.assessment))
            .count()
    };
    let different = |healthy: bool| {
        let of = results
            .iter()
            .filter(|s| (s.case.chapter() == "healthy machines") == healthy);
        let name = |s: &CaseResult| s.case.full_name().replace(LEVELS[s.case.level], "");
        of.map(name).collect::<BTreeSet<_>>().len()
    };
    MatrixCounts {
        faults: different(false),
        healthy: different(true),
        runs: results.len(),
        false_pass: count(&[Assessment::FalsePass]),
        false_fail: count(&[Assessment::FalseFail]),
        otherwise_wrong: count(&[
            Assessment::WrongVerdict,
            Assessment::WrongTest,
            Assessment::NoReport,
        ]),
        not_covered: count(&[Assessment::NotCovered]),
    }
}

impl MatrixCounts {
    /// Whether everything is as required.
    #[must_use]
    pub const fn all_right(&self) -> bool {
        self.false_pass + self.false_fail + self.otherwise_wrong == 0
    }
}

impl fmt::Display for MatrixCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} faults and {} healthy machines, {} runs",
            self.faults, self.healthy, self.runs
        )?;
        writeln!(
            f,
            "false PASS {}   false FAIL {}   otherwise wrong {}",
            self.false_pass, self.false_fail, self.otherwise_wrong
        )?;
        write!(
            f,
            "passed at a level that does not look for them: {}",
            self.not_covered
        )
    }
}

/// The table, and each case that is not right.
#[must_use]
pub fn table(results: &[CaseResult]) -> String {
    let mut text = String::from(
        "F FAIL  E ERROR  D DEGRADED  p PASS  . not looked for and passed  - not run  ! wrong  (small: found, though not claimed)\n",
    );
    let mut chapter = "";
    for name in in_order(results.iter().map(|s| s.case.name())) {
        let of: Vec<_> = results.iter().filter(|s| s.case.name() == name).collect();
        let Some(first) = of.first() else { continue };
        if first.case.chapter() != chapter {
            chapter = first.case.chapter();
            text.push_str(&heading(chapter, chapter == "healthy machines"));
        }
        let counts: &[usize] = if chapter == "healthy machines" {
            &[0]
        } else {
            &GPUS
        };
        let columns = (0..LEVELS.len()).map(|level| {
            let cell = |gpus: &usize| format!(" {:>3}", cell(&of, level, *gpus));
            counts.iter().map(cell).collect::<String>()
        });
        text.push_str(format!("{name:<34}{}\n", columns.collect::<Vec<_>>().join("  ")).as_str());
    }
    for wrong in results.iter().filter(|s| !s.assessment.is_right()) {
        let (name, word, verdict) = (
            wrong.case.full_name(),
            wrong.assessment.description(),
            &wrong.verdict,
        );
        text.push_str(&format!(
            "{word}: {name}: {verdict} {}\n",
            wrong.blamed.join(" ")
        ));
    }
    text
}

fn heading(chapter: &str, healthy: bool) -> String {
    if healthy {
        return format!("\n{:<34}{:>4}  {:>4}  {:>4}\n", chapter, "q", "s", "f");
    }
    let levels: Vec<_> = LEVELS.iter().map(|level| format!("{level:>20}")).collect();
    let counts: String = GPUS.iter().map(|n| format!("{n:>4}")).collect();
    let counts = vec![counts; LEVELS.len()].join("  ");
    format!("\n{chapter:<34}{}\n{:<34}{counts}\n", levels.join("  "), "")
}

/// All verdicts of a level and a number of GPUs (0: any), each letter once.
fn cell(of: &[&CaseResult], level: usize, gpus: usize) -> String {
    let here = of
        .iter()
        .filter(|s| s.case.level == level && (gpus == 0 || s.case.gpus == gpus));
    let letters: BTreeSet<_> = here.map(|s| letter(s)).collect();
    if letters.is_empty() {
        "-".to_owned()
    } else {
        letters.into_iter().collect()
    }
}

fn letter(result: &CaseResult) -> String {
    let letter = result.verdict.chars().next().unwrap_or('?');
    match result.assessment {
        Assessment::NotCovered => ".".to_owned(),
        Assessment::Unclaimed => letter.to_ascii_lowercase().to_string(),
        Assessment::Right if letter == 'P' => "p".to_owned(),
        Assessment::Right => letter.to_string(),
        _ => format!("{letter}!"),
    }
}

fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// The generated part of the documentation page.
///
/// # Errors
/// If a table is invalid.
pub fn page() -> Result<String> {
    let classes = FaultClass::all()?;
    let mut text = String::new();
    let mut chapter = "";
    for class in &classes {
        if class.chapter != chapter {
            chapter = &class.chapter;
            let columns = LEVELS.join(" | ");
            let title = title(chapter);
            text.push_str(&format!(
                "\n### {title}\n\n| fault | {columns} | found by |\n|---|---|---|---|---|\n"
            ));
        }
        let cells: Vec<_> = class.claims.iter().map(claim_cell).collect();
        let tests: Vec<_> = class.blamed.iter().map(|id| format!("`{id}`")).collect();
        text.push_str(&format!(
            "| {} | {} | {} |\n",
            class.what,
            cells.join(" | "),
            tests.join(", ")
        ));
    }
    text.push_str(&not_covered_text(&classes));
    Ok(text)
}

/// `delivery` becomes `Delivery`.
fn title(chapter: &str) -> String {
    let words = chapter.replace('-', " ");
    let mut letters = words.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

fn claim_cell(claim: &Claim) -> String {
    match claim {
        Claim::Found(verdicts) => verdicts.join(" or "),
        Claim::Not(_) => "not seen".to_owned(),
    }
}

/// The faults that the levels do not look for, with the reasons.
fn not_covered_text(classes: &[FaultClass]) -> String {
    let mut text = String::new();
    for (nth, level) in LEVELS.iter().enumerate() {
        let lines = classes.iter().filter_map(|class| match &class.claims[nth] {
            Claim::Not(why) => Some(format!("- {}: {why}.\n", class.what)),
            Claim::Found(_) => None,
        });
        let lines: String = lines.collect();
        let lines = if lines.is_empty() {
            "Of these faults it finds all.\n".to_owned()
        } else {
            lines
        };
        text.push_str(&format!("\n### What {level} cannot see\n\n{lines}"));
    }
    text
}
