//! A simulated `libcuda.so.1`: NVIDIA's names and types in front of the model. The model decides what a call does; this
//! crate converts handles and pointers to values and back. The scenario is read from `simgpu.toml` next to the library's
//! own file. A panic here ends the process with its message.

#![expect(
    unsafe_code,
    reason = "the interface is one of C: exported names, and pointers that the caller vouches for"
)]

mod context;
mod device;
mod exports;
mod host;
mod ipc;
mod launch;
mod memory;
mod state;
mod stream;
mod stubs;
mod vmm;
