//! The kernel's taint flags (`/proc/sys/kernel/tainted`): flags that stay set until the next boot and record
//! that the kernel had a fault or runs code that its authors do not support. Their meaning is documented in
//! the kernel's Documentation/admin-guide/tainted-kernels.rst. Flags that NVIDIA's modules, a distribution or
//! the firmware set on a healthy machine are not faults. Pure, except for the reading.

use crate::host::nvidia::xid::TestPhase;
use crate::root::Root;
use Severity::{Fail, Info, Warn};
use outcome::finding::{Code, Finding, Severity, Subject};
use std::io;

/// The file, below the root.
const FILE: &str = "proc/sys/kernel/tainted";

/// All flags, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taint(u64);

/// A flag: its bit, its letter, its meaning, and its severity before the tests and during one.
type Flag = (u32, char, &'static str, Severity, Severity);

/// The flags that show more than which modules are loaded. A fault before the tests is over, but the kernel
/// may be damaged since then; a fault during a test may have changed its result.
const FLAGS: [Flag; 13] = [
    (1, 'F', "a module was loaded by force", Warn, Warn),
    (2, 'S', "a processor is out of specification", Info, Warn),
    (3, 'R', "a module was unloaded by force", Warn, Warn),
    (4, 'M', "a processor reported a machine check", Warn, Fail),
    (5, 'B', "a page of memory was in a wrong state", Warn, Fail),
    (6, 'U', "a program set the flag", Info, Warn),
    (7, 'D', "the kernel had an oops", Warn, Fail),
    (8, 'A', "an ACPI table was replaced", Info, Warn),
    (9, 'W', "the kernel issued a warning", Info, Warn),
    (
        14,
        'L',
        "a processor hung in the kernel (soft lockup)",
        Warn,
        Fail,
    ),
    (15, 'K', "the kernel was patched while it ran", Info, Warn),
    (18, 'N', "a test of the kernel has run in it", Info, Warn),
    (
        19,
        'J',
        "a program changed a device's firmware (fwctl)",
        Info,
        Warn,
    ),
];
/// P, O and E: a module is proprietary, not from the kernel's tree, or not signed, as NVIDIA's are. C: a
/// module is from the staging tree. I: the kernel works around a fault of the firmware. X and T: how a
/// distribution built its kernel.
const HARMLESS: [u32; 7] = [0, 10, 11, 12, 13, 16, 17];

impl Taint {
    /// The flags that are set now.
    ///
    /// # Errors
    /// Why they cannot be read; `NotFound` where the root has none.
    pub fn read(root: &Root) -> io::Result<Self> {
        let named = |why: String| format!("/{FILE}: {why}");
        let text = root
            .text(FILE)
            .map_err(|e| io::Error::new(e.kind(), named(e.to_string())))?;
        let number = text.trim().parse().map(Self);
        number.map_err(|_| {
            io::Error::other(named(format!("read {:?}, allowed: a number", text.trim())))
        })
    }

    /// The flags that are set here and were not set `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self(self.0 & !before.0)
    }

    /// The flags of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }
}

/// The finding about the flags in `taint`, if they show more than that NVIDIA's modules are loaded.
#[must_use]
pub fn tainted(taint: Taint, when: TestPhase) -> Option<Finding> {
    let of = |(_, letter, means, before, during): &Flag| {
        (
            if when == TestPhase::During {
                *during
            } else {
                *before
            },
            format!("{letter}: {means}"),
        )
    };
    let known = FLAGS.iter().filter(|flag| taint.has(flag.0)).map(of);
    let is_known = |bit: &u32| HARMLESS.contains(bit) || FLAGS.iter().any(|flag| flag.0 == *bit);
    let other = (0..u64::BITS).filter(|bit| taint.has(*bit) && !is_known(bit));
    let unknown = other.map(|bit| {
        (
            Warn,
            format!("bit {bit}: a flag that this version does not know"),
        )
    });
    let mut all: Vec<_> = known.chain(unknown).collect();
    all.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
    let worst = all.first()?.0;
    let since = if when == TestPhase::During {
        "while the test ran"
    } else {
        "before the tests"
    };
    let words: Vec<_> = all.iter().map(|(_, words)| words.as_str()).collect();
    let message = format!("the kernel set taint flags {since}: {}", words.join("; "));
    let finding = Code::KernelTainted.finding(worst, Subject::Machine, message);
    Some(finding.seen(format!("/{FILE}: {} {since}", taint.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn severity(bits: &[u32], when: TestPhase) -> Option<Severity> {
        let all = bits.iter().fold(0, |all, bit| all | 1 << bit);
        Some(tainted(Taint(all), when)?.severity)
    }

    #[test]
    fn a_healthy_machine_with_nvidias_modules_has_no_finding() {
        for when in [TestPhase::Before, TestPhase::During] {
            assert_eq!(severity(&[], when), None);
            assert_eq!(severity(&HARMLESS, when), None);
            // Open modules, and proprietary ones that are not signed.
            assert_eq!(
                tainted(Taint(12288), when).or(tainted(Taint(12289), when)),
                None
            );
        }
    }

    #[test]
    fn a_fault_of_the_kernel_fails_the_test_that_runs_and_an_earlier_one_warns() {
        for bit in [4, 5, 7, 14] {
            assert_eq!(
                severity(&[bit, 12, 13], TestPhase::During),
                Some(Fail),
                "{bit}"
            );
            assert_eq!(
                severity(&[bit, 12, 13], TestPhase::Before),
                Some(Warn),
                "{bit}"
            );
        }
        for bit in [2, 6, 8, 9, 15, 18, 19] {
            assert_eq!(severity(&[bit], TestPhase::During), Some(Warn), "{bit}");
            assert_eq!(severity(&[bit], TestPhase::Before), Some(Info), "{bit}");
        }
        assert_eq!(
            severity(&[9, 7], TestPhase::During),
            Some(Fail),
            "the worst counts"
        );
    }

    #[test]
    fn a_finding_names_each_flag_the_worst_first_and_one_that_is_not_known() {
        let found = tainted(Taint(1 << 7 | 1 << 9 | 1 << 12), TestPhase::During).unwrap();
        let words = "D: the kernel had an oops; W: the kernel issued a warning";
        assert_eq!(
            found.message,
            format!("the kernel set taint flags while the test ran: {words}")
        );
        assert_eq!(
            found.evidence,
            ["/proc/sys/kernel/tainted: 4736 while the test ran"]
        );
        let found = tainted(Taint(1 << 40), TestPhase::Before).unwrap();
        assert!(
            found.severity == Warn && found.message.contains("bit 40"),
            "{found:?}"
        );
    }

    #[test]
    fn every_flag_of_the_kernel_is_judged_once() {
        let all = HARMLESS
            .iter()
            .copied()
            .chain(FLAGS.iter().map(|flag| flag.0));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn the_file_is_read_as_the_kernel_writes_it_and_anything_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (root, file) = (Root::new(dir.path()), dir.path().join(FILE));
        assert_eq!(
            Taint::read(&root).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "12288\n").unwrap();
        assert_eq!(Taint::read(&root).unwrap(), Taint(12288));
        std::fs::write(&file, "tainted\n").unwrap();
        let why = Taint::read(&root).unwrap_err().to_string();
        assert_eq!(
            why,
            "/proc/sys/kernel/tainted: read \"tainted\", allowed: a number"
        );
    }
}
