//! The one door to the kernel: every system call that std does not make for us, each as a small
//! function in our own words, and all of init's `unsafe`. What to call when is for others.

pub mod descriptors;
pub mod files;
pub mod machine;
pub mod netlink;
pub mod nodes;
pub mod process;
