//! The folder that contains a simulated library, and the scenario file in it. The programs under test run without
//! environment variables, so this file is the only input that the libraries have.
#![expect(unsafe_code, reason = "the loader is queried by address")]

use crate::scenario::Scenario;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// The scenario's file name.
pub const FILE: &str = "simgpu.toml";

/// The most processes that have a place.
const MOST_PLACES: usize = 256;

/// What the dynamic loader reports about an address (`Dl_info`).
#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// The file that this code was loaded from.
fn own_file() -> Option<PathBuf> {
    let null = std::ptr::null_mut();
    let mut info = DlInfo {
        file: null,
        base: null.cast(),
        symbol: null,
        address: null.cast(),
    };
    // SAFETY: the address is one of this code's own functions, and `info` is writable.
    if unsafe { dladdr(own_file as *const c_void, &raw mut info) } == 0 || info.file.is_null() {
        return None;
    }
    // SAFETY: the string belongs to the loader and lives as long as the library.
    let file = unsafe { CStr::from_ptr(info.file) };
    Some(OsStr::from_bytes(file.to_bytes()).into())
}

/// The folder of this library.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    own_file()?.parent().map(PathBuf::from)
}

/// A file of this process next to the library, which exists once something was written. A program without a folder, as a
/// unit test, has none.
#[derive(Debug, Default)]
pub struct ProcessFile(Option<File>);

impl ProcessFile {
    /// Writes its whole content, which never becomes shorter. Its name begins with `prefix`.
    pub fn write(&mut self, prefix: &str, bytes: &[u8]) {
        let file = self.0.take().or_else(|| new_file(prefix));
        self.0 = file.filter(|file| file.write_all_at(bytes, 0).is_ok());
    }
}

/// A process may get the number of an earlier one, so the time is in the name too.
fn new_file(prefix: &str) -> Option<File> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()?
        .as_nanos();
    File::create(folder()?.join(format!("{prefix}{}.{now}", std::process::id()))).ok()
}

/// This process's place among all that ask under that name, from 0 on: the first file of that name and a number that does
/// not exist yet. After the last possible place if the folder cannot be written.
#[must_use]
pub fn place(name: &str) -> usize {
    let Some(folder) = folder() else {
        return usize::MAX;
    };
    let free = |n: &usize| File::create_new(folder.join(format!("{name}.{n}"))).is_ok();
    (0..MOST_PLACES).find(free).unwrap_or(usize::MAX)
}

/// Reads and parses the scenario file.
///
/// # Errors
/// What is wrong with the file, prefixed with its path.
pub fn scenario() -> Result<Scenario, String> {
    let file = own_file().ok_or("the loader does not say where this library is")?;
    let path = file.with_file_name(FILE);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Scenario::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Adds to a counter of port 1, the only port of an RDMA device, if the simulated machine (the folder `root` next to the
/// libraries' folder) has that counter. `counter` is relative to the port's folder. Several processes of a node may count
/// at the same time.
pub fn count(device: &str, counter: &str, more: u64) {
    let Some(folder) = folder() else { return };
    let port = folder
        .join("../root/sys/class/infiniband")
        .join(device)
        .join("ports/1");
    let Ok(mut file) = File::options()
        .read(true)
        .write(true)
        .open(port.join(counter))
    else {
        return;
    };
    let mut add = || -> io::Result<()> {
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let count = text
            .trim()
            .parse::<u64>()
            .unwrap_or_default()
            .wrapping_add(more);
        file.rewind()?;
        // The text never becomes shorter, so nothing has to be truncated.
        writeln!(file, "{count}")
    };
    if add().is_err() {
        std::process::abort();
    }
}

/// Counts bytes that an RDMA device sends or receives, as InfiniBand does: in 4-byte words.
pub fn count_data(device: &str, sent: bool, bytes: u64) {
    let counter = if sent {
        "counters/port_xmit_data"
    } else {
        "counters/port_rcv_data"
    };
    count(device, counter, bytes.div_ceil(4));
}
