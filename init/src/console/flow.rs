//! Whether a console sends what it takes, told by how much it has unsent at different times. Pure:
//! the caller brings numbers and clock.

use std::time::{Duration, Instant};

/// How long a terminal may send nothing of what it has before it counts as stalled. A busy host
/// under a virtual machine has kept one waiting for a few 100 ms.
pub const STANDSTILL: Duration = Duration::from_secs(1);

/// What is known about a console.
#[derive(Debug, Default)]
pub struct Flow {
    stalled: bool,
    /// What was unsent after the last write, and since when nothing of it has left.
    queued: usize,
    still_since: Option<Instant>,
}

impl Flow {
    /// Whether it takes or sends nothing at present.
    #[must_use]
    pub const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// So much is unsent now (`None`: it is no terminal). Whether something has left since the last
    /// time, or nothing was there to leave. A line whose interrupts are broken takes a buffer full
    /// of text before it blocks; this finds out long before.
    pub fn looked(&mut self, unsent: Option<usize>, now: Instant) -> bool {
        let Some(unsent) = unsent else { return false };
        if unsent == 0 || unsent < self.queued {
            *self = Self { queued: unsent, ..Self::default() };
            return true;
        }
        let since = *self.still_since.get_or_insert(now);
        self.stalled |= now.saturating_duration_since(since) > STANDSTILL;
        false
    }

    /// A line was taken, and so much is unsent after it. What is no terminal has then dealt with it.
    pub fn took(&mut self, unsent: Option<usize>) {
        match unsent {
            Some(unsent) => self.queued = unsent,
            None => self.stalled = false,
        }
    }

    /// A line was not taken in time.
    pub fn refused(&mut self) {
        self.stalled = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_terminal_that_takes_lines_and_sends_none_is_found_out() {
        let (mut flow, start) = (Flow::default(), Instant::now());
        flow.took(Some(80));
        assert!(!flow.looked(Some(80), start));
        flow.took(Some(160));
        assert!(!flow.looked(Some(160), after(start, 900)));
        assert!(!flow.is_stalled());
        assert!(!flow.looked(Some(160), after(start, 1100)));
        assert!(flow.is_stalled());
    }

    #[test]
    fn a_slow_line_that_sends_a_little_is_never_stalled() {
        let (mut flow, start) = (Flow::default(), Instant::now());
        let mut unsent = 0;
        for second in 0..60 {
            flow.took(Some(unsent + 80));
            unsent += 50;
            assert!(flow.looked(Some(unsent), after(start, second * 1000)));
            assert!(!flow.is_stalled());
        }
    }

    #[test]
    fn a_stalled_terminal_that_sends_again_is_well() {
        let (mut flow, start) = (Flow::default(), Instant::now());
        flow.took(Some(4000));
        flow.refused();
        assert!(flow.is_stalled());
        assert!(flow.looked(Some(3000), start));
        assert!(!flow.is_stalled());
    }

    #[test]
    fn what_is_no_terminal_is_well_again_when_it_takes_a_line() {
        let mut flow = Flow::default();
        flow.refused();
        assert!(!flow.looked(None, Instant::now()));
        assert!(flow.is_stalled());
        flow.took(None);
        assert!(!flow.is_stalled());
    }
}
