//! System calls about time: the time since boot and the date.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use std::io;
use std::time::Duration;

/// Time since the kernel started.
#[must_use]
pub fn since_boot() -> Duration {
    // Through libc, which found the kernel's vDSO at its start; rustix would search for it again. Every
    // supported kernel has this clock; without it only the printed times would be wrong.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

/// A correction of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Whether the clock is moved forward.
    pub forward: bool,
    /// How much.
    pub by: Duration,
}

/// Corrects the clock of the date.
///
/// # Errors
/// As clock_settime(2), and when the result is not a valid date.
pub fn move_clock(by: Move) -> io::Result<()> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_REALTIME)?);
    let then = if by.forward { now.checked_add(by.by) } else { now.checked_sub(by.by) };
    let then = then.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from_duration(then))?)
}
