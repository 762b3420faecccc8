//! `firstlight reset`: shows or removes the mark by which the appliance knows that an earlier boot was reset during a
//! step.

use super::output::to_stdout;
use super::{CommandError, FAILURE, NOT_DONE, SUCCESS};
use crate::cli::args::{Reset, ResetAction};
use contract::mark::{ATTRIBUTES, FILE, Mark, SIZE, Step, VARIABLE, VARIABLES};
use machine::root::Root;
use outcome::files;
use outcome::text::shown_text;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A store that can hold a mark.
struct MarkStore<'a> {
    name: String,
    at: StoreKind<'a>,
}

/// The kind of a store, and where it is.
enum StoreKind<'a> {
    Variable(&'a Root, PathBuf),
    File(PathBuf),
}

/// The mark in a store; `None` if it has none.
type MarkResult = Result<Option<Mark>, String>;

/// Status 0 if no mark is left, 1 if there is one, 2 if it could not be read or removed.
pub(super) fn run(root: &Root, asked: &Reset) -> Result<u8, CommandError> {
    if let Some(folder) = &asked.partition
        && !folder.is_dir()
    {
        let folder = shown_text(&folder.display().to_string());
        return Err(CommandError::Undone(format!(
            "--partition {folder}: no such folder"
        )));
    }
    let places = places(root, asked.partition.as_deref());
    if places.is_empty() {
        let here = root.shown(VARIABLES);
        let why = format!(
            "reset: no EFI variables in {here}; name the mounted data partition by --partition"
        );
        return Err(CommandError::Undone(why));
    }
    let statuses = places.iter().map(|place| {
        let (line, status) = match asked.action {
            ResetAction::Show => shown(&place.read()),
            ResetAction::Clear => cleared(&place.remove()),
        };
        to_stdout(&format!("{}: {line}\n", place.name)).map(|()| status)
    });
    let statuses: Vec<u8> = statuses
        .collect::<io::Result<_>>()
        .map_err(|e| CommandError::undone(&e))?;
    Ok(statuses.into_iter().max().unwrap_or(NOT_DONE))
}

/// The firmware's variables, if there are any, and the partition, if one is named.
fn places<'a>(root: &'a Root, partition: Option<&Path>) -> Vec<MarkStore<'a>> {
    let variables = root.exists(VARIABLES).is_ok_and(|there| there);
    let variable = variables.then(|| MarkStore {
        name: "EFI variable".to_owned(),
        at: StoreKind::Variable(root, Path::new(VARIABLES).join(VARIABLE)),
    });
    let file = partition.map(|folder| folder.join(FILE));
    let file = file.map(|path| MarkStore {
        name: path.display().to_string(),
        at: StoreKind::File(path),
    });
    variable.into_iter().chain(file).collect()
}

impl MarkStore<'_> {
    fn read(&self) -> MarkResult {
        let (bytes, before) = match &self.at {
            StoreKind::Variable(root, path) => (root.read(path), &ATTRIBUTES.to_le_bytes()[..]),
            StoreKind::File(path)
                if fs::symlink_metadata(path).is_err_and(|e| e.kind() == ErrorKind::NotFound) =>
            {
                return Ok(None);
            }
            StoreKind::File(path) => (
                files::read(path, SIZE as u64).map_err(io::Error::other),
                &[][..],
            ),
        };
        match bytes {
            Ok(bytes) => {
                let mark = bytes.strip_prefix(before).ok_or("has other attributes")?;
                Mark::read(mark).map(Some)
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Removes the content, also if it is not a mark; false if there was none.
    fn remove(&self) -> io::Result<bool> {
        let removed = match &self.at {
            StoreKind::Variable(root, path) => root.remove_protected(path),
            StoreKind::File(path) => fs::remove_file(path),
        };
        match removed {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

fn shown(found: &MarkResult) -> (String, u8) {
    match found {
        Ok(None) => ("no mark".to_owned(), SUCCESS),
        Ok(Some(mark)) => {
            let value =
                |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".to_owned());
            let finding = mark.finding.as_deref().unwrap_or("none");
            let (image, boot) = (value(&mark.image), value(&mark.boot));
            let what = match mark.step {
                Step::Recover => {
                    "rebooted to recover GPUs, and without peer-to-peer since".to_owned()
                }
                Step::Reboot => format!("rebooted by its policy; reboots in a row: {}", mark.count),
                step => format!("reset during {step}"),
            };
            (
                format!("{what}; image {image}; last finding {finding}; boot {boot}"),
                FAILURE,
            )
        }
        Err(why) => (
            format!("unreadable, which vetoes every step: {}", shown_text(why)),
            NOT_DONE,
        ),
    }
}

fn cleared(removed: &io::Result<bool>) -> (String, u8) {
    match removed {
        Ok(true) => ("removed".to_owned(), SUCCESS),
        Ok(false) => ("no mark".to_owned(), SUCCESS),
        Err(e) => (format!("cannot be removed: {e}"), NOT_DONE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        let finding = Some("REBAR-NO-ROOM".to_owned());
        Mark {
            step: Step::DriverLoad,
            image: Some("abc".to_owned()),
            boot: None,
            finding,
            count: 0,
        }
    }

    /// A machine with variables, and a folder for its data partition.
    fn machine() -> (tempfile::TempDir, Root, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("root").join(VARIABLES)).unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        let (root, data) = (Root::new(dir.path().join("root")), dir.path().join("data"));
        (dir, root, data)
    }

    fn status(
        root: &Root,
        action: ResetAction,
        partition: Option<&PathBuf>,
    ) -> Result<u8, CommandError> {
        run(
            root,
            &Reset {
                action,
                partition: partition.cloned(),
            },
        )
    }

    #[test]
    fn a_mark_is_shown_and_removed_in_both_places() {
        let (_dir, root, data) = machine();
        let (show, clear) = (ResetAction::Show, ResetAction::Clear);
        assert_eq!(status(&root, show, Some(&data)).unwrap(), SUCCESS);
        let variable = root.join(VARIABLES).join(VARIABLE);
        fs::write(
            &variable,
            [&ATTRIBUTES.to_le_bytes(), mark().text().as_bytes()].concat(),
        )
        .unwrap();
        assert_eq!(status(&root, show, None).unwrap(), FAILURE);
        fs::write(data.join(FILE), mark().text()).unwrap();
        assert_eq!(status(&root, show, Some(&data)).unwrap(), FAILURE);
        assert_eq!(status(&root, clear, None).unwrap(), SUCCESS);
        assert!(!variable.exists() && data.join(FILE).exists());
        assert_eq!(status(&root, clear, Some(&data)).unwrap(), SUCCESS);
        assert!(!data.join(FILE).exists());
        assert_eq!(status(&root, clear, Some(&data)).unwrap(), SUCCESS);
    }

    #[test]
    fn what_is_no_mark_is_an_error_that_can_be_removed() {
        let (_dir, root, data) = machine();
        fs::write(root.join(VARIABLES).join(VARIABLE), mark().text()).unwrap();
        fs::write(data.join(FILE), "x").unwrap();
        assert_eq!(
            status(&root, ResetAction::Show, Some(&data)).unwrap(),
            NOT_DONE
        );
        assert_eq!(
            status(&root, ResetAction::Clear, Some(&data)).unwrap(),
            SUCCESS
        );
        assert_eq!(
            status(&root, ResetAction::Show, Some(&data)).unwrap(),
            SUCCESS
        );
    }

    #[test]
    fn a_machine_without_any_place_is_not_called_free_of_marks() {
        let dir = tempfile::tempdir().unwrap();
        let why = status(&Root::new(dir.path()), ResetAction::Show, None)
            .unwrap_err()
            .to_string();
        assert!(
            why.starts_with("reset: no EFI variables in ") && why.ends_with("by --partition"),
            "{why}"
        );
    }

    #[test]
    fn the_line_has_everything_that_the_mark_has() {
        let (line, _) = shown(&Ok(Some(mark())));
        assert_eq!(
            line,
            "reset during driver-load; image abc; last finding REBAR-NO-ROOM; boot not known"
        );
        assert_eq!(shown(&Err("is\u{1b}text".to_owned())).1, NOT_DONE);
        assert!(!shown(&Err("is\u{1b}text".to_owned())).0.contains('\u{1b}'));
    }
}
