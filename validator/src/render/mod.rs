//! Views that need more than a report: the screen of a machine, the tables of `p2p` and `nccl`, and the list of tests. All
//! others are in `report::render`.

pub mod list;
pub mod nccl;
pub mod nvidia_sample;
pub mod screen;
