//! How long a transfer takes on the simulated card.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longer between two transfers than between two of one burst.
const PAUSE: Duration = Duration::from_millis(20);

/// Transfers of one size in one direction, one right after the other.
#[derive(Default)]
pub(crate) struct Burst {
    bytes: u64,
    write: bool,
    /// What they have taken too long so far.
    late: Duration,
    /// When the last one ended.
    ended: Option<Instant>,
}

impl Burst {
    /// Waits until a transfer that began at `begun` has taken as long as it should. What a busy host makes one too late is
    /// taken off the next ones of the same burst: the card's rate is the scenario's, not that of the host.
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
