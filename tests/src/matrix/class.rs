//! A class of faults: what is wrong, its variants, the verdicts required of each level, and where a fault is put: the
//! pair and the GPUs that replace the placeholders of a class. Pairs are chosen by number, so that a case is the same
//! in every run, and all pairs occur over a matrix.

use super::healthy::HealthyMachine;
use super::{number, text, words};
use crate::error::{Error, Result};
use crate::simgpu::Scenario;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The levels, in order.
pub const LEVELS: [&str; 3] = ["quick", "standard", "full"];

/// What a level claims about a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The fault is found, with one of these verdicts.
    Found(Vec<String>),
    /// The level does not look for it, for this reason; a verdict of PASS is not a false PASS.
    Not(String),
}

/// A class of faults.
#[derive(Debug, Clone)]
pub struct FaultClass {
    /// Its unique name.
    pub id: String,
    /// The chapter, which is its file's name.
    pub chapter: String,
    /// What is wrong, in the words of the documentation page.
    pub what: String,
    /// What each level claims.
    pub claims: [Claim; 3],
    /// The tests of which at least one must be blamed if the fault is found.
    pub blamed: Vec<String>,
    /// The tests with whose figures those compare: alone they could not judge.
    pub needs: Vec<String>,
    /// The minimum number of GPUs.
    pub min_gpus: usize,
    /// The maximum number of GPUs that is tried.
    pub max_gpus: usize,
    /// How many GPUs are behind each PCIe switch; `None`: each behind a root port.
    each: Option<usize>,
    /// The machine that has the fault.
    on: String,
    /// Differences from that machine.
    differs: Table,
    /// The settings of its owner: `validate.nvls=true`.
    settings: Vec<String>,
    /// The faults, with placeholders for pairs and GPUs.
    faults: Vec<Table>,
    /// Keys of the last fault and their values: each combination is a variant.
    vary: Vec<(String, Vec<Value>)>,
}

impl FaultClass {
    /// All classes, in the order of the files.
    ///
    /// # Errors
    /// If a file cannot be read, or a class is invalid.
    pub fn all() -> Result<Vec<Self>> {
        super::tables("class")?
            .into_iter()
            .map(|(file, table)| Self::from_table(&file, table))
            .collect()
    }

    pub(super) fn from_table(file: &str, mut table: Table) -> Result<Self> {
        let id = text(&table, "id").unwrap_or_default();
        let wrong = |why: String| Error::Scenario {
            path: format!("{file}: class {id:?}").into(),
            why,
        };
        let known = [
            "id", "what", "quick", "standard", "full", "blamed", "needs", "least", "most", "on",
            "differs", "fault", "vary", "each", "set",
        ];
        if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(wrong(format!("{key} is no key of a class")));
        }
        let claim = |level: &str| {
            let claim =
                text(&table, level).ok_or_else(|| wrong(format!("says nothing about {level}")))?;
            Claim::parse(&claim).map_err(wrong)
        };
        let claims = [claim(LEVELS[0])?, claim(LEVELS[1])?, claim(LEVELS[2])?];
        let blamed = words(&table, "blamed");
        if blamed.is_empty() && claims.iter().any(|c| matches!(c, Claim::Found(_))) {
            return Err(wrong("names no test that finds it".to_owned()));
        }
        let what =
            text(&table, "what").ok_or_else(|| wrong("does not say what is wrong".to_owned()))?;
        let faults = table
            .remove("fault")
            .and_then(|v| v.try_into::<Vec<Table>>().ok())
            .unwrap_or_default();
        let vary = match table.remove("vary") {
            Some(Value::Table(vary)) => vary.into_iter().collect(),
            _ => Vec::new(),
        };
        let vary = vary.into_iter().map(|(key, values)| match values {
            Value::Array(values) if !values.is_empty() && !faults.is_empty() => Ok((key, values)),
            _ => Err(wrong(format!(
                "vary.{key} is no list, or there is no fault"
            ))),
        });
        let differs = match table.remove("differs") {
            Some(Value::Table(differs)) => differs,
            _ => Table::new(),
        };
        if faults.is_empty() && differs.is_empty() {
            return Err(wrong("has no fault".to_owned()));
        }
        let vary = vary.collect::<Result<Vec<_>>>()?;
        let on = text(&table, "on").unwrap_or_else(|| "epyc-8x4090".to_owned());
        let (min_gpus, max_gpus) = (
            number(&table, "least").unwrap_or(2),
            number(&table, "most").unwrap_or(64),
        );
        Ok(Self {
            id: id.clone(),
            chapter: file.to_owned(),
            what,
            claims,
            blamed,
            needs: words(&table, "needs"),
            min_gpus,
            max_gpus,
            each: number(&table, "each"),
            on,
            differs,
            settings: words(&table, "set"),
            faults,
            vary,
        })
    }

    /// The number of variants.
    #[must_use]
    pub fn variants(&self) -> usize {
        self.vary.iter().map(|(_, values)| values.len()).product()
    }

    /// The values of a variant: the last key changes fastest.
    #[must_use]
    pub fn variant(&self, mut nth: usize) -> BTreeMap<&str, &Value> {
        let mut chosen = BTreeMap::new();
        for (key, values) in self.vary.iter().rev() {
            chosen.insert(key.as_str(), &values[nth % values.len()]);
            nth /= values.len();
        }
        chosen
    }

    /// The name of a variant: `engine=ce way=write`.
    #[must_use]
    pub fn variant_name(&self, nth: usize) -> String {
        let one =
            |(key, value): (&str, &Value)| format!("{key}={}", value.to_string().trim_matches('"'));
        self.variant(nth)
            .into_iter()
            .map(one)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The scenario of a variant with `gpus` GPUs, placed at `pair`.
    ///
    /// # Errors
    /// If its machine does not exist.
    pub fn scenario(&self, nth: usize, gpus: usize, pair: GpuPair) -> Result<Scenario> {
        let mut faults = self.faults.clone();
        if let Some(last) = faults.last_mut() {
            last.extend(
                self.variant(nth)
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value.clone())),
            );
        }
        let mut own = self.differs.clone();
        own.insert("on".to_owned(), Value::String(self.on.clone()));
        if !faults.is_empty() {
            own.insert(
                "fault".to_owned(),
                Value::Array(faults.into_iter().map(Value::Table).collect()),
            );
        }
        pair.substitute(&mut own);
        let scenario = Scenario::of(own)?.gpus(gpus).set(&self.settings);
        if let Some(each) = self.each {
            return HealthyMachine::switched(gpus, each).in_matching_machine(scenario);
        }
        if scenario.has_nvlink() {
            HealthyMachine::guest(gpus).in_matching_machine(scenario)
        } else {
            Ok(scenario)
        }
    }
}

impl Claim {
    /// Parses `FAIL`, `FAIL ERROR`, or `not: REASON`.
    fn parse(claim: &str) -> std::result::Result<Self, String> {
        if let Some(why) = claim.strip_prefix("not: ") {
            return Ok(Self::Not(why.to_owned()));
        }
        let verdicts: Vec<_> = claim.split_whitespace().map(str::to_owned).collect();
        let known = |v: &String| ["FAIL", "ERROR", "DEGRADED"].contains(&v.as_str());
        if verdicts.is_empty() || !verdicts.iter().all(known) {
            return Err(format!("{claim:?}: give verdicts, or `not: REASON`"));
        }
        Ok(Self::Found(verdicts))
    }
}

/// A pair of GPUs, among a number of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuPair {
    from: usize,
    to: usize,
    gpus: usize,
}

impl GpuPair {
    /// The nth pair among `gpus` GPUs.
    #[must_use]
    pub fn nth(nth: usize, gpus: usize) -> Self {
        let from = (nth * 7 + nth / 3) % gpus.max(1);
        let further = 1 + (nth * 5 + nth / 2) % gpus.saturating_sub(1).max(1);
        Self {
            from,
            to: (from + further) % gpus.max(1),
            gpus,
        }
    }

    /// The first GPU outside the pair; with two GPUs there is none, and the last GPU is used instead.
    fn third(self) -> usize {
        (0..self.gpus)
            .find(|gpu| ![self.from, self.to].contains(gpu))
            .unwrap_or(self.gpus.saturating_sub(1))
    }

    fn placeholder_value(self, word: &str) -> Option<Value> {
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

    /// Replaces placeholders by their values.
    pub fn substitute(self, table: &mut Table) {
        table
            .iter_mut()
            .for_each(|(_, value)| self.substitute_value(value));
    }

    fn substitute_value(self, value: &mut Value) {
        match value {
            Value::String(word) => {
                if let Some(meant) = self.placeholder_value(word) {
                    *value = meant;
                }
            }
            Value::Array(values) => values
                .iter_mut()
                .for_each(|value| self.substitute_value(value)),
            Value::Table(table) => self.substitute(table),
            _ => {}
        }
    }
}

impl std::fmt::Display for GpuPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}>{}", self.from, self.to)
    }
}
