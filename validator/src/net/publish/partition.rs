//! Finds the folder where a partition is mounted: the folder itself, or `LABEL=`, `UUID=` or `/dev/..` of a
//! mounted partition. Nothing is mounted here: on the appliance init does that, elsewhere the desktop or the
//! administrator.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder for `place`.
///
/// # Errors
/// One line with what is required.
pub(super) fn folder(place: &str) -> Result<PathBuf, String> {
    let Some(device) = device(place)? else {
        let dir = Path::new(place);
        return if dir.is_dir() {
            Ok(dir.to_owned())
        } else {
            Err(format!("{place}: no such folder"))
        };
    };
    let device =
        fs::canonicalize(&device).map_err(|e| format!("{place}: {}: {e}", device.display()))?;
    let mounts = fs::read_to_string(MOUNTS).map_err(|e| format!("{MOUNTS}: {e}"))?;
    mounted_at(&mounts, |source| {
        fs::canonicalize(source).is_ok_and(|source| source == device)
    })
    .ok_or_else(|| {
        format!(
            "{place} is {} and not mounted: mount it, or name its folder",
            device.display()
        )
    })
}

const MOUNTS: &str = "/proc/self/mounts";

/// The device file that a place names; `None` for a folder.
fn device(place: &str) -> Result<Option<PathBuf>, String> {
    let by = |kind: &str, name: &str| {
        let is_plain = !name.is_empty() && !name.contains('/');
        let path = Path::new("/dev/disk").join(kind).join(escaped(name));
        if is_plain {
            Ok(Some(path))
        } else {
            Err(format!("{place}: not a name of a file system"))
        }
    };
    if let Some(label) = place.strip_prefix("LABEL=") {
        return by("by-label", label);
    }
    if let Some(uuid) = place.strip_prefix("UUID=") {
        return by("by-uuid", uuid);
    }
    Ok(place.starts_with("/dev/").then(|| PathBuf::from(place)))
}

/// Encodes a name as udev does in links: everything except letters, digits and `#+-.:=@_` in hexadecimal.
fn escaped(name: &str) -> String {
    let one = |b: u8| {
        let fine = b.is_ascii_alphanumeric() || b"#+-.:=@_".contains(&b) || !b.is_ascii();
        if fine {
            vec![b]
        } else {
            format!("\\x{b:02x}").into_bytes()
        }
    };
    String::from_utf8_lossy(&name.bytes().flat_map(one).collect::<Vec<_>>()).into_owned()
}

/// The writable mount point of a matching source; the last one counts.
fn mounted_at(mounts: &str, fits: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let writable = |options: &str| options.split(',').any(|o| o == "rw");
    let at = mounts.lines().rev().find_map(|line| {
        let mut words = line.split(' ');
        let (source, at, _kind, options) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        (writable(options) && fits(&unescaped(source))).then(|| unescaped(at))
    });
    at.map(PathBuf::from)
}

/// Decodes the escaped blanks of /proc/mounts: `\040`.
fn unescaped(word: &str) -> String {
    let pairs = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    pairs
        .iter()
        .fold(word.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "/dev/sda1 / ext4 rw,relatime 0 0\n/dev/sdb1 /mnt/a\\040b vfat rw 0 0\n\
                        /dev/sdc1 /mnt/c vfat ro,errors=remount-ro 0 0\n";

    #[test]
    fn a_device_is_found_where_it_is_mounted_for_writing() {
        assert_eq!(
            mounted_at(TEXT, |s| s == "/dev/sdb1"),
            Some("/mnt/a b".into())
        );
        assert_eq!(mounted_at(TEXT, |s| s == "/dev/sdc1"), None);
        assert_eq!(mounted_at("", |_| true), None);
    }

    #[test]
    fn names_become_links_as_udev_writes_them() {
        assert_eq!(
            device("LABEL=MY STICK"),
            Ok(Some("/dev/disk/by-label/MY\\x20STICK".into()))
        );
        assert_eq!(
            device("UUID=12AB-34CD"),
            Ok(Some("/dev/disk/by-uuid/12AB-34CD".into()))
        );
        assert_eq!(device("/dev/sda1"), Ok(Some("/dev/sda1".into())));
        assert_eq!(device("/mnt"), Ok(None));
        assert!(device("LABEL=").is_err() && device("UUID=../x").is_err());
    }

    #[test]
    fn a_missing_folder_is_named() {
        assert_eq!(
            folder("/nowhere"),
            Err("/nowhere: no such folder".to_owned())
        );
        assert!(
            folder("LABEL=NONE")
                .unwrap_err()
                .starts_with("LABEL=NONE: /dev/disk/by-label/NONE: ")
        );
    }
}
