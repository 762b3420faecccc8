//! The result of an attack.

use std::time::Duration;

/// One attack.
pub(crate) type Attack = fn() -> Counts;

/// What happened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) runs: u64,
    /// Reports that were acknowledged and are not there, or that did not arrive.
    pub(crate) lost: u64,
    /// Answers that are wrong.
    pub(crate) wrong: u64,
    /// What did not end in time.
    pub(crate) hung: u64,
    pub(crate) crashed: u64,
    /// Measured values, and the first thing that was wrong.
    pub(crate) notes: Vec<String>,
}

impl Counts {
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Counts a wrong answer unless `right`; the first of them is noted.
    pub(crate) fn check(&mut self, right: bool, says: impl FnOnce() -> String) {
        if !right {
            self.wrong += 1;
            if self.wrong == 1 {
                self.note(format!("wrong: {}", says()));
            }
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.lost += other.lost;
        self.wrong += other.wrong;
        self.hung += other.hung;
        self.crashed += other.crashed;
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.runs > 0 && [self.lost, self.wrong, self.hung, self.crashed] == [0; 4]
    }

    pub(crate) fn row(&self, name: &str, took: Duration) -> String {
        let Self {
            runs,
            lost,
            wrong,
            hung,
            crashed,
            notes,
        } = self;
        let seconds = took.as_secs_f64();
        let mut row = format!(
            "{name:<42} {runs:>6} {lost:>5} {wrong:>6} {hung:>5} {crashed:>8}  {seconds:.1}"
        );
        notes
            .iter()
            .for_each(|note| row.push_str(&format!("\n    {note}")));
        row
    }
}
