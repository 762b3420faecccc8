//! Between the stages: whether the firmware verified what it started. It is told, and changes nothing.

use crate::child::{End, Stream};
use crate::fault::Fault;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use log::info;
use std::path::Path;

/// Tells it.
///
/// # Errors
/// Only an interruption.
pub fn tell(m: &Machine) -> Result<(), Fault> {
    let mut state = "not offered".to_owned();
    if Path::new(paths::EFI).exists() {
        let mut line = |stream: Stream, line: &str| {
            if stream == Stream::Out {
                line.clone_into(&mut state);
            }
            stream == Stream::Out
        };
        let done = m.run(&helper::secure_boot(), &mut line, |_| true)?;
        if done.end != End::Exited(helper::FINE) {
            state = format!("unknown: {}", done.reason());
        }
    }
    info!("firmware  secure boot {state}");
    Ok(())
}
