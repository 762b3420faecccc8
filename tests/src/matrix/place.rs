//! Where a fault is put: the pair and the GPUs that stand for the placeholders of a class. Chosen by number, so
//! that a case is the same whenever it runs, and all places come up over a matrix.

use toml::{Table, Value};

/// A pair of GPUs, and others that are not of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    from: usize,
    to: usize,
    gpus: usize,
}

impl Place {
    /// The nth place among `gpus` GPUs.
    #[must_use]
    pub fn nth(nth: usize, gpus: usize) -> Self {
        let from = (nth * 7 + nth / 3) % gpus.max(1);
        let further = 1 + (nth * 5 + nth / 2) % gpus.saturating_sub(1).max(1);
        Self { from, to: (from + further) % gpus.max(1), gpus }
    }

    /// The first GPU that is not of the pair; with two GPUs there is none, and the last stands for it.
    fn third(self) -> usize {
        (0..self.gpus).find(|gpu| ![self.from, self.to].contains(gpu)).unwrap_or(self.gpus.saturating_sub(1))
    }

    fn meant(self, word: &str) -> Option<Value> {
        let number = |gpu: usize| Value::Integer(i64::try_from(gpu).unwrap_or_default());
        Some(match word {
            "$pair" => Value::Array(vec![number(self.from), number(self.to)]),
            "$back" => Value::Array(vec![number(self.to), number(self.from)]),
            "$gpu" => number(self.to),
            "$third" => number(self.third()),
            "$last" => number(self.gpus.saturating_sub(1)),
            "$half" => Value::Array((0..self.gpus / 2).map(number).collect()),
            "$gpus" => Value::Array((0..self.gpus).map(number).collect()),
            _ => return None,
        })
    }

    /// Puts values in the place of placeholders.
    pub fn fill(self, table: &mut Table) {
        table.iter_mut().for_each(|(_, value)| self.fill_value(value));
    }

    fn fill_value(self, value: &mut Value) {
        match value {
            Value::String(word) => {
                if let Some(meant) = self.meant(word) {
                    *value = meant;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.fill_value(value)),
            Value::Table(table) => self.fill(table),
            _ => {}
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}>{}", self.from, self.to)
    }
}
