//! Counters of NVLinks are sometimes late: they are read again for a while before what they lack counts.

use std::thread;
use std::time::Duration;

/// How long to wait before a counter is read again.
const PAUSE: Duration = Duration::from_millis(100);
/// How often counters are read for what is about to be a finding.
pub(in crate::suite) const LATE: usize = 20;

/// Reads counters by `complete` until it returns true, at most `tries` times; whether it did.
pub(in crate::suite) fn read_until(tries: usize, mut complete: impl FnMut() -> bool) -> bool {
    for n in 0..tries {
        if n > 0 {
            thread::sleep(PAUSE);
        }
        if complete() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_until_they_are_complete_or_the_tries_are_over() {
        let mut read = 0;
        let mut complete_at = |at| {
            read = 0;
            let complete = read_until(2, || {
                read += 1;
                read == at
            });
            (complete, read)
        };
        assert_eq!(
            (complete_at(1), complete_at(2), complete_at(3)),
            ((true, 1), (true, 2), (false, 2))
        );
    }
}
