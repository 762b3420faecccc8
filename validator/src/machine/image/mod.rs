//! Is what runs here the image, all of it and nothing else? `list` reads what the image says of its files,
//! `read` looks at what lies there, `compare` tells one from the other, `driver` what is mounted from the
//! driver image, `text` words it. It compares contents, not modes; and it believes the list only as far as
//! the hash in image.json, which whoever can write here can replace as well: where that matters, the hash
//! is compared with the build's.

pub mod compare;
pub mod document;
pub mod driver;
pub mod list;
pub mod read;

pub use document::Document;
pub use read::{Unknown, examine};

use crate::machine::host::identity::Appliance;
use compare::{Change, Difference};
use driver::Driver;
use std::fmt;

/// Where the image says what it is.
pub const NAMES_ITSELF: &str = "/etc/firstlight/image.json";
/// Where it lists its files.
pub const LIST: &str = "/usr/lib/firstlight/files";

/// What lies in the root of a running image and is not of it, and why; folders end in a slash. Everything
/// else that is not listed was added.
pub const MADE_HERE: &[(&str, &str)] = &[
    ("/dev/", "the kernel's device nodes"),
    ("/proc/", "the kernel's processes"),
    ("/sys/", "the kernel's devices"),
    (
        "/run/",
        "what init notes about this boot, in memory; the driver that is mounted there is looked at by itself",
    ),
    ("/tmp/", "in memory, for programs"),
    ("/newroot/", "where init mounts a workload's root before that becomes the root"),
    ("/.extra/", "what the UEFI stub tells about its boot; nothing of the image reads it"),
    ("/etc/resolv.conf", "name servers, by DHCP or the configuration"),
    ("/etc/nccl.conf", "what init tells NCCL after the tests"),
    (NAMES_ITSELF, "names the list by its hash, so that it cannot stand in it"),
    (LIST, "the list itself; image.json has its hash"),
];

/// An image as it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// What it says it is.
    pub appliance: Appliance,
    /// How many files and links it lists.
    pub listed: usize,
    /// How much was hashed, bytes.
    pub bytes: u64,
    /// What became of its driver image.
    pub driver: Driver,
    /// Everything that is not as listed, by path.
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
        self.differences.iter().filter(|d| d.change == change).count()
    }

    /// Which build it is.
    #[must_use]
    pub fn id(&self) -> &str {
        self.appliance.image_id.as_deref().unwrap_or("without a name")
    }
}

/// `golden: 1023 files as listed, image 5f1d989d03a878d8`
impl fmt::Display for Examined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id();
        if self.is_golden() {
            return write!(f, "golden: {} files as listed, image {id}", self.listed);
        }
        let kinds = [Change::Changed, Change::Missing, Change::Added];
        let of = |change: &Change| (self.count(*change), change.word());
        let counts: Vec<_> = kinds.iter().map(of).filter(|(n, _)| *n > 0).collect();
        let counts: Vec<_> = counts.iter().map(|(n, word)| format!("{n} {word}")).collect();
        write!(f, "not golden: {} of image {id}'s {} files", counts.join(", "), self.listed)
    }
}
