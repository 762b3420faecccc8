//! What a finding is about, as a type.

use crate::platform::{Bdf, GpuId, Pair, Rank};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The most pairs that the text of a subject names.
const NAMED: usize = 4;

/// What a finding is about.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Subject {
    /// The machine, or all its GPUs.
    Machine,
    /// GPUs, by their numbers in this run.
    Gpus {
        /// The numbers; at least one.
        gpus: Vec<GpuId>,
    },
    /// Ordered pairs of GPUs.
    Pairs {
        /// The pairs; at least one.
        pairs: Vec<Pair>,
    },
    /// A PCI function: a GPU, a port or another device.
    Function {
        /// Its address.
        address: Bdf,
    },
    /// A PCI device by an address without a function, as the NVIDIA driver logs GPUs.
    Device {
        /// The address of its function 0.
        address: Bdf,
    },
    /// A rank of NCCL's processes.
    Rank {
        /// Its number.
        rank: Rank,
    },
    /// An operation of NCCL, or NCCL with certain settings.
    Operation {
        /// Its name.
        name: String,
    },
    /// A port of a network card.
    Port {
        /// Its name, with the node's where there are several nodes.
        name: String,
    },
    /// A node, or several nodes, of those that are tested together.
    Node {
        /// Their names.
        name: String,
    },
    /// All nodes that are tested together.
    Nodes,
    /// A test.
    Test {
        /// Its id.
        id: String,
    },
    /// A word of the kernel's command line, or its key.
    KernelWord {
        /// The word.
        word: String,
    },
    /// A file, or a device node.
    File {
        /// Its path or name.
        name: String,
    },
    /// A part of the driver or of the image, or a parameter of a module.
    Part {
        /// Its name.
        name: String,
    },
    /// Something that an earlier report or process 1 names.
    Other {
        /// Its text there.
        name: String,
    },
    /// A kind of a later version.
    #[serde(other)]
    Unknown,
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "names come as texts, numbers and enums"
)]
impl Subject {
    /// These GPUs; the machine if there is none.
    pub fn gpus(gpus: impl IntoIterator<Item = GpuId>) -> Self {
        let gpus: Vec<_> = gpus.into_iter().collect();
        if gpus.is_empty() {
            Self::Machine
        } else {
            Self::Gpus { gpus }
        }
    }

    /// These pairs; the machine if there is none.
    pub fn pairs(pairs: impl IntoIterator<Item = Pair>) -> Self {
        let pairs: Vec<_> = pairs.into_iter().collect();
        if pairs.is_empty() {
            Self::Machine
        } else {
            Self::Pairs { pairs }
        }
    }

    /// An operation of NCCL.
    pub fn operation(name: impl ToString) -> Self {
        Self::Operation {
            name: name.to_string(),
        }
    }

    /// A port of a network card.
    pub fn port(name: impl ToString) -> Self {
        Self::Port {
            name: name.to_string(),
        }
    }

    /// A node.
    pub fn node(name: impl ToString) -> Self {
        Self::Node {
            name: name.to_string(),
        }
    }

    /// A test.
    pub fn test(id: impl ToString) -> Self {
        Self::Test { id: id.to_string() }
    }

    /// A word of the kernel's command line.
    pub fn kernel_word(word: impl ToString) -> Self {
        Self::KernelWord {
            word: word.to_string(),
        }
    }

    /// A file.
    pub fn file(name: impl ToString) -> Self {
        Self::File {
            name: name.to_string(),
        }
    }

    /// A part of the driver or of the image.
    pub fn part(name: impl ToString) -> Self {
        Self::Part {
            name: name.to_string(),
        }
    }

    /// The GPUs that it names by number.
    #[must_use]
    pub fn numbers(&self) -> BTreeSet<GpuId> {
        match self {
            Self::Gpus { gpus } => gpus.iter().copied().collect(),
            Self::Pairs { pairs } => pairs.iter().flat_map(|pair| [pair.from, pair.to]).collect(),
            _ => BTreeSet::new(),
        }
    }

    /// The pairs that it names.
    #[must_use]
    pub fn named_pairs(&self) -> &[Pair] {
        if let Self::Pairs { pairs } = self {
            pairs
        } else {
            &[]
        }
    }

    /// The PCI address that it names.
    #[must_use]
    pub const fn address(&self) -> Option<Bdf> {
        match self {
            Self::Function { address } | Self::Device { address } => Some(*address),
            _ => None,
        }
    }

    /// The same device without its function, so that lines with and without one name the same subject.
    #[must_use]
    pub fn without_function(&self) -> Self {
        self.address().map_or_else(
            || self.clone(),
            |at| Self::Device {
                address: Bdf { function: 0, ..at },
            },
        )
    }

    /// Whether it is a function of the device at `address`.
    #[must_use]
    pub fn is_at(&self, address: Bdf) -> bool {
        let device = |at: Bdf| Bdf { function: 0, ..at };
        self.address()
            .is_some_and(|own| device(own) == device(address))
    }
}

/// `machine`, `GPU 1`, `GPU 0 -> 1`, `12 pairs (GPU 0 -> 1, ..)`, `0000:41:00.0`, or a name.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("machine"),
            Self::Gpus { gpus } => {
                let names: Vec<_> = gpus.iter().map(|gpu| format!("GPU {gpu}")).collect();
                f.write_str(&names.join(", "))
            }
            Self::Pairs { pairs } => {
                let names: Vec<_> = pairs.iter().take(NAMED).map(ToString::to_string).collect();
                match pairs.len() {
                    all if all <= NAMED => f.write_str(&names.join(", ")),
                    all => write!(f, "{all} pairs ({}, ..)", names.join(", ")),
                }
            }
            Self::Function { address } => write!(f, "{address}"),
            Self::Device {
                address:
                    Bdf {
                        domain,
                        bus,
                        device,
                        ..
                    },
            } => {
                write!(f, "{domain:04x}:{bus:02x}:{device:02x}")
            }
            Self::Rank { rank } => write!(f, "rank {rank}"),
            Self::Nodes => f.write_str("nodes"),
            Self::Unknown => f.write_str("unknown"),
            Self::Operation { name }
            | Self::Port { name }
            | Self::Node { name }
            | Self::File { name }
            | Self::Part { name }
            | Self::Other { name } => f.write_str(name),
            Self::Test { id } => f.write_str(id),
            Self::KernelWord { word } => f.write_str(word),
        }
    }
}

impl From<Bdf> for Subject {
    fn from(address: Bdf) -> Self {
        Self::Function { address }
    }
}

impl From<GpuId> for Subject {
    fn from(gpu: GpuId) -> Self {
        Self::Gpus { gpus: vec![gpu] }
    }
}

impl From<&GpuId> for Subject {
    fn from(gpu: &GpuId) -> Self {
        Self::from(*gpu)
    }
}

impl From<Pair> for Subject {
    fn from(pair: Pair) -> Self {
        Self::Pairs { pairs: vec![pair] }
    }
}

impl From<&Bdf> for Subject {
    fn from(address: &Bdf) -> Self {
        Self::from(*address)
    }
}

impl From<&Pair> for Subject {
    fn from(pair: &Pair) -> Self {
        Self::from(*pair)
    }
}

impl From<&Self> for Subject {
    fn from(subject: &Self) -> Self {
        subject.clone()
    }
}

impl From<Rank> for Subject {
    fn from(rank: Rank) -> Self {
        Self::Rank { rank }
    }
}

/// The subject of an earlier report, which has only the text; also that of process 1's account. A text that is cut, as
/// `12 pairs (GPU 0 -> 1, ..)`, names only some of its pairs, so it is about all.
impl FromStr for Subject {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = |parse: fn(&str) -> Option<Self>| {
            text.split(", ").map(parse).collect::<Option<Vec<_>>>()
        };
        let gpu = |part: &str| {
            part.strip_prefix("GPU ")?
                .parse()
                .ok()
                .map(GpuId::new)
                .map(Self::from)
        };
        let pair = |part: &str| {
            let (from, to) = part.strip_prefix("GPU ")?.split_once(" -> ")?;
            Some(Self::from(Pair::of(from.parse().ok()?, to.parse().ok()?)))
        };
        if text == "machine" || text.ends_with(", ..)") {
            return Ok(Self::Machine);
        }
        if text == "nodes" {
            return Ok(Self::Nodes);
        }
        if let Ok(address) = text.parse::<Bdf>() {
            return Ok(Self::Function { address });
        }
        if let Ok(address) = format!("{text}.0").parse::<Bdf>() {
            return Ok(Self::Device { address });
        }
        if let Some(rank) = text
            .strip_prefix("rank ")
            .and_then(|number| number.parse().ok())
        {
            return Ok(Self::from(Rank::new(rank)));
        }
        if let Some(gpus) = all(gpu) {
            return Ok(Self::gpus(gpus.iter().flat_map(Self::numbers)));
        }
        if let Some(pairs) = all(pair) {
            return Ok(Self::pairs(
                pairs.iter().flat_map(|one| one.named_pairs().to_vec()),
            ));
        }
        Ok(Self::Other {
            name: text.to_owned(),
        })
    }
}

/// Tests name a subject by its text.
#[cfg(any(test, feature = "samples"))]
impl<T: AsRef<str> + ?Sized> From<&T> for Subject {
    fn from(text: &T) -> Self {
        text.as_ref().parse().unwrap()
    }
}

/// Tests compare the text.
#[cfg(any(test, feature = "samples"))]
impl PartialEq<&str> for Subject {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

#[cfg(any(test, feature = "samples"))]
impl PartialEq<str> for Subject {
    fn eq(&self, text: &str) -> bool {
        let own = self.to_string();
        own == text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_of_earlier_reports_is_read_as_the_subject_that_writes_it() {
        let pairs = Subject::pairs([Pair::of(0, 1), Pair::of(1, 0)]);
        for (text, subject) in [
            ("machine", Subject::Machine),
            ("nodes", Subject::Nodes),
            ("GPU 3", GpuId::new(3).into()),
            ("GPU 0, GPU 1", Subject::gpus(GpuId::all(2))),
            ("GPU 0 -> 1", Pair::of(0, 1).into()),
            ("GPU 0 -> 1, GPU 1 -> 0", pairs),
            (
                "0000:41:00.0",
                "0000:41:00.0".parse::<Bdf>().unwrap().into(),
            ),
            (
                "0000:41:00",
                Subject::Device {
                    address: "0000:41:00.0".parse().unwrap(),
                },
            ),
            ("rank 2", Rank::new(2).into()),
            (
                "all_reduce",
                Subject::Other {
                    name: "all_reduce".into(),
                },
            ),
        ] {
            assert_eq!(text.parse::<Subject>().unwrap(), subject);
            assert_eq!(subject.to_string(), text);
        }
    }

    #[test]
    fn many_pairs_are_counted_and_some_are_named() {
        let all = Subject::pairs(Pair::all(3).filter(|pair| pair.from != pair.to));
        let text = "6 pairs (GPU 0 -> 1, GPU 0 -> 2, GPU 1 -> 0, GPU 1 -> 2, ..)";
        assert_eq!(all.to_string(), text);
        assert_eq!(
            text.parse::<Subject>().unwrap(),
            Subject::Machine,
            "the text does not name all of them"
        );
        assert_eq!(all.numbers().len(), 3);
    }

    #[test]
    fn a_function_is_at_the_address_of_its_device() {
        let at = |text: &str| text.parse::<Bdf>().unwrap();
        let audio = Subject::from(at("0000:41:00.1"));
        assert!(audio.is_at(at("0000:41:00.0")) && !audio.is_at(at("0000:42:00.0")));
        assert_eq!(audio.without_function(), "0000:41:00");
        assert_eq!(Subject::Machine.without_function(), Subject::Machine);
    }
}
