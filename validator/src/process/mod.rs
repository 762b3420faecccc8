//! Child processes: they end with their parent, exchange packets with it, and leave nothing behind.

pub(crate) mod lineage;
pub mod partner;
