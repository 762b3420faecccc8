//! Decides from the number of unsent bytes at different times whether a console is sending. Pure: the
//! caller supplies numbers and time.

use std::time::{Duration, Instant};

/// How long a terminal may send none of its unsent bytes before it counts as stalled. A busy host has
/// delayed a virtual machine's terminal by a few 100 ms.
pub const STANDSTILL: Duration = Duration::from_secs(1);

/// The state of a console.
#[derive(Debug, Default)]
pub struct Flow {
    stalled: bool,
    /// Unsent bytes after the last write, and since when none of them has been sent.
    queued: usize,
    still_since: Option<Instant>,
}

impl Flow {
    /// Whether it neither accepts nor sends anything at present.
    #[must_use]
    pub const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Records the number of unsent bytes (`None`: not a terminal). Returns whether bytes were sent since
    /// the last time, or none were waiting. A serial line with broken interrupts accepts a buffer full of
    /// text before it blocks; this detects it much earlier.
    pub fn record_unsent(&mut self, unsent: Option<usize>, now: Instant) -> bool {
        let Some(unsent) = unsent else { return false };
        if unsent == 0 || unsent < self.queued {
            *self = Self {
                queued: unsent,
                ..Self::default()
            };
            return true;
        }
        let since = *self.still_since.get_or_insert(now);
        self.stalled |= now.saturating_duration_since(since) > STANDSTILL;
        false
    }

    /// Records that a line was accepted and the number of unsent bytes after it. Anything other than a terminal
    /// has then processed the line.
    pub fn record_accepted(&mut self, unsent: Option<usize>) {
        match unsent {
            Some(unsent) => self.queued = unsent,
            None => self.stalled = false,
        }
    }

    /// Records that a line was not accepted in time.
    pub fn record_refused(&mut self) {
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
    fn a_terminal_that_takes_lines_and_sends_none_is_detected() {
        let (mut flow, start) = (Flow::default(), Instant::now());
        flow.record_accepted(Some(80));
        assert!(!flow.record_unsent(Some(80), start));
        flow.record_accepted(Some(160));
        assert!(!flow.record_unsent(Some(160), after(start, 900)));
        assert!(!flow.is_stalled());
        assert!(!flow.record_unsent(Some(160), after(start, 1100)));
        assert!(flow.is_stalled());
    }

    #[test]
    fn a_slow_line_that_sends_a_little_is_never_stalled() {
        let (mut flow, start) = (Flow::default(), Instant::now());
        let mut unsent = 0;
        for second in 0..60 {
            flow.record_accepted(Some(unsent + 80));
            unsent += 50;
            assert!(flow.record_unsent(Some(unsent), after(start, second * 1000)));
            assert!(!flow.is_stalled());
        }
    }

    #[test]
    fn a_stalled_terminal_that_sends_again_recovers() {
        let (mut flow, start) = (Flow::default(), Instant::now());
        flow.record_accepted(Some(4000));
        flow.record_refused();
        assert!(flow.is_stalled());
        assert!(flow.record_unsent(Some(3000), start));
        assert!(!flow.is_stalled());
    }

    #[test]
    fn an_output_that_is_no_terminal_recovers_when_it_takes_a_line() {
        let mut flow = Flow::default();
        flow.record_refused();
        assert!(!flow.record_unsent(None, Instant::now()));
        assert!(flow.is_stalled());
        flow.record_accepted(None);
        assert!(!flow.is_stalled());
    }
}
