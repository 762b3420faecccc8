//! The models of NVIDIA's devices by the system's `pci.ids`, the list that `lspci` reads. It is never required, and only
//! the device is looked up, so a board's own name may differ from the driver's.

use crate::root::Root;
use outcome::text::shown;
use std::collections::BTreeMap;

/// Where Debian and Ubuntu, Fedora and RHEL, and Arch have it.
const PLACES: [&str; 3] = [
    "usr/share/misc/pci.ids",
    "usr/share/hwdata/pci.ids",
    "usr/share/pci.ids",
];
/// NVIDIA's line begins with its id.
const NVIDIA: &str = "10de ";

/// The models by device id as in `0x2684`; empty without the file.
#[must_use]
pub fn read(root: &Root) -> BTreeMap<String, String> {
    let bytes = PLACES
        .iter()
        .find_map(|place| root.read(place).ok())
        .unwrap_or_default();
    parse(&String::from_utf8_lossy(&bytes))
}

/// The lines below NVIDIA's with one tab: an id, two blanks, a chip and, in brackets, the board.
#[must_use]
pub fn parse(text: &str) -> BTreeMap<String, String> {
    let below = text
        .lines()
        .skip_while(|line| !line.starts_with(NVIDIA))
        .skip(1);
    let own = below.take_while(|line| line.is_empty() || line.starts_with(['\t', '#']));
    let model = |line: &str| {
        let (id, name) = line.strip_prefix('\t')?.split_once("  ")?;
        let board = name
            .split_once('[')
            .and_then(|(_, rest)| rest.rsplit_once(']'))
            .map_or(name, |(board, _)| board);
        let hexadecimal = id.len() == 4 && id.bytes().all(|b| b.is_ascii_hexdigit());
        hexadecimal.then(|| {
            (
                format!("0x{}", id.to_ascii_lowercase()),
                format!("NVIDIA {}", shown(board.trim())),
            )
        })
    };
    own.filter_map(model).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const TEXT: &str = "# comment\n10dd  Other\n\t2684  Wrong\n10de  NVIDIA Corporation\n\t0020  NV4 [Riva TNT]\n\t\t1043 0200  V3400 TNT\n# more\n\t2684  AD102 [GeForce RTX 4090]\n\t22a3  GH100 [H100 NVSwitch]\n\t2901  GB100 [B200]\n\tffff  plain\n10df  Emulex\n\t2685  Other\n";

    #[test]
    fn only_nvidias_devices_have_models_and_boards_are_preferred_to_chips() {
        let models = parse(TEXT);
        assert_eq!(
            models.get("0x2684").map(String::as_str),
            Some("NVIDIA GeForce RTX 4090")
        );
        assert_eq!(
            models.get("0xffff").map(String::as_str),
            Some("NVIDIA plain")
        );
        assert_eq!((models.len(), models.get("0x2685")), (5, None));
        assert!(parse("").is_empty() && parse("10de  NVIDIA").is_empty());
    }

    #[test]
    fn the_file_is_read_through_the_root_and_is_not_required() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        assert!(read(&root).is_empty());
        fs::create_dir_all(dir.path().join("usr/share/hwdata")).unwrap();
        fs::write(dir.path().join("usr/share/hwdata/pci.ids"), TEXT).unwrap();
        assert_eq!(read(&root).len(), 5);
    }
}
