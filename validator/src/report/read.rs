//! Reads a report from its file, strictly: another schema, a missing, unknown or duplicate key, and
//! contradictions are errors ([`Once`] refuses the duplicates). An incomplete report must not be shown as a complete one. Also the JSON Schema of a
//! report, made from the types that are written.

use super::sound::contradiction;
use super::{Report, SCHEMA};
use crate::text::shown::shown;
use schemars::generate::SchemaSettings;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// Why a file is not a report.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReport {
    /// Not JSON.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// JSON with another schema.
    #[error("schema is {0}, allowed: \"{SCHEMA}\"")]
    Schema(String),
    /// A report with something missing, unknown or of the wrong type.
    #[error("not a valid {SCHEMA}: {0}")]
    Shape(String),
    /// A complete report that contradicts itself.
    #[error("contradicts itself: {0}")]
    Contradiction(String),
}

/// Reads a report.
///
/// # Errors
/// See [`BadReport`].
pub fn from_json(bytes: &[u8]) -> Result<Report, BadReport> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| BadReport::NotJson(line(&e)))?;
    match value.get("schema") {
        Some(Value::String(schema)) if schema == SCHEMA => {}
        other => return Err(BadReport::Schema(other.map_or("none".to_owned(), Value::to_string))),
    }
    serde_json::from_slice::<Once>(bytes).map_err(|e| BadReport::Shape(line(&e)))?;
    let mut report: Report = serde_json::from_value(value).map_err(|e| BadReport::Shape(line(&e)))?;
    // They follow from the findings: what the file says about them is not believed.
    report.explain();
    contradiction(&report).map_or(Ok(report), |why| Err(BadReport::Contradiction(why)))
}

/// The schema, draft 2020-12. Keys that it does not name are allowed: later versions of the same format add some.
#[must_use]
pub fn schema() -> Value {
    // As it is written: then a key that is always there is required.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Report>();
    schema.insert("title".to_owned(), SCHEMA.into());
    schema.to_value()
}

/// The file's content must not break the line of the error.
fn line(error: &serde_json::Error) -> String {
    shown(&error.to_string())
}

/// Any JSON value, checked for duplicate keys and discarded.
#[derive(Debug)]
pub(super) struct Once;

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Looker)
    }
}

struct Looker;

impl<'de> Visitor<'de> for Looker {
    type Value = Once;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(A::Error::custom(format_args!("duplicate key {key:?}")));
            }
            map.next_value::<Once>()?;
            keys.insert(key);
        }
        Ok(Once)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Once, A::Error> {
        while seq.next_element::<Once>()?.is_some() {}
        Ok(Once)
    }

    fn visit_unit<E: Error>(self) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Once, E> {
        Ok(Once)
    }
}
