//! Resizes all GPUs below one root port at once, because they share its window: the kernel widens a window
//! only while nothing uses it. Their sizes are written to Resizable BAR control, the port is removed with
//! everything below it, and a rescan of its root bus lays it out again. If something does not fit, every GPU
//! below the port loses its addresses, so a failure is undone in the same way with the previous sizes.

use super::resize::Resize;
use super::state::{FunctionState, unread};
use super::{AccessError, DEVICES, Machine};
use machine::host::framebuffer;
use machine::pcie::model::Bdf;
use outcome::text::size;
use std::path::{Path, PathBuf};

/// The result of one set of sizes.
#[derive(Debug)]
pub(super) enum JointResize {
    /// Every GPU has its size, and everything below the port is back.
    Done,
    /// They do not fit; nothing changed.
    NoRoom(String),
    /// Nothing was tried, for this reason.
    Blocked(String),
    /// This GPU's hardware ignores the size; nothing changed.
    Ignored(Bdf, String),
    /// Something changed and could not be restored.
    Broken(String),
}

/// A GPU and its new size.
pub(super) type Target<'a> = (&'a Resize, u64);

/// No BAR: for functions whose Resizable BAR control does not matter.
pub(super) const NO_BAR: u8 = u8::MAX;

/// The port driver, which is bound to every port.
const PORT_DRIVER: &str = "pcieport";

/// The previous state of one function: the port, or one below it.
pub(super) struct FunctionBelow<'a> {
    pub(super) was: FunctionState,
    target: Option<Target<'a>>,
}

impl Machine<'_> {
    /// Lays out everything below `port` again with these sizes.
    pub(super) fn resize_joint(&self, port: Bdf, targets: &[Target<'_>]) -> JointResize {
        let below = match self.below(port, targets) {
            Ok(below) => below,
            Err(why) => return JointResize::Blocked(why.to_string()),
        };
        if let Some(why) = self.blocked(&below) {
            return JointResize::Blocked(why);
        }
        match self.prepare(&below) {
            Ok(None) => {}
            Ok(Some((gpu, why))) => {
                return self.undo_prepare(&below, JointResize::Ignored(gpu, why));
            }
            Err(e) => return self.undo_prepare(&below, JointResize::Blocked(e.to_string())),
        }
        if let Err(e) = self.kernel.remove(port) {
            return self.undo_prepare(
                &below,
                JointResize::Blocked(format!("{port} cannot be removed: {e}")),
            );
        }
        let Err(why) = self.rescan_and_compare(port, &below, true) else {
            return JointResize::Done;
        };
        for (was, _) in targets_of(&below) {
            // A GPU that is gone or ignores its size is noticed below.
            let _ = self
                .state(was.bdf, NO_BAR)
                .and_then(|now| self.decode_off(&now));
            let _ = was
                .hardware_bytes()
                .map_or(Ok(()), |old| self.set_size(was, old));
        }
        // This fails only if the port did not come back, which is noticed below.
        let _ = self.kernel.remove(port);
        match self.rescan_and_compare(port, &below, false) {
            Ok(()) => JointResize::NoRoom(why),
            Err(left) => JointResize::Broken(format!("{why}; restoring it failed: {left}")),
        }
    }

    /// True unless `gpu` has the port's window to itself: then the kernel's own resize widens the window as
    /// far as possible, and removing the port gains nothing.
    pub(super) fn shares_window(&self, port: Bdf, gpu: Bdf) -> Result<bool, AccessError> {
        let (port, own) = (port.to_string(), self.path(gpu)?);
        let on = |path: &Path, name: &str| path.iter().any(|part| part.to_str() == Some(name));
        for other in self.functions()? {
            let same_card = Bdf {
                function: 0,
                ..other
            } == Bdf { function: 0, ..gpu };
            if !same_card && on(&self.path(other)?, &port) && !on(&own, &other.to_string()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Every function that the kernel knows.
    fn functions(&self) -> Result<Vec<Bdf>, AccessError> {
        let names = self.root.names(DEVICES).map_err(|e| unread(DEVICES, e))?;
        Ok(names
            .iter()
            .filter_map(|name| name.to_string_lossy().parse().ok())
            .collect())
    }

    /// The folder of a function, whose path names every port above it.
    pub(super) fn path(&self, bdf: Bdf) -> Result<PathBuf, AccessError> {
        let file = format!("{DEVICES}/{bdf}");
        self.root.link(&file).map_err(|e| unread(&file, e))
    }

    /// The present state of `port` and everything below it.
    pub(super) fn below<'a>(
        &self,
        port: Bdf,
        targets: &[Target<'a>],
    ) -> Result<Vec<FunctionBelow<'a>>, AccessError> {
        let name = port.to_string();
        let mut below = Vec::new();
        for bdf in self.functions()? {
            if !self
                .path(bdf)?
                .iter()
                .any(|part| part.to_str() == Some(&name))
            {
                continue;
            }
            let target = targets.iter().find(|(gpu, _)| gpu.bdf == bdf).copied();
            let was = self.state(bdf, target.map_or(NO_BAR, |(gpu, _)| gpu.bar))?;
            below.push(FunctionBelow { was, target });
        }
        Ok(below)
    }

    /// The reason, if a function is in use and must not be removed.
    fn blocked(&self, below: &[FunctionBelow<'_>]) -> Option<String> {
        let held = |s: &FunctionState| s.driver.clone().filter(|d| !s.bridge || d != PORT_DRIVER);
        let bound = below.iter().find_map(|b| Some((b.was.bdf, held(&b.was)?)));
        if let Some((bdf, driver)) = bound {
            return Some(format!(
                "{bdf} shares the window and has the driver {driver} bound"
            ));
        }
        let screens = match framebuffer::read(self.root) {
            Ok(screens) => screens,
            Err(e) => return Some(format!("the framebuffers cannot be listed: {e}")),
        };
        let on = |bdf: String| {
            screens
                .iter()
                .find(|s| s.device.split('/').any(|name| name == bdf))
        };
        let shown = below
            .iter()
            .find_map(|b| Some((b.was.bdf, on(b.was.bdf.to_string())?)))?;
        Some(format!(
            "{} shares the window and shows {}",
            shown.0, shown.1.name
        ))
    }

    /// Switches memory decode off on every function and requests the new sizes from the hardware; names a GPU
    /// that ignores its size.
    fn prepare(&self, below: &[FunctionBelow<'_>]) -> Result<Option<(Bdf, String)>, AccessError> {
        for function in below.iter().filter(|b| !b.was.bridge) {
            self.decode_off(&function.was)?;
        }
        for (was, (gpu, bytes)) in targets_of(below) {
            self.set_size(was, bytes)?;
            let now = self.state(gpu.bdf, gpu.bar)?;
            if now.hardware_bytes() != Some(bytes) {
                return Ok(Some((
                    gpu.bdf,
                    format!("requested {}: {}", size(bytes), now.describe(gpu.bar)),
                )));
            }
        }
        Ok(None)
    }

    /// Undoes `prepare`, if nothing was removed yet.
    fn undo_prepare(&self, below: &[FunctionBelow<'_>], why: JointResize) -> JointResize {
        let undo = || {
            for (was, (gpu, _)) in targets_of(below) {
                was.hardware_bytes()
                    .map_or(Ok(()), |old| self.set_size(was, old))?;
                self.correct_registers(&self.state(gpu.bdf, gpu.bar)?)?;
            }
            below
                .iter()
                .filter(|b| !b.was.bridge)
                .try_for_each(|b| self.restore_command(&b.was))?;
            for (was, (gpu, _)) in targets_of(below) {
                let now = self.state(gpu.bdf, gpu.bar)?;
                if !now.matches(was) {
                    return Ok(Some(format!(
                        "{} could not be restored: {}",
                        gpu.bdf,
                        now.describe(gpu.bar)
                    )));
                }
            }
            Ok::<_, AccessError>(None)
        };
        match undo() {
            Ok(None) => why,
            Ok(Some(left)) => JointResize::Broken(left),
            Err(e) => JointResize::Broken(e.to_string()),
        }
    }

    /// Looks for the port and everything below it again, and compares. Memory decode is only switched on
    /// again if all is well.
    fn rescan_and_compare(
        &self,
        port: Bdf,
        below: &[FunctionBelow<'_>],
        grown: bool,
    ) -> Result<(), String> {
        let failed = self
            .kernel
            .rescan(port)
            .err()
            .map(|e| format!("rescan: {e}"));
        let wrong: Vec<String> = below
            .iter()
            .filter_map(|b| self.compare(b, grown).err())
            .collect();
        match (wrong.first(), failed) {
            (None, _) => Ok(()),
            (Some(first), None) => Err(match wrong.len() {
                1 => first.clone(),
                n => format!("{first} (and {} others)", n.saturating_sub(1)),
            }),
            (Some(first), Some(failed)) => Err(format!("{failed}; {first}")),
        }
    }

    /// Checks that one function is back, with all its addresses and the expected size.
    fn compare(&self, below: &FunctionBelow<'_>, grown: bool) -> Result<(), String> {
        let was = &below.was;
        let bar = below.target.map_or(NO_BAR, |(gpu, _)| gpu.bar);
        let look = || {
            self.correct_registers(&self.state(was.bdf, bar)?)?;
            self.state(was.bdf, bar)
        };
        let now = look().map_err(|e| format!("{} did not come back: {e}", was.bdf))?;
        let good = match below.target {
            Some((gpu, bytes)) if grown => now.has_size(gpu.bar, bytes) && now.keeps_addresses(was),
            _ => now.matches(was),
        };
        if now.ids != was.ids {
            return Err(format!("another function is at {}", was.bdf));
        }
        if !good {
            let what = if below.target.is_some() {
                now.describe(bar)
            } else {
                "lost addresses".to_owned()
            };
            return Err(format!("{}: {what}", was.bdf));
        }
        if was.bridge {
            Ok(())
        } else {
            self.restore_command(was).map_err(|e| e.to_string())
        }
    }
}

fn targets_of<'b, 'a>(
    below: &'b [FunctionBelow<'a>],
) -> impl Iterator<Item = (&'b FunctionState, Target<'a>)> {
    below.iter().filter_map(|b| Some((&b.was, b.target?)))
}
