//! What does the shipped image do in QEMU? Each module answers one question. The tests need the image and its media,
//! which `./run boots` builds before it runs them; `cargo test --test boots NAME -- --test-threads=5` only runs them.
//! At most two machines work at the same time, or three if processors are idle; four more may wait for a deadline. Tests begin
//! in the order of their names: the longest ones, in `bootup`, must not be the last.

mod bootup;
mod broken;
mod driver;
mod fabric;
mod hand_over;
mod network;
mod nodes;
mod publish;
mod simgpu;
