//! Writes a finished report to the requested places. A failed write becomes an error in the report, and all
//! readable copies agree: files are replaced only after everything was written.

use super::console::Console;
use super::output::{self, OutputError};
use crate::cli::args::Place;
use crate::engine;
use crate::files::whole::Whole;
use crate::outcome::finding::{Code, Severity};
use crate::render::{pretty, text};
use crate::report::{Report, TestEntry};
use crate::text::shown_text;

/// One copy of the report.
pub(super) enum Sheet {
    /// JSON.
    Json(Place),
    /// Text.
    Text(Place),
}

/// Writes all sheets, then the report's end on the console.
pub(super) fn deliver(report: &mut Report, mut sheets: Vec<Sheet>, console: &mut Console) {
    if let Some(why) = console.failed.take() {
        note(report, &why, console);
    }
    // Output written in place cannot be undone, so JSON on the console comes last.
    sheets.sort_by_key(|sheet| *sheet.place() == Place::Stdout);
    while let Err((n, why)) = write(report, &sheets) {
        sheets.remove(n);
        note(report, &why, console);
    }
    console.end(report, json_path(&sheets).as_deref());
    if let Some(why) = console.failed.take() {
        note(report, &why, console);
        sheets.retain(|sheet| *sheet.place() != Place::Stdout);
        if let Err((_, why)) = write(report, &sheets) {
            log::error!("{why}");
        }
    }
}

/// Writes all sheets or replaces no file; returns the first that cannot be written, and why.
fn write(report: &Report, sheets: &[Sheet]) -> Result<(), (usize, String)> {
    let path = json_path(sheets);
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for (n, sheet) in sheets.iter().enumerate() {
        let failed = |why: String| (n, why);
        let text = sheet.text(report, path.as_deref()).map_err(failed)?;
        match output::beside(sheet.place(), &text).map_err(|e| failed(e.to_string()))? {
            Some(file) => files.push((n, file)),
            None => others.push((n, text)),
        }
    }
    let failed_at = |n: usize, e: OutputError| (n, e.to_string());
    for (n, text) in others {
        let place = sheets.get(n).map(Sheet::place);
        place.map_or(Ok(()), |place| output::in_place(place, &text)).map_err(|e| failed_at(n, e))?;
    }
    for (n, file) in files {
        Whole::replace(file).map_err(|e| {
            let place = sheets.get(n).map(|s| s.place().to_string()).unwrap_or_default();
            (n, format!("{place}: cannot be written: {e}"))
        })?;
    }
    Ok(())
}

/// The path of the JSON file, which the text mentions.
fn json_path(sheets: &[Sheet]) -> Option<String> {
    sheets.iter().find_map(|sheet| match sheet {
        Sheet::Json(place @ Place::File(_)) => Some(place.to_string()),
        _ => None,
    })
}

impl Sheet {
    const fn place(&self) -> &Place {
        match self {
            Self::Json(place) | Self::Text(place) => place,
        }
    }

    fn text(&self, report: &Report, path: Option<&str>) -> Result<String, String> {
        match self {
            Self::Json(_) => pretty(report).map_err(|e| e.to_string()),
            Self::Text(_) => Ok(shown_text(&text::whole(report, path))),
        }
    }
}

/// Adds the failed write to the report.
fn note(report: &mut Report, why: &str, console: &mut Console) {
    log::error!("{why}");
    let finding = Code::ReportUnwritable.finding(Severity::Error, "report", why);
    // One entry for all failures, because a test is listed only once.
    if let Some(entry) = report.tests.iter_mut().find(|entry| entry.id == ID) {
        entry.findings.push(finding);
        return;
    }
    let entry = TestEntry::of_the_run(
        ID,
        "Report",
        "the report was written to every requested place",
        report.level,
        finding,
    );
    console.row(&entry);
    report.push(entry);
    engine::settle(report, Vec::new());
}

/// The id of the entry for failed writes; it is not the id of a test.
const ID: &str = "report";
