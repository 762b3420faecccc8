//! A full screen for a person in front of the machine: the tests and the pairs of GPUs fill in while they run, then the
//! verdict in large letters, what to do first, and a menu. Pure: the state in, cells out.

mod code;
mod ended;
mod letters;
mod live;

pub use code::code;
pub use ended::{Ended, Item, Page};
pub use live::{Live, Now};

use crate::outcome::{Outcome, Verdict};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::Line;
use ratatui_widgets::paragraph::{Paragraph, Wrap};

/// The smallest screen: columns and rows. A smaller one gets the lines that fit.
pub const SMALLEST: (u16, u16) = (80, 25);

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Dark grey is black on some screens.
const DIM: Style = Style::new().fg(Color::Gray);
const TITLE: Style = Style::new().fg(Color::Black).bg(Color::Gray);

/// The color of an outcome; its word is always beside it.
const fn color_of(outcome: Outcome) -> Color {
    match outcome {
        Outcome::Pass => Color::Green,
        Outcome::Warn => Color::Yellow,
        Outcome::Fail | Outcome::Error => Color::Red,
        Outcome::NotApplicable => Color::Gray,
    }
}

const fn color_of_verdict(verdict: Verdict) -> Color {
    match verdict {
        Verdict::Pass => Color::Green,
        Verdict::Degraded => Color::Yellow,
        Verdict::Fail | Verdict::Error => Color::Red,
    }
}

/// The part of `area` from row `from` on, `rows` high; cut at its end.
fn rows(area: Rect, from: u16, rows: u16) -> Rect {
    let y = area.y.saturating_add(from).min(area.bottom());
    Rect { y, height: rows.min(area.bottom().saturating_sub(y)), ..area }
}

fn wrapped<'a>(lines: Vec<Line<'a>>) -> Paragraph<'a> {
    Paragraph::new(lines).wrap(Wrap { trim: true })
}

/// Rows that a text takes in this width, as [`wrapped`] breaks it.
fn height(text: &str, width: u16) -> u16 {
    let width = usize::from(width.max(1));
    let mut rows = 1_u16;
    let mut at = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if at > 0 && at + 1 + length > width {
            rows = rows.saturating_add(1);
            at = length;
        } else {
            at += length + usize::from(at > 0);
        }
    }
    rows
}

/// Text of the machine, which may hold anything: no control characters.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
