//! Characters that untrusted text must not show as they are: they are not seen, and change what is seen.

/// Whether a character is a control character, separates lines or paragraphs, or formats the text around it, as those do that
/// turn its direction (U+202E) or take no width (U+200B): Unicode's classes Cc, Cf, Zl and Zp.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{600}'
                ..='\u{605}'
                    | '\u{61c}'
                    | '\u{6dd}'
                    | '\u{70f}'
                    | '\u{890}'
                    | '\u{891}'
                    | '\u{8e2}'
        )
        || matches!(c, '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}')
        || matches!(c, '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_or_breaks_a_line_is_invisible_and_letters_of_all_scripts_are_not() {
        for c in
            "\u{0}\n\u{7f}\u{85}\u{ad}\u{61c}\u{200b}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{feff}\u{e0041}"
                .chars()
        {
            assert!(is_invisible(c), "{c:?}");
        }
        for c in
            "a Z~ \u{a0}ö\u{5d0}\u{627}\u{4e2d}\u{2010}\u{202f}\u{2070}\u{1f600}\u{301}".chars()
        {
            assert!(!is_invisible(c), "{c:?}");
        }
    }
}
