//! The action `shell`: one busybox sh on the console; when it ends, the machine holds.

use super::{After, exec};
use crate::config::types::OnExit;
use crate::machine::Machine;
use crate::paths;
use crate::sys::process::Terminal;
use log::info;

/// Runs the shell. If it cannot be started, that is a warning, and the machine holds.
pub fn run(m: &mut Machine) -> After {
    info!("SHELL     exit: hold; Ctrl-Alt-Del: reboot; busybox poweroff -f, reboot -f");
    let words = [paths::BUSYBOX.to_owned(), "sh".to_owned(), "-l".to_owned()];
    match exec::supervise(m, &words, OnExit::Hold, &[], Terminal::Controlling) {
        Ok(after) => after,
        Err(fault) => {
            info!("warning: {fault}");
            After::Hold
        }
    }
}
