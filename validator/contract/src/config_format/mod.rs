//! The configuration as both programs read it: a table of keys for each section ([`section!`](crate::section!)), how a value
//! is read ([`value`]), how layers are merged ([`layers`]), and what an error says ([`error`]). The tables are with the owners
//! of the sections: `init/src/config/keys.rs` and `validator/src/config/keys.rs`. Nothing here opens a file.

pub mod error;
pub mod layers;
pub mod page;
pub mod table;
pub mod value;

use std::time::Duration;
use value::Seconds;

/// Maximum size of a configuration file in bytes.
pub const LARGEST: u64 = 1 << 20;

/// The kinds of layers, by who decides their content; a later one wins (but see `config.disk_overrides_server`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerSource {
    /// A file of the image, or of an installed system.
    Image,
    /// A file of the data partition.
    Partition,
    /// A file of the server that the kernel word `firstlight.config=` names.
    Server,
    /// A kernel word, or a word of the command line.
    Word,
}

/// Which layers may set a key. A layer must not decide whether it is itself trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedLayers {
    /// Every layer.
    Any,
    /// Only files of the image.
    Image,
    /// Files of the image and of the server that the kernel word `firstlight.config=` names.
    ImageOrServer,
    /// Every layer except files of the data partition.
    NotPartition,
}

impl AllowedLayers {
    /// Whether a layer of that source may set the key.
    #[must_use]
    pub const fn allows(self, source: LayerSource) -> bool {
        match self {
            Self::Any => true,
            Self::Image => matches!(source, LayerSource::Image),
            Self::ImageOrServer => matches!(source, LayerSource::Image | LayerSource::Server),
            Self::NotPartition => !matches!(source, LayerSource::Partition),
        }
    }

    /// The layers, for error messages.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Any => "every layer",
            Self::Image => "files of the image",
            Self::ImageOrServer => "files of the image and of a server",
            Self::NotPartition => "files of the image and of a server, and kernel words",
        }
    }
}

/// A key of the validator's that init reads as well, because init enforces the deadline.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    /// `SECTION.KEY`
    pub key: &'static str,
    /// The allowed values.
    pub rule: Seconds,
    /// The value without a layer that sets it.
    pub default: Duration,
}

/// For all tests of `validate` together.
pub const VALIDATE_TIMEOUT: Deadline = Deadline {
    key: "validate.timeout_s",
    rule: Seconds(1, 86_400),
    default: Duration::from_secs(900),
};

/// For the meeting of several nodes.
pub const NODES_TIMEOUT: Deadline = Deadline {
    key: "nodes.timeout_s",
    rule: Seconds(1, 86_400),
    default: Duration::from_secs(60),
};

/// The key whose presence makes a boot meet other nodes.
pub const NODES_SIZE: &str = "nodes.size";
