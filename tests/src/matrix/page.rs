//! The tables of `docs/what-each-level-rules-out.md`, made from the classes, so that the page claims what the matrix
//! holds the program to.

use super::class::{Claim, Class, LEVELS};
use crate::error::Result;

/// The page's part between its marks.
///
/// # Errors
/// A table that makes no sense.
pub fn page() -> Result<String> {
    let classes = Class::all()?;
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
        let cells: Vec<_> = class.claims.iter().map(cell).collect();
        let tests: Vec<_> = class.blamed.iter().map(|id| format!("`{id}`")).collect();
        text.push_str(&format!("| {} | {} | {} |\n", class.what, cells.join(" | "), tests.join(", ")));
    }
    text.push_str(&blind(&classes));
    Ok(text)
}

/// `delivery` becomes `Delivery`.
fn title(chapter: &str) -> String {
    let words = chapter.replace('-', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn cell(claim: &Claim) -> String {
    match claim {
        Claim::Found(verdicts) => verdicts.join(" or "),
        Claim::Not(_) => "not seen".to_owned(),
    }
}

/// What the levels do not look for, with the reasons.
fn blind(classes: &[Class]) -> String {
    let mut text = String::new();
    for (nth, level) in LEVELS.iter().enumerate() {
        let blind = classes.iter().filter_map(|class| match &class.claims[nth] {
            Claim::Not(why) => Some(format!("- {}: {why}.\n", class.what)),
            Claim::Found(_) => None,
        });
        let blind: String = blind.collect();
        let blind = if blind.is_empty() { "Of these faults it finds all.\n".to_owned() } else { blind };
        text.push_str(&format!("\n### What {level} cannot see\n\n{blind}"));
    }
    text
}
