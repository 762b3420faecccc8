//! A PCI function's address.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A PCI function's address, written `dddd:bb:dd.f` in hexadecimal as Linux does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf {
    /// PCI domain (segment); more than 16 bits exist behind Intel VMD.
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device number, 0 to 31.
    pub device: u8,
    /// Function number, 0 to 7.
    pub function: u8,
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain, self.bus, self.device, self.function
        )
    }
}

impl JsonSchema for Bdf {
    fn schema_name() -> Cow<'static, str> {
        "Bdf".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let form = "^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]$";
        json_schema!({ "type": "string", "description": "a PCI address", "pattern": form })
    }
}

/// The text that is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a PCI address; it looks like 0000:41:00.0")]
pub struct InvalidBdf(pub String);

impl FromStr for Bdf {
    type Err = InvalidBdf;

    fn from_str(s: &str) -> Result<Self, InvalidBdf> {
        let parse = || {
            let (domain, rest) = s.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            let hex = |t: &str, max_len| {
                (!t.is_empty() && t.len() <= max_len && t.bytes().all(|b| b.is_ascii_hexdigit()))
                    .then(|| u32::from_str_radix(t, 16).ok())
                    .flatten()
            };
            Some(Self {
                domain: hex(domain, 8)?,
                bus: u8::try_from(hex(bus, 2)?).ok()?,
                device: u8::try_from(hex(device, 2)?).ok().filter(|d| *d < 32)?,
                function: u8::try_from(hex(function, 1)?).ok().filter(|f| *f < 8)?,
            })
        };
        parse().ok_or_else(|| InvalidBdf(s.to_owned()))
    }
}

impl Serialize for Bdf {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bdf {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
