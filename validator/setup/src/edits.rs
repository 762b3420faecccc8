//! The files by which the driver's source is edited: the image's own, compiled in, so that an installed system gets the
//! same changes by the same program. They are written into the edited copy of the source, which so shows how it was made.

/// The description of the edits.
pub(crate) const DESCRIPTION: &str = include_str!("../../../image/driver/edits/bar1/edits.toml");
/// The script of the image that has the level of the edits.
pub(crate) const CHOICE: &str = include_str!("../../../image/driver/description/choose.py");
/// The folder of these files below the edited copy.
pub(crate) const FOLDER: &str = "firstlight";
/// The script that edits, in that folder; then the folder with the description.
pub(crate) const SCRIPT: (&str, &str) = ("edit.py", "bar1");

/// Each file: its path in that folder, and its text.
pub(crate) const FILES: &[(&str, &str)] = &[
    (
        SCRIPT.0,
        include_str!("../../../image/driver/description/edit.py"),
    ),
    (
        "halspec.py",
        include_str!("../../../image/driver/description/halspec.py"),
    ),
    (
        "version.py",
        include_str!("../../../image/driver/description/version.py"),
    ),
    ("bar1/edits.toml", DESCRIPTION),
    (
        "bar1/no_mailboxes.c",
        include_str!("../../../image/driver/edits/bar1/no_mailboxes.c"),
    ),
    (
        "bar1/patch_level.c",
        include_str!("../../../image/driver/edits/bar1/patch_level.c"),
    ),
    (
        "bar1/peer_masks.c",
        include_str!("../../../image/driver/edits/bar1/peer_masks.c"),
    ),
    (
        "bar1/static_map.c",
        include_str!("../../../image/driver/edits/bar1/static_map.c"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_the_description_names_is_there() {
        let description: toml::Table = toml::from_str(DESCRIPTION).unwrap();
        for added in description["add"].as_array().unwrap() {
            let name = format!("{}/{}", SCRIPT.1, added["file"].as_str().unwrap());
            assert!(FILES.iter().any(|(file, _)| *file == name), "{name}");
        }
        for (file, text) in FILES {
            assert!(!text.is_empty(), "{file}");
        }
    }
}
