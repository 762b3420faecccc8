//! The screen while the tests run: the list of tests, the pairs of GPUs, and the running test.

use super::{BOLD, DIM, TITLE, color_of, replace_controls, rows};
use crate::schedule::Pair;
use outcome::Outcome;
use outcome::metric::Metric;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Style};
use ratatui_core::text::{Line, Span};
use ratatui_core::widgets::Widget;
use ratatui_widgets::gauge::Gauge;
use ratatui_widgets::paragraph::Paragraph;
use report::render::words;
use report::{Report, TestEntry};
use std::collections::BTreeMap;

/// The test whose figures the pairs show, GB/s.
const FIGURES: &str = "p2p-bandwidth";
/// Its matrices with peer access, the best first.
const WITH_PEER_ACCESS: [Metric; 2] = [Metric::CE_WRITE, Metric::SAMPLE_UNI_ON];
/// Columns of one pair: `123.4 `.
const CELL: u16 = 6;
/// Columns of the note below them.
const NOTE: u16 = 19;
/// The fewest columns of the list of tests if the pairs are beside it.
const LIST: u16 = 42;

/// The running test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningTest {
    /// Its id.
    pub id: String,
    /// How long it has run, seconds.
    pub spent_s: u64,
    /// How long it may run, seconds.
    pub deadline_s: u64,
    /// Its current step; empty if it has not reported one.
    pub what: String,
}

/// The state of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell {
    /// A test has worked on it.
    Tried,
    /// The speed from the row's GPU to the column's, GB/s.
    Figure(f64),
}

/// The screen that shows the progress of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProgressScreen {
    head: String,
    gpus: usize,
    tests: Vec<(String, Option<(Outcome, String)>)>,
    pairs: BTreeMap<Pair, Cell>,
    /// The running test.
    pub now: Option<RunningTest>,
}

impl ProgressScreen {
    /// A run of these tests, before the first.
    #[must_use]
    pub fn new(ids: impl Iterator<Item = &'static str>) -> Self {
        Self {
            tests: ids.map(|id| (id.to_owned(), None)).collect(),
            ..Self::default()
        }
    }

    /// Sets the machine that the run is about.
    pub fn machine(&mut self, report: &Report) {
        let names = report.gpu_names();
        let parts = [
            words::host(report),
            &names,
            &format!("level {}", report.level),
        ]
        .join("   ");
        self.head = replace_controls(&parts);
        self.gpus = report.gpus.len();
    }

    /// The running test works on this pair.
    pub fn pair(&mut self, pair: Pair) {
        self.pairs.entry(pair).or_insert(Cell::Tried);
    }

    /// A test has ended. One that was not planned, about the run itself, is added.
    pub fn ended(&mut self, test: &TestEntry) {
        let said = Some((test.outcome, replace_controls(&test.summary)));
        match self.tests.iter_mut().find(|(id, _)| *id == test.id) {
            Some((_, place)) => *place = said,
            None => self.tests.push((test.id.clone(), said)),
        }
        let named = |metric: &Metric| {
            test.matrices
                .iter()
                .find(|matrix| matrix.metric() == Some(*metric))
        };
        let figures = WITH_PEER_ACCESS
            .iter()
            .find_map(named)
            .filter(|_| test.id == FIGURES);
        for (from, row) in figures
            .iter()
            .flat_map(|matrix| matrix.values.iter().enumerate())
        {
            for (to, figure) in row.iter().enumerate().filter(|(to, _)| *to != from) {
                self.pairs
                    .extend(figure.map(|figure| (Pair::of(from, to), Cell::Figure(figure))));
            }
        }
    }

    fn done(&self) -> usize {
        self.tests.iter().filter(|(_, said)| said.is_some()).count()
    }

    fn list(&self, rows: usize, width: usize) -> Vec<Line<'static>> {
        let line = |(id, said): &(String, Option<(Outcome, String)>)| {
            let runs = self.now.as_ref().is_some_and(|now| now.id == *id);
            let (word, style) = match said {
                Some((outcome, _)) => (
                    words::outcome(*outcome),
                    Style::new().fg(color_of(*outcome)),
                ),
                None if runs => (">>", BOLD),
                None => ("", DIM),
            };
            let text = said
                .as_ref()
                .map(|(_, text)| text.as_str())
                .unwrap_or_default();
            let text: String = text.chars().take(width.saturating_sub(25)).collect();
            Line::from(vec![
                Span::styled(format!(" {word:<6}"), style),
                Span::styled(format!("{id:<17} "), if runs { BOLD } else { Style::new() }),
                Span::styled(text, DIM),
            ])
        };
        // Tests that have ended scroll away first.
        let first = (self.done() + 3)
            .saturating_sub(rows)
            .min(self.tests.len().saturating_sub(rows));
        self.tests.iter().skip(first).take(rows).map(line).collect()
    }

    fn matrix(&self) -> Vec<Line<'static>> {
        let numbers: String = (0..self.gpus).map(|to| format!("{to:>5} ")).collect();
        let cell = |pair: Pair| match self.pairs.get(&pair) {
            _ if pair.from == pair.to => Span::styled("    - ", DIM),
            None => Span::styled("    . ", DIM),
            Some(Cell::Tried) => Span::styled("    o ", Style::new().fg(Color::Cyan)),
            Some(Cell::Figure(figure)) => Span::styled(format!("{figure:>5.1} "), BOLD),
        };
        let row = |from: usize| {
            let head = [Span::styled(format!("{from:>3} "), BOLD)].into_iter();
            Line::from(
                head.chain((0..self.gpus).map(|to| cell(Pair::of(from, to))))
                    .collect::<Vec<_>>(),
            )
        };
        let head = Line::from(vec![
            Span::styled("GPU ", BOLD),
            Span::styled(numbers, BOLD),
        ]);
        let note = ["from row to column", "o tried, else GB/s"].map(|line| Line::styled(line, DIM));
        [head]
            .into_iter()
            .chain((0..self.gpus).map(row))
            .chain(note)
            .collect()
    }
}

impl Widget for &ProgressScreen {
    fn render(self, area: Rect, cells: &mut Buffer) {
        let title = format!(" firstlight   {}", self.head);
        Paragraph::new(title)
            .style(TITLE)
            .render(rows(area, 0, 1), cells);
        let body = rows(area, 2, area.height.saturating_sub(5));
        let gpus = u16::try_from(self.gpus).unwrap_or(u16::MAX);
        let (wide, high) = (
            gpus.saturating_mul(CELL).saturating_add(4),
            gpus.saturating_add(3),
        );
        let wide = wide.max(NOTE);
        let beside =
            self.gpus > 1 && LIST.saturating_add(wide) <= area.width && high <= body.height;
        let list = if beside {
            body.width.saturating_sub(wide.saturating_add(1))
        } else {
            body.width
        };
        let lines = self.list(usize::from(body.height), usize::from(list));
        Paragraph::new(lines).render(
            Rect {
                width: list,
                ..body
            },
            cells,
        );
        if beside {
            let x = body.right().saturating_sub(wide);
            Paragraph::new(self.matrix()).render(
                Rect {
                    x,
                    width: wide,
                    ..body
                },
                cells,
            );
        }
        let (done, all) = (self.done(), self.tests.len());
        let (label, part) = match &self.now {
            Some(now) => {
                let part = now.spent_s.min(now.deadline_s) as f64 / now.deadline_s.max(1) as f64;
                (
                    format!(
                        "{}: {} s of at most {} s",
                        now.id, now.spent_s, now.deadline_s
                    ),
                    part,
                )
            }
            None => (String::new(), 0.0),
        };
        let gauge = Gauge::default()
            .ratio(part)
            .label(label)
            .gauge_style(Style::new().fg(Color::Cyan));
        gauge.render(rows(area, area.height.saturating_sub(2), 1), cells);
        let what = self
            .now
            .as_ref()
            .map(|now| replace_controls(&now.what))
            .unwrap_or_default();
        let foot = format!(" {done} of {all} tests   {what}");
        Paragraph::new(foot)
            .style(DIM)
            .render(rows(area, area.height.saturating_sub(1), 1), cells);
    }
}
