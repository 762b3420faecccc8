//! What needs root: mounting a disk, and holding a process while it opens a file.

mod disks;
mod workers;
