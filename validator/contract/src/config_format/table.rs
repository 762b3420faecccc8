//! What a section's table becomes: a struct with one typed field for each key, its defaults, and the list of its keys.

use super::AllowedLayers;
use super::value::{Raw, Refused};

/// One key, apart from its type: that is its field's.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The section; empty for a kernel word that is in none.
    pub section: &'static str,
    /// The key's name in its section.
    pub key: &'static str,
    /// The layers that may set it.
    pub layers: AllowedLayers,
    /// Whether a word sets one entry of it, `SECTION.KEY.ENTRY=VALUE`.
    pub entries: bool,
    /// Whether its value is never shown, not even an invalid one.
    pub secret: bool,
}

impl Key {
    /// A key that every layer may set.
    #[must_use]
    pub const fn new(section: &'static str, key: &'static str) -> Self {
        Self {
            section,
            key,
            layers: AllowedLayers::Any,
            entries: false,
            secret: false,
        }
    }

    /// `SECTION.KEY`
    #[must_use]
    pub fn name(&self) -> String {
        if self.section.is_empty() {
            self.key.to_owned()
        } else {
            format!("{}.{}", self.section, self.key)
        }
    }
}

/// Why a value is refused, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why it is refused.
    pub why: Refused,
    /// The allowed values.
    pub allowed: String,
}

/// One section of the configuration.
pub trait Section {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Its keys.
    fn keys(&self) -> &'static [Key];

    /// Sets the value of one key, by its name in the section; `None` if there is no such key.
    fn set(&mut self, key: &str, raw: Raw<'_>) -> Option<Result<(), Refusal>>;

    /// The allowed values of a key, for error messages; empty if there is no such key.
    fn allowed(&self, key: &str) -> String;
}

/// Defines a section: a struct whose fields are its keys. A key is written as
///
/// ```text
/// /// What it means, as the page of settings says it.
/// key: Type = default, rule;
/// ```
///
/// The rule is a [`Rule`](crate::config_format::value::Rule) for the type. Options may follow it: `layers(..)` with the layers that
/// may set it, `entries(true)`, `secret(true)`, and `example("..")`, the value that the page shows in place of the default. Attributes stand in
/// brackets without `#`. Fields behind `derived:` have no key: the owner of the section sets them.
#[macro_export]
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $([$($attribute:tt)*])*
        pub struct $Type:ident = $section:literal;
        $(
            $(#[doc = $doc:literal])+
            $([$($field_attribute:tt)*])*
            $key:ident: $T:ty = $default:expr, $rule:expr
                $(, layers($layers:expr))? $(, entries($entries:expr))? $(, secret($secret:expr))? $(, example($example:literal))?;
        )*
        $(derived:
            $(
                $(#[doc = $derived_doc:literal])+
                $([$($derived_attribute:tt)*])*
                $derived:ident: $D:ty = $value:expr;
            )*
        )?
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq)]
        $(#[$($attribute)*])*
        pub struct $Type {
            $( $(#[doc = $doc])+ $(#[$($field_attribute)*])* pub $key: $T, )*
            $($( $(#[doc = $derived_doc])+ $(#[$($derived_attribute)*])* pub $derived: $D, )*)?
        }

        impl Default for $Type {
            fn default() -> Self {
                Self { $($key: $default,)* $($($derived: $value,)*)? }
            }
        }

        impl $crate::config_format::table::Section for $Type {
            fn name(&self) -> &'static str {
                $section
            }

            fn keys(&self) -> &'static [$crate::config_format::table::Key] {
                const KEYS: &[$crate::config_format::table::Key] = &[$(
                    $crate::config_format::table::Key {
                        $(layers: $layers,)?
                        $(entries: $entries,)?
                        $(secret: $secret,)?
                        ..$crate::config_format::table::Key::new($section, stringify!($key))
                    },
                )*];
                KEYS
            }

            fn set(
                &mut self,
                key: &str,
                raw: $crate::config_format::value::Raw<'_>,
            ) -> Option<Result<(), $crate::config_format::table::Refusal>> {
                use $crate::config_format::value::Rule;
                $(
                    if key == stringify!($key) {
                        let rule = $rule;
                        return Some(rule.set(raw, &mut self.$key).map_err(|why| $crate::config_format::table::Refusal {
                            why,
                            allowed: Rule::<$T>::allowed(&rule),
                        }));
                    }
                )*
                None
            }

            fn allowed(&self, key: &str) -> String {
                use $crate::config_format::value::Rule;
                $(
                    if key == stringify!($key) {
                        return Rule::<$T>::allowed(&$rule);
                    }
                )*
                String::new()
            }
        }

        impl $Type {
            /// Its part of the page of settings.
            #[must_use]
            pub fn page() -> $crate::config_format::page::SectionPage {
                use $crate::config_format::value::Rule;
                let keys = <Self as $crate::config_format::table::Section>::keys(&Self::default());
                let mut page = $crate::config_format::page::SectionPage::new($section, concat!($($about),+), keys);
                $(
                    let (rule, default, example) = ($rule, Self::default().$key, None::<&'static str>);
                    $(let example = example.or(Some($example));)?
                    page.add(
                        stringify!($key),
                        concat!($($doc),+),
                        Rule::<$T>::hint(&rule),
                        example.map(str::to_owned).or_else(|| Rule::<$T>::toml(&rule, &default)),
                        |text| {
                            let value = $crate::config_format::value::parse(text);
                            let mut read = <Self as Default>::default();
                            let raw = $crate::config_format::value::Raw::Toml(value.as_ref()?);
                            rule.set(raw, &mut read.$key).ok()?;
                            Some(read.$key == default)
                        },
                    );
                )*
                page
            }
        }
    };
}

/// Defines an enum whose values are words: `Variant = "word"`. It gets `WORDS` for the rule
/// [`Words`](crate::config_format::value::Words), `word()` and `Display`.
#[macro_export]
macro_rules! choice {
    (
        $(#[$attribute:meta])*
        pub enum $Type:ident { $( $(#[$variant_attribute:meta])* $Variant:ident = $word:literal, )+ }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Type { $( $(#[$variant_attribute])* $Variant, )+ }

        impl $Type {
            /// Each word with its value.
            pub const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$Variant)),+];

            /// Its word in the configuration.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$Variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}
