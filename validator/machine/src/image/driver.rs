//! The driver image, which is one file of the image and is mounted below /run. The hash of that file covers
//! its whole content, so the mounted file system must come from it and nothing may be mounted over it. Pure
//! except for `DriverMounts`, which `read` fills.

use super::compare::Difference;
use super::list::FileList;

/// Where init mounts the driver image.
pub const MOUNT_POINT: &str = "/run/firstlight/driver";
/// The file that holds the driver image.
pub const FILE: &str = "/usr/lib/firstlight/driver.squashfs";

/// The state of the driver image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverImage {
    /// The image has none.
    None,
    /// It has one, which is not mounted.
    NotMounted,
    /// It is mounted.
    Mounted,
    /// Something else is in its place; the differences give details.
    Foreign,
}

impl DriverImage {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::None => "none in this image",
            Self::NotMounted => "not mounted",
            Self::Mounted => "mounted from the listed driver.squashfs",
            Self::Foreign => "something else is in its place",
        }
    }
}

/// One line of /proc/self/mountinfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number of the file system.
    pub device: (u32, u32),
    /// The folder of it that is mounted.
    pub root: String,
    /// The mount point.
    pub at: String,
    /// The file system type.
    pub kind: String,
}

/// What exists at [`MOUNT_POINT`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DriverMounts {
    /// The mounts there and below.
    pub mounts: Vec<Mount>,
    /// The file system that is visible there; `None` if there is no such folder.
    pub device: Option<(u32, u32)>,
    /// The file behind the one mount's loop device, and its offset and size, bytes.
    pub backing: Option<(String, u64, u64)>,
}

/// Parses the mounts at [`MOUNT_POINT`] and below; a line that cannot be parsed is an error with its text.
///
/// # Errors
/// That line.
pub fn mounts(text: &str) -> Result<Vec<Mount>, String> {
    let all = text
        .lines()
        .map(|line| mount(line).ok_or_else(|| line.to_owned()));
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    all.retain(|m| {
        m.at.strip_prefix(MOUNT_POINT)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    Ok(all)
}

/// `36 35 7:0 / /run/firstlight/driver ro,nosuid - squashfs /dev/loop0 ro`
fn mount(line: &str) -> Option<Mount> {
    let (place, source) = line.split_once(" - ")?;
    let mut words = place.split(' ').skip(2);
    let (device, root, at) = (words.next()?, words.next()?, words.next()?);
    let (major, minor) = device.split_once(':')?;
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: root.to_owned(),
        at: at.to_owned(),
        kind: source.split(' ').next()?.to_owned(),
    })
}

/// Removes the files in the driver image from the list: the image's hash covers them.
#[must_use]
pub fn split_off(list: &mut FileList) -> bool {
    let below = |path: &str| {
        path.strip_prefix(MOUNT_POINT)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let has_image = list.contains_key(FILE);
    list.retain(|path, _| !(has_image && below(path)));
    has_image
}

/// Whether the mounted file system is the image's.
#[must_use]
pub fn judge(has_image: bool, seen: &DriverMounts) -> (DriverImage, Option<Difference>) {
    let foreign = |found: String| {
        let expected = if has_image { FILE } else { "nothing" };
        (
            DriverImage::Foreign,
            Some(Difference::changed(MOUNT_POINT, expected, found)),
        )
    };
    match (&seen.mounts[..], has_image) {
        ([], true) => (DriverImage::NotMounted, None),
        ([], false) => (DriverImage::None, None),
        ([one], true) if one.at == MOUNT_POINT => {
            let Mount {
                device, root, kind, ..
            } = one;
            let backing = seen
                .backing
                .as_ref()
                .map(|(file, from, size)| (file.as_str(), *from, *size));
            match backing {
                _ if seen.device != Some(*device) => {
                    foreign("another file system over it".to_owned())
                }
                _ if root != "/" => foreign(format!("{root} of a {kind}")),
                Some((FILE, 0, 0)) if kind == "squashfs" => (DriverImage::Mounted, None),
                Some((FILE, ..)) if kind == "squashfs" => foreign(format!("a part of {FILE}")),
                Some((file, ..)) => foreign(format!("{kind} from {file}")),
                None => foreign(format!("{kind} that has no backing file")),
            }
        }
        ([.., last], true) => foreign(format!(
            "{} mounts, the last one {} at {}",
            seen.mounts.len(),
            last.kind,
            last.at
        )),
        ([.., last], false) => foreign(format!("{} at {}", last.kind, last.at)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::parse;
    use super::*;

    const LINE: &str = "36 35 7:0 / /run/firstlight/driver ro,nosuid,nodev - squashfs /dev/loop0 ro,errors=continue";

    fn seen(text: &str, file: &str) -> DriverMounts {
        DriverMounts {
            mounts: mounts(text).unwrap(),
            device: Some((7, 0)),
            backing: Some((file.into(), 0, 0)),
        }
    }

    fn state(has_image: bool, seen: &DriverMounts) -> DriverImage {
        let (driver, difference) = judge(has_image, seen);
        assert_eq!(driver == DriverImage::Foreign, difference.is_some());
        driver
    }

    #[test]
    fn only_the_whole_listed_file_in_its_place_is_the_driver() {
        let other = "20 1 0:18 / /run rw - tmpfs tmpfs rw\n21 1 0:19 / /run/firstlight/drivers rw - tmpfs t rw\n";
        let good = seen(&format!("{other}{LINE}\n"), FILE);
        assert_eq!(
            (good.mounts.len(), state(true, &good)),
            (1, DriverImage::Mounted)
        );
        assert_eq!(
            state(true, &DriverMounts::default()),
            DriverImage::NotMounted
        );
        assert_eq!(state(false, &DriverMounts::default()), DriverImage::None);
        for bad in [
            seen(LINE, "/tmp/other.squashfs"),
            seen(LINE, "/usr/lib/firstlight/driver.squashfs (deleted)"),
            seen(&LINE.replace("7:0 / ", "7:0 /lib "), FILE),
            seen(&LINE.replace("squashfs", "ext4"), FILE),
            seen(&format!("{LINE}\n{LINE}"), FILE),
            seen(
                &format!("{LINE}\n40 36 0:9 / {MOUNT_POINT}/lib/libcuda.so.1 rw - tmpfs t rw"),
                FILE,
            ),
            seen(
                &LINE.replace(MOUNT_POINT, &format!("{MOUNT_POINT}/lib")),
                FILE,
            ),
            DriverMounts {
                device: Some((0, 18)),
                ..good.clone()
            },
            DriverMounts {
                backing: None,
                ..good.clone()
            },
            DriverMounts {
                backing: Some((FILE.into(), 4096, 0)),
                ..good.clone()
            },
            DriverMounts {
                backing: Some((FILE.into(), 0, 4096)),
                ..good.clone()
            },
        ] {
            assert_eq!(state(true, &bad), DriverImage::Foreign, "{bad:?}");
        }
        assert_eq!(state(false, &good), DriverImage::Foreign);
    }

    #[test]
    fn a_malformed_line_of_mounts_is_an_error() {
        assert_eq!(mounts("nonsense").unwrap_err(), "nonsense");
        assert_eq!(
            mounts("1 2 x:y / / rw - tmpfs t rw").unwrap_err(),
            "1 2 x:y / / rw - tmpfs t rw"
        );
    }

    #[test]
    fn only_its_file_proves_the_content_of_the_driver_image() {
        let sum = "0".repeat(64);
        let inside = format!("{sum}\t{MOUNT_POINT}/lib/x\tp 1\n");
        let mut with = parse(&format!("{sum}\t{FILE}\tbuilt here\n{inside}")).unwrap();
        assert!(split_off(&mut with) && with.len() == 1);
        let mut without = parse(&inside).unwrap();
        assert!(!split_off(&mut without) && without.len() == 1);
    }
}
