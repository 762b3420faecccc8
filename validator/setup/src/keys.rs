//! What a board needs for peer-to-peer with a version of the driver: nothing, registry keys, or our edits of the modules and
//! keys. The facts are the image's: `families.toml` names families, boards and keys; `seen.toml` lists the versions that
//! were looked at, and `seen.h` has their keys' numbers, if the driver's source with its own header is not there. Pure.

use machine::host::nvidia::chip;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const FAMILIES: &str = include_str!("../../../image/driver/description/families.toml");
const SEEN: &str = include_str!("../../../image/driver/description/seen.toml");
const SEEN_HEADER: &str = include_str!("../../../image/driver/description/seen.h");
/// The last branch of the driver for Maxwell, Pascal and Volta (NVIDIA's Unix graphics feature deprecation schedule).
pub const LAST_BEFORE_TURING: u32 = 580;

/// The families of GPUs, and the versions of the driver that were looked at.
#[derive(Debug, Clone)]
pub struct Families {
    families: Vec<Family>,
    seen: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Family {
    name: String,
    boards: String,
    devices: Vec<String>,
    part_of: Option<String>,
    #[serde(default)]
    keys: Vec<Keys>,
}

#[derive(Debug, Clone, Deserialize)]
struct Keys {
    from: String,
    before: Option<String>,
    #[serde(default)]
    patched: bool,
    registry: BTreeMap<String, Setting>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Setting {
    Value(String),
    Fields(BTreeMap<String, String>),
}

/// What a board needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "need")]
pub enum Need {
    /// Nothing: the driver has peer-to-peer for it.
    Nothing,
    /// Registry keys.
    Keys,
    /// Edited modules, and registry keys.
    Edits {
        /// The family whose chips are bound.
        family: String,
    },
    /// Another version of the driver.
    Version {
        /// The first that can do it.
        from: String,
    },
    /// Edited modules that are made only where this family is named.
    Asked {
        /// The family.
        family: String,
        /// What is in it.
        boards: String,
        /// The first version of the driver.
        from: String,
    },
    /// No driver gives it peer-to-peer over PCIe that we know of.
    Never,
    /// The closed flavour, which connects it by itself; the open modules cannot run it, because it is older than Turing.
    Closed,
    /// It is in no family.
    Unknown,
}

/// The numbers of a version such as 580.95.05; empty if it is none.
#[must_use]
pub fn numbers(version: &str) -> Vec<u32> {
    version
        .split('.')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .unwrap_or_default()
}

impl Family {
    fn has(&self, device: u16) -> bool {
        self.devices.iter().any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text| u16::from_str_radix(text, 16);
            matches!((number(first), number(last)), (Ok(first), Ok(last)) if (first..=last).contains(&device))
        })
    }

    /// The keys for a version.
    fn keys(&self, version: &str) -> Option<&Keys> {
        let version = numbers(version);
        self.keys.iter().find(|keys| {
            numbers(&keys.from) <= version
                && keys
                    .before
                    .as_ref()
                    .is_none_or(|before| version < numbers(before))
        })
    }
}

impl Families {
    /// The families that are compiled in.
    ///
    /// # Errors
    /// If a file is not as expected, which a test rules out.
    pub fn own() -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Listed {
            family: Vec<Family>,
        }
        #[derive(Deserialize)]
        struct Seen {
            versions: Vec<String>,
        }
        let listed: Listed = toml::from_str(FAMILIES).map_err(|e| format!("families.toml: {e}"))?;
        let seen: Seen = toml::from_str(SEEN).map_err(|e| format!("seen.toml: {e}"))?;
        Ok(Self {
            families: listed.family,
            seen: seen.versions,
        })
    }

    /// The families that are used only where they are named.
    pub fn optional(&self) -> impl Iterator<Item = &str> {
        self.families
            .iter()
            .filter(|family| family.part_of.is_some())
            .map(|family| family.name.as_str())
    }

    /// The newest version that was looked at and that is not older than `from`.
    #[must_use]
    pub fn newest(&self, from: &str) -> Option<&str> {
        let newest = self.seen.iter().max_by_key(|version| numbers(version))?;
        (numbers(newest) >= numbers(from)).then_some(newest)
    }

    fn family(&self, device: u16, asked: &[String]) -> Option<&Family> {
        let of = |part: bool| {
            self.families.iter().find(|family| {
                family.part_of.is_some() == part
                    && (!part || asked.contains(&family.name))
                    && family.has(device)
            })
        };
        of(true).or_else(|| of(false))
    }

    /// What a board needs with this version of the driver. `geforce`: whether it is a GeForce board; `asked`: the optional
    /// families that were named.
    #[must_use]
    pub fn need(
        &self,
        device: u16,
        geforce: Option<bool>,
        version: &str,
        asked: &[String],
    ) -> Need {
        if chip::is_before_turing(device) {
            return Need::Closed;
        }
        let Some(family) = self.family(device, asked) else {
            return Need::Unknown;
        };
        if family.keys.is_empty() {
            let other = self
                .families
                .iter()
                .find(|other| other.part_of.is_some() && other.has(device));
            return match other.and_then(|other| Some((other, other.keys.first()?))) {
                Some((other, keys)) => Need::Asked {
                    family: other.name.clone(),
                    boards: other.boards.clone(),
                    from: keys.from.clone(),
                },
                None if geforce == Some(true) => Need::Never,
                None => Need::Nothing,
            };
        }
        // The patch series for 555 is the image's alone: on an installed system the modules are changed by the edits.
        let edits = Edits::from();
        let usable = |keys: &&Keys| !keys.patched || numbers(&keys.from) >= numbers(edits);
        match family.keys(version).filter(usable) {
            Some(keys) if keys.registry.is_empty() => Need::Nothing,
            Some(keys) if keys.patched => Need::Edits {
                family: family.name.clone(),
            },
            Some(_) => Need::Keys,
            None => {
                let later = family
                    .keys
                    .iter()
                    .filter(usable)
                    .map(|keys| keys.from.as_str());
                let from = later
                    .filter(|from| numbers(from) > numbers(version))
                    .min_by_key(|from| numbers(from));
                from.map_or(Need::Never, |from| Need::Version {
                    from: from.to_owned(),
                })
            }
        }
    }

    /// The registry keys of a board for this version, as the parameter has them: `A=1;B=2`. `header` is the
    /// nvrm_registry.h of the driver's own source, if that is there.
    ///
    /// # Errors
    /// One line: the version was never looked at and there is no header, or the header lacks a key or a value.
    pub fn words(
        &self,
        device: u16,
        version: &str,
        asked: &[String],
        header: Option<&str>,
    ) -> Result<String, String> {
        let family = self
            .family(device, asked)
            .ok_or("the board is in no family")?;
        let keys = family
            .keys(version)
            .ok_or_else(|| format!("{} has no keys for {version}", family.name))?;
        let text = match header {
            Some(text) => text,
            // It is that of the versions from the edits' first one on.
            None if self.seen.iter().any(|seen| seen == version)
                && numbers(version) >= numbers(Edits::from()) =>
            {
                SEEN_HEADER
            }
            None => {
                return Err(format!(
                    "driver {version} is newer than what firstlight has looked at, and its source with the numbers of the registry keys is not here; name it by --modules"
                ));
            }
        };
        let header = Header::of(text);
        let words = keys
            .registry
            .iter()
            .map(|(key, setting)| Ok(format!("{key}={}", header.number(key, setting)?)));
        Ok(words.collect::<Result<Vec<_>, String>>()?.join(";"))
    }
}

/// The changes that are made to the modules' source.
#[derive(Debug)]
pub struct Edits;

impl Edits {
    /// The first version of the driver that they are for.
    #[must_use]
    pub fn from() -> &'static str {
        quoted(crate::edits::DESCRIPTION, "from = ").unwrap_or("580")
    }

    /// Their level, which the edited module shows.
    #[must_use]
    pub fn level() -> &'static str {
        quoted(crate::edits::CHOICE, "LEVEL = ").unwrap_or("unknown")
    }
}

/// The text in quotes on the line that begins so.
fn quoted(text: &'static str, beginning: &str) -> Option<&'static str> {
    text.lines().find_map(|line| {
        line.strip_prefix(beginning)?
            .strip_prefix('"')?
            .strip_suffix('"')
    })
}

/// The macros of a header.
struct Header<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Header<'a> {
    fn of(text: &'a str) -> Self {
        let macros = text.lines().filter_map(|line| {
            let rest = line.trim_start().strip_prefix("#define")?.trim_start();
            let (name, value) = rest.split_once(char::is_whitespace)?;
            let value = value.split("//").next()?.split("/*").next()?;
            Some((name, value.trim()))
        });
        Self(macros.collect())
    }

    /// The number of a key's setting.
    fn number(&self, key: &str, setting: &Setting) -> Result<u32, String> {
        let text = format!("\"{key}\"");
        let name = self
            .0
            .iter()
            .find(|(_, value)| **value == text)
            .map(|(name, _)| *name);
        let name = name.ok_or_else(|| format!("the driver's header has no registry key {key}"))?;
        match setting {
            Setting::Value(value) => self.value(&format!("{name}_{value}"), key, value),
            Setting::Fields(fields) => fields.iter().try_fold(0, |sum, (field, value)| {
                let low = self
                    .lowest_bit(&format!("{name}_{field}"))
                    .ok_or_else(|| lacks(key, field))?;
                let number = self.value(&format!("{name}_{field}_{value}"), key, value)?;
                Ok(sum | number.checked_shl(low).ok_or_else(|| lacks(key, field))?)
            }),
        }
    }

    fn value(&self, name: &str, key: &str, value: &str) -> Result<u32, String> {
        let text = self.0.get(name).map(|text| {
            text.trim_matches(['(', ')'])
                .trim_end_matches(['u', 'U', 'l', 'L'])
        });
        let number = text.and_then(|text| {
            match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            }
        });
        number.ok_or_else(|| lacks(key, value))
    }

    /// The lowest bit of a field, which is written as `HIGH:LOW`.
    fn lowest_bit(&self, name: &str) -> Option<u32> {
        self.0.get(name)?.split_once(':')?.1.trim().parse().ok()
    }
}

fn lacks(key: &str, what: &str) -> String {
    format!("the driver's header has no {what} for the registry key {key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = "ForceP2P=17;RMForceStaticBar1=1;RMPcieP2PType=1";

    fn families() -> Families {
        Families::own().unwrap()
    }

    #[test]
    fn the_files_that_are_compiled_in_can_be_read() {
        let all = families();
        assert_eq!(all.optional().collect::<Vec<_>>(), ["ampere-geforce"]);
        assert_eq!(Edits::from(), "580");
        assert!(
            Edits::level().bytes().all(|b| b.is_ascii_digit()),
            "{}",
            Edits::level()
        );
        assert!(all.newest("580").is_some() && all.newest("9999").is_none());
        assert!(numbers("580.95.05") > numbers("580.9") && numbers("x").is_empty());
    }

    #[test]
    fn a_board_needs_what_its_family_needs_with_that_version() {
        let all = families();
        let need = |device, geforce, version| all.need(device, Some(geforce), version, &[]);
        assert_eq!(
            need(0x2684, true, "580.95.05"),
            Need::Edits {
                family: "ada".to_owned()
            }
        );
        for old in ["550.163.01", "555.58.02", "560.35.03", "575.64"] {
            assert_eq!(
                need(0x2684, true, old),
                Need::Version {
                    from: "580".to_owned()
                },
                "{old}"
            );
            assert_eq!(
                need(0x2b85, true, old),
                Need::Version {
                    from: "580".to_owned()
                },
                "{old}"
            );
        }
        assert_eq!(need(0x2b85, true, "580.95.05"), Need::Keys);
        assert_eq!(need(0x2330, false, "550.163.01"), Need::Nothing);
        assert_eq!(
            need(0x26b1, false, "550.163.01"),
            Need::Nothing,
            "RTX 6000 Ada has its own"
        );
        assert_eq!(need(0x2901, false, "580.95.05"), Need::Nothing);
        assert_eq!(need(0x1e07, true, "580.95.05"), Need::Never, "RTX 2080 Ti");
        assert_eq!(need(0x1b06, true, "580.95.05"), Need::Closed);
        assert_eq!(need(0x3fff, true, "580.95.05"), Need::Unknown);
    }

    #[test]
    fn rtx_30_is_edited_only_where_it_is_named() {
        let all = families();
        assert!(
            matches!(all.need(0x2204, Some(true), "580.95.05", &[]), Need::Asked { family, .. } if family == "ampere-geforce")
        );
        let asked = ["ampere-geforce".to_owned()];
        let edits = Need::Edits {
            family: asked[0].clone(),
        };
        assert_eq!(all.need(0x2204, Some(true), "580.95.05", &asked), edits);
        let later = Need::Version {
            from: "580".to_owned(),
        };
        assert_eq!(all.need(0x2204, Some(true), "550.163.01", &asked), later);
        assert_eq!(
            all.need(0x2230, Some(false), "580.95.05", &asked),
            Need::Nothing,
            "RTX A6000"
        );
    }

    #[test]
    fn keys_have_the_numbers_of_the_drivers_header() {
        let all = families();
        assert_eq!(
            all.words(0x2b85, "580.95.05", &[], None).as_deref(),
            Ok(WORDS)
        );
        assert_eq!(
            all.words(0x2684, "580.95.05", &[], None).as_deref(),
            Ok(WORDS)
        );
        let why = all.words(0x2b85, "999.1", &[], None).unwrap_err();
        assert!(
            why.contains("newer than what firstlight has looked at"),
            "{why}"
        );
        let other = SEEN_HEADER
            .replace("WAY_BAR1 1", "WAY_BAR1 0x00000003U")
            .replace("5:4", "9:8");
        assert_eq!(
            all.words(0x2b85, "999.1", &[], Some(&other)).as_deref(),
            Ok("ForceP2P=257;RMForceStaticBar1=1;RMPcieP2PType=3")
        );
        let lacking = SEEN_HEADER.replace("WAY_BAR1", "WAY_OTHER");
        let why = all
            .words(0x2b85, "580.95.05", &[], Some(&lacking))
            .unwrap_err();
        assert_eq!(
            why,
            "the driver's header has no BAR1 for the registry key RMPcieP2PType"
        );
        assert!(all.words(0x2b85, "580.95.05", &[], Some("")).is_err());
    }
}
