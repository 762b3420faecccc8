//! The errors of drivers and GPUs, each in one line with number, name and call.

use std::cell::RefCell;
use std::ffi::c_int;
use std::time::Duration;

/// A fault of the CUDA driver or of a GPU.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GpuError {
    /// A library of the driver cannot be loaded.
    #[error("{library} cannot be loaded: {why}")]
    Library {
        /// Its name.
        library: &'static str,
        /// The loader's message.
        why: String,
    },
    /// The library has no such function.
    #[error("{library} has no function {symbol}")]
    Symbol {
        /// The library.
        library: &'static str,
        /// The function.
        symbol: &'static str,
    },
    /// A call failed.
    #[error("{doing}: {call} returned {code} {name}")]
    Call {
        /// The function.
        call: &'static str,
        /// What it returned.
        code: i32,
        /// The driver's name for that.
        name: String,
        /// The purpose of the call.
        doing: String,
    },
    /// A call into NCCL failed.
    #[error("{doing}: {call} returned {code} {name}{}", after_colon(last))]
    Nccl {
        /// The function.
        call: &'static str,
        /// The returned `ncclResult_t`; newer versions may have more codes than older ones.
        code: i32,
        /// NCCL's text for that.
        name: String,
        /// The purpose of the call.
        doing: String,
        /// NCCL's last error, in one line; may be empty.
        last: String,
    },
    /// Work on a GPU does not end.
    #[error("{doing}: no end within {:.1} s", after.as_secs_f64())]
    Hang {
        /// The work.
        doing: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// A part outside its buffer.
    #[error("bytes {offset} to {} of a buffer of {of}", offset.saturating_add(*bytes))]
    Bounds {
        /// First byte.
        offset: u64,
        /// The length.
        bytes: u64,
        /// The buffer's size.
        of: u64,
    },
    /// The driver returned something impossible, or the call was invalid.
    #[error("{0}")]
    Nonsense(String),
    /// There are no kernels for this GPU.
    #[error("no kernels for compute capability {}.{} of {gpu}", capability.0, capability.1)]
    Image {
        /// The GPU.
        gpu: String,
        /// Its compute capability.
        capability: (u32, u32),
    },
}

thread_local! {
    static CUDA_LOSS: RefCell<Option<GpuError>> = const { RefCell::new(None) };
}

/// The first error after which this process can no longer call CUDA, not even to free memory: a GPU hung, or a context is lost.
/// Destructors return no error, so this may be the only trace of it.
#[must_use]
pub fn cuda_loss() -> Option<GpuError> {
    CUDA_LOSS.with_borrow(Clone::clone)
}

/// Whether there is such an error.
#[must_use]
pub fn is_cuda_lost() -> bool {
    CUDA_LOSS.with_borrow(Option::is_some)
}

fn lose_cuda(error: &GpuError) {
    CUDA_LOSS.with_borrow_mut(|loss| {
        loss.get_or_insert_with(|| error.clone());
    });
}

impl GpuError {
    pub(crate) fn library(library: &'static str, why: &dyn std::error::Error) -> Self {
        // The error itself only says that loading failed; its source has the loader's message, usually
        // beginning with the name.
        let words = why
            .source()
            .map_or_else(|| why.to_string(), ToString::to_string);
        let name = format!("{library}: ");
        Self::Library {
            library,
            why: words.strip_prefix(&name).unwrap_or(&words).to_owned(),
        }
    }

    pub(crate) const fn symbol(library: &'static str, symbol: &'static str) -> Self {
        Self::Symbol { library, symbol }
    }

    pub(super) fn call(
        call: &'static str,
        code: c_int,
        name: String,
        doing: impl Into<String>,
    ) -> Self {
        let error = Self::Call {
            call,
            code,
            name,
            doing: doing.into(),
        };
        if error.is_sticky() {
            lose_cuda(&error);
        }
        error
    }

    pub(super) fn hang(doing: &str, after: Duration) -> Self {
        let error = Self::Hang {
            doing: doing.to_owned(),
            after,
        };
        lose_cuda(&error);
        error
    }

    /// The code that a call of the CUDA driver returned, if any.
    #[must_use]
    pub const fn code(&self) -> Option<i32> {
        match self {
            Self::Call { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the context is lost: every later call returns the same. These are the codes for which `cuda.h`
    /// says that the process must be terminated, and 999, which is unknown.
    #[must_use]
    pub const fn is_sticky(&self) -> bool {
        matches!(
            self.code(),
            Some(214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 999)
        )
    }
}

fn after_colon(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_nccl_error_contains_nccls_text() {
        let error = |last: &str| GpuError::Nccl {
            call: "ncclAllReduce",
            code: 2,
            name: "unhandled system error".into(),
            doing: "GPU 1: all_reduce of 8 float".into(),
            last: last.into(),
        };
        let line = "GPU 1: all_reduce of 8 float: ncclAllReduce returned 2 unhandled system error";
        assert_eq!(error("").to_string(), line);
        assert_eq!(error("no socket").to_string(), format!("{line}: no socket"));
        assert!(!error("").is_sticky() && !is_cuda_lost());
    }

    #[test]
    fn an_error_contains_number_name_call_and_purpose() {
        let error = GpuError::call(
            "cuMemcpyAsync",
            205,
            "CUDA_ERROR_MAP_FAILED".into(),
            "GPU 0 -> 1: copy",
        );
        assert_eq!(
            error.to_string(),
            "GPU 0 -> 1: copy: cuMemcpyAsync returned 205 CUDA_ERROR_MAP_FAILED"
        );
        assert!(!error.is_sticky() && !is_cuda_lost());
    }

    #[test]
    fn a_lost_context_spoils_the_process() {
        let error = GpuError::call(
            "cuStreamQuery",
            700,
            "CUDA_ERROR_ILLEGAL_ADDRESS".into(),
            "copy",
        );
        assert!(error.is_sticky() && is_cuda_lost());
    }

    #[test]
    fn a_hang_names_the_work_and_the_time() {
        let error = GpuError::hang("GPU 0 -> 1: write of 4 B", Duration::from_secs(3));
        assert_eq!(
            error.to_string(),
            "GPU 0 -> 1: write of 4 B: no end within 3.0 s"
        );
        assert!(is_cuda_lost());
    }
}
