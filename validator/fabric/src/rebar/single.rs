//! Resizes one GPU's BAR1 with the kernel's own resize. The kernel's answer is not sufficient: it was seen to
//! report success for a BAR without address and for hardware that kept its size, and to leave a neighbor's
//! address in a BAR register after a failure.

use super::resize::Resize;
use super::state::FunctionState;
use super::{AccessError, Machine};
use outcome::finding::Code;
use std::io::{self, ErrorKind};

/// The result of resizing one BAR1 to one size.
#[derive(Debug)]
pub(super) enum SingleResize {
    /// Hardware, registers and kernel agree on it.
    Done,
    /// The kernel found no address space for it and reported that; nothing changed.
    NoSpace,
    /// The kernel found no address space for it and reported another error; nothing changed.
    NoRoom(String),
    /// No size will work, for this reason; nothing changed.
    Never(Code, String),
    /// Something changed and could not be restored.
    Broken(String),
}

/// Linux's internal error number for "the firmware wants its layout kept"; it has no name outside the kernel.
const ENOTSUPP: i32 = 524;

impl Machine<'_> {
    /// Requests `bytes` from the kernel and checks the result.
    pub(super) fn resize_single(&self, gpu: &Resize, bytes: u64) -> SingleResize {
        self.try_resize_single(gpu, bytes)
            .unwrap_or_else(|e| SingleResize::Broken(e.to_string()))
    }

    fn try_resize_single(&self, gpu: &Resize, bytes: u64) -> Result<SingleResize, AccessError> {
        let before = self.state(gpu.bdf, gpu.bar)?;
        if let Some(driver) = &before.driver {
            return Ok(SingleResize::Never(
                Code::RebarBusy,
                format!("the driver {driver} was bound in the meantime"),
            ));
        }
        if before.bar(gpu.bar).is_none() {
            return Ok(SingleResize::NoRoom(
                "the kernel does not manage this BAR until a rescan".to_owned(),
            ));
        }
        let answer = self.kernel.resize(gpu.bdf, gpu.bar, bytes);
        let now = self.corrected_state(gpu)?;
        if answer.is_ok() && now.has_size(gpu.bar, bytes) && now.keeps_addresses(&before) {
            return Ok(SingleResize::Done);
        }
        let words = now.describe(gpu.bar);
        let refused = now.hardware_bytes() != Some(bytes);
        if !self.revert(gpu, &before, &now)? {
            let answer = answer.map_or_else(|e| e.to_string(), |()| "success".to_owned());
            return Ok(SingleResize::Broken(format!(
                "the kernel answered: {answer}; then {words}"
            )));
        }
        let believed = format!("the kernel reported success, but {words}");
        Ok(match answer {
            Ok(()) if refused => SingleResize::Never(Code::RebarIgnored, believed),
            Ok(()) => SingleResize::NoRoom(believed),
            Err(e) => failure(&e),
        })
    }

    /// The present state, after registers with wrong addresses were corrected.
    fn corrected_state(&self, gpu: &Resize) -> Result<FunctionState, AccessError> {
        self.correct_registers(&self.state(gpu.bdf, gpu.bar)?)?;
        self.state(gpu.bdf, gpu.bar)
    }

    /// Restores the GPU to `before`; false if that fails.
    fn revert(
        &self,
        gpu: &Resize,
        before: &FunctionState,
        now: &FunctionState,
    ) -> Result<bool, AccessError> {
        if now.matches(before) {
            return Ok(true);
        }
        let old = before
            .bar(gpu.bar)
            .map_or(gpu.before_bytes, |b| b.bar.bytes);
        // The kernel's answer does not matter; the state afterwards does.
        let _ = self.kernel.resize(gpu.bdf, gpu.bar, old);
        Ok(self.corrected_state(gpu)?.matches(before))
    }
}

/// What an error number means for other sizes.
fn failure(error: &io::Error) -> SingleResize {
    let why = error.to_string();
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::StorageFull, _) => SingleResize::NoSpace,
        (ErrorKind::ResourceBusy, _) => SingleResize::Never(Code::RebarBusy, why),
        (ErrorKind::Unsupported, _) | (_, Some(ENOTSUPP)) => {
            SingleResize::Never(Code::RebarPreserved, why)
        }
        _ => SingleResize::Never(Code::RebarRefused, why),
    }
}
