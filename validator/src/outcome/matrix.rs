//! Tables of measurements, as a report holds them.

use serde::{Deserialize, Serialize};

/// Measurements by row and column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// What was measured.
    pub name: String,
    /// In what.
    pub unit: String,
    /// Labels of the rows.
    pub rows: Vec<String>,
    /// Labels of the columns.
    pub columns: Vec<String>,
    /// Values by row; `null` where there is none.
    pub values: Vec<Vec<Option<f64>>>,
}
