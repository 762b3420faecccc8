//! What can be wrong with a simulated machine, and which traffic meets it.

use super::Program;
use super::machine::status;
use serde::Deserialize;

/// One fault. It concerns what goes directly from one GPU to another, unless its kind says otherwise: also what
/// NCCL moves that way, by kernels that write. Those of NCCL concern its collectives alone.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What happens.
    pub kind: Kind,
    /// From which GPU to which, in the direction of the data.
    #[serde(default)]
    pub pair: Pair,
    /// Only this engine's work.
    pub engine: Option<Engine>,
    /// Only when the GPU that works writes, or reads.
    pub way: Option<Way>,
    /// Only memory made in this way.
    pub memory: Option<MemoryKind>,
    /// Only transfers of this many bytes and more.
    #[serde(default)]
    pub from_bytes: u64,
    /// Only what lies this far up in the memory of the GPU that is written or read.
    #[serde(default)]
    pub beyond_mib: u64,
    /// Only transfers of this many bytes and less.
    pub to_bytes: Option<u64>,
    /// Only transfers whose size is no multiple of this.
    pub no_multiple: Option<u64>,
    /// Only transfers whose source or target does not lie at a multiple of this.
    pub unaligned: Option<u64>,
    /// Only the bytes from the first to before the second of the memory that is written or read: the rest of a
    /// transfer is well. For `stale`, `zeros` and `ones`; of the others, transfers that touch one of these bytes.
    pub hole: Option<[u64; 2]>,
    /// Only memory of another process.
    #[serde(default)]
    pub shared: bool,
    /// Only while so many other transfers between GPUs are under way.
    #[serde(default)]
    pub load: usize,
    /// `stray`: at which byte of the memory of GPU `gpu` its first `bytes` bytes, 4 if that is 0, land too.
    #[serde(default)]
    pub at: u64,
    /// Only each so-manieth transfer that would meet it, or with `nccl-wrong` each so-manieth collective.
    #[serde(default = "one")]
    pub every: u64,
    /// So many one after the other, of those `every`.
    #[serde(default = "one")]
    pub burst: u64,
    /// `offset`: how many bytes further it lands; `partial`: how many bytes arrive at most.
    #[serde(default)]
    pub bytes: u64,
    /// `partial`: what part arrives (before `bytes`); `slow`, `collapse`, `narrow`: the rate's factor;
    /// `late`, `clock`: that of the time; `nvlink-down`: of what the GPU's links carry, else by their number.
    pub rate: Option<f64>,
    /// `victim`, `missing`, `narrow`, `clock`, `nvlink-down`, `nvlink-error`, `nccl-wrong`, `nccl-beyond`, `nccl-slow`: which GPU. A victim is the first that takes no part by default.
    pub gpu: Option<usize>,
    /// `victim`: the data lands there instead of where it should.
    #[serde(default)]
    pub instead: bool,
    /// `refuse`, `error`, `init`: the driver's code; `nvlink-error`: NVML's.
    #[serde(default)]
    pub code: i32,
    /// `capability`: what CUDA says about the pair.
    pub cuda: Option<bool>,
    /// `capability`: what NVML says about the pair, e.g. `CNS`.
    pub nvml: Option<String>,
    /// `narrow`: the link's width and generation, as NVML tells them.
    pub width: Option<u32>,
    /// See `width`.
    pub r#gen: Option<u32>,
    /// Faults of NCCL's calls: only this collective.
    pub collective: Option<Program>,
    /// Faults of NCCL's calls: which of them beside.
    #[serde(default)]
    pub calls: Calls,
    /// `nccl-slow-start`: how long a communicator takes, seconds.
    #[serde(default)]
    pub seconds: f64,
    /// `collapse`: from how many transfers at a time on one GPU.
    #[serde(default = "three")]
    pub flows: usize,
    /// `nvlink-down`: how many links.
    #[serde(default)]
    pub links: u32,
}

/// Which calls of NCCL a fault concerns; what is not said concerns all.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// Only those of at most so many bytes.
    pub to_bytes: Option<u64>,
    /// Only in place, or only out of place.
    pub in_place: Option<bool>,
    /// Only those of an odd number of elements, or of an even one. Where the call has no type, elements have 4 bytes.
    pub odd: Option<bool>,
    /// Only those that directly follow another on their streams, or only others: such are timed.
    pub timed: Option<bool>,
    /// Only this type, by its number in nccl.h.
    pub data: Option<u32>,
    /// Only this reduction, by its number there.
    pub op: Option<u32>,
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
    /// What a GPU writes to a peer, only itself can read there.
    Mirror,
    /// It lands, or is read, `bytes` further.
    Offset,
    /// Only the first part arrives.
    Partial,
    /// One bit arrives wrong.
    Flip,
    /// It arrives, and on another GPU something changes too.
    Victim,
    /// It arrives, and the beginning of it lands at byte `at` of GPU `gpu` too, whatever lies there.
    Stray,
    /// A flag may be seen before the data that was written before it.
    Reorder,
    /// It takes longer.
    Slow,
    /// One GPU's link is narrower than it should be.
    Narrow,
    /// It takes longer as soon as several transfers meet.
    Collapse,
    /// It never ends.
    Hang,
    /// Peer access cannot be enabled, although it should.
    Refuse,
    /// CUDA or NVML says something else about the pair than what is true.
    Capability,
    /// The driver does not show a GPU.
    Missing,
    /// cuInit fails.
    Init,
    /// It fails, and the context with it if `code` is one that does that.
    Error,
    /// Of a collective one element comes out wrong, on GPU `gpu` or 0.
    NcclWrong,
    /// A collective writes one element more than it should, behind what GPU `gpu` or 0 receives.
    NcclBeyond,
    /// A collective ends in time and leaves nothing.
    NcclSkip,
    /// A communicator takes long to come to be.
    NcclSlowStart,
    /// Of several RDMA ports only the first carries data.
    NcclOneRail,
    /// Ranks that may reach each other directly say that they do, and go through the host's memory.
    NcclLies,
    /// The same, also where the environment forbids that they reach each other.
    NcclDeaf,
    /// A communicator never comes to be.
    NcclHangInit,
    /// A collective never ends.
    NcclHang,
    /// A communicator that is hung cannot be aborted either: the call does not come back.
    NcclAbort,
    /// Ranks reach each other through the host's memory although they could do so directly.
    NcclShm,
    /// As soon as GPU `gpu` takes part, collectives take longer.
    NcclSlow,
    /// Without the host's memory and the network there is no way between ranks.
    NcclNoTransport,
    /// What is small takes longer: copies (`ce`), loads and flags (`sm`).
    Late,
    /// A GPU's clock, by which events are timed, goes wrong: of GPU `gpu`, or of all.
    Clock,
    /// The last `links` NVLinks are down, of GPU `gpu`, or of all.
    NvlinkDown,
    /// NVML does not tell how NVLinks are, of GPU `gpu`, or of all.
    NvlinkError,
    /// One bit of the memory of GPU `gpu` always reads as one: in the word at byte `at`. Only moving inversions see it.
    Stuck,
    /// On GPU `gpu` one product of two numbers in `every` comes out wrong.
    WrongProduct,
}

/// From which GPU to which.
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
    /// Whether data from `from` to `to` is meant.
    #[must_use]
    pub fn has(self, from: usize, to: usize) -> bool {
        self == Self::Any || self == Self::Of(from, to)
    }
}

/// Who moves the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// A copy engine.
    Ce,
    /// A kernel.
    Sm,
}

/// What the GPU that works does with its peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// It writes.
    Write,
    /// It reads.
    Read,
}

/// How memory was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// By cuMemAlloc.
    Alloc,
    /// By cuMemCreate and cuMemMap.
    Vmm,
}

impl Kind {
    /// Whether it is about NCCL alone.
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
    /// Refuses what cannot be meant on a machine with `gpus` GPUs.
    pub(super) fn check(&self, gpus: usize) -> Result<(), String> {
        let pair = if let Pair::Of(from, to) = self.pair { vec![from, to] } else { Vec::new() };
        if let Some(gpu) = pair.into_iter().chain(self.gpu).find(|g| *g >= gpus) {
            return Err(format!("names GPU {gpu} and there are {gpus}"));
        }
        if let Some(text) = &self.nvml {
            status(text)?;
        }
        let needs = |there: bool, what: &str| if there { Ok(()) } else { Err(format!("needs {what}")) };
        needs(self.every > 0, "every above 0")?;
        needs(self.no_multiple != Some(0) && self.unaligned != Some(0), "no_multiple and unaligned above 0")?;
        let counted =
            !self.kind.is_nccl() || matches!(self.kind, Kind::NcclWrong | Kind::NcclBeyond | Kind::NcclSkip);
        needs(
            counted || self.every == 1,
            "no every: of NCCL's faults only nccl-wrong, nccl-beyond and nccl-skip count",
        )?;
        needs((1..=self.every).contains(&self.burst), "a burst of 1 to every")?;
        match self.kind {
            Kind::Missing | Kind::Stuck | Kind::WrongProduct => needs(self.gpu.is_some(), "gpu"),
            Kind::Narrow => needs(self.gpu.is_some() && self.rate.is_some(), "gpu and rate"),
            Kind::Slow | Kind::Collapse | Kind::NcclSlow | Kind::Late | Kind::Clock => {
                needs(self.rate.is_some_and(|r| r > 0.0), "rate above 0")
            }
            Kind::NcclSlowStart => needs(self.seconds > 0.0, "seconds"),
            Kind::Partial => needs(self.rate.is_some() || self.bytes > 0, "rate or bytes"),
            Kind::Offset => needs(self.bytes > 0, "bytes"),
            Kind::Stray => needs(self.gpu.is_some(), "gpu"),
            Kind::Refuse | Kind::Init | Kind::Error | Kind::NvlinkError => needs(self.code != 0, "code"),
            Kind::NvlinkDown => needs(self.links > 0, "links above 0"),
            Kind::Capability => needs(self.cuda.is_some() || self.nvml.is_some(), "cuda or nvml"),
            _ => Ok(()),
        }
    }
}
