//! How the value of a key is read: what a layer wrote ([`Raw`]), and the rules by which it becomes a typed value. A rule names
//! the allowed values, for error lines and for the page of settings.

use std::collections::BTreeMap;
use std::time::Duration;
use toml::Value;
use toml::de::{DeString, DeValue};
use toml::{Spanned, Table};

/// A value as a layer wrote it.
#[derive(Debug, Clone, Copy)]
pub enum Raw<'a> {
    /// In a file.
    Toml(&'a Value),
    /// In a word, behind the `=`.
    Word(&'a str),
}

impl<'a> Raw<'a> {
    /// A text.
    #[must_use]
    pub fn text(self) -> Option<&'a str> {
        match self {
            Self::Toml(value) => value.as_str(),
            Self::Word(word) => Some(word),
        }
    }

    /// A whole number.
    #[must_use]
    pub fn whole(self) -> Option<u64> {
        match self {
            Self::Toml(value) => u64::try_from(value.as_integer()?).ok(),
            Self::Word(word) => word.parse().ok(),
        }
    }

    /// `true` or `false`.
    #[must_use]
    pub fn flag(self) -> Option<bool> {
        match self {
            Self::Toml(value) => value.as_bool(),
            Self::Word(word) => word.parse().ok(),
        }
    }

    /// A number, whole or not.
    #[must_use]
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Toml(Value::Integer(whole)) => whole.to_string().parse().ok(),
            Self::Toml(value) => value.as_float(),
            Self::Word(word) => word.parse().ok(),
        }
    }

    /// Texts. In a word they are a TOML array, or separated by commas.
    #[must_use]
    pub fn list(self) -> Option<Vec<String>> {
        let texts = |value: &Value| {
            value
                .as_array()?
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect()
        };
        match self {
            Self::Toml(value) => texts(value),
            Self::Word(word) if word.trim_start().starts_with('[') => texts(&parse(word)?),
            Self::Word("") => Some(Vec::new()),
            Self::Word(word) => Some(word.split(',').map(|item| item.trim().to_owned()).collect()),
        }
    }

    /// Any TOML value; a word is parsed.
    #[must_use]
    pub fn value(self) -> Option<Value> {
        match self {
            Self::Toml(value) => Some(value.clone()),
            Self::Word(word) => parse(word),
        }
    }
}

/// Parses a TOML value.
#[must_use]
pub fn parse(text: &str) -> Option<Value> {
    owned(DeValue::parse(text).ok()?.get_ref())
}

/// Converts a parsed value to an owned one; `None` for a number out of range. Written by hand because serde's conversion is a
/// lot of code that process 1 would run once.
#[must_use]
pub fn owned(read: &DeValue<'_>) -> Option<Value> {
    Some(match read {
        DeValue::String(text) => Value::String(text.as_ref().to_owned()),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Integer(n) => Value::Integer(i64::from_str_radix(n.as_str(), n.radix()).ok()?),
        DeValue::Float(n) => Value::Float(n.as_str().parse().ok()?),
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| owned(item.get_ref()))
                .collect::<Option<_>>()?,
        ),
        DeValue::Table(table) => {
            let entry = |(name, read): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
                Some((name.get_ref().as_ref().to_owned(), owned(read.get_ref())?))
            };
            Value::Table(table.iter().map(entry).collect::<Option<Table>>()?)
        }
    })
}

/// Why a value is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is of another type, out of range, or none of the words. That is an error in any layer.
    Type,
    /// It is a text or a list whose content is invalid. That is no error where a later layer sets the key again.
    Content,
}

/// How the value of a key becomes a `P`, which is the type of its field.
pub trait Rule<P> {
    /// Reads a value.
    ///
    /// # Errors
    /// Why the value is refused.
    fn read(&self, raw: Raw<'_>) -> Result<P, Refused>;

    /// Reads a value into its place, which stays as it is when the value is refused.
    ///
    /// # Errors
    /// Why the value is refused.
    fn set(&self, raw: Raw<'_>, place: &mut P) -> Result<(), Refused> {
        *place = self.read(raw)?;
        Ok(())
    }

    /// The allowed values, for error messages.
    fn allowed(&self) -> String;

    /// The allowed values, for the page of settings; empty when the page's own sentence names them.
    fn hint(&self) -> String {
        String::new()
    }

    /// A value as TOML; `None` when it has no text form.
    fn toml(&self, _value: &P) -> Option<String> {
        None
    }
}

/// `true` or `false`.
#[derive(Debug, Clone, Copy)]
pub struct Flag;

impl Rule<bool> for Flag {
    fn read(&self, raw: Raw<'_>) -> Result<bool, Refused> {
        raw.flag().ok_or(Refused::Type)
    }

    fn allowed(&self) -> String {
        "true, false".to_owned()
    }

    fn toml(&self, value: &bool) -> Option<String> {
        Some(value.to_string())
    }
}

/// A whole number from the first to the second, both included.
#[derive(Debug, Clone, Copy)]
pub struct Whole(pub u64, pub u64);

impl Rule<u64> for Whole {
    fn read(&self, raw: Raw<'_>) -> Result<u64, Refused> {
        raw.whole()
            .filter(|n| (self.0..=self.1).contains(n))
            .ok_or(Refused::Type)
    }

    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.0, self.1)
    }

    fn hint(&self) -> String {
        format!("{} to {}", self.0, self.1)
    }

    fn toml(&self, value: &u64) -> Option<String> {
        Some(value.to_string())
    }
}

/// A whole number of seconds from the first to the second, both included.
#[derive(Debug, Clone, Copy)]
pub struct Seconds(pub u64, pub u64);

impl Rule<u64> for Seconds {
    fn read(&self, raw: Raw<'_>) -> Result<u64, Refused> {
        Whole(self.0, self.1).read(raw)
    }

    fn allowed(&self) -> String {
        Rule::<Duration>::allowed(self)
    }

    fn hint(&self) -> String {
        Rule::<Duration>::hint(self)
    }

    fn toml(&self, value: &u64) -> Option<String> {
        Some(value.to_string())
    }
}

impl Rule<Duration> for Seconds {
    fn read(&self, raw: Raw<'_>) -> Result<Duration, Refused> {
        Whole(self.0, self.1).read(raw).map(Duration::from_secs)
    }

    fn allowed(&self) -> String {
        format!("{} seconds", Whole(self.0, self.1).allowed())
    }

    fn hint(&self) -> String {
        format!("{} seconds", Whole(self.0, self.1).hint())
    }

    fn toml(&self, value: &Duration) -> Option<String> {
        Some(value.as_secs().to_string())
    }
}

/// One of these words, each with its value.
#[derive(Debug, Clone, Copy)]
pub struct Words<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Rule<T> for Words<T> {
    fn read(&self, raw: Raw<'_>) -> Result<T, Refused> {
        let found = raw
            .text()
            .and_then(|text| self.0.iter().find(|(word, _)| *word == text));
        found.map(|(_, value)| *value).ok_or(Refused::Type)
    }

    fn allowed(&self) -> String {
        self.0
            .iter()
            .map(|(word, _)| *word)
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn hint(&self) -> String {
        self.0
            .iter()
            .map(|(word, _)| *word)
            .collect::<Vec<_>>()
            .join(" | ")
    }

    fn toml(&self, value: &T) -> Option<String> {
        self.0
            .iter()
            .find(|(_, known)| known == value)
            .map(|(word, _)| format!("\"{word}\""))
    }
}

/// A text that a function parses.
#[derive(Debug, Clone, Copy)]
pub struct Text<T> {
    read: fn(&str) -> Option<T>,
    allowed: &'static str,
}

impl<T> Text<T> {
    /// A text that `read` accepts; `allowed` describes it in error messages.
    pub const fn new(read: fn(&str) -> Option<T>, allowed: &'static str) -> Self {
        Self { read, allowed }
    }
}

impl<T> Rule<T> for Text<T> {
    fn read(&self, raw: Raw<'_>) -> Result<T, Refused> {
        (self.read)(raw.text().ok_or(Refused::Type)?).ok_or(Refused::Content)
    }

    fn allowed(&self) -> String {
        self.allowed.to_owned()
    }
}

/// A text that a function parses; the empty text means none.
#[derive(Debug, Clone, Copy)]
pub struct TextOrNone<T>(pub fn(&str) -> Option<T>, pub &'static str);

impl<T> Rule<Option<T>> for TextOrNone<T> {
    fn read(&self, raw: Raw<'_>) -> Result<Option<T>, Refused> {
        match raw.text().ok_or(Refused::Type)? {
            "" => Ok(None),
            text => (self.0)(text).map(Some).ok_or(Refused::Content),
        }
    }

    fn allowed(&self) -> String {
        self.1.to_owned()
    }

    fn toml(&self, value: &Option<T>) -> Option<String> {
        value.is_none().then(|| "\"\"".to_owned())
    }
}

/// A list of texts that a function parses.
#[derive(Debug, Clone, Copy)]
pub struct List<T> {
    read: fn(&[String]) -> Option<Vec<T>>,
    allowed: &'static str,
    skips_empty: bool,
}

impl<T> List<T> {
    /// A list that `read` accepts; `allowed` describes it in error messages.
    pub const fn new(read: fn(&[String]) -> Option<Vec<T>>, allowed: &'static str) -> Self {
        Self {
            read,
            allowed,
            skips_empty: false,
        }
    }

    /// The same for a list in which nothing stands between two commas of a word.
    #[must_use]
    pub const fn without_empty(self) -> Self {
        Self {
            skips_empty: true,
            ..self
        }
    }
}

impl<T> Rule<Vec<T>> for List<T> {
    fn read(&self, raw: Raw<'_>) -> Result<Vec<T>, Refused> {
        let mut items = raw.list().ok_or(Refused::Type)?;
        if self.skips_empty && matches!(raw, Raw::Word(_)) {
            items.retain(|item| !item.is_empty());
        }
        (self.read)(&items).ok_or(Refused::Content)
    }

    fn allowed(&self) -> String {
        self.allowed.to_owned()
    }

    fn toml(&self, value: &Vec<T>) -> Option<String> {
        value.is_empty().then(|| "[]".to_owned())
    }
}

/// A table of texts, to which each layer adds; a word sets one entry, `SECTION.KEY.ENTRY=VALUE`.
#[derive(Debug, Clone, Copy)]
pub struct Entries(pub &'static str);

impl Rule<BTreeMap<String, String>> for Entries {
    fn read(&self, raw: Raw<'_>) -> Result<BTreeMap<String, String>, Refused> {
        let Raw::Toml(Value::Table(table)) = raw else {
            return Err(Refused::Type);
        };
        let entry =
            |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        table
            .iter()
            .map(entry)
            .collect::<Option<_>>()
            .ok_or(Refused::Type)
    }

    fn set(&self, raw: Raw<'_>, place: &mut BTreeMap<String, String>) -> Result<(), Refused> {
        place.extend(self.read(raw)?);
        Ok(())
    }

    fn allowed(&self) -> String {
        self.0.to_owned()
    }

    fn toml(&self, value: &BTreeMap<String, String>) -> Option<String> {
        value.is_empty().then(|| "{}".to_owned())
    }
}

/// A value that a function reads.
#[derive(Debug, Clone, Copy)]
pub struct Custom<T>(pub fn(Raw<'_>) -> Option<T>, pub &'static str);

impl<T> Rule<T> for Custom<T> {
    fn read(&self, raw: Raw<'_>) -> Result<T, Refused> {
        (self.0)(raw).ok_or(Refused::Type)
    }

    fn allowed(&self) -> String {
        self.1.to_owned()
    }
}

/// A value that another rule reads, where no value is the default, for which there is no text.
#[derive(Debug, Clone, Copy)]
pub struct Perhaps<R>(pub R);

impl<T, R: Rule<T>> Rule<Option<T>> for Perhaps<R> {
    fn read(&self, raw: Raw<'_>) -> Result<Option<T>, Refused> {
        self.0.read(raw).map(Some)
    }

    fn allowed(&self) -> String {
        self.0.allowed()
    }

    fn hint(&self) -> String {
        self.0.hint()
    }

    fn toml(&self, value: &Option<T>) -> Option<String> {
        value.as_ref().and_then(|value| self.0.toml(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(word: &str) -> Option<Vec<String>> {
        Raw::Word(word).list()
    }

    #[test]
    fn a_list_word_is_a_toml_array_or_words_with_commas() {
        assert_eq!(list("a, b"), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(list(r#"["a", "b"]"#), list("a,b"));
        assert_eq!(list(""), Some(vec![]));
        for bad in ["[1]", "[\"a\"]\nx = 1", "["] {
            assert_eq!(list(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_value_of_another_type_or_out_of_range_leaves_its_place_as_it_is() {
        let (mut number, mut flag, mut text) = (3, true, Some("a".to_owned()));
        for bad in ["0", "6", "five", "-1", ""] {
            assert_eq!(
                Whole(1, 5).set(Raw::Word(bad), &mut number),
                Err(Refused::Type),
                "{bad}"
            );
        }
        assert_eq!(Flag.set(Raw::Word("yes"), &mut flag), Err(Refused::Type));
        let upper = TextOrNone(|text| (text == "A").then(|| text.to_owned()), "A");
        assert_eq!(upper.set(Raw::Word("b"), &mut text), Err(Refused::Content));
        assert_eq!(
            upper.set(Raw::Toml(&Value::Boolean(true)), &mut text),
            Err(Refused::Type)
        );
        assert_eq!((number, flag, text.as_deref()), (3, true, Some("a")));
        assert_eq!(Whole(1, 5).set(Raw::Word("5"), &mut number), Ok(()));
        assert_eq!(upper.set(Raw::Word(""), &mut text), Ok(()));
        assert_eq!((number, text), (5, None));
    }

    #[test]
    fn a_number_out_of_range_is_no_value() {
        assert_eq!(parse("9223372036854775808"), None);
        assert_eq!(parse("[1, {a = 9223372036854775808}]"), None);
        assert_eq!(parse("0x10"), Some(Value::Integer(16)));
    }
}
