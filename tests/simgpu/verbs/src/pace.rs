//! The duration of a transfer on the simulated card.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// A pause between two transfers at least this long ends a burst.
const PAUSE: Duration = Duration::from_millis(20);

/// Consecutive transfers of one size in one direction.
#[derive(Default)]
pub(crate) struct Burst {
    bytes: u64,
    write: bool,
    /// By how much they have been too slow in total so far.
    late: Duration,
    /// When the last transfer ended.
    ended: Option<Instant>,
}

impl Burst {
    /// Waits until a transfer that began at `begun` has taken as long as it should. If a busy host delays one transfer, the
    /// next ones of the burst are shortened by the delay, so that the rate is the scenario's and not the host's.
    pub(crate) fn pace(&mut self, begun: Instant, bytes: u64, write: bool, whole: Duration) {
        let follows = self.ended.is_some_and(|ended| begun.duration_since(ended) < PAUSE);
        if (self.bytes, self.write) != (bytes, write) || !follows {
            *self = Self { bytes, write, ..Self::default() };
        }
        let since = self.ended.unwrap_or(begun);
        let due = whole.saturating_sub(self.late);
        sleep(due.saturating_sub(since.elapsed()));
        self.late = (self.late + since.elapsed()).saturating_sub(whole);
        self.ended = Some(Instant::now());
    }
}
