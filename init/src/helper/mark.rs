//! The children that keep the mark of a step that can take the machine down ([`contract::mark`]): in a variable of the
//! firmware where there are such variables, else in a file on the data partition. Both can hang.

use super::partition::mount_partition;
use super::request::{MarkPlace, Partition};
use super::{ABSENT, SUCCESS, firmware, say};
use crate::file_io::{read_at_most, write_durably};
use crate::sys::files::allow_changes;
use crate::sys::mount::{self, Flags};
use contract::mark::{ATTRIBUTES, FILE, Mark, SIZE, Step, VARIABLE};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Printed before the name of the place where marks are kept.
pub const PLACE: &str = "place ";
/// Printed before a mark.
pub const FOUND: &str = "mark ";
/// Printed before the reason why the stored data is not a valid mark.
pub const BROKEN: &str = "broken ";
/// The name of the place in the firmware.
const VARIABLES: &str = "an EFI variable";

/// Where marks are kept, and the bytes that precede the mark's text there.
struct MarkStore {
    path: PathBuf,
    attributes: &'static [u8],
    partition: Option<PathBuf>,
}

impl MarkStore {
    /// The one place of this machine; `None` when it has none.
    fn find(place: &MarkPlace, flags: Flags) -> Result<Option<Self>, String> {
        if let Some(variables) = firmware::variables() {
            let attributes = &const { ATTRIBUTES.to_le_bytes() };
            return Ok(Some(Self {
                path: variables.join(VARIABLE),
                attributes,
                partition: None,
            }));
        }
        let Some(place) = place else { return Ok(None) };
        let at = mount_partition(place, Duration::ZERO, flags)?;
        Ok(at.map(|at| Self {
            path: at.join(FILE),
            attributes: &[],
            partition: Some(at),
        }))
    }

    fn name<'a>(&self, place: &'a MarkPlace) -> &'a str {
        let place = place.as_ref().filter(|_| self.partition.is_some());
        place.map_or(VARIABLES, |Partition { place, .. }| place)
    }

    /// The stored mark, read without the attributes.
    fn read(&self) -> Result<Option<Mark>, String> {
        let limit = (SIZE + ATTRIBUTES.to_le_bytes().len()) as u64;
        match read_at_most(&self.path, limit) {
            Ok(bytes) => bytes
                .strip_prefix(self.attributes)
                .ok_or_else(|| "has other attributes".to_owned())
                .and_then(Mark::read)
                .map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.to_string()),
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let bytes = [self.attributes, text.as_bytes()].concat();
        if self.partition.is_some() {
            return write_durably(&self.path, &bytes);
        }
        allow_changes(&self.path)?;
        // One write, because each write sets the whole variable.
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)?
            .write_all(&bytes)
    }

    /// Records in the mark of the part's step that the part begins.
    fn begin_part(&self, part: Step) -> io::Result<()> {
        let mark = self
            .read()
            .map_err(io::Error::other)?
            .filter(|mark| mark.step.whole() == part.whole());
        let mark = mark.ok_or_else(|| io::Error::other(format!("no mark of {}", part.whole())))?;
        if mark.step == part {
            Ok(())
        } else {
            self.write(&Mark { step: part, ..mark }.text())
        }
    }

    fn remove(&self) -> io::Result<()> {
        allow_changes(&self.path)?;
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Unmounts the partition, which writes everything to the disk.
    fn unmount(self) -> Result<(), String> {
        let Some(at) = self.partition else {
            return Ok(());
        };
        mount::unmount(&at).map_err(|e| format!("unmounting: {e}"))
    }
}

/// Prints the place and the mark stored there.
pub(super) fn read(place: &MarkPlace) -> Result<i32, String> {
    let Some(store) = MarkStore::find(place, Flags::RDONLY)? else {
        return Ok(ABSENT);
    };
    say(&format!("{PLACE}{}", store.name(place)));
    match store.read() {
        Ok(None) => {}
        Ok(Some(mark)) => say(&format!("{FOUND}{}", mark.text().trim())),
        Err(why) => say(&format!(
            "{BROKEN}{}: {why}",
            store.path.file_name().unwrap_or_default().display()
        )),
    }
    store.unmount()?;
    Ok(SUCCESS)
}

/// Writes a mark.
pub(super) fn write(place: &MarkPlace, mark: &str) -> Result<i32, String> {
    let mark: Mark = mark.parse()?;
    with_store(place, |store| store.write(&mark.text()))
}

/// Records in the mark of this boot which part of its step begins.
pub(super) fn begin_part(place: &MarkPlace, part: &str) -> Result<i32, String> {
    let part = part.parse()?;
    with_store(place, |store| store.begin_part(part))
}

/// Removes the stored mark.
pub(super) fn clear(place: &MarkPlace) -> Result<i32, String> {
    with_store(place, MarkStore::remove)
}

fn with_store(
    place: &MarkPlace,
    change: impl FnOnce(&MarkStore) -> io::Result<()>,
) -> Result<i32, String> {
    let Some(store) = MarkStore::find(place, Flags::empty())? else {
        return Ok(ABSENT);
    };
    change(&store).map_err(|e| format!("{}: {e}", store.path.display()))?;
    store.unmount()?;
    Ok(SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn mark(step: Step) -> Mark {
        Mark {
            step,
            image: Some("abc".to_owned()),
            boot: None,
            finding: None,
            count: 0,
        }
    }

    #[test]
    fn a_variable_is_replaced_whole_read_back_and_removed() {
        let dir = sample::files(&[]);
        let path = dir.path().join(VARIABLE);
        let store = MarkStore {
            path: path.clone(),
            attributes: &[7, 0, 0, 0],
            partition: None,
        };
        assert_eq!(store.read(), Ok(None));
        for step in Step::ALL {
            store.write(&mark(step).text()).unwrap();
            assert_eq!(store.read(), Ok(Some(mark(step))));
            assert_eq!(fs::metadata(&path).unwrap().len(), 260);
        }
        store.remove().unwrap();
        store.remove().unwrap();
        assert_eq!(store.read(), Ok(None));
    }

    #[test]
    fn a_part_is_written_into_the_mark_of_its_step_alone() {
        let dir = sample::files(&[]);
        let store = MarkStore {
            path: dir.path().join(VARIABLE),
            attributes: &[7, 0, 0, 0],
            partition: None,
        };
        let begin = |part| store.begin_part(part).map_err(|e| e.to_string());
        let refused = || Err("no mark of validate".to_owned());
        assert_eq!(begin(Step::PeerWrite), refused());
        store.write(&mark(Step::DriverLoad).text()).unwrap();
        assert_eq!(begin(Step::PeerWrite), refused());
        store.write(&mark(Step::Validate).text()).unwrap();
        for part in [Step::FullLoad, Step::FullLoad, Step::PeerWrite] {
            assert_eq!(begin(part), Ok(()));
            assert_eq!(store.read(), Ok(Some(mark(part))));
        }
    }

    #[test]
    fn an_invalid_mark_is_named_and_not_taken_for_none() {
        let text = mark(Step::Fabric).text();
        let long = format!("{text}{text}");
        for (content, why) in [
            ("", "has other"),
            (text.as_str(), "has other"),
            (long.as_str(), "larger than"),
        ] {
            let dir = sample::files(&[(VARIABLE, content)]);
            let path = dir.path().join(VARIABLE);
            let store = MarkStore {
                path,
                attributes: &[7, 0, 0, 0],
                partition: None,
            };
            assert!(store.read().unwrap_err().starts_with(why), "{content:?}");
        }
        let dir = sample::files(&[("reset-mark/x", "")]);
        let at = Some(dir.path().to_owned());
        let store = MarkStore {
            path: dir.path().join(FILE),
            attributes: &[],
            partition: at,
        };
        assert_eq!(store.read(), Err("not a regular file".to_owned()));
    }
}
