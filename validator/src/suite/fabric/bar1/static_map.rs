//! The findings about the driver's static map of all memory, computed before the driver creates it: how many MiB of
//! BAR1 are missing, whether the driver maps peers where it begins, and the remedies. The test bar1-static checks the
//! map that the driver actually created.

use super::memory::{self, Memory, MemoryByGpu};
use crate::suite::TestContext;
use crate::suite::context::{known, unreadable};
use crate::suite::shared::bar1_mapping::{Bar1Mapping, mapping_of};
use crate::suite::shared::peer_mechanism::{self, PeerMechanism};
use fabric::rebar;
use fabric::rebar::static_map::{Fit, Memory as MapMemory, Room, Start, fit};
use machine::host::framebuffer;
use machine::host::nvidia::keys::{self, RegistryKeys, RequestedMechanism, StaticMap};
use machine::host::{nvidia::log, nvidia::params};
use machine::pcie::model::{Bdf, Device};
use outcome::finding::{Code, Finding, MapObstacle, Reason, Severity};
use outcome::platform::MemorySource;
use outcome::text::size;
use outcome::{Judgement, Outcome};
use std::collections::BTreeMap;

/// From this version on, NVIDIA's own modules create the map as it is computed here.
const SINCE_VERSION: u32 = 570;

/// What is known of the driver that creates the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DriverState {
    /// No driver is loaded.
    Absent,
    /// It is loaded: the first number of its version, and its registry keys.
    Loaded(u32, RegistryKeys),
}

/// What keeps peers from using the map of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum MapObstruction {
    /// BAR1 has no room for it: how many MiB are missing, and whether a console takes some.
    Short {
        /// MiB.
        missing: u64,
        /// Whether a console is kept on the GPU.
        console: bool,
    },
    /// The driver does not map peers where it begins.
    Misaligned {
        /// Whether a console is kept on the GPU, or only mailboxes are before the map.
        console: bool,
    },
}

/// What keeps peers from using the maps of a machine's GPUs, by address, as far as it can be computed.
pub(in crate::suite) fn obstructions(context: &TestContext) -> BTreeMap<Bdf, MapObstruction> {
    let (Ok(fabric), Ok(known)) = (context.fabric(), known(&context.nvidia.gpus)) else {
        return BTreeMap::new();
    };
    let gpus = peer_mechanism::mechanisms(fabric, known);
    let (memory, _) = memory::read(context, &gpus, context.log.as_deref().unwrap_or_default());
    let found = findings(context, &gpus, &memory).unwrap_or_default();
    let of = |finding: &Finding| {
        let console =
            |all: &[MapObstacle]| all.iter().any(|one| matches!(one, MapObstacle::Console(_)));
        let obstruction = match (finding.code, &finding.reason) {
            (Code::Bar1MapMisaligned, Some(Reason::MisalignedMap(all))) => {
                MapObstruction::Misaligned {
                    console: console(all),
                }
            }
            (Code::Bar1MapShort, reason) if finding.severity > Severity::Info => {
                let missing = finding
                    .expected
                    .as_u64()?
                    .saturating_sub(finding.measured.as_u64()?);
                let console = matches!(reason, Some(Reason::NoRoomForMap(all)) if console(all));
                MapObstruction::Short { missing, console }
            }
            _ => return None,
        };
        Some((finding.subject.address()?, obstruction))
    };
    found.iter().filter_map(of).collect()
}

/// The findings about the GPUs of a machine with peers through BAR1.
///
/// # Errors
/// `SYS-UNREADABLE`: the driver's parameters or the framebuffers cannot be read.
pub(super) fn findings(
    context: &TestContext,
    gpus: &[(&Device, PeerMechanism)],
    memory: &MemoryByGpu,
) -> Result<Vec<Finding>, Box<Finding>> {
    let peers: Vec<_> = gpus
        .iter()
        .filter(|(gpu, mechanism)| *mechanism == PeerMechanism::Bar1 && !gpu.config.gone)
        .collect();
    let loaded = context.nvidia.loaded.as_ref().ok().and_then(Option::as_ref);
    let driver = match loaded.map(|loaded| keys::major(&loaded.version)) {
        None => DriverState::Absent,
        // Older versions compute the map differently; for an unknown version, the computation is unknown.
        Some(version) if version.is_none_or(|version| version < SINCE_VERSION) => {
            return Ok(Vec::new());
        }
        Some(version) => {
            let all = params::read(&context.root);
            // All GPUs with peers through BAR1 are of one kind, so the first one's keys apply to all.
            let first = peers
                .first()
                .map_or_else(String::new, |(gpu, _)| gpu.bdf.to_string());
            let keys = params::registry_keys(known(&all)?, &first);
            let version = version.unwrap_or_default();
            DriverState::Loaded(version, RegistryKeys::of(version, &keys))
        }
    };
    if peers.len() < 2 {
        return Ok(Vec::new());
    }
    let screens =
        framebuffer::read(&context.root).map_err(|e| unreadable("sys/class/graphics", &e))?;
    let lines = context.log.as_deref().unwrap_or_default();
    let one = |(gpu, _): &&(&Device, PeerMechanism)| {
        let console = framebuffer::on(gpu, &screens).map(|screen| screen.name.as_str());
        let address = gpu.bdf.to_string();
        if let Some(finding) = misaligned(gpu, console, driver) {
            return Some(finding);
        }
        // The driver has created the map or has logged why not.
        let done = loaded.is_some()
            && (matches!(mapping_of(gpu, &context.bar1_by_gpu()), Bar1Mapping::All(_))
                || log::bar1_peers(lines)
                    .iter()
                    .any(|line| line.gpu == address));
        if done {
            None
        } else {
            finding(gpu, memory.get(&gpu.bdf), console, driver)
        }
    };
    Ok(peers.iter().filter_map(one).collect())
}

/// Adds these findings to the judgement.
pub(super) fn with_map_findings(judgement: Judgement, findings: Vec<Finding>) -> Judgement {
    let worst = findings
        .iter()
        .find(|f| f.severity > Severity::Info)
        .map(|f| f.message.to_string());
    let passed = judgement.outcome() == Outcome::Pass;
    let mut judgement = judgement.with(findings);
    if let Some(worst) = worst.filter(|_| passed) {
        judgement.summary = worst;
    }
    judgement
}

/// What is known of a GPU's memory, in words, and as the computation needs it.
fn described(memory: &Memory) -> (String, MapMemory) {
    let name = match (memory.source, memory.board) {
        (MemorySource::Driver, _) => "by NVML".to_owned(),
        (_, Some(board)) => format!("GeForce RTX {board}"),
        (source, None) => format!("by {source}"),
    };
    // The log has only the part that programs can use; the driver keeps at most a twentieth of all memory.
    let more = if memory.source == MemorySource::Log {
        memory.most / 19
    } else {
        0
    };
    let all = (memory.least >> 20, (memory.most + more) >> 20);
    (
        name,
        MapMemory {
            all,
            usable: memory.usable.map(|bytes| bytes >> 20),
        },
    )
}

/// Before a driver is loaded, the one that will be may have any version, and the appliance's keys are assumed.
const ASSUMED: (StaticMap, bool, bool) = (StaticMap::Forced, false, true);

/// The finding that the map of a GPU begins where the driver maps no peer.
fn misaligned(gpu: &Device, console: Option<&str>, driver: DriverState) -> Option<Finding> {
    let DriverState::Loaded(version, keys) = driver else {
        return None;
    };
    let mailboxes = keys.through != RequestedMechanism::Bar1;
    let start = Start::of(version, console.is_some() || mailboxes);
    // Where no key asks for it, the driver gives no peers through BAR1 anyway.
    if start.is_aligned() || keys.static_map == StaticMap::Off || !keys.ask_for_bar1() {
        return None;
    }
    let console = console.map(|name| MapObstacle::Console(name.into()));
    let reserved = mailboxes.then_some(MapObstacle::Reserved);
    let obstacles: Vec<_> = console.into_iter().chain(reserved).collect();
    let message = format!(
        "driver {version} begins its map of all memory of {} directly behind what is at the start of BAR1, and maps peers only at multiples of 512 MiB",
        gpu.bdf
    );
    Some(
        Code::Bar1MapMisaligned
            .finding(Severity::Warn, gpu.bdf, message)
            .because(Reason::MisalignedMap(obstacles)),
    )
}

fn finding(
    gpu: &Device,
    known: Option<&Memory>,
    console: Option<&str>,
    driver: DriverState,
) -> Option<Finding> {
    let sizes = gpu.aperture_sizes();
    let largest = sizes
        .and_then(|r| r.supported_bytes.last().copied())
        .unwrap_or_default();
    // The fabric pass sets BAR1 to its largest size; if it cannot, another finding reports that.
    let bar1 = gpu
        .aperture()
        .map(|bar| bar.bytes)
        .unwrap_or_default()
        .max(largest);
    let Some((name, memory)) = known.map(described) else {
        let message = format!(
            "whether all memory of {} fits into BAR1 ({}) is unknown: no driver reports its memory, and no board {} with such a BAR1 is in the table of boards",
            gpu.bdf,
            size(bar1),
            gpu.device
        );
        return Some(Code::Bar1MapUnknown.finding(Severity::Info, gpu.bdf, message));
    };
    // The map without the appliance's keys is reported too.
    let (version, (map, mailboxes, asked)) = match driver {
        DriverState::Absent => (u32::MAX, ASSUMED),
        DriverState::Loaded(version, keys) => (
            version,
            (
                keys.static_map,
                keys.through != RequestedMechanism::Bar1,
                keys.ask_for_bar1(),
            ),
        ),
    };
    let room = Room {
        bar1: bar1 >> 20,
        start: Start::of(version, console.is_some() || mailboxes),
    };
    let about = format!("{} ({name}, {})", gpu.bdf, range(memory.all));
    let automatic = if driver == DriverState::Absent {
        fit(memory, room, StaticMap::Auto)
    } else {
        Fit::Fits
    };
    let severity = if asked {
        Severity::Warn
    } else {
        Severity::Info
    };
    let (finding, map) = match (fit(memory, room, map), automatic) {
        (Fit::Short { needed, there }, _) => {
            (too_small(&about, gpu, severity, (needed, there), ""), map)
        }
        (Fit::Fits, Fit::Short { needed, there }) => (
            too_small(&about, gpu, Severity::Info, (needed, there), ""),
            StaticMap::Auto,
        ),
        (Fit::Unknown, Fit::Short { needed, there }) => {
            let forced =
                "; with RMForceStaticBar1=1 it depends on what the driver keeps for itself";
            (
                too_small(&about, gpu, severity, (needed, there), forced),
                StaticMap::Auto,
            )
        }
        (Fit::Unknown, _) => {
            let message = format!(
                "whether all memory of {about} fits into BAR1 ({}) is unknown: it depends on what the driver keeps for itself",
                size(bar1)
            );
            (
                Code::Bar1MapUnknown.finding(Severity::Info, gpu.bdf, message),
                map,
            )
        }
        (Fit::Fits, Fit::Fits | Fit::Unknown) => return None,
    };
    // Without room for the memory alone, nothing else in BAR1 is to blame.
    let limit = known.and_then(|memory| rebar::limit(gpu, Some(memory.least)));
    Some(match limit {
        Some(reason) => finding.because(reason).seen(offered(gpu)),
        None => with_help(finding, gpu, console, mailboxes, map),
    })
}

fn range((least, most): (u64, u64)) -> String {
    if least == most {
        format!("{least} MiB")
    } else {
        format!("{least} or {most} MiB")
    }
}

fn too_small(
    about: &str,
    gpu: &Device,
    severity: Severity,
    (needed, there): (u64, u64),
    forced: &str,
) -> Finding {
    let message = format!(
        "BAR1 of {about} is at least {} MiB too small for the driver's map of all memory: it has {there} MiB, and {needed} MiB are needed{forced}",
        needed - there
    );
    Code::Bar1MapShort
        .finding(severity, gpu.bdf, message)
        .values(there, needed, Some("MiB"))
}

/// Adds what takes the room, the most direct first.
fn with_help(
    finding: Finding,
    gpu: &Device,
    console: Option<&str>,
    mailboxes: bool,
    map: StaticMap,
) -> Finding {
    let console = console.map(|name| MapObstacle::Console(name.into()));
    let reserved = (mailboxes || map == StaticMap::Auto).then_some(MapObstacle::Reserved);
    let obstacles = console
        .into_iter()
        .chain(reserved)
        .chain([MapObstacle::Size])
        .collect();
    finding
        .because(Reason::NoRoomForMap(obstacles))
        .seen(offered(gpu))
}

/// The sizes of BAR1 that can be had.
fn offered(gpu: &Device) -> String {
    let offered = gpu.aperture_sizes().map(|r| {
        r.supported_bytes
            .iter()
            .map(|b| size(*b))
            .collect::<Vec<_>>()
    });
    match offered.as_deref() {
        Some([first, .., last]) => format!("Resizable BAR offers {first} to {last}"),
        Some([only]) => format!("Resizable BAR offers only {only}"),
        _ => "no Resizable BAR sizes can be read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::of_board;
    use super::*;
    use crate::suite::shared::fixture;
    use machine::pcie::model::{Bar, Rebar};

    /// A GPU of this id that offers BAR1 of up to `mib` MiB and has that size.
    fn gpu(device: &str, mib: u64) -> Device {
        let mut fabric = fixture::machine(1);
        let at = fabric.gpus[0];
        let gpu = fixture::device(&mut fabric, at);
        gpu.device = device.into();
        gpu.bars = vec![Bar {
            index: 1,
            start: 0x40_0000_0000,
            bytes: mib << 20,
            flags: 0x14220c,
        }];
        gpu.rebar = vec![Rebar {
            bar: 1,
            current_bytes: mib << 20,
            supported_bytes: vec![64 << 20, 256 << 20, mib << 20],
        }];
        gpu.clone()
    }

    fn say(device: &str, mib: u64, console: Option<&str>, driver: DriverState) -> Option<Finding> {
        let gpu = gpu(device, mib);
        finding(&gpu, of_board(&gpu).as_ref(), console, driver)
    }

    fn loaded(dwords: &str) -> DriverState {
        of_version(590, dwords)
    }

    fn of_version(version: u32, dwords: &str) -> DriverState {
        DriverState::Loaded(version, RegistryKeys::of(version, dwords))
    }

    const FORCED: &str = "ForceP2P=17;RMPcieP2PType=1;RMForceStaticBar1=1";

    #[test]
    fn a_5090_without_a_console_fits_and_one_with_a_console_needs_the_forced_map() {
        assert_eq!(say("0x2b85", 32768, None, DriverState::Absent), None);
        let said = say("0x2b85", 32768, Some("fb0"), DriverState::Absent).unwrap();
        assert!(
            said.is(Code::Bar1MapShort) && said.severity == Severity::Warn,
            "{said:?}"
        );
        assert!(
            said.message.ends_with("what the driver keeps for itself"),
            "{}",
            said.message
        );
        let said = say("0x2b85", 32768, Some("fb0"), loaded(FORCED)).unwrap();
        assert!(
            said.is(Code::Bar1MapUnknown) && said.severity == Severity::Info,
            "{said:?}"
        );
        let said = say("0x2b85", 32768, Some("fb0"), loaded("RMPcieP2PType=1")).unwrap();
        assert!(
            said.is(Code::Bar1MapShort) && said.severity == Severity::Warn,
            "{said:?}"
        );
        assert_eq!(
            said.message,
            "BAR1 of 0000:10:00.0 (GeForce RTX 5090, 32607 MiB) is at least 362 MiB too small for the driver's map of \
         all memory: it has 32766 MiB, and 33128 MiB are needed"
        );
        let obstacles = vec![
            MapObstacle::Console("fb0".into()),
            MapObstacle::Reserved,
            MapObstacle::Size,
        ];
        assert_eq!(said.reason, Some(Reason::NoRoomForMap(obstacles)));
        assert_eq!(said.evidence, ["Resizable BAR offers 64 MiB to 32 GiB"]);
    }

    #[test]
    fn mailboxes_take_the_first_512_mib_where_no_key_says_bar1() {
        // Nothing requests peers through BAR1, so the finding is only information.
        let said = say("0x2c05", 16384, None, loaded("")).unwrap();
        assert!(
            said.is(Code::Bar1MapShort) && said.severity == Severity::Info,
            "{said:?}"
        );
        assert_eq!(
            (said.measured, said.expected),
            (16382.into(), (16304 + 8 + 512).into())
        );
        assert_eq!(say("0x2c05", 16384, None, loaded(FORCED)), None);
    }

    #[test]
    fn a_4080_has_no_automatic_map_and_the_remedy_is_the_key() {
        let said = say("0x2704", 16384, None, DriverState::Absent).unwrap();
        assert!(
            said.is(Code::Bar1MapShort) && said.severity == Severity::Info,
            "{said:?}"
        );
        assert!(
            said.message.contains("at least 2 MiB too small"),
            "{}",
            said.message
        );
        assert_eq!(
            said.reason,
            Some(Reason::NoRoomForMap(vec![
                MapObstacle::Reserved,
                MapObstacle::Size
            ]))
        );
    }

    #[test]
    fn a_board_that_offers_less_than_its_memory_is_not_helped_by_keys() {
        let said = say("0x2204", 256, Some("fb0"), DriverState::Absent).unwrap();
        assert!(
            said.is(Code::Bar1MapShort) && said.reason == Some(Reason::VbiosLimit),
            "{said:?}"
        );
        assert!(
            said.message.contains("(GeForce RTX 3090, 24576 MiB)"),
            "{}",
            said.message
        );
        let all = 49140 << 20;
        let memory = Memory {
            least: all,
            most: all,
            usable: None,
            source: MemorySource::Driver,
            board: None,
        };
        let said = finding(&gpu("0x2684", 32768), Some(&memory), None, loaded(FORCED)).unwrap();
        assert!(
            said.is(Code::Bar1MapShort) && said.reason == Some(Reason::BoardLimit),
            "{said:?}"
        );
        assert!(
            said.message.contains("(by NVML, 49140 MiB)"),
            "{}",
            said.message
        );
    }

    #[test]
    fn the_log_gives_the_part_that_programs_can_use() {
        let usable = 24210 << 20;
        let memory = Memory {
            least: usable,
            most: usable,
            usable: Some(usable),
            source: MemorySource::Log,
            board: None,
        };
        let (name, memory) = described(&memory);
        assert_eq!(
            (name.as_str(), memory.usable),
            ("by the kernel log", Some(24210))
        );
        assert!(memory.all.0 <= 24564 && memory.all.1 >= 24564, "{memory:?}");
    }

    #[test]
    fn an_unknown_board_is_unknown() {
        for (device, mib) in [("0x2fff", 32768), ("0x2b85", 65536), ("odd", 32768)] {
            let said = say(device, mib, None, DriverState::Absent).unwrap();
            assert!(
                said.is(Code::Bar1MapUnknown) && said.severity == Severity::Info,
                "{said:?}"
            );
        }
    }

    #[test]
    fn a_board_with_room_to_spare_has_no_finding() {
        for console in [None, Some("fb0")] {
            for driver in [
                DriverState::Absent,
                loaded(FORCED),
                loaded("RMForceStaticBar1=0"),
            ] {
                assert_eq!(
                    say("0x2684", 32768, console, driver),
                    None,
                    "{console:?} {driver:?}"
                );
            }
        }
    }

    #[test]
    fn up_to_575_a_console_or_mailboxes_put_the_map_where_no_peer_is_mapped() {
        let said = |version, dwords, console| {
            misaligned(&gpu("0x2b85", 32768), console, of_version(version, dwords))
        };
        let old = "ForceP2P=17;RMForceP2PType=2;RMForceStaticBar1=1";
        let found = said(570, old, Some("fb0")).unwrap();
        assert!(
            found.is(Code::Bar1MapMisaligned) && found.severity == Severity::Warn,
            "{found:?}"
        );
        assert_eq!(
            found.reason,
            Some(Reason::MisalignedMap(vec![MapObstacle::Console(
                "fb0".into()
            )]))
        );
        let remedy = found.shown_remedy();
        assert!(
            remedy.contains("release it") && remedy.contains("driver 580"),
            "{remedy}"
        );
        let mailboxes = said(575, "RMForceStaticBar1=1", None).unwrap();
        assert_eq!(
            mailboxes.reason,
            Some(Reason::MisalignedMap(vec![MapObstacle::Reserved]))
        );
        assert!(
            !mailboxes.shown_remedy().contains("release it"),
            "{}",
            mailboxes.shown_remedy()
        );
        assert_eq!(
            said(575, "", Some("fb0")),
            None,
            "no key asks for peers through BAR1"
        );
        assert_eq!(said(570, old, None), None, "nothing is before the map");
        assert_eq!(
            said(570, "RMForceStaticBar1=0", Some("fb0")),
            None,
            "there is no map"
        );
        for version in [580, 590, 595] {
            assert_eq!(
                said(version, FORCED, Some("fb0")),
                None,
                "it begins at 512 MiB"
            );
        }
        assert_eq!(
            misaligned(&gpu("0x2b85", 32768), Some("fb0"), DriverState::Absent),
            None
        );
    }
}
