//! Tests over several machines: how the machines meet (`gather`, `launcher`, `net::meeting`), the tests that run over
//! all of them (`suite`, `rdma`), and which one is at fault (`blame`). Everything about one machine is elsewhere.

pub mod blame;
pub mod card;
pub mod cluster;
pub mod communicators;
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
pub mod watcher;
