//! `console.screen`: whether a firmware framebuffer on an NVIDIA GPU is kept or released. Planning reads
//! sysfs and returns the writes as data; a child does them, because a driver may take long to release a
//! device.

use crate::config::types::{BootSource, Console as Settings, Screen, ScreenView};
use contract::pci_vendor;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Drivers that show a framebuffer set up by the firmware; simpledrm is registered as `simple-framebuffer`,
/// as simplefb is.
const FIRMWARE_DRIVERS: [&str; 4] = [
    "simple-framebuffer",
    "efi-framebuffer",
    "vesa-framebuffer",
    "simpledrm",
];

/// One write to sysfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysfsWrite {
    /// The file.
    pub file: PathBuf,
    /// The value to write.
    pub value: String,
}

impl fmt::Display for SysfsWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.value, self.file.display())
    }
}

/// What the setting means for this boot.
#[must_use]
pub fn effective_setting(settings: &Settings) -> Screen {
    match (settings.screen, settings.booted_from) {
        (Screen::Auto, BootSource::Stick) => Screen::Keep,
        (Screen::Auto, BootSource::Network) => Screen::Release,
        (given, _) => given,
    }
}

/// Whether the machine's screen shows more than lines. The kernel's text console is a dummy where it found no display,
/// and a framebuffer where the firmware set one up. A VGA console alone proves little: after a boot by BIOS the kernel
/// has one even without an adapter (drivers/video/console/{dummycon,vgacon}.c), so the PCI bus must have an adapter.
#[must_use]
pub fn is_full_screen(settings: &Settings, sys: &Path) -> bool {
    let consoles = sys.join("class/vtconsole");
    let read = |name: &String, file: &str| {
        fs::read_to_string(consoles.join(name).join(file)).unwrap_or_default()
    };
    let shows = |name: &String| {
        let of = read(name, "name");
        let picture = of.contains("frame buffer") || (of.contains("VGA") && has_vga(sys));
        read(name, "bind").trim() == "1" && picture
    };
    match settings.view {
        ScreenView::Lines => false,
        ScreenView::Full => true,
        ScreenView::Auto => {
            settings.booted_from == BootSource::Stick && names(&consoles).iter().any(shows)
        }
    }
}

/// Whether the PCI bus has a VGA adapter (class 03, subclass 00).
fn has_vga(sys: &Path) -> bool {
    let devices = sys.join("bus/pci/devices");
    let class =
        |name: &String| fs::read_to_string(devices.join(name).join("class")).unwrap_or_default();
    names(&devices)
        .iter()
        .any(|name| class(name).starts_with("0x0300"))
}

/// The NVIDIA GPUs that the firmware uses as its display, according to sysfs.
#[must_use]
pub fn gpus_with_display(sys: &Path) -> Vec<String> {
    let says = |device: &Path, file: &str, what: &str| {
        fs::read_to_string(device.join(file)).is_ok_and(|text| text.trim() == what)
    };
    let devices = sys.join("bus/pci/devices");
    let names = names(&devices).into_iter();
    names
        // Checked first, because few devices have this file.
        .filter(|name| says(&devices.join(name), "boot_vga", "1"))
        .filter(|name| says(&devices.join(name), "vendor", pci_vendor::NVIDIA))
        .collect()
}

/// Plans the writes that free the firmware's framebuffer: first the text consoles that use one, then the
/// drivers that own one.
#[must_use]
pub fn plan_release(sys: &Path) -> Vec<SysfsWrite> {
    let consoles = sys.join("class/vtconsole");
    let uses_one = |name: &String| {
        let text = fs::read_to_string(consoles.join(name).join("name"));
        text.is_ok_and(|text| text.contains("frame buffer"))
    };
    let mut steps: Vec<_> = names(&consoles)
        .into_iter()
        .filter(uses_one)
        .map(|name| SysfsWrite {
            file: consoles.join(name).join("bind"),
            value: "0".to_owned(),
        })
        .collect();
    for driver in FIRMWARE_DRIVERS {
        let dir = sys.join("bus/platform/drivers").join(driver);
        let devices = names(&dir)
            .into_iter()
            .filter(|name| name.contains('.') && dir.join(name).is_dir());
        steps.extend(devices.map(|name| SysfsWrite {
            file: dir.join("unbind"),
            value: name,
        }));
    }
    steps
}

/// Does the writes.
///
/// # Errors
/// The step that failed, with the cause.
pub fn apply(steps: &[SysfsWrite]) -> Result<(), String> {
    steps
        .iter()
        .try_for_each(|step| fs::write(&step.file, &step.value).map_err(|e| format!("{step}: {e}")))
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::files as machine;

    #[test]
    fn only_an_nvidia_gpu_with_the_firmwares_display_counts() {
        let sys = machine(&[
            ("bus/pci/devices/0000:01:00.0/vendor", "0x10de\n"),
            ("bus/pci/devices/0000:01:00.0/boot_vga", "1\n"),
            ("bus/pci/devices/0000:02:00.0/vendor", "0x10de\n"),
            ("bus/pci/devices/0000:02:00.0/boot_vga", "0\n"),
            ("bus/pci/devices/0000:03:00.0/vendor", "0x1a03\n"),
            ("bus/pci/devices/0000:03:00.0/boot_vga", "1\n"),
        ]);
        assert_eq!(gpus_with_display(sys.path()), ["0000:01:00.0"]);
    }

    #[test]
    fn the_screen_is_full_where_a_person_sees_it() {
        let consoles = |real: &str| {
            machine(&[
                ("class/vtconsole/vtcon0/name", "(S) dummy device\n"),
                (
                    "class/vtconsole/vtcon0/bind",
                    if real == "1" { "0" } else { "1" },
                ),
                ("class/vtconsole/vtcon1/name", "(M) frame buffer device\n"),
                ("class/vtconsole/vtcon1/bind", real),
            ])
        };
        let settings = |view, booted_from| {
            let serial = vec![];
            Settings {
                serial,
                serial_named: false,
                screen: Screen::Auto,
                view,
                booted_from,
            }
        };
        let (picture, none) = (consoles("1"), consoles("0"));
        assert!(is_full_screen(
            &settings(ScreenView::Auto, BootSource::Stick),
            picture.path()
        ));
        assert!(!is_full_screen(
            &settings(ScreenView::Auto, BootSource::Stick),
            none.path()
        ));
        assert!(!is_full_screen(
            &settings(ScreenView::Auto, BootSource::Network),
            picture.path()
        ));
        assert!(!is_full_screen(
            &settings(ScreenView::Lines, BootSource::Stick),
            picture.path()
        ));
        assert!(is_full_screen(
            &settings(ScreenView::Full, BootSource::Network),
            none.path()
        ));

        let vga = |class| {
            machine(&[
                ("class/vtconsole/vtcon0/name", "(S) VGA+\n"),
                ("class/vtconsole/vtcon0/bind", "1\n"),
                ("bus/pci/devices/0000:00:02.0/class", class),
            ])
        };
        assert!(is_full_screen(
            &settings(ScreenView::Auto, BootSource::Stick),
            vga("0x030000\n").path()
        ));
        // The class of a GPU without a display.
        assert!(!is_full_screen(
            &settings(ScreenView::Auto, BootSource::Stick),
            vga("0x030200\n").path()
        ));
    }

    #[test]
    fn text_consoles_are_freed_before_the_driver() {
        let sys = machine(&[
            ("class/vtconsole/vtcon0/name", "(S) dummy device\n"),
            ("class/vtconsole/vtcon1/name", "(M) frame buffer device\n"),
            ("class/vtconsole/vtcon1/bind", "1\n"),
            ("bus/platform/drivers/simple-framebuffer/unbind", ""),
            (
                "bus/platform/drivers/simple-framebuffer/simple-framebuffer.0/x",
                "",
            ),
        ]);
        let steps = plan_release(sys.path());
        let text: Vec<_> = steps
            .iter()
            .map(|s| s.to_string().replace(sys.path().to_str().unwrap(), ""))
            .collect();
        assert_eq!(
            text,
            [
                "0 > /class/vtconsole/vtcon1/bind",
                "simple-framebuffer.0 > /bus/platform/drivers/simple-framebuffer/unbind"
            ]
        );
        apply(&steps).unwrap();
        let bind = fs::read_to_string(sys.path().join("class/vtconsole/vtcon1/bind")).unwrap();
        assert_eq!(bind, "0");
    }

    #[test]
    fn auto_keeps_the_screen_of_a_stick_and_releases_that_of_the_network() {
        let settings = |screen, booted_from| {
            let (serial, view) = (vec![], ScreenView::Auto);
            Settings {
                serial,
                serial_named: false,
                screen,
                view,
                booted_from,
            }
        };
        assert_eq!(
            effective_setting(&settings(Screen::Auto, BootSource::Stick)),
            Screen::Keep
        );
        assert_eq!(
            effective_setting(&settings(Screen::Auto, BootSource::Network)),
            Screen::Release
        );
        assert_eq!(
            effective_setting(&settings(Screen::Keep, BootSource::Network)),
            Screen::Keep
        );
    }
}
