//! One GPU's BAR1 by the kernel's own resize. What the kernel then says is only half of the answer:
//! it was seen to report success for a BAR without address and for hardware that kept its size,
//! and to leave a BAR register on a neighbour's addresses after a failure.

use super::resize::Resize;
use super::state::State;
use super::{Machine, Trouble};
use crate::outcome::finding::Code;
use std::io::{self, ErrorKind};

/// What came of one size.
#[derive(Debug)]
pub(super) enum Alone {
    /// Hardware, registers and kernel agree on it.
    Done,
    /// The kernel found no addresses for it, and said so; all is as it was.
    NoSpace,
    /// The kernel found no addresses for it, and said something else; all is as it was.
    NoRoom(String),
    /// No size will do, for this reason; all is as it was.
    Never(Code, String),
    /// It is not as it was, and could not be put back.
    Broken(String),
}

/// Linux's own number for "the firmware wants its layout kept"; it has no name outside the kernel.
const ENOTSUPP: i32 = 524;

impl Machine<'_> {
    /// Asks for `bytes`.
    pub(super) fn alone(&self, gpu: &Resize, bytes: u64) -> Alone {
        self.try_alone(gpu, bytes).unwrap_or_else(|e| Alone::Broken(e.to_string()))
    }

    fn try_alone(&self, gpu: &Resize, bytes: u64) -> Result<Alone, Trouble> {
        let before = self.state(gpu.bdf, gpu.bar)?;
        if let Some(driver) = &before.driver {
            return Ok(Alone::Never(Code::RebarBusy, format!("the driver {driver} was bound meanwhile")));
        }
        if before.base(gpu.bar).is_none() {
            return Ok(Alone::NoRoom("the kernel has given this BAR up until a rescan".to_owned()));
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
            return Ok(Alone::Broken(format!("the kernel said: {answer}; then {words}")));
        }
        let believed = format!("the kernel said success, but {words}");
        Ok(match answer {
            Ok(()) if refused => Alone::Never(Code::RebarIgnored, believed),
            Ok(()) => Alone::NoRoom(believed),
            Err(e) => failure(&e),
        })
    }

    /// What is there now, with registers that are astray put right.
    fn mended(&self, gpu: &Resize) -> Result<State, Trouble> {
        self.mend(&self.state(gpu.bdf, gpu.bar)?)?;
        self.state(gpu.bdf, gpu.bar)
    }

    /// Brings the GPU back to `before`; false when that does not work.
    fn back(&self, gpu: &Resize, before: &State, now: &State) -> Result<bool, Trouble> {
        if now.like(before) {
            return Ok(true);
        }
        let old = before.base(gpu.bar).map_or(gpu.before_bytes, |b| b.bar.bytes);
        // Its answer does not matter: what is there afterwards does.
        let _ = self.kernel.resize(gpu.bdf, gpu.bar, old);
        Ok(self.mended(gpu)?.like(before))
    }
}

/// What an error number says about the other sizes.
fn failure(error: &io::Error) -> Alone {
    let why = error.to_string();
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::StorageFull, _) => Alone::NoSpace,
        (ErrorKind::ResourceBusy, _) => Alone::Never(Code::RebarBusy, why),
        (ErrorKind::Unsupported, _) | (_, Some(ENOTSUPP)) => Alone::Never(Code::RebarPreserved, why),
        _ => Alone::Never(Code::RebarRefused, why),
    }
}
