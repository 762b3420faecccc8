//! Kernel modules, from /sys/module.

use crate::root::Root;
use std::io::{self, ErrorKind};

/// Linux's own drivers that bind to NVIDIA GPUs: nouveau, the old framebuffer driver, and nouveau's successor
/// in Rust (its core and its display half).
pub const FOREIGN: &[&str] = &["nouveau", "nvidiafb", "nova_core", "nova_drm"];

/// The loaded ones among `names`.
///
/// # Errors
/// If /sys/module cannot be read, because then the loaded modules are unknown.
pub fn loaded<'a>(root: &Root, names: &[&'a str]) -> io::Result<Vec<&'a str>> {
    let there = root.names("sys/module")?;
    Ok(names
        .iter()
        .copied()
        .filter(|n| there.iter().any(|t| t.as_os_str() == *n))
        .collect())
}

/// Version of the loaded NVIDIA driver; `None` when it is not loaded.
///
/// # Errors
/// If it is loaded but its version cannot be read.
pub fn nvidia_version(root: &Root) -> io::Result<Option<String>> {
    absent_is_none(root.text("sys/module/nvidia/version"))
}

/// Maps a missing file to `None`, for files that may be absent.
///
/// # Errors
/// Every other error.
pub fn absent_is_none<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
