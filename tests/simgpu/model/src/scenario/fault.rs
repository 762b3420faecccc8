//! What can be wrong with a simulated machine, and which traffic it affects.

use super::Program;
use super::machine::status;
use serde::Deserialize;

/// One fault. It affects transfers directly from one GPU to another, unless its kind says otherwise, including those that
/// NCCL makes, as writes by kernels. The `nccl-` kinds affect only NCCL's collectives.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What happens.
    pub kind: Kind,
    /// Source and target GPU, in the direction of the data.
    #[serde(default)]
    pub pair: Pair,
    /// Only this engine's work.
    pub engine: Option<Engine>,
    /// Only when the working GPU writes, or reads.
    pub way: Option<Way>,
    /// Only memory allocated in this way.
    pub memory: Option<MemoryKind>,
    /// Only memory of an allocation of less than this many bytes.
    pub allocated_below: Option<u64>,
    /// Only transfers of at least this many bytes.
    #[serde(default)]
    pub from_bytes: u64,
    /// Only memory from this offset on in the physical memory of the GPU that is written or read.
    #[serde(default)]
    pub beyond_mib: u64,
    /// Only transfers of at most this many bytes.
    pub to_bytes: Option<u64>,
    /// Only transfers whose size is not a multiple of this.
    pub no_multiple: Option<u64>,
    /// Only transfers whose source or target address is not a multiple of this.
    pub unaligned: Option<u64>,
    /// Only this byte range (end exclusive) of the memory that is written or read: for `stale`, `zeros` and `ones` the rest
    /// of a transfer is intact, and the other kinds affect transfers that touch the range.
    pub hole: Option<[u64; 2]>,
    /// `flip`: only in data with at least this many equal bytes one after the other, and there.
    pub run: Option<u64>,
    /// Only memory of another process.
    #[serde(default)]
    pub shared: bool,
    /// Only while this many other transfers between GPUs are in progress.
    #[serde(default)]
    pub load: usize,
    /// Only atomic additions.
    #[serde(default)]
    pub atomic: bool,
    /// Only while another transfer of this kind is in progress.
    pub beside: Option<Beside>,
    /// `stray`: at which byte of the memory of GPU `gpu` the first `bytes` bytes (4 if 0) are written as well.
    #[serde(default)]
    pub at: u64,
    /// Only every n-th transfer that would meet it, or with `nccl-wrong` every n-th collective.
    #[serde(default = "one")]
    pub every: u64,
    /// How many in a row are affected, out of `every`.
    #[serde(default = "one")]
    pub burst: u64,
    /// `offset`: how many bytes further the data is written; `partial`: how many bytes arrive at most.
    #[serde(default)]
    pub bytes: u64,
    /// `partial`: what fraction arrives (before `bytes`); `slow`, `collapse`, `switch-collapse`, `narrow`: the factor of the rate; `late`,
    /// `clock`: that of the time; `nvlink-down`: that of the GPU's NVLink bandwidth, by default the fraction of links left.
    pub rate: Option<f64>,
    /// `victim`, `stray`, `missing`, `narrow`, `clock`, `nvlink-down`, `nvlink-error`, `stuck`, `wrong-product`,
    /// `nccl-wrong`, `nccl-beyond`, `nccl-slow`: which GPU. The default victim is the first GPU that does not take part.
    pub gpu: Option<usize>,
    /// `victim`: the data is written there instead of to its target.
    #[serde(default)]
    pub instead: bool,
    /// `refuse`, `error`, `init`: the driver's code; `nvlink-error`: NVML's.
    #[serde(default)]
    pub code: i32,
    /// `capability`: what CUDA reports about the pair.
    pub cuda: Option<bool>,
    /// `capability`: what NVML reports about the pair, e.g. `CNS`.
    pub nvml: Option<String>,
    /// `narrow`: the link's width and generation, as NVML reports them.
    pub width: Option<u32>,
    /// See `width`.
    pub r#gen: Option<u32>,
    /// Faults of NCCL's calls: only this collective.
    pub collective: Option<Program>,
    /// Faults of NCCL's calls: further conditions.
    #[serde(default)]
    pub calls: Calls,
    /// `nccl-slow-start`: how long creating a communicator takes, in seconds.
    #[serde(default)]
    pub seconds: f64,
    /// `collapse`: from how many simultaneous transfers on one GPU; `switch-collapse`: from how many writing GPUs.
    #[serde(default = "three")]
    pub flows: usize,
    /// `nvlink-down`: how many links.
    #[serde(default)]
    pub links: u32,
}

/// Which NCCL calls a fault affects; an omitted condition matches all.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// Only those of at most this many bytes.
    pub to_bytes: Option<u64>,
    /// Only in place, or only out of place.
    pub in_place: Option<bool>,
    /// Only those with an odd number of elements, or an even one. If the call has no type, elements have 4 bytes.
    pub odd: Option<bool>,
    /// Only those that directly follow another on their streams, as timed calls do, or only the others.
    pub timed: Option<bool>,
    /// Only this type, by its number in nccl.h.
    pub data: Option<u32>,
    /// Only this reduction, by its number in nccl.h.
    pub op: Option<u32>,
    /// Only those with this root.
    pub root: Option<usize>,
    /// Only those that are made in this way.
    pub how: Option<How>,
}

/// A way in which calls are made that not every program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// In a group with more calls of the same communicator.
    Grouped,
    /// With memory that is registered.
    Registered,
    /// On a communicator that was split from another.
    Split,
    /// On a communicator that was made after another was aborted.
    Renewed,
    /// On a communicator of several processes.
    Processes,
    /// On a communicator that may use NVLink SHARP.
    Nvls,
    /// Captured in a graph.
    Captured,
}

impl How {
    /// Its bit.
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

fn one() -> u64 {
    1
}

fn three() -> usize {
    3
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Zeros arrive.
    Zeros,
    /// All ones arrive.
    Ones,
    /// Nothing arrives.
    Stale,
    /// A GPU's writes to a peer are visible only to the GPU that wrote them.
    Mirror,
    /// The data is written, or read, `bytes` bytes further.
    Offset,
    /// Only the first part arrives.
    Partial,
    /// One bit arrives wrong.
    Flip,
    /// The data arrives, and something changes on another GPU too.
    Victim,
    /// The data arrives, and its beginning is also written at byte `at` of GPU `gpu`, whatever that memory is used for.
    Stray,
    /// A flag may become visible before the data that was written before it.
    Reorder,
    /// It takes longer.
    Slow,
    /// One GPU's link is narrower than it should be.
    Narrow,
    /// Transfers take longer as soon as several run at the same time.
    Collapse,
    /// It never ends.
    Hang,
    /// Peer access cannot be enabled although it should be possible.
    Refuse,
    /// CUDA or NVML reports something untrue about the pair.
    Capability,
    /// The driver does not show a GPU.
    Missing,
    /// cuInit fails.
    Init,
    /// The transfer fails, and the context with it if `code` is an error that destroys contexts.
    Error,
    /// One element of a collective is wrong, on GPU `gpu` or 0.
    NcclWrong,
    /// A collective writes one element too many, after what GPU `gpu` or 0 receives.
    NcclBeyond,
    /// A collective completes in time but writes nothing.
    NcclSkip,
    /// Creating a communicator takes long.
    NcclSlowStart,
    /// With several RDMA ports, only the first one carries data.
    NcclOneRail,
    /// Ranks that may reach each other directly report that they do, but go through host memory.
    NcclLies,
    /// The same, even where the environment forbids direct access.
    NcclDeaf,
    /// Creating a communicator never returns.
    NcclHangInit,
    /// A collective never ends.
    NcclHang,
    /// A hung communicator cannot be aborted either: the call does not return.
    NcclAbort,
    /// Ranks reach each other through host memory although they could do so directly.
    NcclShm,
    /// As soon as GPU `gpu` takes part, collectives take longer.
    NcclSlow,
    /// There is no transport between ranks without host memory and the network.
    NcclNoTransport,
    /// Small operations take longer: copies (`ce`), loads and flags (`sm`).
    Late,
    /// The clock by which events are timed is wrong, on GPU `gpu` or on all.
    Clock,
    /// The copy engines of a GPU move one transfer between GPUs after the other: its further ones wait.
    OneByOne,
    /// The last `links` NVLinks are down, on GPU `gpu` or on all.
    NvlinkDown,
    /// NVML does not report the state of NVLinks, on GPU `gpu` or on all.
    NvlinkError,
    /// One bit of the memory of GPU `gpu` always reads as one: in the word at byte `at`. Only moving inversions detect it.
    Stuck,
    /// On GPU `gpu` one in `every` products of two numbers is wrong.
    WrongProduct,
    /// GPUs that share an uplink write more slowly as soon as `flows` of them write behind two or more other uplinks; reads do not.
    SwitchCollapse,
    /// The data goes past the NVLinks, which do not count it.
    Detour,
}

/// Source and target GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "PairText")]
pub enum Pair {
    /// Any.
    #[default]
    Any,
    /// From the first to the second.
    Of(usize, usize),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PairText {
    Word(String),
    Two([usize; 2]),
}

impl TryFrom<PairText> for Pair {
    type Error = String;

    fn try_from(text: PairText) -> Result<Self, String> {
        match text {
            PairText::Two([from, to]) => Ok(Self::Of(from, to)),
            PairText::Word(word) if word == "any" => Ok(Self::Any),
            PairText::Word(word) => Err(format!("pair = \"{word}\": give \"any\" or [FROM, TO]")),
        }
    }
}

impl Pair {
    /// Whether it includes data from `from` to `to`.
    #[must_use]
    pub fn has(self, from: usize, to: usize) -> bool {
        self == Self::Any || self == Self::Of(from, to)
    }
}

/// What moves the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// A copy engine.
    Ce,
    /// A kernel.
    Sm,
}

/// What the working GPU does with its peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// It writes.
    Write,
    /// It reads.
    Read,
}

/// Another transfer that is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beside {
    /// Between GPUs, by the other engine.
    Engine,
    /// Between GPUs, in the other way: one that reads beside one that writes.
    Way,
    /// Between a GPU and the host.
    Host,
}

/// How memory was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// By cuMemAlloc.
    Alloc,
    /// By cuMemCreate and cuMemMap.
    Vmm,
}

impl Kind {
    /// Whether it affects only NCCL.
    #[must_use]
    pub fn is_nccl(self) -> bool {
        matches!(
            self,
            Self::NcclWrong
                | Self::NcclBeyond
                | Self::NcclSkip
                | Self::NcclSlowStart
                | Self::NcclOneRail
                | Self::NcclLies
                | Self::NcclDeaf
                | Self::NcclHangInit
                | Self::NcclHang
                | Self::NcclAbort
                | Self::NcclShm
                | Self::NcclSlow
                | Self::NcclNoTransport
        )
    }
}

impl Fault {
    /// Rejects values that make no sense on a machine with `gpus` GPUs.
    pub(super) fn check(&self, gpus: usize) -> Result<(), String> {
        let pair = if let Pair::Of(from, to) = self.pair {
            vec![from, to]
        } else {
            Vec::new()
        };
        if let Some(gpu) = pair.into_iter().chain(self.gpu).find(|g| *g >= gpus) {
            return Err(format!("names GPU {gpu} and there are {gpus}"));
        }
        if let Some(text) = &self.nvml {
            status(text)?;
        }
        let needs = |there: bool, what: &str| {
            if there {
                Ok(())
            } else {
                Err(format!("needs {what}"))
            }
        };
        needs(self.every > 0, "every above 0")?;
        needs(
            self.no_multiple != Some(0) && self.unaligned != Some(0),
            "no_multiple and unaligned above 0",
        )?;
        let counted = !self.kind.is_nccl()
            || matches!(
                self.kind,
                Kind::NcclWrong | Kind::NcclBeyond | Kind::NcclSkip
            );
        needs(
            counted || self.every == 1,
            "no every: of NCCL's faults only nccl-wrong, nccl-beyond and nccl-skip count",
        )?;
        needs(
            (1..=self.every).contains(&self.burst),
            "a burst of 1 to every",
        )?;
        match self.kind {
            Kind::Missing | Kind::Stuck | Kind::WrongProduct => needs(self.gpu.is_some(), "gpu"),
            Kind::Narrow => needs(self.gpu.is_some() && self.rate.is_some(), "gpu and rate"),
            Kind::Slow
            | Kind::Collapse
            | Kind::SwitchCollapse
            | Kind::NcclSlow
            | Kind::Late
            | Kind::Clock => needs(self.rate.is_some_and(|r| r > 0.0), "rate above 0"),
            Kind::NcclSlowStart => needs(self.seconds > 0.0, "seconds"),
            Kind::Partial => needs(self.rate.is_some() || self.bytes > 0, "rate or bytes"),
            Kind::Offset => needs(self.bytes > 0, "bytes"),
            Kind::Stray => needs(self.gpu.is_some(), "gpu"),
            Kind::Refuse | Kind::Init | Kind::Error | Kind::NvlinkError => {
                needs(self.code != 0, "code")
            }
            Kind::NvlinkDown => needs(self.links > 0, "links above 0"),
            Kind::Capability => needs(self.cuda.is_some() || self.nvml.is_some(), "cuda or nvml"),
            _ => Ok(()),
        }
    }
}
