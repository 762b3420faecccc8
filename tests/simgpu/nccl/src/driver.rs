//! The simulated libcuda of this process, and the machine that both libraries simulate.

use crate::log::warn;
use crate::log::{Code, Result};
use libloading::os::unix::{Library, RTLD_LAZY, Symbol};
use simgpu_model::collective::Call;
use simgpu_model::{Scenario, library_folder};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// glibc's flag to open only a library that is already loaded.
const RTLD_NOLOAD: i32 = 4;

/// Receives bytes.
pub(crate) type Sink = unsafe extern "C" fn(to: *mut c_void, bytes: *const u8, length: usize);

/// The connection to the ranks of other processes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankFunctions {
    pub(crate) context: *mut c_void,
    pub(crate) send_contribution: unsafe extern "C" fn(*mut c_void, usize, u64, *const u8, usize),
    pub(crate) contributions: unsafe extern "C" fn(*mut c_void, u64, Sink, *mut c_void) -> bool,
    pub(crate) wait_for_message: unsafe extern "C" fn(*mut c_void) -> bool,
    pub(crate) close: unsafe extern "C" fn(*mut c_void),
}

/// The functions of the simulated libcuda.
pub(crate) struct Driver {
    gpu: Symbol<extern "C" fn(c_int) -> i64>,
    join: Symbol<unsafe extern "C" fn(u64, usize, usize, *const RankFunctions) -> c_int>,
    leave: Symbol<extern "C" fn(u64, usize) -> c_int>,
    collective: Symbol<unsafe extern "C" fn(usize, usize, *const u8, usize) -> c_int>,
    /// The simulated scenario.
    pub(crate) scenario: Scenario,
}

/// The driver of this process.
pub(crate) fn driver() -> Result<&'static Driver> {
    static FOUND: OnceLock<core::result::Result<Driver, String>> = OnceLock::new();
    FOUND.get_or_init(load).as_ref().map_err(|why| {
        warn(0, "misc/cudawrap.cc:163", why);
        Code::CUDA
    })
}

fn load() -> core::result::Result<Driver, String> {
    let scenario = library_folder::scenario()?;
    // SAFETY: nothing is loaded, so no initialiser runs.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_LAZY | RTLD_NOLOAD) };
    let library = library.map_err(|e| format!("Failed to find CUDA library libcuda.so.1: {e}"))?;
    // SAFETY: the simulated libcuda's functions have these types; NVIDIA's library has no functions of these names.
    let found = unsafe {
        (
            library.get(b"simgpu_gpu\0"),
            library.get(b"simgpu_join\0"),
            library.get(b"simgpu_leave\0"),
            library.get(b"simgpu_collective\0"),
        )
    };
    let (Ok(gpu), Ok(join), Ok(leave), Ok(collective)) = found else {
        return Err("the libcuda of this process is not the simulated one".to_owned());
    };
    Ok(Driver {
        gpu,
        join,
        leave,
        collective,
        scenario,
    })
}

impl Driver {
    /// The GPU of an ordinal, or of the current context if there is none.
    pub(crate) fn gpu(&self, ordinal: Option<c_int>) -> Result<usize> {
        usize::try_from((self.gpu)(ordinal.unwrap_or(-1))).map_err(|_| Code::CUDA)
    }

    /// The ordinal of a GPU.
    pub(crate) fn ordinal(&self, gpu: usize) -> usize {
        self.scenario
            .shown()
            .iter()
            .position(|g| *g == gpu)
            .unwrap_or(gpu)
    }

    pub(crate) fn join(
        &self,
        id: u64,
        ranks: usize,
        rank: usize,
        remote_functions: Option<&RankFunctions>,
    ) -> Result<()> {
        let remote_functions = remote_functions.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: null, or functions that the callee copies.
        cuda(unsafe { (self.join)(id, ranks, rank, remote_functions) })
    }

    pub(crate) fn leave(&self, id: u64, rank: usize) {
        (self.leave)(id, rank);
    }

    pub(crate) fn push(&self, gpu: usize, stream: usize, call: &Call) -> Result<()> {
        let bytes = call.encode();
        // SAFETY: the pointer and length are those of a slice.
        cuda(unsafe { (self.collective)(gpu, stream, bytes.as_ptr(), bytes.len()) })
    }
}

fn cuda(status: c_int) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    let text = simgpu_model::Status(status)
        .text()
        .unwrap_or("unknown error")
        .trim_end_matches('\0');
    warn(
        0,
        "enqueue.cc:1702",
        &format!("Cuda failure {status} '{text}'"),
    );
    Err(Code::CUDA)
}
