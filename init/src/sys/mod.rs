//! The one door to the kernel: every system call that std does not make for us, each as a small
//! function in our own words, and all of init's `unsafe`. What to call when is for others.

pub mod clock;
pub mod descriptors;
pub mod device_nodes;
pub mod files;
pub mod kernel;
pub mod loop_device;
pub mod mount;
pub mod netlink;
pub mod process;
pub mod terminal;
