//! Disks: what is on them and which one a place means.

pub mod find;
pub mod image;
pub mod root;
pub mod superblock;
