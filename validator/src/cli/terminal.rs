//! What the terminal shows: its width, and whether colors are wanted. Colors are added where text is written, so that the
//! text itself, in files and pipes, has no escape sequence.

use clap::ColorChoice;
use clap::builder::styling::{AnsiColor, Style};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// Assumed columns where there is no terminal, or it does not report its width.
const COLUMNS: usize = 80;

/// What `--color` asks for; it is set once, before anything is written.
static ASKED: OnceLock<ColorChoice> = OnceLock::new();

/// Sets what `--color` asks for.
pub(super) fn begin(asked: ColorChoice) {
    // The first one stays.
    let _ = ASKED.set(asked);
}

/// Whether what is written to `stream` has colors.
pub(super) fn has_color(stream: &impl IsTerminal) -> bool {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match ASKED.get().copied().unwrap_or(ColorChoice::Auto) {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => is_live(stream) && variable("NO_COLOR").is_none(),
    }
}

/// Whether `stream` is a terminal that understands escape sequences.
pub(super) fn is_live(stream: &impl IsTerminal) -> bool {
    let named = std::env::var_os("TERM").filter(|value| !value.is_empty());
    stream.is_terminal() && named.is_some_and(|term| term != "dumb")
}

/// The columns of the terminal that `stream` leads to; 80 for anything else.
pub(super) fn columns(stream: &impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(stream).map(|size| usize::from(size.ws_col));
    size.ok().filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

/// The text with its answers in color, if standard output wants colors.
pub(super) fn colored(text: &str) -> String {
    if has_color(&io::stdout()) {
        paint(text)
    } else {
        text.to_owned()
    }
}

/// Labels at the beginning of a line, after which the words of [`WORDS`] have their color.
const LABELS: [&str; 5] = [
    "ANSWER   ",
    "FIRST    ",
    "KNOWN    ",
    "SCOPE    ",
    "VERDICT  ",
];

/// Words that have a color at the beginning of a row or after a label; `P2P: YES but` is before `P2P: YES`.
const WORDS: [(&str, AnsiColor); 14] = [
    ("PASS", AnsiColor::Green),
    ("WARN", AnsiColor::Yellow),
    ("DEGRADED", AnsiColor::Yellow),
    ("FAIL", AnsiColor::Red),
    ("ERROR", AnsiColor::Red),
    ("N/A", AnsiColor::BrightBlack),
    ("INFO", AnsiColor::Cyan),
    ("P2P: YES but SLOW", AnsiColor::Yellow),
    ("P2P: YES", AnsiColor::Green),
    ("P2P: PARTLY", AnsiColor::Yellow),
    ("P2P: NONE", AnsiColor::Yellow),
    ("P2P: NOT TESTED", AnsiColor::Yellow),
    ("P2P: NO", AnsiColor::Red),
    ("P2P: UNKNOWN", AnsiColor::Red),
];

fn paint(text: &str) -> String {
    text.split_inclusive('\n').map(line).collect()
}

fn line(line: &str) -> String {
    let bold = Style::new().bold();
    let label = LABELS.iter().find(|label| line.starts_with(**label));
    let begins = label.map_or("  ", |label| *label);
    let Some(rest) = line.strip_prefix(begins) else {
        return line.to_owned();
    };
    let head = label.map_or_else(
        || begins.to_owned(),
        |label| format!("{bold}{label}{bold:#}"),
    );
    let ends = |word: &str| {
        rest.strip_prefix(word)
            .filter(|after| !after.starts_with(|c: char| c.is_alphanumeric()))
    };
    match WORDS
        .iter()
        .find_map(|(word, color)| Some((word, color, ends(word)?)))
    {
        Some((word, color, after)) => {
            let style = color.on_default().bold();
            format!("{head}{style}{word}{style:#}{after}")
        }
        None => head + rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_and_the_answer_have_colors_and_nothing_else_changes() {
        let text = "firstlight 0.1.0\n\n  PASS   acs   on\n  FAIL   PASSED\n         PASS inside\n  PASSED\n\
                    ANSWER   P2P: YES but SLOW, GPU 0\nVERDICT  ERROR  1\nFIRSTLIGHT verdict=PASS\n";
        let painted = paint(text);
        for part in [
            "  \x1b[1m\x1b[32mPASS\x1b[0m   acs",
            "  \x1b[1m\x1b[31mFAIL\x1b[0m   PASSED",
            "\n         PASS inside\n  PASSED\n",
            "\x1b[1mANSWER   \x1b[0m\x1b[1m\x1b[33mP2P: YES but SLOW\x1b[0m, GPU 0",
            "\x1b[31mERROR\x1b[0m  1\nFIRSTLIGHT verdict=PASS\n",
        ] {
            assert!(painted.contains(part), "{part:?} is missing in {painted:?}");
        }
        let plain = ["\x1b[1m", "\x1b[0m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];
        assert_eq!(
            plain
                .iter()
                .fold(painted, |text, code| text.replace(code, "")),
            text
        );
    }

    #[test]
    fn a_pipe_has_80_columns_and_no_color() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(
            (
                columns(&reader),
                is_live(&std::fs::File::open("/dev/null").unwrap())
            ),
            (80, false)
        );
    }
}
