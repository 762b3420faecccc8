//! The meaning of Xid numbers, from NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors): what
//! happened, what is at fault, and what recovers the GPU. Numbers that the catalogue calls unused on newer GPUs have
//! the meaning of its earlier editions and no action. A number that is not in the table is unknown.

mod line;

pub use line::{caused_by, changed_to};
pub use outcome::finding::FaultSource;

use FaultSource::{Driver, Gpu, Link, Memory, MildLink, Program, Repaired};
use outcome::finding::{Recovery, Severity};

/// Whether lines of the kernel's log are from before the tests or from a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestPhase {
    /// From before: only driver messages about GPUs count.
    Before,
    /// From a test.
    During,
}

// The catalogue's immediate actions.
const UNSPECIFIED: Option<Recovery> = None;
const IGNORE: Option<Recovery> = Some(Recovery::None);
const RESTART: Option<Recovery> = Some(Recovery::RestartProgram);
const RESET: Option<Recovery> = Some(Recovery::ResetGpu);
const REBOOT: Option<Recovery> = Some(Recovery::RebootNode);
const POWER: Option<Recovery> = Some(Recovery::PowerCycle);

/// What an Xid error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// What is at fault.
    pub fault: FaultSource,
    /// What recovers the GPU, if the catalogue states it for the number.
    pub recovery: Option<Recovery>,
    /// What happened; empty if it is unknown.
    pub words: &'static str,
}

/// First and last number, fault, action, and what happened.
type Row = (u32, u32, FaultSource, Option<Recovery>, &'static str);

/// The number of the line with which the driver says what recovers the GPU now.
pub const RECOVERY_CHANGED: u32 = 154;
/// Errors of NVLinks since Blackwell: the line says whether one is fatal.
const NVLINK5: std::ops::RangeInclusive<u32> = 144..=150;
const MILD_NVLINK: &str = "an NVLink had an error that was corrected or contained";

const TABLE: &[Row] = &[
    (
        8,
        8,
        Driver,
        RESTART,
        "the GPU stopped working on a channel",
    ),
    (
        9,
        9,
        Driver,
        UNSPECIFIED,
        "the driver set the GPU up wrongly",
    ),
    (
        11,
        11,
        Program,
        RESTART,
        "a program's commands for the GPU were invalid",
    ),
    (
        12,
        12,
        Driver,
        UNSPECIFIED,
        "the driver failed to handle an exception",
    ),
    (
        13,
        13,
        Program,
        RESTART,
        "a kernel broke a rule of the GPU, such as an address out of range",
    ),
    (14, 14, Program, IGNORE, "a program injected an error"),
    (16, 16, Driver, UNSPECIFIED, "the display engine hung"),
    (18, 18, Driver, UNSPECIFIED, "bus mastering was off"),
    (19, 19, Driver, UNSPECIFIED, "the display engine failed"),
    (
        24,
        24,
        Driver,
        UNSPECIFIED,
        "a semaphore was not released in time",
    ),
    (
        25,
        25,
        Program,
        RESTART,
        "a program's commands for the GPU were invalid",
    ),
    (
        26,
        26,
        Driver,
        UNSPECIFIED,
        "the framebuffer did not answer in time",
    ),
    (
        31,
        31,
        Program,
        RESTART,
        "a program used an address that was not mapped for it",
    ),
    (
        32,
        32,
        Link,
        RESTART,
        "the commands that reached the GPU over PCIe were damaged",
    ),
    (37, 38, Driver, IGNORE, "the GPU's firmware failed"),
    (39, 41, Driver, RESTART, "a copy engine had an exception"),
    (
        43,
        43,
        Program,
        IGNORE,
        "the GPU stopped a program's channel",
    ),
    (
        44,
        44,
        Driver,
        IGNORE,
        "the GPU failed to switch between programs",
    ),
    (
        45,
        45,
        Program,
        IGNORE,
        "a program's channels were closed after an earlier error, or when it ended",
    ),
    (46, 46, Gpu, RESET, "the GPU stopped working"),
    (48, 48, Memory, RESET, "uncorrectable memory error"),
    (54, 54, Gpu, POWER, "auxiliary power is not connected"),
    (56, 56, Driver, UNSPECIFIED, "the display engine failed"),
    (
        57,
        58,
        Memory,
        UNSPECIFIED,
        "the memory interface could not be set up, or is unstable",
    ),
    (
        60,
        60,
        Driver,
        RESTART,
        "the security processor had an exception",
    ),
    (
        61,
        61,
        Gpu,
        UNSPECIFIED,
        "a microcontroller of the GPU stopped at a breakpoint",
    ),
    (62, 62, Gpu, RESET, "a microcontroller of the GPU halted"),
    (
        63,
        63,
        Repaired,
        IGNORE,
        "bad memory was recorded for row remapping or page retirement",
    ),
    (
        64,
        64,
        Memory,
        RESET,
        "bad memory could not be recorded for row remapping or page retirement",
    ),
    (
        66,
        67,
        Driver,
        IGNORE,
        "the driver used a register that it may not use",
    ),
    (
        68,
        68,
        Program,
        RESTART,
        "the video decoder had an exception",
    ),
    (
        69,
        69,
        Program,
        RESTART,
        "a kernel gave the graphics engine an invalid operation",
    ),
    (70, 72, Driver, RESTART, "a copy engine had an exception"),
    (74, 74, Link, RESET, "an NVLink failed"),
    (75, 77, Driver, RESTART, "a copy engine had an exception"),
    (
        78,
        78,
        Driver,
        IGNORE,
        "a virtual GPU could not be started: the software does not fit",
    ),
    (79, 79, Link, REBOOT, "the GPU has fallen off the bus"),
    (
        80,
        80,
        Link,
        RESTART,
        "the commands that reached the GPU did not match their checksum",
    ),
    (
        81,
        81,
        Driver,
        UNSPECIFIED,
        "the VGA part of the GPU failed",
    ),
    (
        82,
        84,
        Program,
        RESTART,
        "a video or image decoder had an exception",
    ),
    (85, 85, Driver, RESTART, "a copy engine had an exception"),
    (
        86,
        86,
        Program,
        RESTART,
        "the optical flow engine had an exception",
    ),
    (
        88,
        89,
        Program,
        RESTART,
        "the video decoder had an exception",
    ),
    (
        92,
        92,
        Repaired,
        IGNORE,
        "memory errors are corrected at a high rate",
    ),
    (
        93,
        93,
        Repaired,
        IGNORE,
        "the GPU's InfoROM was written more often than planned",
    ),
    (
        94,
        94,
        Memory,
        RESTART,
        "uncorrectable memory error, contained to one program",
    ),
    (
        95,
        95,
        Memory,
        RESET,
        "uncorrectable memory error that was not contained",
    ),
    (
        96,
        105,
        Program,
        RESTART,
        "a video or image decoder had an exception",
    ),
    (
        108,
        108,
        Program,
        IGNORE,
        "a program used an address of another GPU that was not mapped for it",
    ),
    (
        109,
        109,
        Driver,
        RESET,
        "the GPU did not switch between programs in time",
    ),
    (110, 110, Gpu, RESET, "a security fault of the GPU"),
    (
        119,
        119,
        Gpu,
        RESET,
        "the GPU's firmware (GSP) did not answer",
    ),
    (120, 120, Gpu, RESET, "the GPU's firmware (GSP) failed"),
    (
        121,
        121,
        Repaired,
        IGNORE,
        "an error on the link between processor and GPU was corrected",
    ),
    (
        122,
        124,
        Gpu,
        UNSPECIFIED,
        "the GPU's flash could not be read, written or erased",
    ),
    (125, 125, Gpu, UNSPECIFIED, "the GPU's InfoROM is damaged"),
    (126, 135, Driver, RESTART, "a copy engine had an exception"),
    (136, 136, Link, RESET, "a link could not be trained"),
    (
        137,
        137,
        Program,
        IGNORE,
        "a program used another GPU's memory over NVLink without permission",
    ),
    (
        139,
        139,
        Program,
        RESTART,
        "the optical flow engine had an exception",
    ),
    (
        140,
        140,
        Memory,
        RESET,
        "a memory error that the GPU did not recover from",
    ),
    (141, 141, Driver, IGNORE, "the driver's fast path failed"),
    (143, 143, Gpu, RESET, "the GPU could not be started"),
    (144, 150, Link, UNSPECIFIED, "an NVLink failed"),
    (
        151,
        151,
        Driver,
        REBOOT,
        "the encryption keys of a channel could not be exchanged",
    ),
    (
        152,
        153,
        Driver,
        IGNORE,
        "the deep learning accelerator failed",
    ),
    (
        154,
        154,
        Gpu,
        UNSPECIFIED,
        "the driver changed what recovers the GPU, and this version does not know the action",
    ),
    (155, 155, Link, RESET, "an NVLink was taken down"),
    (156, 156, Repaired, RESET, "a part of the GPU was disabled"),
    (
        157,
        157,
        Gpu,
        IGNORE,
        "a part of the GPU could not be disabled",
    ),
    (158, 158, Gpu, RESET, "the GPU did not answer in time"),
    (
        159,
        159,
        Link,
        UNSPECIFIED,
        "a request over the link between processor and GPU failed",
    ),
    (160, 160, Repaired, IGNORE, "a memory channel was disabled"),
    (
        161,
        161,
        Memory,
        IGNORE,
        "a memory channel could not be disabled",
    ),
    (
        162,
        163,
        Repaired,
        IGNORE,
        "the circuit that smooths the GPU's power was switched on or off",
    ),
    (
        164,
        165,
        Repaired,
        IGNORE,
        "the circuit that smooths the GPU's power is worn out, or nearly so",
    ),
    (
        166,
        166,
        Link,
        UNSPECIFIED,
        "an NVLink carried encrypted data before it was set up for that",
    ),
    (
        167,
        167,
        Link,
        UNSPECIFIED,
        "a PCIe request of the GPU was not answered in time",
    ),
    (
        168,
        168,
        Memory,
        REBOOT,
        "errors are in the part of the memory that the GPU's firmware uses",
    ),
    (
        169,
        169,
        Gpu,
        UNSPECIFIED,
        "a microcontroller of the GPU halted",
    ),
    (
        170,
        170,
        Link,
        UNSPECIFIED,
        "an NVLink of a GPU in confidential mode reported an error",
    ),
    (
        171,
        172,
        Memory,
        RESET,
        "uncorrectable error of the GPU's memory or SRAM",
    ), // beside Xid 48
    (
        173,
        173,
        Link,
        UNSPECIFIED,
        "the link between processor and GPU failed",
    ),
];

/// The meaning of a number.
#[must_use]
pub fn meaning(number: u32) -> Meaning {
    let known = TABLE
        .iter()
        .find(|(first, last, ..)| (*first..=*last).contains(&number));
    let unknown = (number, number, FaultSource::Unknown, UNSPECIFIED, "");
    let (_, _, fault, recovery, words) = *known.unwrap_or(&unknown);
    Meaning {
        fault,
        recovery,
        words,
    }
}

/// The meaning of all lines of one GPU and number, in the log's order.
#[must_use]
pub fn meaning_of(number: u32, lines: &[&str]) -> Meaning {
    let by_number = meaning(number);
    match number {
        RECOVERY_CHANGED => lines
            .last()
            .and_then(|line| changed_to(line))
            .map_or(by_number, by_driver),
        _ if NVLINK5.contains(&number) => {
            let fatal = lines.iter().any(|line| line::is_fatal(line));
            let mild = !lines.is_empty() && lines.iter().all(|line| line::is_nonfatal(line));
            match () {
                () if fatal => Meaning {
                    recovery: RESET,
                    ..by_number
                },
                () if mild => Meaning {
                    fault: MildLink,
                    recovery: IGNORE,
                    words: MILD_NVLINK,
                },
                // Cut off, or named by another line only: it may have been fatal.
                () => by_number,
            }
        }
        _ => by_number,
    }
}

/// An action that the driver asks for is evidence against the GPU, unless it asks for none.
const fn by_driver(action: Recovery) -> Meaning {
    let fault = if matches!(action, Recovery::None) {
        FaultSource::Repaired
    } else {
        FaultSource::Gpu
    };
    Meaning {
        fault,
        recovery: Some(action),
        words: demand(action),
    }
}

/// What the driver asks for, as part of a sentence.
#[must_use]
pub const fn demand(action: Recovery) -> &'static str {
    match action {
        Recovery::None => "the driver says that the GPU needs no recovery any more",
        Recovery::ResetGpu => "the driver says that the GPU must be reset",
        Recovery::RebootNode => "the driver says that the machine must be rebooted",
        Recovery::DrainP2p => "the driver says that programs that use peer-to-peer must end",
        Recovery::DrainAndReset => {
            "the driver says that the GPU works with reduced capacity until its programs end and it is reset"
        }
        // No driver asks for these.
        Recovery::RestartProgram | Recovery::PowerCycle | Recovery::Replace => {
            "the GPU needs recovery"
        }
    }
}

/// The severity of such an error. A program's error before the tests says nothing about the machine;
/// during the tests it makes their results unusable.
#[must_use]
pub const fn severity(source: FaultSource, when: TestPhase) -> Severity {
    match (source, when) {
        (Gpu | Memory | Link, _) | (Driver | FaultSource::Unknown, TestPhase::During) => {
            Severity::Fail
        }
        (Repaired | MildLink, _) | (Driver | FaultSource::Unknown, TestPhase::Before) => {
            Severity::Warn
        }
        (Program, TestPhase::Before) => Severity::Info,
        (Program, TestPhase::During) => Severity::Error,
    }
}

#[cfg(test)]
mod tests;
