//! GPUs behind types of our own: the only folder that names CUDA, NCCL and NVML. `cuda` calls the CUDA driver,
//! `nccl` the library of collectives, `nvml` the management library; `clique` opens all GPUs of the machine,
//! `pattern` defines the content of tested memory. `suite` builds tests from this, and `floors` judges the figures.

mod clique;
mod cuda;
mod nccl;
mod nvml;
pub mod pattern;
pub mod poll;

pub use clique::Clique;
pub use cuda::{
    Arithmetic, Batch, BatchExpected, Books, Buffer, Checked, DirectRdma, Event, Exported, Extent, Gpu,
    GpuError, Graph, IpcHandle, LAUNCHES, Latch, Late, March, P2pAttribute, Pages, PeerAccess, Piece,
    Pingpong, Pinned, RANKS, ROUNDS, Reduced, Reduction, Round, Runs, SIGNALS, Span, Stream, Sums, TAG,
    TAG_WRITERS, Table, Tags, Tally, ValuesExpected, is_spoiled, wrong_piece,
};
pub use nccl::{
    Call, Collective, Comm, DataType, Expected, Group, Nccl, RedOp, Shape, UniqueId, Values, log_at_once,
};
pub use nvml::{
    ComputeMode, Counted, Counter, Link, Look, NvLink, NvLinkStates, Nvml, P2pAnswers, Presence, Process,
    Remote, Standing, State, Status, Window, joined,
};
