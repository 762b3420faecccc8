//! What firstlight reaches on the GPUs of this machine, and how that compares with what other
//! programs reached there or on machines of the same kind. Parsing and comparing are pure; running
//! is `run`. The report's format is known by its names alone, as any outside program knows it.

pub mod compare;
pub mod grid;
pub mod nccl;
pub mod ours;
pub mod peers;
pub mod run;
pub mod text;
pub mod words;

pub use compare::{Comparison, compare};
pub use grid::Grid;
pub use ours::Ours;
pub use peers::{Peer, Peers, read as read_peers};
