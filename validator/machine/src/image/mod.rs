//! Checks whether the running system is exactly the image. `list` parses the image's list of files, `read`
//! looks at the files, `compare` finds the differences, `driver` checks the mounted driver image, `text`
//! formats the result. It compares contents, not modes. The list is only as trustworthy as its hash in
//! image.json, which anyone who can write to the image can replace too: if that matters, compare the hash
//! with the build's.

pub mod compare;
pub mod document;
pub mod driver;
pub mod list;
pub mod read;

pub use document::Document;
pub use read::{ExamineError, examine};

use crate::host::identity::Appliance;
use compare::{Change, Difference};
use driver::DriverImage;
use outcome::text::count;
use std::fmt;

/// The file in which the image identifies itself.
pub const IDENTITY_FILE: &str = "/etc/firstlight/image.json";
/// The list of its files.
pub const LIST: &str = "/usr/lib/firstlight/files";

/// Paths in the root of a running image that are not part of it, and why; folders end in a slash. Everything
/// else that is not listed was added.
pub const MADE_HERE: &[(&str, &str)] = &[
    ("/dev/", "the kernel's device nodes"),
    ("/proc/", "the kernel's processes"),
    ("/sys/", "the kernel's devices"),
    (
        "/run/",
        "init's data about this boot, in memory; the driver that is mounted there is checked separately",
    ),
    ("/tmp/", "in memory, for programs"),
    (
        "/newroot/",
        "where init mounts a workload's root before that becomes the root",
    ),
    (
        "/.extra/",
        "data of the UEFI stub about its boot; nothing in the image reads it",
    ),
    (
        "/etc/resolv.conf",
        "name servers, from DHCP or the configuration",
    ),
    (
        "/etc/nccl.conf",
        "NCCL settings that init writes after the tests",
    ),
    (
        IDENTITY_FILE,
        "contains the list's hash, so the list cannot contain it",
    ),
    (LIST, "the list itself; image.json has its hash"),
];

/// The result of examining an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// Its identity.
    pub appliance: Appliance,
    /// How many files and links it lists.
    pub listed: usize,
    /// The amount of hashed data, bytes.
    pub bytes: u64,
    /// The state of its driver image.
    pub driver: DriverImage,
    /// All differences from the list, by path.
    pub differences: Vec<Difference>,
}

impl Examined {
    /// Whether everything is as the image lists it.
    #[must_use]
    pub fn is_golden(&self) -> bool {
        self.differences.is_empty()
    }

    /// How many differences of one kind there are.
    #[must_use]
    pub fn count(&self, change: Change) -> usize {
        self.differences
            .iter()
            .filter(|d| d.change == change)
            .count()
    }

    /// The build.
    #[must_use]
    pub fn id(&self) -> &str {
        self.appliance
            .image_id
            .as_deref()
            .unwrap_or("without a name")
    }
}

/// `golden: 1023 files as listed, image 5f1d989d03a878d8`
impl fmt::Display for Examined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id();
        if self.is_golden() {
            return write!(
                f,
                "golden: {} as listed, image {id}",
                count(self.listed, "file")
            );
        }
        let kinds = [Change::Changed, Change::Missing, Change::Added];
        let of = |change: &Change| (self.count(*change), change.word());
        let counts: Vec<_> = kinds.iter().map(of).filter(|(n, _)| *n > 0).collect();
        let counts: Vec<_> = counts
            .iter()
            .map(|(n, word)| format!("{n} {word}"))
            .collect();
        write!(
            f,
            "not golden: {} of image {id}'s {} files",
            counts.join(", "),
            self.listed
        )
    }
}
