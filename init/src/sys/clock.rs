//! System calls about time: the time since boot and the date.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use std::io;
use std::time::Duration;

/// Time since the kernel started.
#[must_use]
pub fn since_boot() -> Duration {
    // By libc, which found the kernel's clock page at its start; rustix would look for it again. Every
    // kernel that we run on has this clock; one that has not only spoils the times we print.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

/// By how much a clock is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Whether it is behind.
    pub forward: bool,
    /// How much.
    pub by: Duration,
}

/// Moves the clock that tells the date.
///
/// # Errors
/// As clock_settime(2), and when there is no such date.
pub fn move_clock(by: Move) -> io::Result<()> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_REALTIME)?);
    let then = if by.forward { now.checked_add(by.by) } else { now.checked_sub(by.by) };
    let then = then.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from_duration(then))?)
}
