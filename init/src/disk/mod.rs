//! Disks: what is on them and which one a place names.

pub mod find;
pub mod image_file;
pub mod root;
pub mod superblock;
