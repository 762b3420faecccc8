//! The JSON Schema of the report, made from the types that are written.

use super::{Report, SCHEMA};
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The schema, draft 2020-12. Keys that it does not name are allowed: later versions of the same format add some.
#[must_use]
pub fn schema() -> Value {
    // As it is written: then a key that is always there is required.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Report>();
    schema.insert("title".to_owned(), SCHEMA.into());
    schema.to_value()
}
