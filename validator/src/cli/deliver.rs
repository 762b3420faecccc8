//! Writes a finished report to the requested places. A failed write becomes an error in the report, and all
//! readable copies agree: files are replaced only after everything was written.

use super::CommandError;
use super::console::Console;
use super::output::{self, OutputError, Reserved};
use crate::cli::args::Place;
use crate::engine;
use outcome::files::atomic::AtomicFile;
use outcome::finding::{Code, FindingEntry, Severity, Subject};
use outcome::text::{at_width, shown_text};
use report::render::{html, pretty, text};
use report::{Report, TestEntry};

/// The form of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyForm {
    /// JSON.
    Json,
    /// Text.
    Text,
    /// A page for a browser.
    Html,
}

/// One copy of the report.
#[derive(Debug)]
pub(super) struct ReportCopy {
    form: CopyForm,
    to: Reserved,
}

/// Columns of a file.
const COLUMNS: usize = 80;

/// Writes all copies, then the report's end on the console.
pub(super) fn deliver(report: &mut Report, mut copies: Vec<ReportCopy>, console: &mut Console) {
    if let Some(why) = console.failed.take() {
        add_failure(report, &why, console);
    }
    // Output written in place cannot be undone, so JSON on the console comes last.
    copies.sort_by_key(|copy| *copy.place() == Place::Stdout);
    while let Err((n, why)) = write(report, &mut copies) {
        copies.remove(n);
        add_failure(report, &why, console);
    }
    console.end(report, json_path(&copies).as_deref());
    if let Some(why) = console.failed.take() {
        add_failure(report, &why, console);
        copies.retain(|copy| *copy.place() != Place::Stdout);
        if let Err((_, why)) = write(report, &mut copies) {
            log::error!("{why}");
        }
    }
}

/// Writes all copies or replaces no file; returns the first that cannot be written, and why.
fn write(report: &Report, copies: &mut [ReportCopy]) -> Result<(), (usize, String)> {
    let path = json_path(copies);
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for (n, copy) in copies.iter_mut().enumerate() {
        let failed = |why: String| (n, why);
        let text = copy.text(report, path.as_deref()).map_err(failed)?;
        match copy
            .to
            .write_beside(&text)
            .map_err(|e| failed(e.to_string()))?
        {
            Some(file) => files.push((n, file)),
            None => others.push((n, text)),
        }
    }
    let failed_at = |n: usize, e: OutputError| (n, e.to_string());
    for (n, text) in others {
        let place = copies.get(n).map(ReportCopy::place);
        place
            .map_or(Ok(()), |place| output::write_in_place(place, &text))
            .map_err(|e| failed_at(n, e))?;
    }
    for (n, file) in files {
        AtomicFile::replace(file).map_err(|e| {
            let place = copies
                .get(n)
                .map(|s| s.place().to_string())
                .unwrap_or_default();
            (n, format!("{place}: cannot be written: {e}"))
        })?;
    }
    Ok(())
}

/// The path of the JSON file, which the text mentions.
fn json_path(copies: &[ReportCopy]) -> Option<String> {
    copies.iter().find_map(|copy| match copy {
        ReportCopy {
            form: CopyForm::Json,
            to,
        } if *to.place() != Place::Stdout => Some(to.place().to_string()),
        _ => None,
    })
}

impl ReportCopy {
    /// A copy at a place that is made ready now, before the first test.
    ///
    /// # Errors
    /// Wrong use: the place cannot be written.
    pub(super) fn new(form: CopyForm, place: Place) -> Result<Self, CommandError> {
        Ok(Self {
            form,
            to: Reserved::new(form.option(), place)?,
        })
    }

    const fn place(&self) -> &Place {
        self.to.place()
    }

    fn text(&self, report: &Report, path: Option<&str>) -> Result<String, String> {
        match self.form {
            CopyForm::Json => pretty(report).map_err(|e| e.to_string()),
            CopyForm::Text => Ok(at_width(COLUMNS, || {
                shown_text(&text::full_text(report, path))
            })),
            CopyForm::Html => html::page(report).map_err(|e| e.to_string()),
        }
    }
}

impl CopyForm {
    /// The option that names its place.
    pub(super) const fn option(self) -> &'static str {
        match self {
            Self::Json => "--json",
            Self::Text => "--text",
            Self::Html => "--html",
        }
    }
}

/// Adds the failed write to the report.
fn add_failure(report: &mut Report, why: &str, console: &mut Console) {
    log::error!("{why}");
    let finding = Code::ReportUnwritable.finding(Severity::Error, Subject::file("report"), why);
    let host = &report.machine.platform;
    // One entry for all failures, because a test is listed only once.
    if let Some(entry) = report.tests.iter_mut().find(|entry| entry.id == ID) {
        entry.findings.push(FindingEntry::of(&finding, host));
        return;
    }
    let proves = "the report was written to every requested place";
    let entry = TestEntry::for_run(ID, "Report", proves, report.level, &finding, host);
    console.row(&entry);
    report.push(entry);
    engine::finish_report(report, Vec::new());
}

/// The id of the entry for failed writes; it is not the id of a test.
const ID: &str = "report";
