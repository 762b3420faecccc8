//! Numbers as the opaque pointers that callers hold. Each kind has its own range, so that a handle
//! of one kind is never taken for another's.

use simgpu_model::{Result, Status};

/// What a caller holds.
pub(crate) type Handle = usize;

/// A kind of handle.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Context,
    Stream,
    Event,
    Module,
    Function,
    Graph,
    Exec,
}

impl Kind {
    fn base(self) -> Handle {
        (self as Handle + 1) << 40
    }
}

/// A handle for a number.
pub(crate) fn wrap(kind: Kind, number: u64) -> Handle {
    kind.base() + usize::try_from(number).unwrap_or_default()
}

/// The number of a handle.
pub(crate) fn unwrap(kind: Kind, handle: Handle) -> Result<u64> {
    let wrong = if matches!(kind, Kind::Context) { Status::INVALID_CONTEXT } else { Status::INVALID_HANDLE };
    let number = handle.checked_sub(kind.base()).filter(|n| *n < 1 << 40).ok_or(wrong)?;
    u64::try_from(number).map_err(|_| wrong)
}
