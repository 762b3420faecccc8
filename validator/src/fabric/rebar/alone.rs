//! Resizes one GPU's BAR1 with the kernel's own resize. The kernel's answer is not sufficient: it was seen to
//! report success for a BAR without address and for hardware that kept its size, and to leave a neighbor's
//! address in a BAR register after a failure.

use super::resize::Resize;
use super::state::State;
use super::{Machine, Trouble};
use crate::outcome::finding::Code;
use std::io::{self, ErrorKind};

/// The result of one size.
#[derive(Debug)]
pub(super) enum Alone {
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
    /// Requests `bytes`.
    pub(super) fn alone(&self, gpu: &Resize, bytes: u64) -> Alone {
        self.try_alone(gpu, bytes).unwrap_or_else(|e| Alone::Broken(e.to_string()))
    }

    fn try_alone(&self, gpu: &Resize, bytes: u64) -> Result<Alone, Trouble> {
        let before = self.state(gpu.bdf, gpu.bar)?;
        if let Some(driver) = &before.driver {
            return Ok(Alone::Never(
                Code::RebarBusy,
                format!("the driver {driver} was bound in the meantime"),
            ));
        }
        if before.base(gpu.bar).is_none() {
            return Ok(Alone::NoRoom("the kernel does not manage this BAR until a rescan".to_owned()));
        }
        let answer = self.kernel.resize(gpu.bdf, gpu.bar, bytes);
        let now = self.mended(gpu)?;
        if answer.is_ok() && now.holds(gpu.bar, bytes) && now.keeps(&before) {
            return Ok(Alone::Done);
        }
        let words = now.words(gpu.bar);
        let refused = now.hardware_bytes() != Some(bytes);
        if !self.back(gpu, &before, &now)? {
            let answer = answer.map_or_else(|e| e.to_string(), |()| "success".to_owned());
            return Ok(Alone::Broken(format!("the kernel answered: {answer}; then {words}")));
        }
        let believed = format!("the kernel reported success, but {words}");
        Ok(match answer {
            Ok(()) if refused => Alone::Never(Code::RebarIgnored, believed),
            Ok(()) => Alone::NoRoom(believed),
            Err(e) => failure(&e),
        })
    }

    /// The present state, after registers with wrong addresses were corrected.
    fn mended(&self, gpu: &Resize) -> Result<State, Trouble> {
        self.mend(&self.state(gpu.bdf, gpu.bar)?)?;
        self.state(gpu.bdf, gpu.bar)
    }

    /// Restores the GPU to `before`; false if that fails.
    fn back(&self, gpu: &Resize, before: &State, now: &State) -> Result<bool, Trouble> {
        if now.like(before) {
            return Ok(true);
        }
        let old = before.base(gpu.bar).map_or(gpu.before_bytes, |b| b.bar.bytes);
        // The kernel's answer does not matter; the state afterwards does.
        let _ = self.kernel.resize(gpu.bdf, gpu.bar, old);
        Ok(self.mended(gpu)?.like(before))
    }
}

/// What an error number means for other sizes.
fn failure(error: &io::Error) -> Alone {
    let why = error.to_string();
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::StorageFull, _) => Alone::NoSpace,
        (ErrorKind::ResourceBusy, _) => Alone::Never(Code::RebarBusy, why),
        (ErrorKind::Unsupported, _) | (_, Some(ENOTSUPP)) => Alone::Never(Code::RebarPreserved, why),
        _ => Alone::Never(Code::RebarRefused, why),
    }
}
