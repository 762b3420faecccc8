//! GPUs in our own words: the one folder that names CUDA, NCCL and NVML. `cuda` calls the CUDA driver,
//! `nccl` the library of collectives, `nvml` asks the management library, `clique` is all GPUs of the machine
//! together, `pattern` is what their memory is filled with. Which tests are made of this, and what their
//! results mean, is left to `suite` and `floors`.

mod clique;
mod cuda;
mod nccl;
mod nvml;
pub mod pattern;

pub use clique::Clique;
pub use cuda::{
    Batch, BatchExpected, Buffer, Checked, DirectRdma, Event, Exported, Gpu, GpuError, IpcHandle, Latch,
    P2pAttribute, Pages, PeerAccess, Piece, Pingpong, Pinned, Round, Runs, Span, Stream, TAG, TAG_WRITERS,
    Table, Tags, Tally, ValuesExpected, is_spoiled, wrong_piece,
};
pub use nccl::{
    Call, Collective, Comm, DataType, Expected, Group, Nccl, RedOp, Shape, UniqueId, Values, log_at_once,
};
pub use nvml::{
    ComputeMode, Counted, Counter, Link, Look, NvLink, NvLinkStates, Nvml, P2pTold, Presence, Process,
    Remote, Standing, State, Status, joined,
};
