//! NCCL: the library, communicators and the nine collectives. As with CUDA, the types are cudarc's bindings
//! and the calls use our own table. `nccl` handles the environment of the processes, time limits of
//! collectives and their expected results.

#![expect(
    unsafe_code,
    reason = "calls into NCCL; C's standard output is a variable of the C library"
)]

mod api;
mod collective;
mod comm;
mod data;
mod enqueue;
mod steps;
mod value;

use super::cuda::GpuError;
use api::{Api, load};
use cudarc::nccl::sys;
use serde::{Deserialize, Serialize};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

pub use collective::{Collective, ExpectedRun, Shape};
pub use comm::{Comm, Registered};
pub use data::{DataType, RedOp, Values};
pub use enqueue::{Call, Group};

/// Bytes of a communicator's id (`NCCL_UNIQUE_ID_BYTES`).
const ID_BYTES: usize = 128;

/// The loaded NCCL library.
pub struct Nccl {
    api: &'static Api,
}

/// The id by which the ranks of a communicator find each other. One of them makes it and passes it to the
/// others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqueId(Vec<u8>);

impl Nccl {
    /// Loads the library, once for all calls: the one of `file`, or without one that which the loader finds.
    ///
    /// # Errors
    /// [`GpuError::Library`] or [`GpuError::Symbol`]: the library or one of its functions is missing.
    pub fn load(file: Option<&Path>) -> Result<&'static Self, GpuError> {
        static LOADED: OnceLock<Result<Nccl, GpuError>> = OnceLock::new();
        LOADED
            .get_or_init(|| Ok(Self { api: load(file)? }))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// The address of one of its functions, by which the kernel names the file that was loaded.
    #[must_use]
    pub fn address(&self) -> usize {
        self.api.version as *const () as usize
    }

    /// Its version as one number: 22907 is 2.29.7.
    ///
    /// # Errors
    /// NCCL's error.
    pub fn version(&self) -> Result<u32, GpuError> {
        let mut version = 0;
        // SAFETY: one int is written.
        let code = unsafe { (self.api.version)(&raw mut version) };
        self.api.check("ncclGetVersion", code, || {
            "asking NCCL for its version".to_owned()
        })?;
        u32::try_from(version)
            .map_err(|_| GpuError::Nonsense(format!("NCCL reports version {version}")))
    }

    /// A new communicator's id. From now on this process listens for the ranks.
    ///
    /// # Errors
    /// NCCL's error: usually no network interface is up that it may use.
    pub fn unique_id(&self) -> Result<UniqueId, GpuError> {
        let mut id = sys::ncclUniqueId {
            internal: [0; ID_BYTES],
        };
        // SAFETY: one id is written.
        let code = unsafe { (self.api.unique_id)(&raw mut id) };
        self.api.check("ncclGetUniqueId", code, || {
            "making a communicator's id".to_owned()
        })?;
        Ok(UniqueId(
            id.internal
                .iter()
                .map(|byte| byte.to_ne_bytes()[0])
                .collect(),
        ))
    }
}

impl std::fmt::Debug for Nccl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NCCL")
    }
}

impl UniqueId {
    /// In NCCL's form.
    fn raw(&self) -> Result<sys::ncclUniqueId, GpuError> {
        let bytes: Vec<_> = self
            .0
            .iter()
            .map(|byte| c_char::from_ne_bytes([*byte]))
            .collect();
        let internal = bytes.try_into().map_err(|bytes: Vec<_>| {
            GpuError::Nonsense(format!(
                "a communicator's id has {ID_BYTES} bytes, not {}",
                bytes.len()
            ))
        })?;
        Ok(sys::ncclUniqueId { internal })
    }
}

/// `_IOLBF`, the same in glibc and musl: output is written at the end of each line.
const LINE_BUFFERED: c_int = 1;

unsafe extern "C" {
    static stdout: *mut c_void;
    fn setvbuf(stream: *mut c_void, buffer: *mut c_char, mode: c_int, size: usize) -> c_int;
}

/// Makes C's standard output, to which NCCL writes its log, line buffered; must be called before anything is
/// written. Output to a file would be fully buffered, and a killed process would lose its last lines, which
/// matter most.
pub fn line_buffer_stdout() {
    // SAFETY: the C library sets the variable before `main` and our code does not write to it.
    let stream = unsafe { stdout };
    // SAFETY: an open stream before any output; without a buffer C allocates its own. A failure only means
    // that lines may come late.
    let _ = unsafe { setvbuf(stream, ptr::null_mut(), LINE_BUFFERED, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_keeps_its_bytes_and_one_of_another_length_is_refused() {
        let bytes: Vec<u8> = (0..128).map(|n| n * 2).collect();
        let raw = UniqueId(bytes.clone()).raw().unwrap();
        assert_eq!(
            raw.internal.map(|byte| byte.to_ne_bytes()[0]).to_vec(),
            bytes
        );
        let error = UniqueId(vec![0; 127]).raw().unwrap_err();
        assert_eq!(
            error.to_string(),
            "a communicator's id has 128 bytes, not 127"
        );
    }

    #[test]
    fn an_id_is_serialized_as_json() {
        let id = UniqueId((0..128).collect());
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<UniqueId>(&text).unwrap(), id);
    }

    #[test]
    fn a_library_that_is_missing_stays_missing() {
        // Test machines may have NCCL or not: either way every call returns the same.
        match (Nccl::load(None), Nccl::load(None)) {
            (Err(one), Err(other)) => {
                assert_eq!(one, other);
                assert!(one.to_string().contains("libnccl.so.2"), "{one}");
            }
            (Ok(nccl), Ok(_)) => assert!(nccl.version().unwrap() > 2000),
            (one, other) => panic!("{one:?} and {other:?}"),
        }
    }
}
