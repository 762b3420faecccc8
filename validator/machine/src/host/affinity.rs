//! Keeps this thread on the processors near a device, so that the memory that it allocates is local too: Linux
//! allocates memory on the node of the processor that asks for it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Restricts this thread to some processors; dropping it restores the previous set.
#[derive(Debug)]
pub struct CpuAffinity {
    before: CpuSet,
}

/// Restricts this thread to a list of processors such as `24-31,88-95`; `None` if the list is invalid or the
/// restriction is not allowed: memory then comes from any node.
#[must_use]
pub fn pin_to_cpus(list: &str) -> Option<CpuAffinity> {
    let wanted = parse(list)?;
    let before = sched_getaffinity(None).ok()?;
    sched_setaffinity(None, &wanted).ok()?;
    Some(CpuAffinity { before })
}

impl Drop for CpuAffinity {
    fn drop(&mut self) {
        // The thread was allowed there before, so this cannot be refused.
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn parse(list: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for range in list.split(',') {
        let (first, last) = range
            .trim()
            .split_once('-')
            .unwrap_or((range.trim(), range.trim()));
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
    fn lists_of_processors_are_parsed_and_invalid_ones_rejected() {
        let set = parse("2-4,8").unwrap();
        let on: Vec<_> = (0..16).filter(|cpu| set.is_set(*cpu)).collect();
        assert_eq!(on, [2, 3, 4, 8]);
        for bad in ["", "x", "4-2", "0-99999", "1,,2"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn dropping_restores_the_previous_processors() {
        let before = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU)
            .find(|cpu| before.is_set(*cpu))
            .unwrap();
        {
            let _pinned = pin_to_cpus(&first.to_string()).unwrap();
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
