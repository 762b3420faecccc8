//! Content of files, names and words, for a message: it must not break the line of the message, nor move a
//! terminal's cursor.

/// The text with its control characters escaped.
pub(crate) fn shown(text: &str) -> String {
    let one = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(one).collect()
}

/// A whole text for a terminal: line ends and tabs are kept.
pub(crate) fn shown_text(text: &str) -> String {
    text.split_inclusive(['\n', '\t'])
        .map(|part| match part.strip_suffix(['\n', '\t']) {
            Some(words) => shown(words) + part.get(words.len()..).unwrap_or_default(),
            None => shown(part),
        })
        .collect()
}

/// Maximum length of quoted file content.
const QUOTED: usize = 80;

/// The beginning of a file's content, for a message, with control characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut quote = shown(&text.chars().take(QUOTED).collect::<String>());
    if text.chars().nth(QUOTED).is_some() {
        quote.push_str("..");
    }
    quote
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_lines_and_tabs() {
        assert_eq!(shown_text("a\tb\n\u{1b}[2J\r\nc\u{9b}"), "a\tb\n\\u{1b}[2J\\r\nc\\u{9b}");
        assert_eq!(shown_text(""), "");
    }

    #[test]
    fn only_control_characters_are_escaped() {
        assert_eq!(shown("a\u{1b}[2Jb\nc\u{85} ö'\\"), "a\\u{1b}[2Jb\\nc\\u{85} ö'\\");
    }
}
