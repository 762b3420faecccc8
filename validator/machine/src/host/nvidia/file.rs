//! The file of the NVIDIA module, if one can be found: the driver image's, or the one in the kernel's own
//! list of modules.

use super::modinfo::{self, value};
use super::{ReadResult, at};
use crate::host::modules::absent_is_none;
use crate::root::Root;

/// Its path on the appliance.
const IMAGES: &str = "run/firstlight/driver/modules/nvidia.ko";

/// The properties that the module's file states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleFile {
    /// Its path.
    pub path: String,
    /// Its version.
    pub version: Option<String>,
    /// The kernel that it was built for.
    pub vermagic: Option<String>,
    /// firstlight's patch level; `None` for a module without our patches.
    pub patch: Option<String>,
    /// The hash of its sources.
    pub srcversion: Option<String>,
}

/// Reads it; `None` if no file is found, as inside a container.
///
/// # Errors
/// A file that exists but cannot be read, or is not a module (compressed ones are not unpacked).
pub fn read(root: &Root, kernel: Option<&str>) -> ReadResult<Option<ModuleFile>> {
    let path = match kernel.filter(|_| !root.exists(IMAGES).unwrap_or(false)) {
        None => Some(IMAGES.to_owned()),
        Some(kernel) => {
            let folder = format!("lib/modules/{kernel}");
            let list = format!("{folder}/modules.dep");
            let list = absent_is_none(root.text(&list)).map_err(|e| at(&list, &e))?;
            list.as_deref()
                .and_then(listed)
                .map(|file| format!("{folder}/{file}"))
        }
    };
    let Some(path) = path else { return Ok(None) };
    let Some(bytes) = absent_is_none(root.read(&path)).map_err(|e| at(&path, &e))? else {
        return Ok(None);
    };
    let fields = modinfo::fields(&bytes).ok_or_else(|| at(&path, &"not an uncompressed module"))?;
    let field = |name: &str| value(&fields, name).map(str::to_owned);
    Ok(Some(ModuleFile {
        path: format!("/{path}"),
        version: field("version"),
        vermagic: field("vermagic"),
        patch: field("firstlight.patch"),
        srcversion: field("srcversion"),
    }))
}

/// The file in lines such as `updates/dkms/nvidia.ko.zst: kernel/drivers/..`.
fn listed(modules_dep: &str) -> Option<&str> {
    let files = modules_dep
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0));
    let is_it = |file: &&str| {
        let name = file.rsplit('/').next().unwrap_or_default();
        name == "nvidia.ko" || name.starts_with("nvidia.ko.")
    };
    files.into_iter().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;
    use contract::elf::sample;

    const KERNEL: Option<&str> = Some("6.12.0");
    const DEP: &str = "lib/modules/6.12.0/modules.dep";

    #[test]
    fn the_kernels_list_leads_to_the_file() {
        let list = "kernel/x/nvidia-uvm.ko: updates/nvidia.ko\nupdates/nvidia.ko:\n";
        let dir = machine(&[(DEP, list), ("lib/modules/6.12.0/updates/nvidia.ko", "")]);
        let at = dir.path().join("lib/modules/6.12.0/updates/nvidia.ko");
        std::fs::write(
            at,
            sample(".modinfo", b"vermagic=6.12.0 SMP \0version=580.95.05\0"),
        )
        .unwrap();
        let found = read(&Root::new(dir.path()), KERNEL).unwrap().unwrap();
        assert_eq!(found.path, "/lib/modules/6.12.0/updates/nvidia.ko");
        assert_eq!(
            (found.version.as_deref(), found.patch),
            (Some("580.95.05"), None)
        );
    }

    #[test]
    fn a_missing_list_or_file_is_none_and_a_compressed_file_an_error() {
        assert_eq!(read(&Root::new(machine(&[]).path()), KERNEL), Ok(None));
        assert_eq!(
            read(
                &Root::new(machine(&[(DEP, "a/nvidia.ko:\n")]).path()),
                KERNEL
            ),
            Ok(None)
        );
        let packed = machine(&[
            (DEP, "a/nvidia.ko.zst:\n"),
            ("lib/modules/6.12.0/a/nvidia.ko.zst", "packed"),
        ]);
        assert!(
            read(&Root::new(packed.path()), KERNEL)
                .unwrap_err()
                .ends_with("not an uncompressed module")
        );
    }

    #[test]
    fn the_images_file_comes_first() {
        let dir = machine(&[
            (IMAGES, ""),
            (DEP, "a/nvidia.ko:\n"),
            ("lib/modules/6.12.0/a/nvidia.ko", "x"),
        ]);
        std::fs::write(
            dir.path().join(IMAGES),
            sample(".modinfo", b"firstlight.patch=1\0"),
        )
        .unwrap();
        let found = read(&Root::new(dir.path()), KERNEL).unwrap().unwrap();
        assert_eq!(found.patch.as_deref(), Some("1"));
    }
}
