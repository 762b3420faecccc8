//! Disks: what is on them and which one a place names.

pub mod eligibility;
pub mod find;
pub mod gpt;
pub mod root;
pub mod superblock;
