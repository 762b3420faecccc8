//! The meaning of Xid numbers, from NVIDIA's catalog of Xid errors (docs.nvidia.com/deploy/xid-errors) and,
//! for errors that programs cause, from the numbers that NVIDIA's device plugin for Kubernetes ignores. A
//! number that is not in the table is unknown.

use crate::outcome::finding::Severity;

/// The cause of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The GPU, its memory, its links or its firmware.
    Hardware,
    /// Something that the GPU has repaired or disabled by itself.
    Repaired,
    /// Usually the driver; it may be the hardware.
    Driver,
    /// Usually a program that used the GPU wrongly.
    Application,
    /// Not in the table.
    Unknown,
}

use Class::{Application, Driver, Hardware, Repaired};

/// Whether lines are from before the tests or from a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// From before: only driver messages about GPUs count.
    Before,
    /// From a test.
    During,
}

/// Number, class and a short description.
const TABLE: &[(u32, Class, &str)] = &[
    (8, Driver, "the GPU stopped working on a channel"),
    (9, Driver, "the driver set the GPU up wrongly"),
    (12, Driver, "the driver failed to handle an exception"),
    (13, Application, "a kernel broke a rule of the GPU, such as an address out of range"),
    (16, Driver, "the display engine hung"),
    (18, Driver, "bus mastering was off"),
    (19, Driver, "the display engine failed"),
    (24, Driver, "a semaphore was not released in time"),
    (26, Driver, "the framebuffer did not answer in time"),
    (31, Application, "a program used an address that was not mapped for it"),
    (32, Driver, "the commands that reached the GPU were damaged"),
    (38, Driver, "the GPU's firmware failed"),
    (43, Application, "the GPU stopped a program's channel"),
    (44, Driver, "the GPU failed to switch between programs"),
    (45, Application, "a program's channels were closed after an earlier error, or when it ended"),
    (46, Hardware, "the GPU stopped working"),
    (48, Hardware, "uncorrectable memory error"),
    (54, Hardware, "auxiliary power is not connected"),
    (56, Driver, "the display engine failed"),
    (57, Hardware, "the memory interface could not be set up"),
    (58, Hardware, "the memory interface is unstable"),
    (61, Hardware, "a microcontroller of the GPU stopped at a breakpoint"),
    (62, Hardware, "a microcontroller of the GPU halted"),
    (63, Repaired, "bad memory was recorded for row remapping or page retirement"),
    (64, Hardware, "bad memory could not be recorded for row remapping or page retirement"),
    (68, Application, "the video decoder had an exception"),
    (69, Application, "a kernel gave the graphics engine an invalid operation"),
    (74, Hardware, "an NVLink failed"),
    (79, Hardware, "the GPU has fallen off the bus"),
    (92, Repaired, "memory errors are corrected at a high rate"),
    (93, Repaired, "the GPU's InfoROM was written more often than planned"),
    (94, Hardware, "uncorrectable memory error, contained to one program"),
    (95, Hardware, "uncorrectable memory error that was not contained"),
    (109, Application, "a program could not be preempted in time"),
    (110, Hardware, "a security fault of the GPU"),
    (119, Hardware, "the GPU's firmware (GSP) did not answer"),
    (120, Hardware, "the GPU's firmware (GSP) failed"),
    (121, Repaired, "an error on the link between processor and GPU was corrected"),
    (122, Hardware, "the GPU's flash could not be read"),
    (123, Hardware, "the GPU's flash could not be written"),
    (124, Hardware, "the GPU's flash could not be erased"),
    (125, Hardware, "the GPU's InfoROM is damaged"),
    (136, Hardware, "a link could not be trained"),
    (137, Application, "a program used another GPU's memory over NVLink without permission"),
    (140, Hardware, "a memory error that the GPU did not recover from"),
    (143, Hardware, "the GPU could not be started"),
    (144, Hardware, "an NVLink failed"),
    (145, Hardware, "an NVLink failed"),
    (146, Hardware, "an NVLink failed"),
    (147, Hardware, "an NVLink failed"),
    (148, Hardware, "an NVLink failed"),
    (149, Hardware, "an NVLink failed"),
    (150, Hardware, "an NVLink failed"),
    (154, Hardware, "the GPU needs a reset, a reboot, or other recovery"),
    (156, Repaired, "a part of the GPU was disabled"),
    (157, Hardware, "a part of the GPU could not be disabled"),
    (160, Repaired, "a memory channel was disabled"),
    (161, Hardware, "a memory channel could not be disabled"),
    (171, Hardware, "uncorrectable memory error"),
    (172, Hardware, "uncorrectable error in the GPU's SRAM"),
];

/// The number's class and description; `None` for an unknown number.
#[must_use]
pub fn meaning(number: u32) -> (Class, &'static str) {
    let known = TABLE.iter().find(|(n, ..)| *n == number);
    known.map_or((Class::Unknown, ""), |(_, class, words)| (*class, words))
}

impl Class {
    /// The severity of such an error. A program's error before the tests says nothing about the machine;
    /// during the tests it makes their results unusable.
    #[must_use]
    pub const fn severity(self, when: When) -> Severity {
        match (self, when) {
            (Self::Hardware, _) | (Self::Driver | Self::Unknown, When::During) => Severity::Fail,
            (Self::Repaired, _) | (Self::Driver | Self::Unknown, When::Before) => Severity::Warn,
            (Self::Application, When::Before) => Severity::Info,
            (Self::Application, When::During) => Severity::Error,
        }
    }

    /// The most likely cause; `None` if the number does not give it.
    #[must_use]
    pub const fn cause(self) -> Option<&'static str> {
        match self {
            Self::Hardware => Some("the GPU, its memory, its links, its power or its firmware"),
            Self::Repaired => {
                Some("a worn or defective part of the GPU, which the GPU repaired or disabled itself")
            }
            Self::Driver => Some("the driver, or a GPU in a state that the driver did not expect"),
            Self::Application => Some("a program that used the GPU wrongly, or whose memory was corrupted"),
            Self::Unknown => None,
        }
    }

    /// The next thing to do; `None` if the number does not give it.
    #[must_use]
    pub const fn remedy(self) -> Option<&'static str> {
        match self {
            Self::Hardware => Some(
                "power the machine off and on; look up the number in NVIDIA's list; replace the GPU if it happens again",
            ),
            Self::Repaired => Some(
                "reset the GPU when it is idle (`nvidia-smi -i GPU --gpu-reset`); replace it if this happens often",
            ),
            Self::Driver => Some("update the driver; look up the number in NVIDIA's list of Xid errors"),
            Self::Application => Some(
                "end other programs on the GPUs and run the tests again; if there are none, check the program that the line names",
            ),
            Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_and_described() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        assert!(TABLE.iter().all(|(_, class, words)| *class != Class::Unknown && words.len() > 8));
    }

    #[test]
    fn program_errors_are_information_before_the_tests_and_errors_in_them() {
        for number in [13, 31, 43, 45, 68, 109] {
            let (class, _) = meaning(number);
            assert_eq!(class.severity(When::Before), Severity::Info, "{number}");
            assert_eq!(class.severity(When::During), Severity::Error, "{number}");
        }
    }

    #[test]
    fn hardware_errors_fail_and_unknown_ones_warn_before_the_tests() {
        for number in [48, 74, 79, 95, 119] {
            let (class, _) = meaning(number);
            assert_eq!(
                (class.severity(When::Before), class.severity(When::During)),
                (Severity::Fail, Severity::Fail)
            );
        }
        let (class, words) = meaning(9999);
        assert_eq!((class, words), (Class::Unknown, ""));
        assert_eq!(
            (class.severity(When::Before), class.severity(When::During)),
            (Severity::Warn, Severity::Fail)
        );
        assert_eq!(meaning(63).0.severity(When::During), Severity::Warn);
    }
}
