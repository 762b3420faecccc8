//! The parameters of the loaded NVIDIA modules that are in force.

use super::{ReadResult, at};
use crate::host::modules::absent_is_none;
use crate::root::Root;
use std::collections::BTreeMap;

const FILE: &str = "proc/driver/nvidia/params";

/// The nvidia module's own list, by name without `NVreg_`; empty if it is not loaded.
///
/// # Errors
/// If the read fails.
pub fn read(root: &Root) -> ReadResult<BTreeMap<String, String>> {
    let text = absent_is_none(root.text(FILE)).map_err(|e| at(FILE, &e))?;
    Ok(text.map(|t| parse(&t)).unwrap_or_default())
}

/// The registry keys in force for the GPU at an address: those for all GPUs, then its own, which override them.
#[must_use]
pub fn registry_keys(all: &BTreeMap<String, String>, address: &str) -> String {
    let list = |name: &str| all.get(name).map_or("", String::as_str);
    let mut own = false;
    let per_device = list("RegistryDwordsPerDevice").split(';').filter(|entry| {
        match entry.trim().strip_prefix("pci=") {
            Some(gpu) => {
                own = gpu.eq_ignore_ascii_case(address);
                false
            }
            None => own,
        }
    });
    [list("RegistryDwords")]
        .into_iter()
        .chain(per_device)
        .collect::<Vec<_>>()
        .join(";")
}

/// Lines `RegistryDwords: "a=1;b=2"` and `EnableResizableBar: 0`.
#[must_use]
pub fn parse(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.trim().to_owned(), unquoted(value).to_owned()))
        .collect()
}

/// A parameter of any other module, from the kernel.
///
/// # Errors
/// If the read fails; a parameter that the kernel hides is `None`.
pub fn of_module(root: &Root, module: &str, name: &str) -> ReadResult<Option<String>> {
    let file = format!("sys/module/{}/parameters/{name}", module.replace('-', "_"));
    absent_is_none(root.text(&file)).map_err(|e| at(&file, &e))
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;

    #[test]
    fn the_list_is_read_without_its_quotes() {
        let found = parse(
            "EnableResizableBar: 0\nRegistryDwords: \"ForceP2P=17;RMForceStaticBar1=1\"\nRmMsg: \"\"\n",
        );
        assert_eq!(found["EnableResizableBar"], "0");
        assert_eq!(found["RegistryDwords"], "ForceP2P=17;RMForceStaticBar1=1");
        assert_eq!(found["RmMsg"], "");
    }

    #[test]
    fn a_gpus_own_registry_keys_come_after_those_of_all() {
        let text = "RegistryDwords: \"A=1\"\nRegistryDwordsPerDevice: \"pci=0000:01:00.0;A=2;B=3;pci=0000:02:00.0;C=4;\"\n";
        let all = parse(text);
        assert_eq!(registry_keys(&all, "0000:01:00.0"), "A=1;A=2;B=3");
        assert_eq!(registry_keys(&all, "0000:02:00.0"), "A=1;C=4;");
        assert_eq!(registry_keys(&all, "0000:03:00.0"), "A=1");
        assert_eq!(registry_keys(&BTreeMap::new(), "0000:01:00.0"), "");
    }

    #[test]
    fn another_modules_parameter_is_read_from_the_kernel() {
        let dir = machine(&[("sys/module/nvidia_uvm/parameters/uvm_debug_prints", "0\n")]);
        let root = Root::new(dir.path());
        assert_eq!(
            of_module(&root, "nvidia-uvm", "uvm_debug_prints"),
            Ok(Some("0".to_owned()))
        );
        assert_eq!(of_module(&root, "nvidia-uvm", "hidden"), Ok(None));
        assert_eq!(read(&root), Ok(BTreeMap::new()));
    }
}
