//! The machine state that a verdict applies to, and its hash. If any of it changes (driver, kernel command
//! line, a GPU moved or reflashed, ACS or IOMMU state) an old verdict is no longer valid.

use super::{Driver, Gpu};
use machine::host::identity::Identity;
use machine::host::iommu::IommuMode;
use machine::host::nvidia::module::ModuleHash;
use machine::pcie::model::{Bdf, Device, Fabric};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Everything that the verdict depends on. A value that could not be read is `null`, and then the verdict is ERROR.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct BoundTo {
    /// Version of the loaded driver.
    pub driver: Option<String>,
    /// The kernel's hash of its sources; `null` without a driver.
    pub module_srcversion: Option<String>,
    /// The linker's hash of the module; `null` without a driver.
    pub module_build_id: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Kernel command line.
    pub cmdline: Option<String>,
    /// The GPUs.
    pub gpus: Option<Vec<BoundGpu>>,
    /// ACS control registers by address, of every function that has the capability.
    pub acs: Option<BTreeMap<String, u16>>,
    /// State of the IOMMU.
    pub iommu: Option<IommuMode>,
}

/// The properties of a GPU that the verdict depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BoundGpu {
    /// The GPU's own id.
    pub uuid: Option<String>,
    /// Its address.
    pub bdf: Bdf,
    /// Device id.
    pub device: String,
    /// Size of BAR1, bytes.
    pub bar1_bytes: Option<u64>,
    /// Version of its firmware.
    pub vbios: Option<String>,
}

impl BoundTo {
    /// Collects it from the read data.
    #[must_use]
    pub fn of(
        identity: &Identity,
        driver: &Driver,
        hash: &ModuleHash,
        gpus: &[Gpu],
        fabric: Option<&Fabric>,
    ) -> Self {
        let bound = |g: &Gpu| BoundGpu {
            uuid: g.uuid.clone(),
            bdf: g.bdf,
            device: g.device.clone(),
            bar1_bytes: g.bar1_bytes,
            vbios: g.vbios.clone(),
        };
        let control = |d: &Device| Some((d.bdf.to_string(), d.acs.as_ref()?.ctrl));
        Self {
            driver: driver.module.clone(),
            module_srcversion: hash.srcversion.clone(),
            module_build_id: hash.build_id.clone(),
            kernel: identity.kernel.clone(),
            cmdline: identity.cmdline.clone(),
            gpus: fabric.map(|_| gpus.iter().map(bound).collect()),
            acs: fabric.map(|f| f.devices.iter().filter_map(control).collect()),
            iommu: fabric.map(|f| f.iommu.mode),
        }
    }
}

/// SHA-256 of the canonical JSON (keys sorted, no white space), in hexadecimal.
#[must_use]
pub fn fingerprint(bound_to: &BoundTo) -> String {
    let mut hex = String::new();
    for byte in Sha256::digest(canonical(bound_to).as_bytes()) {
        // Writing into a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// `Value` keeps objects sorted by key, which makes the text canonical.
fn canonical(bound_to: &BoundTo) -> String {
    // Strings, numbers and maps with text keys always convert to JSON; otherwise the text is the error.
    serde_json::to_value(bound_to).map_or_else(|e| e.to_string(), |v| v.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn bound() -> BoundTo {
        BoundTo {
            driver: None,
            module_srcversion: None,
            module_build_id: Some("ab01".into()),
            kernel: Some("6.12.107".into()),
            cmdline: Some("iommu=off".into()),
            gpus: Some(vec![]),
            acs: Some(BTreeMap::from([("0000:00:01.0".into(), 0)])),
            iommu: Some(IommuMode::Off),
        }
    }

    #[test]
    fn the_hash_is_that_of_the_sorted_json() {
        let json = r#"{"acs":{"0000:00:01.0":0},"cmdline":"iommu=off","driver":null,"gpus":[],"iommu":"off","kernel":"6.12.107","module_build_id":"ab01","module_srcversion":null}"#;
        assert_eq!(canonical(&bound()), json);
        let hex: String = Sha256::digest(json)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(fingerprint(&bound()), hex);
    }

    #[test]
    fn a_change_of_module_acs_or_command_line_changes_the_hash() {
        let acs = BoundTo {
            acs: Some(BTreeMap::from([("0000:00:01.0".into(), 0x1d)])),
            ..bound()
        };
        let words = BoundTo {
            cmdline: Some("iommu=pt".into()),
            ..bound()
        };
        let module = BoundTo {
            module_build_id: Some("ab02".into()),
            ..bound()
        };
        let all = BTreeSet::from([bound(), acs, words, module].map(|b| fingerprint(&b)));
        assert_eq!(all.len(), 4);
    }
}
