//! Kernel modules, as /sys/module shows them.

use crate::machine::root::Root;
use std::io::{self, ErrorKind};

/// Drivers of the kernel's own that take NVIDIA GPUs: nouveau, the old framebuffer driver, and
/// nouveau's successor in Rust (its core and its display half).
pub const FOREIGN: &[&str] = &["nouveau", "nvidiafb", "nova_core", "nova_drm"];

/// Those of `names` that are loaded.
///
/// # Errors
/// A /sys/module that cannot be read: then it is unknown what is loaded.
pub fn loaded<'a>(root: &Root, names: &[&'a str]) -> io::Result<Vec<&'a str>> {
    let there = root.names("sys/module")?;
    Ok(names.iter().copied().filter(|n| there.iter().any(|t| t.as_os_str() == *n)).collect())
}

/// Version of the loaded NVIDIA driver; `None` when it is not loaded.
///
/// # Errors
/// Loaded, but its version cannot be read.
pub fn nvidia_version(root: &Root) -> io::Result<Option<String>> {
    absent_is_none(root.text("sys/module/nvidia/version"))
}

/// A file that is not there, as `None`: for what may rightly be absent.
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
