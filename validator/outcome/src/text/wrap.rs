//! Text in lines of 80 columns.

const COLUMNS: usize = 80;

/// `text` wrapped between words; the first line starts with `first`, the others with `rest`. A word that is
/// too long is put on a separate line.
#[must_use]
pub fn wrapped(first: &str, rest: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        let space = usize::from(!empty);
        if !empty && line.chars().count() + space + word.chars().count() > COLUMNS {
            lines.push_str(&line);
            lines.push('\n');
            rest.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_broken_between_words_and_never_lost() {
        let text = "word ".repeat(60);
        let wrapped = wrapped("a: ", "   ", &text);
        assert!(wrapped.lines().all(|l| l.chars().count() <= 80), "{wrapped}");
        assert_eq!(wrapped.matches("word").count(), 60);
    }

    #[test]
    fn a_word_longer_than_a_line_gets_its_own_line() {
        let long = "x".repeat(100);
        assert_eq!(wrapped("", "  ", &format!("a {long} b")), format!("a\n  {long}\n  b\n"));
    }
}
