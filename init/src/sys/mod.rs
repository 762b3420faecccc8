//! The only interface to the kernel: every system call that std does not offer, each as a small function, and
//! all of init's `unsafe`. Callers decide when to use which.

pub mod cgroup;
pub mod descriptors;
pub mod devices;
pub mod files;
pub mod kernel;

pub mod mount;
pub mod netlink;
pub mod packet;
pub mod process;
pub mod running;
pub mod terminal;
pub mod watchdog;
