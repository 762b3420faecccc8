//! Between stages: prints whether the firmware verified what it started. It has no effect on the boot.

use crate::child::{End, on_output};
use crate::fault::Fault;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use log::info;
use std::path::Path;

/// Prints the state.
///
/// # Errors
/// Only an interruption.
pub fn show(m: &Machine) -> Result<(), Fault> {
    let mut state = "not offered".to_owned();
    if Path::new(paths::EFI).exists() {
        let mut said = |line: &str| line.clone_into(&mut state);
        let done = m.run(&helper::secure_boot(), &mut on_output(&mut said), |_| true)?;
        if done.end != End::Exited(helper::FINE) {
            state = format!("unknown: {}", done.reason());
        }
    }
    info!("firmware  secure boot {state}");
    Ok(())
}
