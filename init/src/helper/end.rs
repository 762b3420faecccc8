//! The child that ends the machine: reboot(2) lets every driver shut its device down, and a device can hang.

use crate::sys::{kernel, process};

/// Restarts the machine.
pub(super) const RESTART: &str = "restart";
/// Powers it off.
pub(super) const POWER_OFF: &str = "power-off";

/// Returns only when the machine goes on.
pub(super) fn machine(how: &str) -> Result<i32, String> {
    // Typed on a machine that has another process 1, this must do nothing.
    if !process::is_child_of_process_one() {
        return Err("only process 1 ends the machine".to_owned());
    }
    Err(match how {
        RESTART => kernel::end(true),
        POWER_OFF => kernel::end(false),
        other => format!("read {other}; allowed: {RESTART}, {POWER_OFF}"),
    })
}
