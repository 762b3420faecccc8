//! GPUs for a BAR of which the kernel found no address space, from its own log.

use super::PeerMechanism;
use crate::machine::host::faults::{NoRoom, no_room};
use crate::machine::host::kmsg::Line;
use crate::machine::pcie::model::Device;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::text::size;

/// Maximum number of lines of the log.
const MOST: usize = 8;

/// One finding per GPU. Where peers do not use BAR1, a smaller one is no fault; a BAR without an address always is.
pub(super) fn findings(gpus: &[(&Device, PeerMechanism)], lines: &[Line]) -> Vec<Finding> {
    let all = no_room(lines);
    let of = |(gpu, mechanism): &(&Device, PeerMechanism)| {
        let own: Vec<_> = all.iter().filter(|line| !gpu.config.gone && line.concerns(gpu)).collect();
        let first = own.first()?;
        let works = gpu.aperture().is_some_and(|bar| bar.start != 0);
        let harmless = works && *mechanism == PeerMechanism::Native;
        let severity = if harmless { Severity::Info } else { Severity::Fail };
        let tried = own.iter().filter_map(|line| line.bytes()).max().map(size);
        let tried = tried.map_or_else(String::new, |size| format!(" ({size})"));
        let message =
            format!("the kernel found no address space for a BAR of {}{tried}: kmsg: {}", gpu.bdf, first.line);
        let seen = |line: &&NoRoom<'_>| format!("kmsg: {}", line.line);
        let finding = Code::RebarNoRoom.finding(severity, &gpu.bdf, message);
        Some(finding.seen_all(own.iter().take(MOST).map(seen).collect()))
    };
    gpus.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::pcie::model::Bar;
    use crate::suite::shared::fixture;
    use std::time::Duration;

    const LINE: &str = "nvidia 0000:10:00.0: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space";

    fn severity(start: u64, bytes: u64, mechanism: PeerMechanism) -> Option<Severity> {
        let mut fabric = fixture::machine(2);
        for gpu in fabric.gpus.clone() {
            fixture::device(&mut fabric, gpu).bars = vec![Bar { index: 1, start, bytes, flags: 0 }];
        }
        let gpus: Vec<_> =
            fabric.devices.iter().filter(|d| fabric.gpus.contains(&d.bdf)).map(|d| (d, mechanism)).collect();
        let log = [LINE, LINE].map(|text| Line { seq: 0, at: Duration::ZERO, text: text.into() });
        let found = findings(&gpus, &log);
        assert!(found.len() < 2 && found.iter().all(|f| f.is(Code::RebarNoRoom) && f.evidence.len() == 2));
        found.first().map(|finding| finding.severity)
    }

    #[test]
    fn no_room_fails_where_peers_use_bar1_or_where_the_bar_has_no_address() {
        let at = 0xe100_0000_0000;
        assert_eq!(severity(at, 256 << 20, PeerMechanism::Bar1), Some(Severity::Fail));
        assert_eq!(severity(0, 32 << 30, PeerMechanism::Native), Some(Severity::Fail));
        assert_eq!(severity(at, 256 << 20, PeerMechanism::Native), Some(Severity::Info));
    }

    #[test]
    fn room_that_was_found_later_is_no_finding() {
        assert_eq!(severity(0xe100_0000_0000, 32 << 30, PeerMechanism::Bar1), None);
    }
}
