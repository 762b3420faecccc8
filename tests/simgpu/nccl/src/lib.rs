//! A simulated `libnccl.so.2`: NCCL's names and types in front of the model, whose GPUs and streams the
//! simulated libcuda of the same process holds. What a collective does and takes is the model's; this crate
//! brings ranks together, in one process or several, decides as NCCL does how they reach each other, and says
//! so in NCCL's words. A panic here ends the process with its message.

#![expect(
    unsafe_code,
    reason = "the interface is one of C: exported names, and pointers that the caller vouches for"
)]

mod board;
mod call;
mod comm;
mod driver;
mod dump;
mod environment;
mod group;
mod init;
mod log;
mod stubs;
mod transport;
