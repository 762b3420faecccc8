//! What is checked of a document's JSON before it is parsed into types: that it is JSON, its schema, duplicate keys, and how
//! many values it has. Nothing of the document is kept, so the check needs little memory whatever the document contains.

use outcome::text::{shown, size};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;

/// Most memory, in bytes, that the values of the known parts of a document may take. A report of 16 GPUs takes a few MiB.
pub const MOST_MEMORY: usize = 128 << 20;
/// Most keys of one object; of the parts that are skipped, the keys alone need memory.
const MOST_KEYS: usize = 250_000;
/// What values take at most: any one in its array or object, the space that an array has for its first elements, the first node
/// of an object's tree, and what each of its keys adds.
const VALUE: usize = 32;
const ARRAY: usize = 160;
const OBJECT: usize = 500;
const KEY: usize = 140;
/// The longest name of a schema that a message repeats, characters.
const LONGEST: usize = 60;

/// Why a document is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Not JSON.
    NotJson(String),
    /// Another schema: what was read.
    Schema(String),
    /// A duplicate key, too many values, or something missing or of the wrong type.
    Shape(String),
}

/// Parses a document of this schema; keys that the type does not have are skipped. `known` are its keys.
///
/// # Errors
/// See [`Refused`].
pub(super) fn document<T: DeserializeOwned>(
    bytes: &[u8],
    schema: &str,
    known: &[&str],
) -> Result<T, Refused> {
    let mut seen = Seen::default();
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let checked = Checked {
        seen: &mut seen,
        part: Part::Whole(known),
    }
    .deserialize(&mut from);
    checked
        .and_then(|()| from.end())
        .map_err(|e| Refused::NotJson(line(&e)))?;
    if seen.schema.as_ref().is_none_or(|read| read != schema) {
        return Err(Refused::Schema(match seen.schema {
            Some(read) => format!("{:?}", read.chars().take(LONGEST).collect::<String>()),
            None if seen.has_schema => "no text".to_owned(),
            None => "none".to_owned(),
        }));
    }
    seen.wrong.map_or(Ok(()), |why| Err(Refused::Shape(why)))?;
    serde_json::from_slice(bytes).map_err(|e| Refused::Shape(line(&e)))
}

/// The error in one line, which the file's content must not break.
fn line(error: &serde_json::Error) -> String {
    shown(&error.to_string())
}

/// What has been seen of a document.
#[derive(Debug, Default)]
struct Seen {
    schema: Option<String>,
    has_schema: bool,
    /// The first thing that is wrong in JSON that is valid.
    wrong: Option<String>,
    /// How much memory the values of the known parts take so far.
    memory: usize,
}

impl Seen {
    fn wrong(&mut self, why: impl FnOnce() -> String) {
        if self.wrong.is_none() {
            self.wrong = Some(why());
        }
    }
}

/// Which part of a document a value is.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    /// All of it, with the keys that are known.
    Whole(&'a [&'a str]),
    /// The name of its schema.
    Schema,
    /// Something that is parsed into types.
    Known,
    /// Something that is skipped.
    Skipped,
}

/// Checks one value.
#[derive(Debug)]
struct Checked<'a> {
    seen: &'a mut Seen,
    part: Part<'a>,
}

impl Checked<'_> {
    /// Counts a value that takes this much beside its own place.
    fn count(&mut self, more: usize) {
        if !matches!(self.part, Part::Skipped) {
            self.seen.memory += VALUE + more;
            if self.seen.memory > MOST_MEMORY {
                self.seen
                    .wrong(|| format!("more values than fit into {}", size(MOST_MEMORY as u64)));
            }
        }
    }

    fn within(&self, key: &str) -> Part<'static> {
        match self.part {
            Part::Whole(_) if key == "schema" => Part::Schema,
            Part::Whole(known) if known.contains(&key) => Part::Known,
            Part::Whole(_) | Part::Skipped => Part::Skipped,
            Part::Schema | Part::Known => Part::Known,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Checked<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Checked<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.count(OBJECT);
        let mut keys = Keys::default();
        loop {
            let key = Key {
                keys: &mut keys,
                within: &self,
                duplicate: None,
            };
            let Some((part, duplicate)) = map.next_key_seed(key)? else {
                return Ok(());
            };
            if let Some(key) = duplicate {
                self.seen.wrong(|| format!("duplicate key {key:?}"));
            }
            if keys.hashes.len() > MOST_KEYS {
                self.seen
                    .wrong(|| format!("an object with more than {MOST_KEYS} keys"));
                // Nothing more is remembered of it.
                map.next_value::<IgnoredAny>()?;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                return Ok(());
            }
            self.count(KEY);
            self.seen.has_schema |= matches!(part, Part::Schema);
            map.next_value_seed(Checked {
                seen: self.seen,
                part,
            })?;
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        self.count(ARRAY);
        let part = match self.part {
            Part::Skipped => Part::Skipped,
            _ => Part::Known,
        };
        while seq
            .next_element_seed(Checked {
                seen: self.seen,
                part,
            })?
            .is_some()
        {}
        Ok(())
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.count(0);
        Ok(())
    }

    fn visit_bool<E: Error>(mut self, _: bool) -> Result<(), E> {
        self.count(0);
        Ok(())
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<(), E> {
        self.count(0);
        Ok(())
    }

    fn visit_u64<E: Error>(mut self, _: u64) -> Result<(), E> {
        self.count(0);
        Ok(())
    }

    fn visit_f64<E: Error>(mut self, _: f64) -> Result<(), E> {
        self.count(0);
        Ok(())
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.count(text.len());
        if matches!(self.part, Part::Schema) && self.seen.schema.is_none() {
            self.seen.schema = Some(text.chars().take(LONGEST + 1).collect());
        }
        Ok(())
    }
}

/// The keys of one object by their hashes, which need less memory than the shortest keys do. The hashes are of random seeds:
/// nobody can make two keys that have the same one.
#[derive(Debug, Default)]
struct Keys {
    hashes: HashSet<u64>,
    seed: RandomState,
}

/// Reads one key: of which part its value is, and the key if it is there a second time.
#[derive(Debug)]
struct Key<'a, 'b> {
    keys: &'a mut Keys,
    within: &'a Checked<'b>,
    duplicate: Option<String>,
}

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = (Part<'static>, Option<String>);

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key<'_, '_> {
    type Value = (Part<'static>, Option<String>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(mut self, key: &str) -> Result<Self::Value, E> {
        if !self.keys.hashes.insert(self.keys.seed.hash_one(key)) {
            self.duplicate = Some(key.chars().take(LONGEST).collect());
        }
        Ok((self.within.within(key), self.duplicate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Document {
        schema: String,
        rows: Vec<u8>,
    }

    fn read(text: &str) -> Result<Document, Refused> {
        document(text.as_bytes(), "a/1", &["schema", "rows"])
    }

    fn shape(text: &str) -> String {
        match read(text) {
            Err(Refused::Shape(why)) => why,
            other => panic!("{text:.100} {other:?}"),
        }
    }

    #[test]
    fn values_of_known_keys_are_counted_and_those_of_others_are_skipped() {
        let many = vec!["0"; MOST_MEMORY / VALUE + 1].join(",");
        let skipped =
            format!(r#"{{"schema":"a/1","rows":[1],"later":[{many}],"more":{{"rows":[{many}]}}}}"#);
        assert_eq!(read(&skipped).unwrap().rows, [1]);
        assert_eq!(
            shape(&format!(r#"{{"schema":"a/1","rows":[{many}]}}"#)),
            "more values than fit into 128 MiB"
        );
        let objects = vec!["{}"; MOST_MEMORY / (VALUE + OBJECT) + 1].join(",");
        assert_eq!(
            shape(&format!(r#"{{"schema":"a/1","rows":[{objects}]}}"#)),
            "more values than fit into 128 MiB"
        );
        let keys: Vec<_> = (0..=MOST_KEYS).map(|n| format!("\"{n}\":0")).collect();
        let wide = format!(
            r#"{{"schema":"a/1","rows":[1],"later":{{{}}}}}"#,
            keys.join(",")
        );
        assert_eq!(shape(&wide), "an object with more than 250000 keys");
    }

    #[test]
    fn a_duplicate_key_is_refused_at_every_depth_and_under_unknown_keys() {
        for text in [
            r#"{"schema":"a/1","rows":[],"rows":[]}"#,
            r#"{"schema":"a/1","rows":[],"later":[{"rows":1,"rows":1}]}"#,
            r#"{"schema":"a/1","rows":[],"later":{"x":{"ro\u0077s":1,"rows":1}}}"#,
        ] {
            assert_eq!(shape(text), "duplicate key \"rows\"");
        }
        assert!(read(r#"{"schema":"a/1","rows":[],"later":[{"x":1},{"x":1}]}"#).is_ok());
    }

    #[test]
    fn what_is_not_json_and_another_schema_are_told_apart() {
        for text in ["", "{", "[", "{\"schema\":\"a/1\",\"rows\":[]} x", "\u{1}"] {
            assert!(matches!(read(text), Err(Refused::NotJson(_))), "{text}");
        }
        assert!(matches!(read(&"[".repeat(4000)), Err(Refused::NotJson(_))));
        let huge = format!("{{\"schema\":[{}0]}}", "0,".repeat(1000));
        let long = format!("{{\"schema\":\"{}\"}}", "x".repeat(1000));
        for (text, says) in [
            ("[]", "none"),
            ("{}", "none"),
            ("1", "none"),
            (huge.as_str(), "no text"),
            ("{\"schema\":\"b/1\",\"x\":0,\"x\":0}", "\"b/1\""),
            (long.as_str(), &format!("\"{}\"", "x".repeat(LONGEST))),
        ] {
            assert_eq!(
                read(text),
                Err(Refused::Schema(says.to_owned())),
                "{text:.80}"
            );
        }
        assert!(shape(r#"{"schema":"a/1"}"#).contains("missing field `rows`"));
    }
}
