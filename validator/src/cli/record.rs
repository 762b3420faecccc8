//! `firstlight record`: the machine as one text file, for a bug report.

use super::args::Place;
use super::{CommandError, FINE, output};
use crate::machine::recording;
use crate::machine::root::Root;
use crate::text::shown::shown;

/// `record FILE`
pub(super) fn run(root: &Root, place: &Place) -> Result<u8, CommandError> {
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
