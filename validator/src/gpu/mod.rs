//! GPUs in our own words: the one folder that names CUDA and NVML. `cuda` calls the CUDA driver,
//! `nvml` asks the management library, `clique` is all GPUs of the machine together. Which tests
//! are made of this, and what their results mean, is left to `suite` and `judge`.

mod clique;
mod cuda;
mod nvml;

pub use clique::Clique;
pub use cuda::{
    Buffer, Checked, Event, Exported, Gpu, GpuError, IpcHandle, Latch, P2pAttribute, PeerAccess, Pingpong,
    Pinned, Round, Span, Stream, Tally, is_spoiled,
};
pub use nvml::{Link, NvLink, Nvml, P2pTold, Process, Remote, State, Status};
