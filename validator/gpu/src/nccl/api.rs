//! NCCL's functions, looked up by name once. Results are plain numbers here: a newer NCCL may return codes
//! that our bindings do not name.
#![expect(
    unsafe_code,
    reason = "functions of a shared library are found by name and called as its header declares them"
)]

use crate::Collective;
use crate::cuda::GpuError;
use cudarc::driver::sys::CUstream;
use cudarc::nccl::sys;
use libloading::Library;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::IoSliceMut;
use std::path::Path;
use std::sync::OnceLock;

/// The loader's name of the library; the name without a number exists only on development systems.
const LIBRARY: &str = "libnccl.so.2";

/// The size of NCCL's buffer for its last error (`ncclLastError` in its `src/debug.cc`), bytes.
const LAST_ERROR: usize = 1024;
/// The smallest page size, bytes.
const PAGE: usize = 4096;
/// Attempts to copy that buffer while NCCL is not writing to it.
const COPIES: usize = 4;

type Bytes = *const c_void;
type BytesMut = *mut c_void;

macro_rules! functions {
    (
        needed { $($name:ident = $symbol:literal ($($argument:ty),*) -> $result:ty;)* }
        newer { $($newer:ident = $newer_symbol:literal ($($newer_argument:ty),*) -> $newer_result:ty;)* }
    ) => {
        /// The functions that firstlight calls, as `nccl.h` declares them; its enums are ints there.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            $(
                /// `None`: this NCCL is too old to have it.
                pub(super) $newer: Option<unsafe extern "C" fn($($newer_argument),*) -> $newer_result>,
            )*
        }

        impl Api {
            fn find(library: &'static Library) -> Result<Self, GpuError> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the symbol's type is the header's declaration, the same in every 2.x.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> $result>($symbol) };
                        *found.map_err(|_| GpuError::symbol(LIBRARY, $symbol))?
                    },)*
                    $($newer: {
                        // SAFETY: as above.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($newer_argument),*) -> $newer_result>($newer_symbol) };
                        found.ok().map(|found| *found)
                    },)*
                })
            }
        }
    };
}

functions! {
    needed {
        version = "ncclGetVersion" (*mut c_int) -> c_int;
        unique_id = "ncclGetUniqueId" (*mut sys::ncclUniqueId) -> c_int;
        init_all = "ncclCommInitAll" (*mut sys::ncclComm_t, c_int, *const c_int) -> c_int;
        init_rank = "ncclCommInitRank" (*mut sys::ncclComm_t, c_int, sys::ncclUniqueId, c_int) -> c_int;
        destroy = "ncclCommDestroy" (sys::ncclComm_t) -> c_int;
        abort = "ncclCommAbort" (sys::ncclComm_t) -> c_int;
        async_error = "ncclCommGetAsyncError" (sys::ncclComm_t, *mut c_int) -> c_int;
        error_string = "ncclGetErrorString" (c_int) -> *const c_char;
        last_error = "ncclGetLastError" (sys::ncclComm_t) -> *const c_char;
        all_reduce = "ncclAllReduce" (Bytes, BytesMut, usize, c_uint, c_uint, sys::ncclComm_t, CUstream) -> c_int;
        all_gather = "ncclAllGather" (Bytes, BytesMut, usize, c_uint, sys::ncclComm_t, CUstream) -> c_int;
        reduce_scatter = "ncclReduceScatter" (Bytes, BytesMut, usize, c_uint, c_uint, sys::ncclComm_t, CUstream) -> c_int;
        broadcast = "ncclBroadcast" (Bytes, BytesMut, usize, c_uint, c_int, sys::ncclComm_t, CUstream) -> c_int;
        reduce = "ncclReduce" (Bytes, BytesMut, usize, c_uint, c_uint, c_int, sys::ncclComm_t, CUstream) -> c_int;
        send = "ncclSend" (Bytes, usize, c_uint, c_int, sys::ncclComm_t, CUstream) -> c_int;
        receive = "ncclRecv" (BytesMut, usize, c_uint, c_int, sys::ncclComm_t, CUstream) -> c_int;
        group_start = "ncclGroupStart" () -> c_int;
        group_end = "ncclGroupEnd" () -> c_int;
    }
    // The collectives from 2.28 on, before which callers used sends and receives; splits from 2.18 on, registered memory from
    // 2.19 on.
    newer {
        all_to_all = "ncclAlltoAll" (Bytes, BytesMut, usize, c_uint, sys::ncclComm_t, CUstream) -> c_int;
        gather = "ncclGather" (Bytes, BytesMut, usize, c_uint, c_int, sys::ncclComm_t, CUstream) -> c_int;
        scatter = "ncclScatter" (Bytes, BytesMut, usize, c_uint, c_int, sys::ncclComm_t, CUstream) -> c_int;
        split = "ncclCommSplit" (sys::ncclComm_t, c_int, c_int, *mut sys::ncclComm_t, BytesMut) -> c_int;
        register = "ncclCommRegister" (sys::ncclComm_t, BytesMut, usize, *mut BytesMut) -> c_int;
        deregister = "ncclCommDeregister" (sys::ncclComm_t, BytesMut) -> c_int;
    }
}

/// The library, loaded on the first call: the one of this file, or without one that which the loader finds.
///
/// # Errors
/// It or a function is missing; every later call returns the same.
pub(super) fn load(file: Option<&Path>) -> Result<&'static Api, GpuError> {
    static API: OnceLock<Result<Api, GpuError>> = OnceLock::new();
    // A process loads one library, so that its name is kept once.
    let name = || {
        file.map_or(LIBRARY, |file| {
            Box::leak(file.to_string_lossy().into_owned().into_boxed_str())
        })
    };
    API.get_or_init(|| find(name()))
        .as_ref()
        .map_err(Clone::clone)
}

/// The loaded library.
///
/// # Errors
/// As [`load`].
pub(super) fn api() -> Result<&'static Api, GpuError> {
    load(None)
}

fn find(library: &'static str) -> Result<Api, GpuError> {
    // SAFETY: loading runs only NCCL's own initialisers. NCCL may do anything, which is why it is loaded only in
    // an arm's processes.
    let found = unsafe { Library::new(library) };
    let found = found.map_err(|e| GpuError::library(library, &e))?;
    // The library is never unloaded, because its own threads keep running.
    Api::find(Box::leak(Box::new(found)))
}

/// A function that an older NCCL does not have.
///
/// # Errors
/// [`GpuError::Symbol`]: this one is older.
pub(super) fn newer<F>(symbol: &'static str, function: Option<F>) -> Result<F, GpuError> {
    function.ok_or_else(|| GpuError::symbol(LIBRARY, symbol))
}

impl Api {
    /// Whether this NCCL has one function for the whole collective.
    pub(super) const fn has(&self, collective: Collective) -> bool {
        match collective {
            Collective::Alltoall => self.all_to_all.is_some(),
            Collective::Gather => self.gather.is_some(),
            Collective::Scatter => self.scatter.is_some(),
            // It is a pair of calls in nccl-tests too.
            Collective::Sendrecv => false,
            Collective::AllReduce
            | Collective::AllGather
            | Collective::ReduceScatter
            | Collective::Broadcast
            | Collective::Reduce => true,
        }
    }

    /// The error of one call, if any; `doing` is the purpose of the call.
    pub(super) fn check(
        &self,
        call: &'static str,
        code: c_int,
        doing: impl FnOnce() -> String,
    ) -> Result<(), GpuError> {
        if code == 0 {
            Ok(())
        } else {
            Err(self.error(call, code, doing()))
        }
    }

    /// The error for a code other than 0.
    pub(super) fn error(&self, call: &'static str, code: c_int, doing: String) -> GpuError {
        // SAFETY: the function takes any number and returns a constant string.
        let name = unsafe { text((self.error_string)(code)) };
        // SAFETY: its argument is unused according to the header.
        let last = last_text(unsafe { (self.last_error)(std::ptr::null_mut()) });
        let name = if name.is_empty() {
            "a code without a name".to_owned()
        } else {
            name
        };
        GpuError::Nccl {
            call,
            code,
            name,
            doing,
            last,
        }
    }
}

/// A text of NCCL in one line; empty for none.
///
/// # Safety
/// `from` is null or points to a C string that does not change meanwhile.
unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    one_line(&unsafe { CStr::from_ptr(from) }.to_string_lossy())
}

/// The text of NCCL's last error in one line; empty if there is none, or if it cannot be copied. Nothing is lost
/// in that case, because NCCL writes the same line to its log.
///
/// `ncclGetLastError` returns NCCL's own buffer, to which any of its threads may be writing. A direct read would
/// be unsound, so the kernel copies the buffer, as for a debugger: at most its size, and only mapped memory.
/// Two copies must be equal, which rejects nearly all copies that were taken during a write; no judgement
/// depends on the text.
fn last_text(from: *const c_char) -> String {
    let copies = || Some((copied(from)?, copied(from)?));
    let whole = |(one, two): (Vec<u8>, Vec<u8>)| (one == two).then_some(one);
    let text = (0..COPIES)
        .find_map(|_| copies().and_then(whole))
        .unwrap_or_default();
    one_line(&String::from_utf8_lossy(&text))
}

/// The bytes from `from` to the first zero; `None` if `from` is null or no zero follows within the buffer's size.
fn copied(from: *const c_char) -> Option<Vec<u8>> {
    let begin = from.addr();
    // The kernel copies an element only if all of it is mapped, so each element stays within one page.
    let first = (begin.checked_next_multiple_of(PAGE)? - begin).min(LAST_ERROR);
    let element = |base, len| RemoteIoVec { base, len };
    let there = [
        element(begin, first),
        element(begin.checked_add(first)?, LAST_ERROR - first),
    ];
    let mut bytes = vec![0; LAST_ERROR];
    let copied = process_vm_readv(Pid::this(), &mut [IoSliceMut::new(&mut bytes)], &there).ok()?;
    let end = bytes.get(..copied)?.iter().position(|byte| *byte == 0)?;
    bytes.truncate(end);
    Some(bytes)
}

fn one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    let lines = text.lines().map(|line| {
        line.chars()
            .map(shown)
            .collect::<String>()
            .trim()
            .to_owned()
    });
    lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_with_its_name_and_not_a_panic() {
        let error = find("libnccl-missing.so.2").err().unwrap();
        let GpuError::Library { library, why } = &error else {
            panic!("{error}")
        };
        assert!(
            *library == "libnccl-missing.so.2" && why.contains("cannot open"),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .starts_with("libnccl-missing.so.2 cannot be loaded: cannot open")
        );
    }

    /// Every machine has this library, which has none of the functions.
    #[test]
    fn a_missing_function_is_an_error_with_its_name_and_not_a_panic() {
        let error = find("libc.so.6").err().unwrap();
        assert_eq!(error, GpuError::symbol(LIBRARY, "ncclGetVersion"));
        assert_eq!(
            error.to_string(),
            "libnccl.so.2 has no function ncclGetVersion"
        );
    }

    #[test]
    fn texts_come_in_one_line_or_empty() {
        // SAFETY: constant strings, and null.
        let read = |from: &CStr| unsafe { text(from.as_ptr()) };
        assert_eq!(
            read(c"\n Call to bind failed\n  Address in use \n"),
            "Call to bind failed; Address in use"
        );
        assert_eq!(read(c""), "");
        // SAFETY: null is allowed.
        assert_eq!(unsafe { text(std::ptr::null()) }, "");
    }

    #[test]
    fn the_last_error_is_copied_to_its_end_and_never_beyond_what_is_mapped() {
        assert_eq!(
            last_text(c"Call to bind failed\n  Address\tin use".as_ptr()),
            "Call to bind failed; Address in use"
        );
        assert_eq!(last_text(std::ptr::null()), "");
        assert_eq!(
            last_text(std::ptr::without_provenance(8)),
            "",
            "nothing is mapped there"
        );
        let endless = vec![b'x'; 2 * LAST_ERROR];
        assert_eq!(
            last_text(endless.as_ptr().cast()),
            "",
            "no end within the buffer's size"
        );
    }

    #[test]
    fn a_text_that_changes_meanwhile_can_be_copied() {
        use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
        let texts = ["first error ".repeat(40), "other fault ".repeat(40)];
        let buffer: Vec<AtomicU8> = (0..LAST_ERROR).map(|_| AtomicU8::new(0)).collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for text in texts.iter().cycle() {
                    buffer
                        .iter()
                        .zip(text.bytes())
                        .for_each(|(to, from)| to.store(from, Ordering::Relaxed));
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            for _ in 0..200 {
                let read = last_text(buffer.as_ptr().cast());
                let both = || texts[0].chars().zip(texts[1].chars());
                assert!(
                    read.len() <= LAST_ERROR
                        && read.chars().zip(both()).all(|(c, (a, b))| c == a || c == b),
                    "{read}"
                );
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
