//! Work between stages that concerns the firmware: shows the records of earlier boots in its store, stores the last words of
//! this boot there, and shows whether the firmware verified what it started.

use crate::child::{End, no_lines, on_output};
use crate::fault::Fault;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use log::info;
use std::fs;
use std::path::Path;

/// Shows the records of earlier boots. Prints nothing when there are none.
///
/// # Errors
/// Only an interruption.
pub fn show_last_boot(m: &Machine) -> Result<(), Fault> {
    let any = fs::read_dir(paths::PSTORE).is_ok_and(|mut entries| entries.next().is_some());
    if !any {
        return Ok(());
    }
    let mut line = on_output(|line| info!("last boot {line}"));
    let done = m.run(&helper::show_last_boot(), &mut line, |_| true)?;
    if done.end != End::Exited(helper::SUCCESS) {
        info!("warning: last boot: {}", done.reason());
    }
    Ok(())
}

/// Stores a fault's last words for the next boot, on machines with EFI.
///
/// # Errors
/// Only an interruption.
pub fn keep_fault(m: &Machine, fault: &Fault) -> Result<(), Fault> {
    if matches!(fault, Fault::ShutdownRequested(_)) || !Path::new(paths::EFI).exists() {
        return Ok(());
    }
    let done = m.run(
        &helper::keep_fault(&fault.last_words()),
        &mut no_lines,
        |_| true,
    )?;
    if done.end != End::Exited(helper::SUCCESS) {
        info!("warning: not in the firmware's store: {}", done.reason());
    }
    Ok(())
}

/// Prints whether the firmware verified what it started. It has no effect on the boot.
///
/// # Errors
/// Only an interruption.
pub fn show_secure_boot(m: &Machine) -> Result<(), Fault> {
    let mut state = "not offered".to_owned();
    if Path::new(paths::EFI).exists() {
        let mut said = |line: &str| line.clone_into(&mut state);
        let done = m.run(&helper::secure_boot(), &mut on_output(&mut said), |_| true)?;
        if done.end != End::Exited(helper::SUCCESS) {
            state = format!("unknown: {}", done.reason());
        }
    }
    info!("firmware  secure boot {state}");
    Ok(())
}
