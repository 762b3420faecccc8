//! The scenario that lies beside a library's own file: programs under test run without environment,
//! so this is the one way to tell the libraries what to simulate.
#![expect(unsafe_code, reason = "the loader is asked by address")]

use crate::scenario::Scenario;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The scenario's name.
pub const FILE: &str = "simgpu.toml";

/// What the loader knows about an address.
#[repr(C)]
struct Found {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
}

/// The file that the code around this function was loaded from.
fn own_file() -> Option<PathBuf> {
    let null = std::ptr::null_mut();
    let mut found = Found { file: null, base: null.cast(), symbol: null, address: null.cast() };
    // SAFETY: the address is one of this code's own functions, and `found` may be written.
    if unsafe { dladdr(own_file as *const c_void, &raw mut found) } == 0 || found.file.is_null() {
        return None;
    }
    // SAFETY: the loader's text, which lives as long as the library.
    let file = unsafe { CStr::from_ptr(found.file) };
    Some(OsStr::from_bytes(file.to_bytes()).into())
}

/// The folder of this library.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    own_file()?.parent().map(PathBuf::from)
}

/// Reads it.
///
/// # Errors
/// What is wrong with it, with its path.
pub fn scenario() -> Result<Scenario, String> {
    let file = own_file().ok_or("the loader does not say where this library is")?;
    let path = file.with_file_name(FILE);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Scenario::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
}
