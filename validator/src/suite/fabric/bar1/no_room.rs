//! GPUs for whose full BAR1 the kernel found no address space, from its own log. The test `fabric` reports BARs that have no
//! address at all.

use super::PeerMechanism;
use super::memory::MemoryByGpu;
use machine::host::faults::no_room;
use machine::host::kmsg::Line;
use machine::pcie::model::Device;
use outcome::finding::{Code, Finding, Severity};
use outcome::text::size;

/// Maximum number of lines of the log.
const MOST: usize = 8;

/// One finding per GPU with a BAR1 that is too small for its memory, unless `known` says that another source tells why. Where peers
/// do not use BAR1, a small one is no fault.
pub(super) fn findings(
    gpus: &[(&Device, PeerMechanism)],
    memory: &MemoryByGpu,
    lines: &[Line],
    known: bool,
) -> Vec<Finding> {
    let all = no_room(lines);
    let of = |(gpu, mechanism): &(&Device, PeerMechanism)| {
        let own: Vec<_> = all
            .iter()
            .filter(|line| !gpu.config.gone && line.concerns(gpu) && line.has_address(gpu))
            .collect();
        let first = own.first()?;
        let small = || super::finding(gpu, *mechanism, memory.get(&gpu.bdf)).is_some();
        if known || !small() {
            return None;
        }
        let harmless = *mechanism == PeerMechanism::Native;
        let severity = if harmless {
            Severity::Info
        } else {
            Severity::Fail
        };
        let tried = own.iter().filter_map(|line| line.bytes()).max().map(size);
        let tried = tried.map_or_else(String::new, |size| format!(" ({size})"));
        let message = format!(
            "the kernel found no address space for a BAR of {}{tried}: kmsg: {}",
            gpu.bdf, first.line
        );
        let seen = own
            .iter()
            .take(MOST)
            .map(|line| format!("kmsg: {}", line.line));
        Some(
            Code::RebarNoRoom
                .finding(severity, gpu.bdf, message)
                .seen_all(seen.collect()),
        )
    };
    gpus.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::memory::Memory;
    use super::*;
    use crate::suite::shared::fixture;
    use machine::pcie::model::Bar;
    use outcome::platform::MemorySource;
    use std::time::Duration;

    const LINE: &str =
        "nvidia 0000:10:00.0: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space";

    fn severity(
        start: u64,
        bytes: u64,
        mechanism: PeerMechanism,
        memory: Option<u64>,
        known: bool,
    ) -> Option<Severity> {
        let mut fabric = fixture::machine(2);
        for gpu in fabric.gpus.clone() {
            fixture::device(&mut fabric, gpu).bars = vec![Bar {
                index: 1,
                start,
                bytes,
                flags: 0,
            }];
        }
        let gpus: Vec<_> = fabric
            .devices
            .iter()
            .filter(|d| fabric.gpus.contains(&d.bdf))
            .map(|d| (d, mechanism))
            .collect();
        let log = [LINE, LINE].map(|text| Line {
            seq: 0,
            at: Duration::ZERO,
            text: text.into(),
        });
        let all = |all| Memory {
            least: all,
            most: all,
            usable: None,
            source: MemorySource::Driver,
            board: None,
        };
        let memory = fabric
            .gpus
            .iter()
            .filter_map(|gpu| Some((*gpu, all(memory?))))
            .collect();
        let found = findings(&gpus, &memory, &log, known);
        assert!(
            found.len() < 2
                && found
                    .iter()
                    .all(|f| f.is(Code::RebarNoRoom) && f.evidence.len() == 2)
        );
        found.first().map(|finding| finding.severity)
    }

    const AT: u64 = 0xe100_0000_0000;

    #[test]
    fn no_room_fails_where_peers_use_bar1() {
        assert_eq!(
            severity(AT, 256 << 20, PeerMechanism::Bar1, None, false),
            Some(Severity::Fail)
        );
        // The test fabric reports it.
        assert_eq!(
            severity(0, 32 << 30, PeerMechanism::Bar1, None, false),
            None
        );
        assert_eq!(
            severity(AT, 256 << 20, PeerMechanism::Native, None, false),
            Some(Severity::Info)
        );
    }

    #[test]
    fn room_that_was_found_later_or_is_not_needed_is_no_finding() {
        assert_eq!(
            severity(AT, 32 << 30, PeerMechanism::Bar1, None, false),
            None
        );
        assert_eq!(
            severity(AT, 16 << 30, PeerMechanism::Bar1, Some(16 << 30), false),
            None,
            "it covers the memory"
        );
        assert_eq!(
            severity(AT, 256 << 20, PeerMechanism::Bar1, None, true),
            None,
            "the pass tells it"
        );
    }
}
