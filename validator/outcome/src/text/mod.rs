//! Text for people: counts, times, sizes, errors, and untrusted text made safe to print: it must neither break the
//! line of a message nor move a terminal's cursor. Pure.

pub mod names;
pub mod time;
mod wrap;

pub use contract::config_format::error::shown;
pub use contract::text::is_invisible;
pub use wrap::{at_width, width, wrapped};

use std::error::Error;
use std::fmt::Display;

/// A number and what it counts, in the singular: `1 GPU`, `4 GPUs`.
#[must_use]
pub fn count<N: Copy + Display + PartialEq + From<u8>>(n: N, what: &str) -> String {
    let s = if n == N::from(1) { "" } else { "s" };
    format!("{n} {what}{s}")
}

/// An error and its causes in one line, `what: why: why that`: each error describes only its own part.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// A size in the largest binary unit of which it is a multiple: `256 MiB`, `1025 B`.
pub fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes;
    let mut units = units.iter();
    let mut unit = units.next();
    while value >= 1024 && value.is_multiple_of(1024) {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1024, Some(next));
    }
    format!("{value} {}", unit.unwrap_or(&"B"))
}

/// Bytes in GiB, to show with some decimals.
#[expect(clippy::cast_precision_loss, reason = "shown with a few decimals")]
pub fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1_u64 << 30) as f64
}

/// A whole text for a terminal: line ends and tabs are kept.
pub fn shown_text(text: &str) -> String {
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
pub fn quoted(text: &str) -> String {
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
    fn a_size_has_the_largest_unit_of_which_it_is_a_multiple() {
        assert_eq!(size(256 << 20), "256 MiB");
        assert_eq!([size(1 << 30), size(32 << 30)], ["1 GiB", "32 GiB"]);
        assert_eq!(size(1 << 63), "8 EiB");
        let whole = [size(0), size(512), size(1000), size(1025)];
        assert_eq!(whole, ["0 B", "512 B", "1000 B", "1025 B"]);
    }

    #[test]
    fn a_text_keeps_its_lines_and_tabs() {
        assert_eq!(
            shown_text("a\tb\n\u{1b}[2J\r\nc\u{9b}"),
            "a\tb\n\\u{1b}[2J\\r\nc\\u{9b}"
        );
        assert_eq!(shown_text(""), "");
    }

    #[test]
    fn only_what_nobody_sees_is_escaped() {
        assert_eq!(shown("a\u{202e}b\u{2028}"), "a\\u{202e}b\\u{2028}");
        assert_eq!(
            shown("a\u{1b}[2Jb\nc\u{85} ö'\\"),
            "a\\u{1b}[2Jb\\nc\\u{85} ö'\\"
        );
    }
}
