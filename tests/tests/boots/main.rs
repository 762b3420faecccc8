//! What does the shipped image do in QEMU? Each module asks one question. Needs image and media (`./run boots` builds
//! them): `cargo test --test boots NAME -- --test-threads=5`. Two machines work at a time, a third where
//! processors are idle, and two wait.

mod broken;
mod driver;
mod fabric;
mod hand_over;
mod network;
mod nodes;
mod publish;
mod simgpu;
mod start;
