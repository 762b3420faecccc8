//! `driver.toml`, the driver image's description of itself. GPU families are data in it: init itself knows
//! no GPU.

use super::hardware::Gpu;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The schema's name.
pub const SCHEMA: &str = "firstlight.driver-image/1";

/// Module to parameter to value.
pub type ParametersByModule = BTreeMap<String, BTreeMap<String, String>>;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// [`SCHEMA`]
    pub schema: String,
    /// Version of modules, userspace and firmware.
    pub version: String,
    /// `debian` or `files`.
    pub source: String,
    /// Patch level that `nvidia.ko` must state; empty for an unpatched driver.
    pub patch: String,
    /// The kernel release that the modules are for.
    pub kernel: String,
    /// NCCL's version.
    pub nccl: String,
    /// Path of the fabric manager inside the image; empty for none.
    pub fabric_manager: String,
    /// Parameters for every machine.
    #[serde(default)]
    pub parameters: ParametersByModule,
    /// GPU families with parameters of their own.
    #[serde(default)]
    pub family: Vec<Family>,
}

impl Description {
    /// The families that these GPUs belong to.
    #[must_use]
    pub fn families(&self, gpus: &[Gpu]) -> Vec<&Family> {
        self.family
            .iter()
            .filter(|family| gpus.iter().any(|gpu| family.has(gpu.device)))
            .collect()
    }
}

/// One family of GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Its name.
    pub name: String,
    /// PCI device ids.
    pub devices: Vec<Range>,
    /// Parameters for machines with such GPUs.
    #[serde(default)]
    pub parameters: ParametersByModule,
}

/// PCI device ids from the first to the last, both included: `2600-28ff`, or one id alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Range {
    first: u16,
    last: u16,
}

impl TryFrom<String> for Range {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        let id = |digits: &str| {
            let plain = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            plain.then(|| u16::from_str_radix(digits, 16).ok())?
        };
        match (id(first), id(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(format!(
                "{text:?}, allowed: four hexadecimal digits, or two such numbers separated by -"
            )),
        }
    }
}

impl Family {
    /// Whether a device belongs to it.
    #[must_use]
    pub fn has(&self, device: u16) -> bool {
        self.devices
            .iter()
            .any(|range| (range.first..=range.last).contains(&device))
    }
}

/// Parses the file.
///
/// # Errors
/// One line with the cause.
pub fn parse(text: &str) -> Result<Description, String> {
    let read: Description = toml::from_str(text).map_err(|e| {
        let line = e
            .span()
            .and_then(|span| text.get(..span.start))
            .map(|before| before.matches('\n').count() + 1);
        let line = line.map_or_else(String::new, |line| format!("line {line}: "));
        format!("{line}{}", e.message().replace('\n', " "))
    })?;
    if read.schema != SCHEMA {
        return Err(format!("schema is {:?}, allowed: {SCHEMA}", read.schema));
    }
    let strange =
        |part: &str| part.is_empty() || part.contains(|c: char| !c.is_ascii_graphic() || c == '/');
    if strange(&read.version) {
        return Err(format!("version is {:?}", read.version));
    }
    if read.fabric_manager.split('/').any(|part| part == "..") {
        return Err(format!(
            "fabric_manager is {:?}, which is outside of the image",
            read.fabric_manager
        ));
    }
    Ok(read)
}

#[cfg(test)]
pub(crate) const SAMPLE: &str = r#"
schema = "firstlight.driver-image/1"
version = "555.58.02"
source = "debian"
patch = "1"
kernel = "6.12.107-firstlight"
nccl = "2.29.7"
fabric_manager = ""
[parameters.nvidia]
NVreg_EnableStreamMemOPs = "1"
[[family]]
name = "ampere"
devices = ["2200-25ff"]
[[family]]
name = "ada"
devices = ["2600-28ff", "2b00"]
[family.parameters.nvidia]
NVreg_RegistryDwords = "ForceP2P=17;RMForceP2PType=2"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_with_its_families() {
        let read = parse(SAMPLE).unwrap();
        assert_eq!(
            (read.version.as_str(), read.patch.as_str()),
            ("555.58.02", "1")
        );
        let of = |device| {
            read.family
                .iter()
                .filter(|f| f.has(device))
                .map(|f| f.name.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (of(0x2684), of(0x28ff), of(0x2b00), of(0x2900)),
            (vec!["ada"], vec!["ada"], vec!["ada"], vec![])
        );
    }

    #[test]
    fn an_error_is_one_line() {
        let broken = |from: &str, to: &str| parse(&SAMPLE.replace(from, to)).unwrap_err();
        for (error, part) in [
            (broken("patch = \"1\"", "patch = 1"), "line 5: "),
            (broken("patch = \"1\"\n", ""), "missing field `patch`"),
            (broken("nccl =", "ncll ="), "unknown field `ncll`"),
            (
                broken("2600-28ff", "28ff-2600"),
                "allowed: four hexadecimal digits",
            ),
            (
                broken("image/1", "image/2"),
                "allowed: firstlight.driver-image/1",
            ),
            (
                broken("version = \"555.58.02\"", "version = \"../x\""),
                "version is",
            ),
            (
                broken("manager = \"\"", "manager = \"../../bin/sh\""),
                "is outside of the image",
            ),
            (parse("\u{0}").unwrap_err(), "line 1: "),
        ] {
            assert!(
                error.contains(part) && !error.contains('\n'),
                "{error:?} for {part}"
            );
        }
    }
}
