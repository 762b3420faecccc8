//! Commands about the machine that they run on: `firstlight image` shows which image runs and whether it is unmodified;
//! `firstlight record` writes the machine as one text file, for a bug report.

use super::output::{self, either};
use super::{CommandError, FAILING, FINE, UNDONE};
use crate::cli::args::Place;
use crate::machine::host::cmdline;
use crate::machine::image::{Document, examine};
use crate::machine::recording;
use crate::machine::root::Root;
use crate::text::shown::shown;

/// Status 0 for golden, 1 for not golden, 2 if unknown.
pub(super) fn image(root: &Root, json: Option<&Place>) -> Result<u8, CommandError> {
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

/// `record FILE`
pub(super) fn record(root: &Root, place: &Place) -> Result<u8, CommandError> {
    if root.is_live() && !rustix::process::geteuid().is_root() {
        let why = "record: run it as root; other users see 64 bytes of configuration space";
        return Err(CommandError::Usage(why.to_owned()));
    }
    let taken = recording::take(root);
    taken.left_out.iter().for_each(|line| log::warn!("left out: {}", shown(line)));
    output::write(place, &taken.recording.to_string())?;
    log::info!(
        "{place}: holds PCI and RDMA addresses, GPU UUIDs and kernel log lines; read it before you share it"
    );
    Ok(FINE)
}
