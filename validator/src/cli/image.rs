//! `firstlight image`: shows which image runs, and whether it is unmodified.

use super::output::either;
use super::{CommandError, FAILING, FINE, UNDONE};
use crate::cli::args::Place;
use crate::machine::host::cmdline;
use crate::machine::image::{Document, examine};
use crate::machine::root::Root;

/// Status 0 for golden, 1 for not golden, 2 if unknown.
pub(super) fn run(root: &Root, json: Option<&Place>) -> Result<u8, CommandError> {
    let cmdline = cmdline::read(root).ok();
    let seen = examine(root);
    let document = Document::of(root, cmdline.as_deref(), &seen);
    either(json, &document, &document.text())?;
    Ok(match &seen {
        Ok(Some(image)) if image.is_golden() => FINE,
        Ok(Some(_)) => FAILING,
        Ok(None) | Err(_) => UNDONE,
    })
}
