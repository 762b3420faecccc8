//! Several machines: how they meet (`meeting`, `launcher`), the tests that run over all of them (`nccl`), and
//! which of them is at fault (`blame`). Everything about one machine is elsewhere.

pub mod arm;
pub mod blame;
pub mod card;
pub mod cluster;
pub mod gather;
pub mod interface;
mod judge;
pub mod launcher;
mod measure;
pub mod member;
pub mod order;
mod rails;
pub mod rdma;
pub mod suite;
pub mod verbs;
pub mod watcher;
