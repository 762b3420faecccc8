//! Framebuffers and their devices.

use crate::host::modules::absent_is_none;
use crate::pcie::model::Device;
use crate::root::Root;
use std::io;

/// One framebuffer of /sys/class/graphics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Framebuffer {
    /// `fb0`
    pub name: String,
    /// The folder of /sys/devices that it is in, whose path names every PCI function above it. A firmware
    /// framebuffer of older kernels is below `platform` and names none.
    pub device: String,
    /// The name in /proc/fb: `EFI VGA`, `simpledrmdrmfb`, `nvidia-drmdrmfb`; `None` if it has none there.
    pub shown_by: Option<String>,
}

/// The framebuffer on a GPU. A framebuffer whose folder names no PCI function is the firmware's, which is on the boot
/// display.
#[must_use]
pub fn on<'a>(gpu: &Device, screens: &'a [Framebuffer]) -> Option<&'a Framebuffer> {
    let address = gpu.bdf.to_string();
    screens.iter().find(|s| {
        let parts = || s.device.split('/');
        parts().any(|p| p == address) || (gpu.boot_vga && parts().any(|p| p == "platform"))
    })
}

/// All framebuffers; none on a kernel without them.
///
/// # Errors
/// If the folder or its links cannot be read.
pub fn read(root: &Root) -> io::Result<Vec<Framebuffer>> {
    let names = absent_is_none(root.names("sys/class/graphics"))?.unwrap_or_default();
    let names = names
        .iter()
        .filter_map(|n| n.to_str())
        .filter(|n| is_framebuffer(n));
    let all = root.text("proc/fb").unwrap_or_default();
    let shown_by = |name: &str| {
        let mut lines = all.lines().filter_map(|line| line.trim().split_once(' '));
        lines
            .find(|(number, _)| name.strip_prefix("fb") == Some(number))
            .map(|(_, shown_by)| shown_by.to_owned())
    };
    names
        .map(|name| {
            let link = root.link(format!("sys/class/graphics/{name}"))?;
            let device = link.to_string_lossy().into_owned();
            Ok(Framebuffer {
                name: name.to_owned(),
                device,
                shown_by: shown_by(name),
            })
        })
        .collect()
}

/// `fb0`, not `fbcon`.
fn is_framebuffer(name: &str) -> bool {
    name.strip_prefix("fb")
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn framebuffers_are_listed_with_their_device() {
        let dir = tempfile::tempdir().unwrap();
        let graphics = dir.path().join("sys/class/graphics");
        std::fs::create_dir_all(&graphics).unwrap();
        let device = "../../devices/pci0000:00/0000:00:01.0/simple-framebuffer.0/graphics/fb0";
        symlink(device, graphics.join("fb0")).unwrap();
        symlink(
            "../../devices/virtual/graphics/fbcon",
            graphics.join("fbcon"),
        )
        .unwrap();
        let found = |shown_by: Option<&str>| {
            let screens = read(&Root::new(dir.path())).unwrap();
            let shown_by = shown_by.map(str::to_owned);
            assert_eq!(
                screens,
                [Framebuffer {
                    name: "fb0".into(),
                    device: device.into(),
                    shown_by
                }]
            );
        };
        found(None);
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/fb"), "1 other\n0 EFI VGA\n").unwrap();
        found(Some("EFI VGA"));
    }

    #[test]
    fn a_kernel_without_framebuffers_has_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&Root::new(dir.path())).unwrap(), []);
    }
}
