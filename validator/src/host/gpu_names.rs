//! What the loaded NVIDIA driver calls its GPUs, from /proc/driver/nvidia/gpus.

use crate::host::modules::absent_is_none;
use crate::root::Root;
use std::collections::BTreeMap;
use std::io;

const FOLDER: &str = "proc/driver/nvidia/gpus";

/// Model by address as the driver writes it (`0000:41:00.0`); empty when it is not loaded.
///
/// # Errors
/// As the reads of the folder and of each GPU's `information`.
pub fn read(root: &Root) -> io::Result<BTreeMap<String, String>> {
    let Some(folders) = absent_is_none(root.names(FOLDER))? else { return Ok(BTreeMap::new()) };
    let mut names = BTreeMap::new();
    for folder in folders {
        let address = folder.to_string_lossy().into_owned();
        let text = root.text(format!("{FOLDER}/{address}/information"))?;
        names.extend(model(&text).map(|m| (address, m.to_owned())));
    }
    Ok(names)
}

/// The line `Model:`, tabs, `NVIDIA GeForce RTX 4090`.
fn model(information: &str) -> Option<&str> {
    information.lines().find_map(|l| l.strip_prefix("Model:")).map(str::trim).filter(|m| !m.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_read_without_its_tabs() {
        let text = "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 11\n";
        assert_eq!(model(text), Some("NVIDIA GeForce RTX 4090"));
        assert_eq!(model("IRQ: 3\nModel:   \n"), None);
    }

    #[test]
    fn no_driver_means_no_names() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&Root::new(dir.path())).unwrap(), BTreeMap::new());
    }
}
