//! The screen after the tests: the verdict in large letters, the answer, the first thing to do, the causes, and a menu.

use super::letters::letters;
use super::{BOLD, DIM, TITLE, color_of_verdict, replace_controls, rows, wrapped, wrapped_height};
use outcome::Verdict;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Style};
use ratatui_core::text::{Line, Span};
use ratatui_core::widgets::Widget;
use ratatui_widgets::paragraph::Paragraph;
use report::Report;
use report::render::pair_matrix::pairs;
use report::render::words;

/// The fewest columns that the text needs beside the QR code.
const MIN_TEXT_COLUMNS: u16 = 72;

/// An item of the menu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MenuItem {
    /// The key that selects it.
    pub key: char,
    /// Its name.
    pub name: &'static str,
}

/// What the screen shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Page {
    /// The verdict.
    #[default]
    Verdict,
    /// The report as text, from this row on.
    Report(usize),
    /// The QR code alone.
    Code,
}

/// The screen that shows the result.
#[derive(Debug, Clone, Default)]
pub struct ResultScreen {
    head: String,
    verdict: Option<Verdict>,
    answer: String,
    first: Option<String>,
    causes: Vec<(String, String)>,
    counts: String,
    /// The matrix of the pairs, as on the console; shown where there is room.
    pairs: Vec<String>,
    code: Vec<Vec<bool>>,
    /// The report as text.
    text: Vec<String>,
    /// The menu.
    pub menu: Vec<MenuItem>,
    /// The index of the selected item.
    pub chosen: usize,
    /// The page that is shown.
    pub page: Page,
    /// A question or a note, shown instead of the menu.
    pub note: Option<String>,
    /// The key of the item that the question is about.
    pub asked: Option<char>,
}

impl ResultScreen {
    /// The screen of a report. `worse` is the verdict of process 1 with its cause, if it differs.
    #[must_use]
    pub fn of_report(report: &Report, worse: Option<(Verdict, &str)>) -> Self {
        let names = report.gpu_names();
        let parts = [
            words::host(report),
            &names,
            &format!("level {}", report.level),
        ]
        .join("   ");
        let mut ended = Self {
            head: replace_controls(&parts),
            verdict: Some(report.verdict),
            answer: replace_controls(&report.answer),
            first: report
                .causes
                .first()
                .map(|cause| replace_controls(&format!("{} ({})", cause.remedy, cause.code))),
            causes: report
                .causes
                .iter()
                .map(|c| {
                    (
                        c.code.clone(),
                        replace_controls(&format!("{}: {}", c.subject, c.says)),
                    )
                })
                .collect(),
            counts: format!("{}, {:.1} s", words::counts(&report.tests), report.seconds),
            pairs: pairs(report)
                .iter()
                .flat_map(|text| text.lines())
                .map(replace_controls)
                .collect(),
            text: report::render::text::full_text(report, None)
                .lines()
                .map(replace_controls)
                .collect(),
            ..Self::default()
        };
        if let Some((verdict, cause)) = worse {
            ended.overrule(verdict, cause);
        }
        let host = words::host(report).to_owned();
        ended.encode(&host, &report.machine.fingerprint);
        ended
    }

    /// The screen of a machine without a report.
    #[must_use]
    pub fn without_report(verdict: Verdict, cause: &str) -> Self {
        let mut ended = Self {
            head: "there is no report".to_owned(),
            ..Self::default()
        };
        ended.overrule(verdict, cause);
        ended.encode("unknown", "no-report");
        ended
    }

    fn overrule(&mut self, verdict: Verdict, cause: &str) {
        self.verdict = Some(verdict);
        self.causes
            .insert(0, (verdict.to_string(), replace_controls(cause)));
        // The report's remedy is not for this cause.
        self.first = None;
    }

    fn encode(&mut self, host: &str, fingerprint: &str) {
        let verdict = self.verdict.map(|v| v.to_string()).unwrap_or_default();
        // The beginning of the fingerprint names the machine's state; all of it would need a larger code.
        let short: String = fingerprint.chars().take(32).collect();
        let host: String = replace_controls(host).chars().take(24).collect();
        self.code =
            super::code(&format!("FIRSTLIGHT {verdict} {host} {short}")).unwrap_or_default();
    }

    /// The last row from which the report can be shown on a screen of this height.
    #[must_use]
    pub fn last_row(&self, rows: u16) -> usize {
        self.text
            .len()
            .saturating_sub(usize::from(rows.saturating_sub(3)))
    }

    /// Rows of the text below the large letters.
    fn height(&self, width: u16) -> u16 {
        let cause =
            |(code, text): &(String, String)| wrapped_height(&format!("{code}  {text}"), width);
        let first = self.first.as_ref().map_or(0, |first| {
            wrapped_height(&format!("First: {first}"), width) + 1
        });
        // An empty row follows the letters, and one the answer.
        let around = 3 + wrapped_height(&self.answer, width) + first;
        self.causes
            .iter()
            .map(cause)
            .fold(around, u16::saturating_add)
    }

    /// Columns and rows of the code: a module is two cells wide.
    fn code_size(&self) -> (u16, u16) {
        let high = u16::try_from(self.code.len()).unwrap_or(u16::MAX);
        (high.saturating_mul(2), high)
    }

    fn draw_code(&self, area: Rect, cells: &mut Buffer) {
        let (wide, high) = self.code_size();
        if high == 0 || area.width < wide || area.height < high {
            let text = format!("The code needs a screen of {wide} columns and {high} rows.");
            return Paragraph::new(text).render(area, cells);
        }
        let rows = self
            .code
            .iter()
            .map(|row| row.iter().flat_map(|light| [*light; 2]).collect());
        paint(
            &rows.collect::<Vec<Vec<bool>>>(),
            area,
            (Color::White, Color::Black),
            cells,
        );
    }

    fn draw_verdict(&self, area: Rect, cells: &mut Buffer) {
        let (wide, high) = self.code_size();
        let beside =
            area.width >= wide.saturating_add(MIN_TEXT_COLUMNS) && area.height > high && high > 0;
        let width = if beside {
            area.width.saturating_sub(wide + 2)
        } else {
            area.width
        };
        let left = Rect {
            x: area.x + 1,
            width: width.saturating_sub(2),
            ..area
        };
        if beside {
            let x = area.right().saturating_sub(wide + 1);
            self.draw_code(
                Rect {
                    x,
                    width: wide,
                    ..area
                },
                cells,
            );
        }
        let word = self.verdict.map(|v| v.to_string()).unwrap_or_default();
        let style = Style::new().fg(self.verdict.map_or(Color::Gray, color_of_verdict));
        let free = left.height.saturating_sub(self.height(left.width));
        let large = letters(
            &word,
            left.width,
            free.clamp(left.height / 3, left.height * 2 / 3),
        );
        let mut at = large
            .as_ref()
            .map_or(1, |large| u16::try_from(large.len()).unwrap_or(u16::MAX));
        match large {
            Some(large) => paint(
                &large,
                left,
                (style.fg.unwrap_or(Color::Gray), Color::Reset),
                cells,
            ),
            None => Paragraph::new(Line::styled(word, style)).render(rows(left, 0, 1), cells),
        }
        at += 1;
        let mut say = |lines: Vec<Line<'_>>, rows_of: &str, gap: u16| {
            let high = wrapped_height(rows_of, left.width);
            wrapped(lines).render(rows(left, at, high), cells);
            at = at.saturating_add(high).saturating_add(gap);
        };
        if !self.answer.is_empty() {
            say(
                vec![Line::styled(self.answer.as_str(), BOLD)],
                &self.answer,
                1,
            );
        }
        if let Some(first) = &self.first {
            let text = format!("First: {first}");
            say(vec![Line::styled(text.as_str(), BOLD)], &text, 1);
        }
        for (code, text) in &self.causes {
            let whole = format!("{code}  {text}");
            let line = Line::from(vec![
                Span::styled(code.as_str(), style),
                Span::raw("  "),
                Span::raw(text.as_str()),
            ]);
            say(vec![line], &whole, 0);
        }
        say(
            vec![Line::styled(self.counts.as_str(), DIM)],
            &self.counts,
            1,
        );
        let high = u16::try_from(self.pairs.len()).unwrap_or(u16::MAX);
        let fits = |line: &String| line.chars().count() <= usize::from(left.width);
        if at.saturating_add(high) <= left.height && self.pairs.iter().all(fits) {
            let lines: Vec<_> = self
                .pairs
                .iter()
                .map(|line| Line::from(line.as_str()))
                .collect();
            Paragraph::new(lines).render(rows(left, at, high), cells);
        }
    }

    fn draw_menu(&self, area: Rect, cells: &mut Buffer) {
        if let Some(note) = &self.note {
            return Paragraph::new(format!(" {note}"))
                .style(TITLE)
                .render(area, cells);
        }
        let spans = self.menu.iter().enumerate().map(|(n, item)| {
            let style = if n == self.chosen {
                TITLE
            } else {
                Style::new()
            };
            Span::styled(format!(" {} {} ", item.key, item.name), style)
        });
        // A line may break between two items.
        let mut lines = vec![Line::default()];
        for span in spans {
            let width = |line: &Line<'_>| line.width();
            match lines.last_mut() {
                Some(line)
                    if width(line) + span.content.chars().count() <= usize::from(area.width) =>
                {
                    line.push_span(span);
                }
                _ => lines.push(Line::from(span)),
            }
        }
        Paragraph::new(lines).render(area, cells);
    }
}

/// Colors the cells of a picture with the first color where it is on, and with the second elsewhere.
fn paint(picture: &[Vec<bool>], area: Rect, (on, off): (Color, Color), cells: &mut Buffer) {
    for (y, row) in (area.y..area.bottom()).zip(picture) {
        for (x, is_on) in (area.x..area.right()).zip(row) {
            if let Some(cell) = cells.cell_mut((x, y)) {
                cell.set_symbol(" ").set_bg(if *is_on { on } else { off });
            }
        }
    }
}

impl Widget for &ResultScreen {
    fn render(self, area: Rect, cells: &mut Buffer) {
        if self.page == Page::Code {
            return self.draw_code(area, cells);
        }
        let title = format!(" firstlight   {}", self.head);
        Paragraph::new(title)
            .style(TITLE)
            .render(rows(area, 0, 1), cells);
        let menu = 2.min(area.height);
        match self.page {
            Page::Report(from) => {
                let high = area.height.saturating_sub(3);
                let lines: Vec<_> = self
                    .text
                    .iter()
                    .skip(from)
                    .take(usize::from(high))
                    .map(|l| Line::from(l.as_str()))
                    .collect();
                Paragraph::new(lines).render(rows(area, 1, high), cells);
            }
            _ => self.draw_verdict(rows(area, 2, area.height.saturating_sub(5)), cells),
        }
        self.draw_menu(rows(area, area.height.saturating_sub(menu), menu), cells);
    }
}
