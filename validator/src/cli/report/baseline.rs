//! `baseline save`, `baseline compare` and `compare`: read the files, compare the reports through `report`, and write
//! the result.

use super::read_any;
use crate::cli::args::{Baseline as Asked, Compare, Place};
use crate::cli::output::{same_file, write, write_json_or_text};
use crate::cli::{CommandError, NOT_DONE, SUCCESS};
use crate::net::publish::LARGEST;
use outcome::files;
use outcome::text::{shown, shown_text};
use report::baseline::{Baseline, baseline};
use report::drift::drift;
use report::fleet::Fleet;
use report::render::{fleet as text, html, pretty};
use report::summary::Summary;
use report::{Report, ReportError, from_json};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// `baseline`
pub(in crate::cli) fn run(asked: Asked) -> Result<u8, CommandError> {
    match asked {
        Asked::Save { files, to, force } => save(&files, to.as_ref(), force),
        Asked::Compare {
            baseline,
            report,
            json,
        } => {
            if baseline.as_os_str() == "-" {
                return Err(CommandError::Usage(
                    "baseline compare: the baseline is a file, not -".to_owned(),
                ));
            }
            keep_reports("--json", json.as_ref())?;
            let known = from_file(&baseline).map_err(CommandError::Undone)?;
            let found = drift(&known, &read_any(&report)?);
            let found = found.map_err(|why| CommandError::Undone(here(&report, &why)))?;
            write_json_or_text(json.as_ref(), &found, &text::drift(&found))?;
            Ok(found.verdict.exit_status())
        }
    }
}

/// The baseline in a file.
///
/// # Errors
/// One line with the file's name.
pub(in crate::cli) fn from_file(path: &Path) -> Result<Baseline, String> {
    let read = files::read(path, LARGEST).and_then(|bytes| Baseline::from_json(&bytes));
    read.map_err(|why| here(path, &why))
}

fn here(path: &Path, why: &str) -> String {
    format!("{}: {why}", shown(&path.display().to_string()))
}

fn save(files: &[PathBuf], to: Option<&PathBuf>, force: bool) -> Result<u8, CommandError> {
    let wrong = |why: String| CommandError::Usage(format!("baseline save: {why}"));
    let (to, reports) = to
        .map(|to| (to, files))
        .or_else(|| files.split_last())
        .unzip();
    let (Some(to), Some(reports)) = (to, reports.filter(|reports| !reports.is_empty())) else {
        return Err(wrong(
            "allowed: one report or more, and the file of the baseline".to_owned(),
        ));
    };
    let stdin = |path: &&PathBuf| path.as_os_str() == "-";
    if reports.iter().filter(stdin).count() > 1 || stdin(&to) {
        return Err(wrong(
            "- is standard input, once and in the place of a report".to_owned(),
        ));
    }
    if !force && fs::symlink_metadata(to).is_ok() {
        return Err(wrong(here(to, "exists; --force replaces it")));
    }
    if to.is_file() && files::read(to, LARGEST).is_ok_and(|bytes| from_json(&bytes).is_ok()) {
        return Err(wrong(here(to, "is a report and will not be replaced")));
    }
    let reports = distinct(reports)?;
    let made =
        baseline(&reports).map_err(|why| CommandError::Undone(format!("baseline save: {why}")))?;
    if made.left_out > 0 {
        log::warn!(
            "{} figures are not in every report and were left out",
            made.left_out
        );
    }
    write(
        &Place::File(to.clone()),
        &pretty(&made).map_err(|e| CommandError::undone(&e))?,
    )?;
    let line = format!(
        "{}: {} figures of {}, level {}, {}; {}\n",
        to.display(),
        made.size(),
        reports.first().map(Report::gpu_names).unwrap_or_default(),
        made.level,
        made.verdict,
        made.noise
    );
    write(&Place::Stdout, &shown_text(&line))?;
    Ok(SUCCESS)
}

/// The reports in these files. One that is named twice counts once: it says nothing about the noise between two runs.
fn distinct(files: &[PathBuf]) -> Result<Vec<Report>, CommandError> {
    let mut reports: Vec<Report> = Vec::new();
    for path in files {
        let report = read_any(path)?;
        if reports.contains(&report) {
            log::warn!(
                "{}",
                here(path, "is the same report as another one, and counts once")
            );
        } else {
            reports.push(report);
        }
    }
    Ok(reports)
}

/// `compare`: status 2 if a file could not be read.
pub(in crate::cli) fn compare(asked: &Compare) -> Result<u8, CommandError> {
    if let (Some(html), Some(json)) = (&asked.html, &asked.json)
        && ((html, json) == (&Place::Stdout, &Place::Stdout) || same_file(html, json))
    {
        return Err(CommandError::Usage(format!(
            "--html {html} and --json {json}: only one of them can go there"
        )));
    }
    for (option, place) in [("--html", &asked.html), ("--json", &asked.json)] {
        keep_reports(option, place.as_ref())?;
    }
    let mut found = ReportFiles::default();
    for place in &asked.places {
        if place.is_dir() {
            found.folder(place, 0).map_err(CommandError::Undone)?;
        } else {
            found.add(place.clone()).map_err(CommandError::Undone)?;
        }
    }
    let mut all = Vec::new();
    for path in &found.files {
        let name = path.display().to_string();
        let read = read_report(path, found.listed.contains(path));
        match read {
            // Only the summary is kept.
            Ok(Some(report)) => all.push((name, Ok(Summary::of(&report)))),
            Ok(None) => log::info!("{}: another file of firstlight, left out", shown(&name)),
            Err(why) => all.push((name, Err(why))),
        }
    }
    let refused = found.refused.into_iter();
    all.extend(refused.map(|(path, why)| (path.display().to_string(), Err(why))));
    if all.is_empty() {
        return Err(CommandError::Undone(
            "compare: there is no report".to_owned(),
        ));
    }
    let fleet = Fleet::of(all);
    let undone = |e: &dyn std::error::Error| CommandError::undone(e);
    if let Some(place) = &asked.html {
        write(place, &html::fleet(&fleet).map_err(|e| undone(&e))?)?;
    }
    if let Some(place) = &asked.json {
        write(place, &pretty(&fleet).map_err(|e| undone(&e))?)?;
    }
    if ![&asked.html, &asked.json].contains(&&Some(Place::Stdout)) {
        write(&Place::Stdout, &shown_text(&text::fleet(&fleet)))?;
    }
    Ok(if fleet.unread() > 0 {
        NOT_DONE
    } else {
        SUCCESS
    })
}

/// A word that was meant as a report is not taken for the file of the result.
fn keep_reports(option: &str, place: Option<&Place>) -> Result<(), CommandError> {
    let Some(Place::File(path)) = place.filter(|_| option == "--json") else {
        return Ok(());
    };
    let bytes = path
        .is_file()
        .then(|| files::read(path, LARGEST).ok())
        .flatten()
        .unwrap_or_default();
    if from_json(&bytes).is_ok() || Baseline::from_json(&bytes).is_ok() {
        let why = here(
            path,
            "is a report or a baseline, and will not be replaced; --json=- writes to standard output",
        );
        return Err(CommandError::Usage(format!("{option} {why}")));
    }
    Ok(())
}

/// The most files that are compared.
const MOST: usize = 10_000;
/// The most levels of folders below the given one that are searched.
const DEEPEST: usize = 4;

/// The files to compare.
#[derive(Default)]
struct ReportFiles {
    files: Vec<PathBuf>,
    /// Those that were found in a folder, not named on the command line.
    listed: BTreeSet<PathBuf>,
    /// What is not read, and why.
    refused: Vec<(PathBuf, String)>,
}

impl ReportFiles {
    fn add(&mut self, path: PathBuf) -> Result<(), String> {
        self.files.push(path);
        self.counted()
    }

    /// Adds every .json file in a folder and its subfolders, in the order of their names. What cannot be read, or is too deep,
    /// is kept with the reason. Links to folders are not followed.
    fn folder(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let unread = |e: std::io::Error| format!("cannot be read: {e}");
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(e) => return self.refuse(folder.to_owned(), unread(e)),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let json = path.extension().is_some_and(|end| end == "json");
            match entry.file_type() {
                Err(e) => self.refuse(path, unread(e))?,
                Ok(kind) if kind.is_dir() && depth < DEEPEST => self.folder(&path, depth + 1)?,
                Ok(kind) if kind.is_dir() => {
                    self.refuse(path, format!("more than {DEEPEST} folders deep"))?;
                }
                Ok(_) if json => match fs::metadata(&path) {
                    Err(e) => self.refuse(path, unread(e))?,
                    Ok(there) if there.is_file() => {
                        self.listed.insert(path.clone());
                        self.add(path)?;
                    }
                    Ok(there) if there.is_dir() => {}
                    Ok(_) => self.refuse(path, "no regular file".to_owned())?,
                },
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Gives this file or folder a row with the reason.
    fn refuse(&mut self, path: PathBuf, why: String) -> Result<(), String> {
        self.refused.push((path, why));
        self.counted()
    }

    /// # Errors
    /// There are too many rows.
    fn counted(&self) -> Result<(), String> {
        if self.files.len() + self.refused.len() > MOST {
            return Err(format!(
                "compare: more than {MOST} files, allowed: at most {MOST}"
            ));
        }
        Ok(())
    }
}

/// The report in a file; `None` for another file that firstlight writes beside its reports, if it was found in a
/// folder.
fn read_report(path: &Path, listed: bool) -> Result<Option<Report>, String> {
    match from_json(&files::read(path, LARGEST)?) {
        Ok(report) => Ok(Some(report)),
        Err(ReportError::Schema(schema))
            if listed
                && OTHER_SCHEMAS
                    .iter()
                    .any(|known| schema == format!("\"{known}\"")) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Schemas of other files that a folder of reports may contain. The verdict's is not among them: a verdict without a
/// report means that no report could be made.
const OTHER_SCHEMAS: [&str; 5] = [
    contract::schema::FIX,
    contract::schema::DRIVER,
    contract::schema::RECOVERY,
    report::baseline::BASELINE,
    machine::pcie::model::SCHEMA,
];
