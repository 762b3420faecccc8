//! The parts of firstlight's report that are needed here: verdict, tests with their times, matrices.

use super::Grid;
use serde_json::Value;

/// One test of the report.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// As `--only` accepts it.
    pub id: String,
    /// `pass`, `warn`, `fail`, `error`, `not-applicable`.
    pub outcome: String,
    /// Its duration.
    pub seconds: f64,
    /// One line.
    pub summary: String,
}

/// One report.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnReport {
    /// `PASS`, `DEGRADED`, `FAIL`, `ERROR`.
    pub verdict: String,
    /// `quick`, `standard`, `full`.
    pub level: String,
    /// Number of GPUs.
    pub gpus: usize,
    /// Duration of all tests together, in seconds.
    pub seconds: f64,
    /// In their order.
    pub tests: Vec<Test>,
    /// All matrices, in their order.
    pub grids: Vec<Grid>,
}

impl Test {
    /// Whether the test uses GPUs through CUDA.
    #[must_use]
    pub fn is_gpus(&self) -> bool {
        self.id == "cuda" || self.id == "host-bandwidth" || self.id.starts_with("p2p-")
    }

    /// Whether the test uses NCCL.
    #[must_use]
    pub fn is_nccl(&self) -> bool {
        self.id == "nccl" || self.id.starts_with("nccl-")
    }

    /// Whether its outcome means that the machine is as it should be.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        matches!(self.outcome.as_str(), "pass" | "warn")
    }
}

impl OwnReport {
    /// Parses a report.
    ///
    /// # Errors
    /// What is missing or invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let report: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if report["schema"] != "firstlight.report/1" {
            return Err(format!(
                "the schema is {}, expected firstlight.report/1",
                report["schema"]
            ));
        }
        let tests = list(&report, "tests")?;
        let matrices = tests
            .iter()
            .map(|t| list(t, "matrices"))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            verdict: word(&report, "verdict")?,
            level: word(&report, "level")?,
            gpus: list(&report, "gpus")?.len(),
            seconds: number(&report, "seconds")?,
            tests: tests.iter().map(test).collect::<Result<_, _>>()?,
            grids: matrices
                .into_iter()
                .flatten()
                .map(grid)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The matrix with this name.
    #[must_use]
    pub fn grid(&self, name: &str) -> Option<&Grid> {
        self.grids.iter().find(|g| g.name == name)
    }

    /// Total duration of some tests, in seconds.
    #[must_use]
    pub fn seconds_of(&self, which: fn(&Test) -> bool) -> f64 {
        self.tests
            .iter()
            .filter(|t| which(t))
            .map(|t| t.seconds)
            .sum()
    }
}

fn test(test: &Value) -> Result<Test, String> {
    Ok(Test {
        id: word(test, "id")?,
        outcome: word(test, "outcome")?,
        seconds: number(test, "seconds")?,
        summary: word(test, "summary")?,
    })
}

fn grid(matrix: &Value) -> Result<Grid, String> {
    let name = word(matrix, "name")?;
    let cell = |cell: &Value| match cell {
        Value::Null => Ok(None),
        other => other
            .as_f64()
            .map(Some)
            .ok_or_else(|| format!("{name}: {other} is no figure")),
    };
    let row = |row: &Value| match row.as_array() {
        Some(cells) => cells.iter().map(cell).collect::<Result<Vec<_>, _>>(),
        None => Err(format!("{name}: {row} is no row")),
    };
    let values = list(matrix, "values")?
        .iter()
        .map(row)
        .collect::<Result<_, _>>()?;
    Ok(Grid { name, values })
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value[key]
        .as_array()
        .ok_or_else(|| format!("{key}: {} is no list", value[key]))
}

fn word(value: &Value, key: &str) -> Result<String, String> {
    value[key]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("{key}: {} is no text", value[key]))
}

fn number(value: &Value, key: &str) -> Result<f64, String> {
    value[key]
        .as_f64()
        .ok_or_else(|| format!("{key}: {} is no number", value[key]))
}
