//! JSON in which no object has duplicate keys. Some readers take the first and some the last of two, so they
//! would disagree about the content.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

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
