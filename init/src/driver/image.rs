//! The driver image: one read-only file system in one file of the initrd. The initrd has links to its mount point below
//! /run, so that it stays reachable after a switch of the root.

use super::compatibility::ImageContent;
use super::description::{self, Description};
use crate::disk::root::loop_device;
use crate::sys::mount::{self, Flags};
use std::fs;
use std::path::Path;

/// Mounts the image.
///
/// # Errors
/// A line with the cause: no file system, a damaged one, no loop device.
pub fn mount(file: &Path, at: &Path) -> Result<(), String> {
    fs::create_dir_all(at).map_err(|e| format!("{}: {e}", at.display()))?;
    if mount::is_mount_point(at).map_err(|e| format!("{}: {e}", at.display()))? {
        return Ok(());
    }
    let (device, kind) = loop_device(&file.to_string_lossy())?;
    let flags = Flags::RDONLY | Flags::NOSUID | Flags::NODEV;
    mount::mount(&device, at, kind.name(), flags, "")
        .map_err(|e| format!("{} as {}: {e}", file.display(), kind.name()))
}

/// Sets the kernel's search path for firmware: the driver requests it when a GPU is first opened, and a
/// switch of the root replaces /usr/lib/firmware.
///
/// # Errors
/// A line with the cause.
pub fn set_firmware_path(sys: &Path, image: &Path) -> Result<(), String> {
    let setting = sys.join("module/firmware_class/parameters/path");
    let folder = image.join("firmware");
    fs::write(&setting, folder.to_string_lossy().as_bytes())
        .map_err(|e| format!("{}: {e}", setting.display()))
}

/// Reads the image's description and lists its content.
///
/// # Errors
/// A line with the file and the cause.
pub fn read(image: &Path) -> Result<(Description, ImageContent), String> {
    let file = image.join("driver.toml");
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let description =
        description::parse(&text).map_err(|why| format!("{}: {why}", file.display()))?;
    // A missing folder counts as empty; the checks then report what is missing in it.
    let names = |folder: &str| {
        let entries = fs::read_dir(image.join(folder))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    Ok((
        description,
        ImageContent {
            libraries: names("lib"),
            firmware: names("firmware/nvidia"),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::description::SAMPLE;
    use crate::sample::files;

    #[test]
    fn the_content_of_the_image_is_listed() {
        let image = files(&[
            ("driver.toml", SAMPLE),
            ("lib/libcuda.so.555.58.02", ""),
            ("firmware/nvidia/555.58.02/gsp_ga10x.bin", ""),
        ]);
        let (description, parts) = read(image.path()).unwrap();
        assert_eq!(description.version, "555.58.02");
        assert_eq!(
            (parts.libraries, parts.firmware),
            (
                vec!["libcuda.so.555.58.02".into()],
                vec!["555.58.02".into()]
            )
        );
        fs::write(image.path().join("driver.toml"), "x").unwrap();
        assert!(
            read(image.path())
                .unwrap_err()
                .contains("/driver.toml: line 1: ")
        );
        fs::remove_file(image.path().join("driver.toml")).unwrap();
        assert!(
            read(image.path())
                .unwrap_err()
                .contains("/driver.toml: No such file")
        );
    }

    #[test]
    fn what_is_no_file_system_is_named() {
        let dir = files(&[("driver.squashfs", "damaged")]);
        let error = mount(&dir.path().join("driver.squashfs"), &dir.path().join("at")).unwrap_err();
        assert!(
            error
                .ends_with("driver.squashfs: holds no known file system, allowed: squashfs, erofs"),
            "{error}"
        );
    }

    #[test]
    fn the_firmware_path_is_written_without_a_line_feed() {
        let sys = files(&[("module/firmware_class/parameters/path", "")]);
        set_firmware_path(sys.path(), Path::new("/run/firstlight/driver")).unwrap();
        let text =
            fs::read_to_string(sys.path().join("module/firmware_class/parameters/path")).unwrap();
        assert_eq!(text, "/run/firstlight/driver/firmware");
        let why = set_firmware_path(Path::new("/none"), Path::new("/x")).unwrap_err();
        assert!(why.starts_with("/none/module/"), "{why}");
    }
}
