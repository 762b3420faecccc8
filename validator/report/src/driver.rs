//! The versions of the GPU software in a report, from the data of the driver. A version that could not be read
//! is `null` here; the test `driver` reports the reason.

use machine::host::nvidia::library::Library;
use machine::host::nvidia::{Nvidia, ReadResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Versions of the GPU software; `null` if absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Driver {
    /// The loaded kernel module.
    pub module: Option<String>,
    /// The driver's libraries.
    pub userspace: Option<String>,
    /// The GPU's firmware.
    pub gsp: Option<String>,
    /// NCCL.
    pub nccl: Option<String>,
    /// CUDA's version according to the driver.
    pub cuda: Option<String>,
}

impl Driver {
    /// Collects the versions. CUDA's version needs a call into the driver and is added later.
    #[must_use]
    pub fn of(nvidia: &Nvidia) -> Self {
        let image = nvidia
            .account
            .as_ref()
            .ok()
            .and_then(|a| a.as_ref()?.image.as_ref());
        let loaded = nvidia.loaded.as_ref().ok().and_then(Option::as_ref);
        Self {
            module: loaded.map(|l| l.version.clone()),
            userspace: version(&nvidia.cuda),
            gsp: gsp(nvidia),
            nccl: image
                .filter(|_| !nvidia.nccl_chosen)
                .map(|i| i.nccl.clone())
                .filter(|v| !v.is_empty())
                .or_else(|| version(&nvidia.nccl)),
            cuda: None,
        }
    }
}

fn version(library: &ReadResult<Option<Library>>) -> Option<String> {
    library.as_ref().ok()?.as_ref()?.version.clone()
}

/// The version that runs on the GPUs; before their first use, the one that the kernel would load.
fn gsp(nvidia: &Nvidia) -> Option<String> {
    let mut running: Vec<_> = nvidia
        .gpus
        .iter()
        .flatten()
        .filter_map(|(_, gpu)| gpu.firmware.clone())
        .collect();
    running.sort();
    running.dedup();
    if !running.is_empty() {
        return Some(running.join(", "));
    }
    let loaded = nvidia.loaded.as_ref().ok()?.as_ref()?;
    let found = nvidia.firmware.as_ref().ok()?;
    found
        .iter()
        .find(|version| **version == loaded.version)
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::host::nvidia::fixture::nvidia;

    #[test]
    fn versions_are_gathered_from_the_loaded_driver() {
        let driver = Driver::of(&nvidia("555.58.02", 2));
        assert_eq!(driver.module.as_deref(), Some("555.58.02"));
        assert_eq!(
            (driver.userspace.as_deref(), driver.gsp.as_deref()),
            (Some("555.58.02"), Some("555.58.02"))
        );
        assert_eq!(
            (driver.nccl.as_deref(), driver.cuda),
            (Some("2.29.7"), None)
        );
    }

    #[test]
    fn unreadable_versions_are_null_and_two_firmwares_are_both_named() {
        let mut seen = nvidia("555.58.02", 2);
        seen.cuda = Err("denied".into());
        seen.account = Err("denied".into());
        if let Ok(gpus) = &mut seen.gpus {
            gpus.values_mut().next().unwrap().firmware = Some("550.163.01".into());
        }
        let driver = Driver::of(&seen);
        assert_eq!(
            (driver.userspace, driver.nccl.as_deref()),
            (None, Some("2.22.3"))
        );
        assert_eq!(driver.gsp.as_deref(), Some("550.163.01, 555.58.02"));
    }
}
