//! The table of findings as `docs/findings.md` shows it. A test compares the page with this output.

use super::Code;
use std::fmt::Write as _;

/// The table of findings, as Markdown, with a newline at the end.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from("| code | what it says | usual cause | what to do |\n|---|---|---|---|\n");
    for entry in Code::ALL.iter().map(|c| c.entry()) {
        // Writing into a String cannot fail.
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", entry.code, entry.means, entry.cause, entry.remedy);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_of_process_one_are_in_the_table() {
        for code in contract::outcome::code::ALL {
            assert_eq!(Code::named(code).map(|known| known.entry().code), Some(*code));
        }
    }

    #[test]
    fn the_table_has_one_row_per_code() {
        let text = markdown();
        assert_eq!(text.lines().count(), Code::ALL.len() + 2);
        assert!(text.lines().all(|l| l.matches(" | ").count() == 3 || l.starts_with("|---")), "{text}");
    }
}
