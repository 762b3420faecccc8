//! What files, their names and words hold, for a message: it must not break the line that tells of it, nor
//! move a terminal's cursor.

/// The text with its control characters escaped.
pub(crate) fn shown(text: &str) -> String {
    let one = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_all_else_stays() {
        assert_eq!(shown("a\u{1b}[2Jb\nc\u{85} ö'\\"), "a\\u{1b}[2Jb\\nc\\u{85} ö'\\");
    }
}
