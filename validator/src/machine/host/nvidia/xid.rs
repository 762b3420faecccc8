//! What the numbers of Xid errors mean, by NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors)
//! and, for what programs cause, by the numbers that NVIDIA's device plugin for Kubernetes leaves to them.
//! A number that is not in the table is unknown.

use crate::outcome::finding::Severity;

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The GPU, its memory, its links or its firmware.
    Hardware,
    /// Something that the GPU has repaired or set aside by itself.
    Repaired,
    /// The driver, as a rule; it may be the hardware.
    Driver,
    /// A program that used the GPU wrongly, as a rule.
    Application,
    /// Not known here.
    Unknown,
}

use Class::{Application, Driver, Hardware, Repaired};

/// Whether lines are from before the tests or from while they ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// From before: only what the driver says of GPUs counts.
    Before,
    /// From while a test ran.
    During,
}

/// Number, class and what it says, in few words.
const TABLE: &[(u32, Class, &str)] = &[
    (8, Driver, "the GPU stopped working on a channel"),
    (9, Driver, "the driver set the GPU up wrongly"),
    (12, Driver, "the driver failed at handling an exception"),
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
    (44, Driver, "the GPU failed at switching between programs"),
    (45, Application, "a program's channels were taken down after an earlier error, or at its end"),
    (46, Hardware, "the GPU stopped working"),
    (48, Hardware, "uncorrectable memory error"),
    (54, Hardware, "auxiliary power is not connected"),
    (56, Driver, "the display engine failed"),
    (57, Hardware, "the memory interface could not be set up"),
    (58, Hardware, "the memory interface is unstable"),
    (61, Hardware, "a microcontroller of the GPU stopped at a breakpoint"),
    (62, Hardware, "a microcontroller of the GPU halted"),
    (63, Repaired, "bad memory was recorded for a row remap or a page retirement"),
    (64, Hardware, "bad memory could not be recorded for a row remap or a page retirement"),
    (68, Application, "the video decoder met an exception"),
    (69, Application, "a kernel gave the graphics engine something that it cannot do"),
    (74, Hardware, "an NVLink failed"),
    (79, Hardware, "the GPU has fallen off the bus"),
    (92, Repaired, "memory errors are corrected at a high rate"),
    (93, Repaired, "the GPU's own store was written more often than planned"),
    (94, Hardware, "uncorrectable memory error, contained to one program"),
    (95, Hardware, "uncorrectable memory error that was not contained"),
    (109, Application, "a program could not be switched away from in time"),
    (110, Hardware, "a security fault of the GPU"),
    (119, Hardware, "the GPU's firmware (GSP) did not answer"),
    (120, Hardware, "the GPU's firmware (GSP) failed"),
    (121, Repaired, "an error on the link between processor and GPU was corrected"),
    (122, Hardware, "the GPU's flash could not be read"),
    (123, Hardware, "the GPU's flash could not be written"),
    (124, Hardware, "the GPU's flash could not be erased"),
    (125, Hardware, "the GPU's own store is damaged"),
    (136, Hardware, "a link could not be trained"),
    (137, Application, "a program used another GPU's memory over NVLink without the right to it"),
    (140, Hardware, "a memory error that the GPU did not recover from"),
    (143, Hardware, "the GPU could not be started"),
    (144, Hardware, "an NVLink failed"),
    (145, Hardware, "an NVLink failed"),
    (146, Hardware, "an NVLink failed"),
    (147, Hardware, "an NVLink failed"),
    (148, Hardware, "an NVLink failed"),
    (149, Hardware, "an NVLink failed"),
    (150, Hardware, "an NVLink failed"),
    (154, Hardware, "the GPU needs a reset, a restart of the machine, or other help"),
    (156, Repaired, "a part of the GPU was set aside"),
    (157, Hardware, "a part of the GPU could not be set aside"),
    (160, Repaired, "a channel of the memory was set aside"),
    (161, Hardware, "a channel of the memory could not be set aside"),
    (171, Hardware, "uncorrectable memory error"),
    (172, Hardware, "uncorrectable error in the GPU's own stores"),
];

/// The number's class, and what it says; nothing of an unknown one.
#[must_use]
pub fn meaning(number: u32) -> (Class, &'static str) {
    let known = TABLE.iter().find(|(n, ..)| *n == number);
    known.map_or((Class::Unknown, ""), |(_, class, words)| (*class, words))
}

impl Class {
    /// How bad such an error is. What a program did before the tests says nothing of the machine; while they
    /// run, nothing of the machine can be told from it either.
    #[must_use]
    pub const fn severity(self, when: When) -> Severity {
        match (self, when) {
            (Self::Hardware, _) | (Self::Driver | Self::Unknown, When::During) => Severity::Fail,
            (Self::Repaired, _) | (Self::Driver | Self::Unknown, When::Before) => Severity::Warn,
            (Self::Application, When::Before) => Severity::Info,
            (Self::Application, When::During) => Severity::Error,
        }
    }

    /// The most likely cause; `None` where the number says nothing of it.
    #[must_use]
    pub const fn cause(self) -> Option<&'static str> {
        match self {
            Self::Hardware => Some("the GPU, its memory, its links, its power or its firmware"),
            Self::Repaired => Some("a part of the GPU is worn or bad; it has helped itself"),
            Self::Driver => Some("the driver, or a GPU that the driver did not expect"),
            Self::Application => Some("a program that used the GPU wrongly, or whose memory became wrong"),
            Self::Unknown => None,
        }
    }

    /// The next thing to do; `None` where the number says nothing of it.
    #[must_use]
    pub const fn remedy(self) -> Option<&'static str> {
        match self {
            Self::Hardware => Some(
                "power the machine off and on; look the number up in NVIDIA's list, replace a GPU on which it returns",
            ),
            Self::Repaired => Some("reset the GPU when it is free; replace it when this returns often"),
            Self::Driver => Some("update the driver; look the number up in NVIDIA's list of Xid errors"),
            Self::Application => Some(
                "end other programs on the GPUs and run the tests again; else look at the program that the line names",
            ),
            Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_and_said_in_words() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        assert!(TABLE.iter().all(|(_, class, words)| *class != Class::Unknown && words.len() > 8));
    }

    #[test]
    fn what_programs_cause_is_information_before_the_tests_and_an_error_in_them() {
        for number in [13, 31, 43, 45, 68, 109] {
            let (class, _) = meaning(number);
            assert_eq!(class.severity(When::Before), Severity::Info, "{number}");
            assert_eq!(class.severity(When::During), Severity::Error, "{number}");
        }
    }

    #[test]
    fn what_the_hardware_does_fails_and_what_is_unknown_warns_before_the_tests() {
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
