//! The CUDA driver: contexts, memory, streams, kernels. The types are cudarc's bindings; the calls use our
//! own table, because cudarc's calls panic where a library or a symbol is missing and turn an unknown error
//! code into undefined behaviour. This folder and `nccl` contain all of the program's `unsafe`.

mod api;
mod batch;
mod context;
mod device;
mod error;
mod event;
mod graph;
mod kernels;
mod launch;
mod measure;
mod memory;
mod peer;
mod share;
mod stream;
mod stress;
mod tags;
mod tally;
mod values;

pub use batch::{Batch, BatchExpected, Piece, PieceTable, wrong_piece};
pub(super) use context::forget_current;
pub use device::{DirectRdma, Gpu};
pub(super) use device::{count, open, version};
pub use error::{GpuError, cuda_loss, is_cuda_lost};
pub use event::Event;
pub use graph::{
    Books, Captured, Graph, LAUNCHES, Late, RANKS, ROUNDS, Reduced, Reduction, SIGNALS,
};
pub use measure::{Payload, Pingpong, PingpongResult};
pub use memory::Buffer;
pub use memory::pinned::{Latch, Pinned};
pub use memory::span::{Extent, Span};
pub use peer::{P2pAttribute, PeerAccess};
pub use share::{ExportedBuffer, IpcHandle};
pub use stream::Stream;
pub use stress::{Arithmetic, March, Sums};
pub use tags::{Pages, TAG, TAG_WRITERS, Tags};
pub use tally::{CheckCounts, Tally};
pub use values::{Runs, ValuesExpected};
