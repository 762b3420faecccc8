//! A change of a text as people read it: a unified difference of its lines. Pure.

use outcome::text::shown_text;
use similar::TextDiff;

/// The difference, with the file's name.
pub(crate) fn unified(path: &str, before: Option<&str>, after: Option<&str>) -> String {
    let diff = TextDiff::from_lines(before.unwrap_or(""), after.unwrap_or(""));
    let name = |text: Option<&str>| {
        if text.is_some() {
            format!("/{path}")
        } else {
            "/dev/null".to_owned()
        }
    };
    shown_text(
        &diff
            .unified_diff()
            .context_radius(2)
            .header(&name(before), &name(after))
            .to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_its_lines_and_a_new_file_with_all_of_them() {
        let text = unified("etc/x", Some("a\nb\n"), Some("a\nc\n"));
        assert_eq!(
            text,
            "--- /etc/x\n+++ /etc/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
        );
        assert_eq!(
            unified("etc/x", None, Some("a\n")),
            "--- /dev/null\n+++ /etc/x\n@@ -0,0 +1 @@\n+a\n"
        );
        assert!(unified("etc/x", Some("a"), Some("\u{1b}[2J")).contains("\\u{1b}[2J"));
    }
}
