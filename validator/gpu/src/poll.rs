//! The pauses between polls of work that cannot notify its end: none at first, later in proportion to the time waited.
//! A measured duration is therefore at most a thousandth too long, and work that hangs keeps no processor busy.

use std::hint::spin_loop;
use std::thread::sleep;
use std::time::Duration;

/// How long the state is polled without a pause, so that the end of short work is noticed at once.
const EAGER: Duration = Duration::from_millis(2);
/// A later pause is this fraction of the time waited, within the limits below.
const PART: u32 = 1000;
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(5);

/// Call this between two polls; `waited` is the time since the first one.
pub fn pause(waited: Duration) {
    if waited < EAGER {
        spin_loop();
    } else {
        sleep(length(waited));
    }
}

fn length(waited: Duration) -> Duration {
    (waited / PART).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_a_thousandth_of_the_time_waited_within_limits() {
        let ms = Duration::from_millis;
        assert_eq!(length(ms(2)), SHORTEST);
        assert_eq!(length(ms(50)), SHORTEST);
        assert_eq!(length(ms(800)), Duration::from_micros(800));
        assert_eq!(length(ms(600_000)), LONGEST);
    }
}
