//! Keeping this thread on the processors near a device, so that memory which it takes meanwhile lies
//! near too: Linux gives memory of the node of whoever asks.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// This thread stays on some processors; dropped, it may go where it went before.
#[derive(Debug)]
pub struct Near {
    before: CpuSet,
}

/// Keeps this thread on the processors of a list such as `24-31,88-95`; `None` where that is no
/// list, or not allowed: memory is then taken wherever it comes from.
#[must_use]
pub fn near(list: &str) -> Option<Near> {
    let wanted = parse(list)?;
    let before = sched_getaffinity(None).ok()?;
    sched_setaffinity(None, &wanted).ok()?;
    Some(Near { before })
}

impl Drop for Near {
    fn drop(&mut self) {
        // It went there before, so it may again.
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn parse(list: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for range in list.split(',') {
        let (first, last) = range.trim().split_once('-').unwrap_or((range.trim(), range.trim()));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= CpuSet::MAX_CPU || first > last {
            return None;
        }
        (first..=last).for_each(|cpu| set.set(cpu));
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_understood_and_nonsense_is_not() {
        let set = parse("2-4,8").unwrap();
        let on: Vec<_> = (0..16).filter(|cpu| set.is_set(*cpu)).collect();
        assert_eq!(on, [2, 3, 4, 8]);
        for bad in ["", "x", "4-2", "0-99999", "1,,2"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_thread_may_go_where_it_went_before() {
        let before = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).unwrap();
        {
            let _near = near(&first.to_string()).unwrap();
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
