//! Messages of NVIDIA's driver in the kernel log, as data.

use crate::host::kmsg::Line;
use std::time::Duration;

/// `NVRM: Xid (PCI:0000:41:00): 79, pid=.., GPU has fallen off the bus.`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xid<'a> {
    /// The GPU as the line names it: `0000:41:00`.
    pub gpu: &'a str,
    /// The Xid number.
    pub number: u32,
    /// The whole line.
    pub line: &'a str,
}

/// All Xid lines; one that cannot be parsed has number 0.
#[must_use]
pub fn xids(lines: &[Line]) -> Vec<Xid<'_>> {
    lines.iter().filter_map(|line| xid(&line.text)).collect()
}

/// A line as an Xid line, if it is one.
#[must_use]
pub fn xid(line: &str) -> Option<Xid<'_>> {
    let (_, rest) = line.split_once("NVRM: Xid")?;
    let parsed = || {
        let (gpu, rest) = rest.trim_start().strip_prefix('(')?.split_once("):")?;
        // Old drivers write only the address.
        let gpu = gpu.strip_prefix("PCI:").unwrap_or(gpu);
        let number = rest
            .trim_start()
            .split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()?;
        Some((gpu, number))
    };
    let (gpu, number) = parsed().unwrap_or(("machine", 0));
    Some(Xid { gpu, number, line })
}

/// The sizes in lines `Static bar1 mapped offset 0x0 size 0x5e9200000`, one per GPU and start. Only some
/// builds of the driver write them.
#[must_use]
pub fn static_maps(lines: &[Line]) -> Vec<u64> {
    let size = |line: &Line| {
        hex(
            line.text.split_once("Static bar1 mapped offset ")?.1,
            " size 0x",
        )
    };
    lines.iter().filter_map(size).collect()
}

/// What our patches log about a GPU each time it is started: `BAR1 peer-to-peer of 0000:01:00.0 possible:
/// video memory 0x5e9200000, ..`, or `off: WHY: video memory ..`. If it is possible the driver maps the
/// memory immediately, and does not start the GPU if that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar1Peer<'a> {
    /// The GPU's address.
    pub gpu: &'a str,
    /// Why it is not possible; `None` if it is.
    pub off: Option<&'a str>,
    /// The memory that BAR1 must cover, bytes.
    pub memory: Option<u64>,
}

/// All such lines, in the log's order: the last one about a GPU counts.
#[must_use]
pub fn bar1_peers(lines: &[Line]) -> Vec<Bar1Peer<'_>> {
    lines
        .iter()
        .filter_map(|line| bar1_peer(&line.text))
        .collect()
}

fn bar1_peer(line: &str) -> Option<Bar1Peer<'_>> {
    let (gpu, rest) = line
        .split_once("BAR1 peer-to-peer of ")?
        .1
        .split_once(' ')?;
    let memory = hex(rest, "video memory 0x");
    let off = match rest.strip_prefix("off: ") {
        Some(why) => Some(why.split_once(": video memory").map_or(why, |(why, _)| why)),
        None if rest.starts_with("possible") => None,
        None => return None,
    };
    Some(Bar1Peer { gpu, off, memory })
}

/// The hexadecimal number after `before`.
fn hex(text: &str, before: &str) -> Option<u64> {
    let (_, digits) = text.split_once(before)?;
    u64::from_str_radix(digits.split(|c: char| !c.is_ascii_hexdigit()).next()?, 16).ok()
}

/// The number of lines that report a mapping from one GPU to another through BAR1.
#[must_use]
pub fn peer_maps(lines: &[Line]) -> usize {
    lines
        .iter()
        .filter(|l| l.text.contains("added PCIe BAR1 P2P mapping between"))
        .count()
}

/// The lines that show that peer-to-peer through BAR1 is enabled in the driver but faulty: page table entries whose
/// bus address does not fit into the peer field (field_desc.h), and the resulting fault of the copy engine.
#[must_use]
pub fn patch_fails(lines: &[Line]) -> Vec<&str> {
    let all = lines.iter().map(|l| l.text.as_str());
    let bad = |line: &&str| {
        (line.contains("nvAssertFailed") && line.contains("field_desc.h"))
            || (line.contains("NVRM: Xid") && line.contains("FAULT_INFO_TYPE_UNSUPPORTED_KIND"))
    };
    all.filter(bad).collect()
}

/// The time from which the log is complete: `None` if it is complete from the kernel's start, otherwise the
/// time of its oldest line, because a full log drops its beginning.
#[must_use]
pub fn begins(lines: &[Line]) -> Option<Duration> {
    lines
        .first()
        .filter(|first| first.seq > 0)
        .map(|first| first.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::kmsg::sample as log;

    #[test]
    fn an_xid_names_its_gpu_and_number() {
        let lines = log(&[
            "NVRM: Xid (PCI:0000:01:00): 31, pid=21804, name=simpleP2P, Ch 00000013, MMU Fault",
            "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
            "NVRM: Xid: cut off",
            "NVRM: Xid (0000:61:00): 13, 0005 00000000",
            "NVRM: loading NVIDIA UNIX Open Kernel Module",
        ]);
        let found: Vec<_> = xids(&lines).iter().map(|x| (x.gpu, x.number)).collect();
        assert_eq!(
            found,
            [
                ("0000:01:00", 31),
                ("0000:41:00", 79),
                ("machine", 0),
                ("0000:61:00", 13)
            ]
        );
    }

    #[test]
    fn static_maps_and_peer_maps_are_counted() {
        let lines = log(&[
            "NVRM: kbusEnableStaticBar1Mapping_GH100: Static bar1 mapped offset 0x0 size 0x5e9200000",
            "NVRM: kbusCreateP2PMappingForBar1P2P_GH100: added PCIe BAR1 P2P mapping between GPU2 and GPU3",
            "Static bar1 mapped offset nowhere",
        ]);
        assert_eq!(
            (static_maps(&lines), peer_maps(&lines)),
            (vec![0x5_e920_0000], 1)
        );
    }

    #[test]
    fn the_patches_lines_about_a_gpu_are_parsed() {
        let lines = log(&[
            "NVRM: bar1PeerIsPossible: BAR1 peer-to-peer of 0000:01:00.0 possible: video memory 0x5e9200000, BAR1 0x800000000 at 0x2800000000",
            "NVRM: bar1PeerIsPossible: BAR1 peer-to-peer of 0000:41:00.0 off: BAR1 is too small: video memory 0x5e9200000, BAR1 0x10000000 at 0x0",
            "NVRM: BAR1 peer-to-peer of 0000:42:00.0 perhaps",
        ]);
        let memory = Some(0x5_e920_0000);
        let good = Bar1Peer {
            gpu: "0000:01:00.0",
            off: None,
            memory,
        };
        let small = Bar1Peer {
            gpu: "0000:41:00.0",
            off: Some("BAR1 is too small"),
            memory,
        };
        assert_eq!(bar1_peers(&lines), [good, small]);
    }

    #[test]
    fn the_lines_of_a_faulty_patch_are_recognized() {
        let bad = log(&[
            "NVRM: nvAssertFailed: Assertion failed: (shifted >> pField->shift) == value @ field_desc.h:272",
            "NVRM: nvAssertFailed: Assertion failed: (shifted & pField->maskPos) == shifted @ field_desc.h:273",
            "NVRM: Xid (PCI:0000:01:00): 31, Fault is of type FAULT_INFO_TYPE_UNSUPPORTED_KIND ACCESS_TYPE_VIRT_WRITE",
            "NVRM: nvAssertFailed: Assertion failed: pGpu != NULL @ gpu.c:1",
            "NVRM: Xid (PCI:0000:01:00): 31, Fault is of type FAULT_PDE ACCESS_TYPE_READ",
        ]);
        assert_eq!(patch_fails(&bad).len(), 3);
    }

    #[test]
    fn a_log_without_its_beginning_has_a_start_time() {
        assert_eq!(begins(&log(&["Linux version"])), None);
        assert_eq!(
            begins(&log(&["first", "second"])[1..]),
            Some(Duration::from_secs(1))
        );
        assert_eq!(begins(&[]), None);
    }
}
