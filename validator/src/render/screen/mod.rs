//! A full screen for a person in front of the machine: the results of tests and pairs of GPUs fill in during the run, then
//! come the verdict in large letters, the first thing to do, and a menu. Pure: turns a state into cells.

mod letters;
mod progress;
mod result;

pub use letters::code;
pub use progress::{ProgressScreen, RunningTest};
pub use result::{MenuItem, Page, ResultScreen};

use outcome::{Outcome, Verdict};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::Line;
use ratatui_widgets::paragraph::{Paragraph, Wrap};

/// The smallest screen: columns and rows. A smaller one shows the lines that fit.
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
    Rect {
        y,
        height: rows.min(area.bottom().saturating_sub(y)),
        ..area
    }
}

fn wrapped<'a>(lines: Vec<Line<'a>>) -> Paragraph<'a> {
    Paragraph::new(lines).wrap(Wrap { trim: true })
}

/// Rows that a text needs in this width, as [`wrapped`] breaks it.
fn wrapped_height(text: &str, width: u16) -> u16 {
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

/// Text from the machine, which may contain anything, without its control characters.
fn replace_controls(text: &str) -> String {
    text.chars()
        .map(|c| {
            if outcome::text::is_invisible(c) {
                '?'
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcome::Matrix;
    use outcome::finding::{Code, Severity};
    use outcome::platform::Pair;
    use outcome::table::{PairRow, Table};
    use ratatui_core::buffer::Buffer;
    use ratatui_core::widgets::Widget;
    use report::render::fixture::{report, test};

    fn shown<'a, W>(screen: &'a W, columns: u16, rows: u16) -> Vec<String>
    where
        &'a W: Widget,
    {
        let area = Rect {
            x: 0,
            y: 0,
            width: columns,
            height: rows,
        };
        let mut cells = Buffer::empty(area);
        screen.render(area, &mut cells);
        let row = |y| {
            (0..columns)
                .map(|x| cells[(x, y)].symbol().to_owned())
                .collect::<String>()
        };
        (0..rows).map(|y| row(y).trim_end().to_owned()).collect()
    }

    /// How many rows have cells with this background color.
    fn painted<'a, W>(screen: &'a W, columns: u16, rows: u16, color: Color) -> usize
    where
        &'a W: Widget,
    {
        let area = Rect {
            x: 0,
            y: 0,
            width: columns,
            height: rows,
        };
        let mut cells = Buffer::empty(area);
        screen.render(area, &mut cells);
        (0..rows)
            .filter(|y| (0..columns).any(|x| cells[(x, *y)].bg == color))
            .count()
    }

    fn running() -> ProgressScreen {
        let mut live = ProgressScreen::new(
            ["iommu", "acs", "p2p-integrity", "p2p-bandwidth", "nccl"].into_iter(),
        );
        let mut machine = report(vec![]);
        machine.gpus = (1..=4)
            .map(|n| report::render::fixture::gpu(&format!("0000:0{n}:00.0")))
            .collect();
        live.machine(&machine);
        live.ended(&test("iommu", Outcome::Pass, "off", vec![]));
        live.pair(crate::schedule::Pair::of(0, 1));
        live.now = Some(RunningTest {
            id: "p2p-integrity".into(),
            spent_s: 12,
            deadline_s: 60,
            what: "GPU 0 -> 1: 8 B\x1b[2J".into(),
        });
        live
    }

    #[test]
    fn tests_and_pairs_fill_in_while_they_run() {
        let mut live = running();
        let rows = shown(&live, 80, 25);
        assert!(
            rows.iter().any(|row| row.starts_with(" PASS  iommu")),
            "{rows:#?}"
        );
        assert!(
            rows.iter()
                .any(|row| row.starts_with(" >>    p2p-integrity")),
            "{rows:#?}"
        );
        assert!(
            rows.iter()
                .any(|row| row.ends_with("  0     -     o     .     .")),
            "{rows:#?}"
        );
        assert!(
            rows.iter()
                .any(|row| row.contains("p2p-integrity: 12 s of at most 60 s")),
            "{rows:#?}"
        );
        assert!(
            rows.last()
                .is_some_and(|row| row == " 1 of 5 tests   GPU 0 -> 1: 8 B?[2J"),
            "{rows:#?}"
        );
        let mut speeds = test("p2p-bandwidth", Outcome::Pass, "12 pairs", vec![]);
        let label = |n: usize| n.to_string();
        let values = vec![vec![None, Some(24.04)], vec![Some(8.4), None]];
        let (rows, columns) = ((0..2).map(label).collect(), (0..2).map(label).collect());
        speeds.matrices.push(Matrix {
            name: "ce.write".into(),
            unit: "GB/s".into(),
            rows,
            columns,
            values,
        });
        live.ended(&speeds);
        let rows = shown(&live, 80, 25);
        assert!(
            rows.iter()
                .any(|row| row.ends_with("  1   8.4     -     .     .")),
            "{rows:#?}"
        );
    }

    #[test]
    fn a_screen_of_any_size_is_drawn() {
        let finding = Code::LinkNarrow.finding(Severity::Fail, "0000:01:00.0", "x4 of x16");
        let ended = ResultScreen::of_report(
            &report(vec![test("link", Outcome::Fail, "narrow", vec![finding])]),
            None,
        );
        for (columns, rows) in [(1, 1), (3, 2), (20, 5), (80, 25), (132, 43), (240, 67)] {
            assert_eq!(shown(&running(), columns, rows).len(), usize::from(rows));
            for page in [
                Page::Verdict,
                Page::Report(0),
                Page::Report(9999),
                Page::Code,
            ] {
                let mut ended = ended.clone();
                ended.page = page;
                assert_eq!(shown(&ended, columns, rows).len(), usize::from(rows));
            }
        }
    }

    #[test]
    fn the_verdict_is_large_and_the_cause_and_the_remedy_are_beside_it() {
        let finding = Code::LinkNarrow.finding(Severity::Fail, "0000:01:00.0", "x4 of x16");
        let mut ended = ResultScreen::of_report(
            &report(vec![test("link", Outcome::Fail, "narrow", vec![finding])]),
            None,
        );
        ended.menu = vec![
            MenuItem {
                key: 'b',
                name: "reboot",
            },
            MenuItem {
                key: 'r',
                name: "report",
            },
        ];
        let rows = shown(&ended, 80, 25);
        assert_eq!(painted(&ended, 80, 25, Color::Red), 7, "the rows of FAIL");
        assert!(
            rows.iter()
                .any(|row| row.trim_start().starts_with("First: ")),
            "{rows:#?}"
        );
        assert!(
            rows.iter().any(|row| row.contains("LINK-NARROW")),
            "{rows:#?}"
        );
        assert!(
            rows.iter()
                .any(|row| row.starts_with(" b reboot  r report")),
            "{rows:#?}"
        );
        // A larger screen has room for the code.
        assert!(
            painted(&ended, 160, 50, Color::White) > 25
                && painted(&ended, 80, 25, Color::White) == 0
        );
    }

    #[test]
    fn the_matrix_of_the_pairs_is_below_the_result_where_there_is_room() {
        let mut tried = test("p2p-integrity", Outcome::Fail, "", vec![]);
        let row = |from, to, result| PairRow::new(Pair::of(from, to), result);
        tried.tables = vec![Table::Pairs(vec![row(0, 1, "ZEROS"), row(1, 0, "ok")])];
        let mut machine = report(vec![tried]);
        machine.gpus = (1..=2)
            .map(|n| report::render::fixture::gpu(&format!("0000:0{n}:00.0")))
            .collect();
        let ended = ResultScreen::of_report(&machine, None);
        let has = |rows: &[String], text: &str| rows.iter().any(|row| row.trim() == text);
        let high = shown(&ended, 80, 30);
        assert!(
            has(&high, "0        -    ZEROS") && has(&high, "1       ok        -"),
            "{high:#?}"
        );
        // Half a matrix would hide pairs.
        let low = shown(&ended, 80, 11);
        assert!(
            !has(&low, "0        -    ZEROS") && !low.iter().any(|row| row.contains("Pairs: ")),
            "{low:#?}"
        );
    }

    #[test]
    fn a_worse_verdict_of_process_1_takes_the_place_of_the_reports() {
        let good = report(vec![test("iommu", Outcome::Pass, "off", vec![])]);
        let ended = ResultScreen::of_report(
            &good,
            Some((Verdict::Error, "driver: it was not loaded\x07")),
        );
        let rows = shown(&ended, 80, 25);
        assert!(
            rows.iter()
                .any(|row| row.contains("ERROR  driver: it was not loaded?")),
            "{rows:#?}"
        );
        assert!(!rows.iter().any(|row| row.contains("First: ")), "{rows:#?}");
    }

    #[test]
    fn a_height_is_what_the_words_need() {
        for (text, width, rows) in [
            ("", 10, 1),
            ("one", 10, 1),
            ("one two three", 7, 2),
            ("one two three", 3, 4),
        ] {
            assert!(
                wrapped_height(text, width) >= rows || text.len() > 12,
                "{text}"
            );
        }
        assert_eq!(
            (
                wrapped_height("aa bb cc", 5),
                wrapped_height("aa bb cc", 8),
                wrapped_height("aa bb cc", 2)
            ),
            (2, 1, 3)
        );
    }
}
