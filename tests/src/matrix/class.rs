//! A class of faults: what is wrong, its variants, and what each level must say of it.

use super::healthy::Healthy;
use super::place::Place;
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
    /// It is found, with one of these verdicts.
    Found(Vec<String>),
    /// It is not looked for, for this reason; a verdict of PASS is no false one.
    Not(String),
}

/// A class of faults.
#[derive(Debug, Clone)]
pub struct Class {
    /// Its name, which no other has.
    pub id: String,
    /// The chapter: its file's name.
    pub chapter: String,
    /// What is wrong, as the page of docs says it.
    pub what: String,
    /// What the levels claim.
    pub claims: [Claim; 3],
    /// The tests of which at least one must be blamed where the fault is found.
    pub blamed: Vec<String>,
    /// Fewer GPUs cannot have it.
    pub least: usize,
    /// More GPUs are not tried.
    pub most: usize,
    /// The machine that has it.
    on: String,
    /// What differs from it.
    differs: Table,
    /// The faults, with placeholders for pairs and GPUs.
    faults: Vec<Table>,
    /// Keys of the last fault and their values: each combination is a variant.
    vary: Vec<(String, Vec<Value>)>,
}

impl Class {
    /// All classes, in the order of the files.
    ///
    /// # Errors
    /// A file that cannot be read, or a class that makes no sense.
    pub fn all() -> Result<Vec<Self>> {
        super::tables("class")?.into_iter().map(|(file, table)| Self::of(&file, table)).collect()
    }

    pub(super) fn of(file: &str, mut table: Table) -> Result<Self> {
        let id = text(&table, "id").unwrap_or_default();
        let wrong = |why: String| Error::Scenario { path: format!("{file}: class {id:?}").into(), why };
        let known = [
            "id", "what", "quick", "standard", "full", "blamed", "least", "most", "on", "differs", "fault",
            "vary",
        ];
        if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(wrong(format!("{key} is no key of a class")));
        }
        let claim = |level: &str| {
            let said = text(&table, level).ok_or_else(|| wrong(format!("says nothing about {level}")))?;
            Claim::of(&said).map_err(wrong)
        };
        let claims = [claim(LEVELS[0])?, claim(LEVELS[1])?, claim(LEVELS[2])?];
        let blamed = words(&table, "blamed");
        if blamed.is_empty() && claims.iter().any(|c| matches!(c, Claim::Found(_))) {
            return Err(wrong("names no test that finds it".to_owned()));
        }
        let what = text(&table, "what").ok_or_else(|| wrong("does not say what is wrong".to_owned()))?;
        let faults = table.remove("fault").and_then(|v| v.try_into::<Vec<Table>>().ok()).unwrap_or_default();
        let vary = match table.remove("vary") {
            Some(Value::Table(vary)) => vary.into_iter().collect(),
            _ => Vec::new(),
        };
        let vary = vary.into_iter().map(|(key, values)| match values {
            Value::Array(values) if !values.is_empty() && !faults.is_empty() => Ok((key, values)),
            _ => Err(wrong(format!("vary.{key} is no list, or there is no fault"))),
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
        let (least, most) = (number(&table, "least").unwrap_or(2), number(&table, "most").unwrap_or(64));
        Ok(Self {
            id: id.clone(),
            chapter: file.to_owned(),
            what,
            claims,
            blamed,
            least,
            most,
            on,
            differs,
            faults,
            vary,
        })
    }

    /// How many variants it has.
    #[must_use]
    pub fn variants(&self) -> usize {
        self.vary.iter().map(|(_, values)| values.len()).product()
    }

    /// The values of a variant: the last key turns fastest.
    #[must_use]
    pub fn variant(&self, mut nth: usize) -> BTreeMap<&str, &Value> {
        let mut chosen = BTreeMap::new();
        for (key, values) in self.vary.iter().rev() {
            chosen.insert(key.as_str(), &values[nth % values.len()]);
            nth /= values.len();
        }
        chosen
    }

    /// What a variant is called: `engine=ce way=write`.
    #[must_use]
    pub fn variant_name(&self, nth: usize) -> String {
        let one = |(key, value): (&str, &Value)| format!("{key}={}", value.to_string().trim_matches('"'));
        self.variant(nth).into_iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// The scenario of a variant with `gpus` GPUs, placed by `place`.
    ///
    /// # Errors
    /// Its machine is not there.
    pub fn scenario(&self, nth: usize, gpus: usize, place: Place) -> Result<Scenario> {
        let mut faults = self.faults.clone();
        if let Some(last) = faults.last_mut() {
            last.extend(self.variant(nth).into_iter().map(|(key, value)| (key.to_owned(), value.clone())));
        }
        let mut own = self.differs.clone();
        own.insert("on".to_owned(), Value::String(self.on.clone()));
        if !faults.is_empty() {
            own.insert("fault".to_owned(), Value::Array(faults.into_iter().map(Value::Table).collect()));
        }
        place.fill(&mut own);
        let scenario = Scenario::of(own)?.gpus(gpus);
        if scenario.has_nvlink() { Healthy::guest(gpus).housed(scenario) } else { Ok(scenario) }
    }
}

impl Claim {
    /// `FAIL`, `FAIL ERROR`, or `not: REASON`.
    fn of(said: &str) -> std::result::Result<Self, String> {
        if let Some(why) = said.strip_prefix("not: ") {
            return Ok(Self::Not(why.to_owned()));
        }
        let verdicts: Vec<_> = said.split_whitespace().map(str::to_owned).collect();
        let known = |v: &String| ["FAIL", "ERROR", "DEGRADED"].contains(&v.as_str());
        if verdicts.is_empty() || !verdicts.iter().all(known) {
            return Err(format!("{said:?}: give verdicts, or `not: REASON`"));
        }
        Ok(Self::Found(verdicts))
    }
}
