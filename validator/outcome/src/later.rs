//! Parts of a report that a later version may write in another way: they add to what the texts and the other keys say, so what
//! this version cannot read of them is left out, and the report stays readable. All other parts are read strictly.

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;

/// The value; the default if this version cannot read it.
pub fn or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    from: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// The elements that this version can read.
pub fn readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let all = match Value::deserialize(from)? {
        Value::Array(all) => all,
        _ => Vec::new(),
    };
    Ok(all
        .into_iter()
        .filter_map(|one| serde_json::from_value(one).ok())
        .collect())
}
