//! A simulated `libnvidia-ml.so.1`: what NVIDIA's management library says of the scenario's machine.
//! The scenario is read from `simgpu.toml` beside the library's own file; what this process does on
//! the GPUs is asked of the simulated libcuda, if it is loaded. A panic here ends the process with
//! its message.

#![expect(
    unsafe_code,
    reason = "the interface is one of C: exported names, and pointers that the caller vouches for"
)]

mod device;
mod health;
mod library;
mod link;
mod process;
mod state;
mod stubs;
