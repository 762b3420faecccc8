//! GPUs behind types of our own: the only folder that names CUDA, NCCL and NVML. `cuda` calls the CUDA driver,
//! `nccl` the library of collectives, `nvml` the management library; `clique` opens all GPUs of the machine,
//! `pattern` defines the content of tested memory. `suite` builds tests from this, and `floors` judges the figures.

mod clique;
mod cuda;
mod nccl;
mod nvml;
pub mod pattern;
pub mod poll;
pub mod verbs;

pub use clique::Clique;
pub use cuda::{
    Arithmetic, Batch, BatchExpected, Books, Buffer, Captured, CheckCounts, DirectRdma, Event,
    ExportedBuffer, Extent, Gpu, GpuError, Graph, IpcHandle, LAUNCHES, Latch, Late, March,
    P2pAttribute, Pages, Payload, PeerAccess, Piece, PieceTable, Pingpong, PingpongResult, Pinned,
    RANKS, ROUNDS, Reduced, Reduction, Runs, SIGNALS, Span, Stream, Sums, TAG, TAG_WRITERS, Tags,
    Tally, ValuesExpected, cuda_loss, is_cuda_lost, wrong_piece,
};
pub use nccl::{
    Call, Collective, Comm, DataType, ExpectedRun, Group, Nccl, RedOp, Registered, Shape, UniqueId,
    Values, line_buffer_stdout,
};
pub use nvml::{
    Bar1Memory, ComputeMode, Confidential, Counter, CounterValue, FabricHealth, GpuSnapshot,
    GpuStatus, Limit, Link, LinkErrors, NvLink, NvLinkFabric, NvLinkStates, Nvml, NvmlGpus,
    P2pAnswers, PcieCounter, Presence, Process, Registration, Remote, State, Status, Tallies,
    count_nvlinks,
};
