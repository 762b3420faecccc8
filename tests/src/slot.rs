//! At most two machines work at a time, whatever runs the tests: two cores are what is promised, and
//! an emulated machine that is starved misses its own deadlines. Two more may wait for deadlines of theirs meanwhile.

use crate::error::{Error, Result};
use crate::image::workspace;
use std::fs::{self, File};
use std::thread::sleep;
use std::time::Duration;

const SLOTS: usize = 2;

/// What a machine does most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It keeps a core busy.
    Works,
    /// It waits for a deadline.
    Waits,
}

/// The right to run a machine, until dropped.
#[derive(Debug)]
pub(crate) struct Slot(#[expect(dead_code, reason = "held for its lock")] File);

impl Slot {
    /// Waits for one.
    pub(crate) fn take(kind: Kind) -> Result<Self> {
        let name = if kind == Kind::Works { "slot" } else { "waiting" };
        let dir = workspace().join("target/boots");
        fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
        loop {
            for n in 0..SLOTS {
                let path = dir.join(format!("{name}-{n}"));
                let file = File::create(&path).map_err(Error::file("open", path))?;
                if file.try_lock().is_ok() {
                    return Ok(Self(file));
                }
            }
            sleep(Duration::from_millis(100));
        }
    }
}
