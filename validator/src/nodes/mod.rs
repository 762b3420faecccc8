//! Several machines: how they meet (`meeting`, `launcher`), the tests that run over all of them (`nccl`), and
//! which of them is at fault (`blame`). Everything about one machine is elsewhere.

pub mod blame;
pub mod launcher;
