//! Text in lines of 80 columns, or of a terminal's own width.

use std::cell::Cell;

/// Columns of a file, and of a terminal that does not say its width.
const COLUMNS: usize = 80;
/// Narrower lines cannot be read, and wider ones are not found again by the eye.
const ALLOWED: (usize, usize) = (60, 160);

thread_local! {
    static WIDTH: Cell<usize> = const { Cell::new(COLUMNS) };
}

/// The columns of a line of text on this thread: 80, except inside [`at_width`].
#[must_use]
pub fn width() -> usize {
    WIDTH.get()
}

/// Makes text with lines of `columns`, at least 60 and at most 160, instead of 80.
pub fn at_width<T>(columns: usize, make: impl FnOnce() -> T) -> T {
    let before = WIDTH.replace(columns.clamp(ALLOWED.0, ALLOWED.1));
    let made = make();
    WIDTH.set(before);
    made
}

/// `text` wrapped between words; the first line starts with `first`, the others with `rest`. A word that is
/// too long is put on a separate line.
#[must_use]
pub fn wrapped(first: &str, rest: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    let columns = width();
    for word in text.split_whitespace() {
        let space = usize::from(!empty);
        if !empty && line.chars().count() + space + word.chars().count() > columns {
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
        assert!(
            wrapped.lines().all(|l| l.chars().count() <= 80),
            "{wrapped}"
        );
        assert_eq!(wrapped.matches("word").count(), 60);
    }

    #[test]
    fn a_width_holds_inside_and_ends_with_its_text() {
        let lines = |columns| at_width(columns, || wrapped("", "", &"word ".repeat(60)));
        for (columns, widest) in [(100, 99), (10, 59), (9999, 159), (80, 79)] {
            let text = lines(columns);
            assert_eq!(
                text.lines().map(|line| line.len()).max(),
                Some(widest),
                "{columns}"
            );
            assert_eq!(text.matches("word").count(), 60);
        }
        assert_eq!(width(), 80);
    }

    #[test]
    fn a_word_longer_than_a_line_gets_its_own_line() {
        let long = "x".repeat(100);
        assert_eq!(
            wrapped("", "  ", &format!("a {long} b")),
            format!("a\n  {long}\n  b\n")
        );
    }
}
