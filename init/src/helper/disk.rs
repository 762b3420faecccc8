//! The child that works on the data partition, in mounts of its own: when it ends, however it ends,
//! nothing of the partition stays mounted.

use super::{ABSENT, FINE, HAS_CONFIG, NO_FILE, say};
use crate::config::types::Place;
use crate::config::values;
use crate::disk::find::{Found, NotFound, find_waiting};
use crate::disk::superblock::Kind;
use crate::paths;
use crate::sys::files::{self, Flags};
use crate::write::{write_atomically, write_durably};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const AT: &str = "/run/firstlight/partition";

pub(super) fn fetch_config(place: &str, wait_s: &str) -> Result<i32, String> {
    let wait = Duration::from_secs(wait_s.parse().map_err(|_| format!("{wait_s}: no seconds"))?);
    let Some(at) = mounted(place, wait, Flags::RDONLY)? else { return Ok(ABSENT) };
    let file = at.join("config.toml");
    match fs::read(&file) {
        Ok(bytes) => {
            let to = paths::PARTITION_CONFIG;
            write_atomically(Path::new(to), &bytes).map_err(|e| format!("{to}: {e}"))?;
            Ok(FINE)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(NO_FILE),
        Err(e) => Err(format!("config.toml: {e}")),
    }
}

pub(super) fn keep_report(place: &str, file: &str, name: &str, keep: &str) -> Result<i32, String> {
    let keep: usize = keep.parse().map_err(|_| format!("{keep}: no number"))?;
    let Some(at) = mounted(place, Duration::ZERO, Flags::empty())? else { return Ok(ABSENT) };
    if at.join("config.toml").exists() {
        say(HAS_CONFIG);
    }
    let kept =
        keep_in(&at.join("reports"), Path::new(file), name, keep).map_err(|e| format!("reports/: {e}"))?;
    files::unmount(&at).map_err(|e| format!("unmounting: {e}"))?;
    say(&format!("reports/{kept}"));
    Ok(FINE)
}

/// Finds the partition and mounts it; `None` when it is not there.
fn mounted(text: &str, wait: Duration, flags: Flags) -> Result<Option<PathBuf>, String> {
    let place: Place = values::place(text).ok_or_else(|| format!("{text}: no place"))?;
    let Found { device, kind } = match find_waiting(&place, wait) {
        Ok(found) => found,
        Err(e @ NotFound::Absent(_)) => {
            // The reason is for a partition that a layer names.
            let _nobody_reads = io::Write::write_fmt(&mut io::stderr(), format_args!("{e}\n"));
            return Ok(None);
        }
        Err(e) => return Err(e.to_string()),
    };
    if !matches!(kind, Kind::Vfat | Kind::Ext4) {
        return Err(format!("{device} is {}, allowed: vfat, ext4", kind.name()));
    }
    let at = PathBuf::from(AT);
    fs::create_dir_all(&at).map_err(|e| format!("{AT}: {e}"))?;
    files::own_mounts().map_err(|e| format!("mounts of our own: {e}"))?;
    let safe = flags | Flags::NOSUID | Flags::NODEV | Flags::NOEXEC;
    files::mount(&device, &at, kind.name(), safe, "")
        .map_err(|e| format!("{device} as {}: {e}", kind.name()))?;
    Ok(Some(at))
}

/// Copies `file` to the next number in `dir` and removes all but the newest `keep`.
fn keep_in(dir: &Path, file: &Path, name: &str, keep: usize) -> io::Result<String> {
    fs::create_dir_all(dir)?;
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        numbers.extend(number_of(&name).map(|number| (number, name)));
    }
    numbers.sort();
    let next = numbers.last().map_or(1, |(number, _)| number + 1);
    let kept = format!("{next:06}-{name}.json");
    write_durably(&dir.join(&kept), &fs::read(file)?)?;
    let surplus = (numbers.len() + 1).saturating_sub(keep);
    numbers.iter().take(surplus).try_for_each(|(_, old)| fs::remove_file(dir.join(old)))?;
    Ok(kept)
}

/// The number that a report's file name begins with; other files are none of ours.
fn number_of(name: &str) -> Option<u32> {
    let (number, rest) = name.split_once('-')?;
    rest.strip_suffix(".json")?;
    (number.len() >= 6).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_reports_are_kept_and_other_files_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (reports, file) = (dir.path().join("reports"), dir.path().join("report.json"));
        fs::write(&file, "{}").unwrap();
        fs::create_dir(&reports).unwrap();
        fs::write(reports.join("notes.txt"), "mine").unwrap();
        for n in 1..=5 {
            assert_eq!(keep_in(&reports, &file, "x-PASS", 3).unwrap(), format!("{n:06}-x-PASS.json"));
        }
        let mut names: Vec<_> = fs::read_dir(&reports).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["000003-x-PASS.json", "000004-x-PASS.json", "000005-x-PASS.json", "notes.txt"]);
    }

    #[test]
    fn only_our_own_names_have_a_number() {
        assert_eq!(number_of("000012-a-PASS.json"), Some(12));
        for other in ["report.json", "12-a.json", "000012-a.txt", "0000x2-a.json", "-a.json"] {
            assert_eq!(number_of(other), None, "{other}");
        }
    }
}
