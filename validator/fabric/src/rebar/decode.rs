//! Memory decode of the functions that the pass takes off the bus temporarily. Their command registers are
//! recorded before the first attempt, so that a pass that dies partway leaves no function without memory
//! decode for good.

use super::joint::NO_BAR;
use super::resize::Resize;
use super::state::{BarState, FunctionState};
use super::{AccessError, DEVICES, Kernel, Machine};
use crate::journal::{Decode, Grown};
use machine::pcie::model::Bdf;
use machine::root::Root;
use serde::Serialize;
use std::fmt;

/// What happened to a function's memory decode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum DecodeOutcome {
    /// It is on again.
    Restored,
    /// It was not changed.
    Left {
        /// The reason.
        why: String,
    },
}

/// A function whose memory decode was not as it was before the pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecodeStep {
    /// The function.
    pub bdf: Bdf,
    /// What happened to it.
    pub outcome: DecodeOutcome,
}

impl DecodeStep {
    /// True when it decodes memory again.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.outcome == DecodeOutcome::Restored
    }
}

impl fmt::Display for DecodeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            DecodeOutcome::Restored => write!(f, "{} memory decode off -> on", self.bdf),
            DecodeOutcome::Left { why } => {
                write!(f, "{} memory decode not changed: {why}", self.bdf)
            }
        }
    }
}

/// Switches memory decode on again if `recorded` says that it was on. Functions that need no change are not reported.
#[must_use]
pub fn restore_decode(
    root: &Root,
    kernel: &dyn Kernel,
    recorded: &[Decode],
    entries: &[Grown],
) -> Vec<DecodeStep> {
    let machine = Machine { root, kernel };
    let known = recorded.iter().filter_map(|decode| machine.step(decode));
    let unrecorded = entries
        .iter()
        .filter(|e| interrupted(e) && !recorded.iter().any(|n| n.bdf == e.bdf));
    known
        .chain(unrecorded.filter_map(|entry| machine.unknown(entry.bdf)))
        .collect()
}

/// True if a pass died while this GPU and its neighbors had memory decode off.
fn interrupted(entry: &Grown) -> bool {
    entry
        .tries
        .last()
        .is_some_and(|last| last.together && last.outcome.is_none())
}

fn decodes(command: u16) -> bool {
    command & COMMAND_MEMORY != 0
}

impl Machine<'_> {
    /// Records every function whose decode may be switched off while `gpus`, which are below one root port,
    /// are resized. Earlier records stay: an earlier pass may have died since.
    pub(super) fn record_decode(
        &self,
        gpus: &[Resize],
        recorded: &mut Vec<Decode>,
    ) -> Result<(), AccessError> {
        let mut states = Vec::new();
        for gpu in gpus {
            states.push(self.state(gpu.bdf, NO_BAR)?);
        }
        if let Some(port) = gpus.first().and_then(|gpu| gpu.port) {
            states.extend(self.below(port, &[])?.into_iter().map(|below| below.was));
        }
        for FunctionState { bdf, command, .. } in states.into_iter().filter(|state| !state.bridge) {
            if !recorded.iter().any(|decode| decode.bdf == bdf) {
                recorded.push(Decode { bdf, command });
            }
        }
        Ok(())
    }

    /// Removes the records of functions whose memory decode is as it was.
    pub(super) fn drop_restored(&self, recorded: &mut Vec<Decode>) {
        let now = |bdf| {
            self.state(bdf, NO_BAR)
                .ok()
                .map(|state| decodes(state.command))
        };
        recorded.retain(|was| now(was.bdf) != Some(decodes(was.command)));
    }

    /// `None` if there is nothing to do.
    fn step(&self, recorded: &Decode) -> Option<DecodeStep> {
        let left = |why| Some(DecodeOutcome::Left { why });
        let outcome = self
            .decode_on(recorded)
            .unwrap_or_else(|e| left(e.to_string()));
        outcome.map(|outcome| DecodeStep {
            bdf: recorded.bdf,
            outcome,
        })
    }

    fn decode_on(&self, recorded: &Decode) -> Result<Option<DecodeOutcome>, AccessError> {
        let left = |why: String| Ok(Some(DecodeOutcome::Left { why }));
        let now = self.state(recorded.bdf, NO_BAR)?;
        if !decodes(recorded.command) || decodes(now.command) {
            return Ok(None);
        }
        if let Some(driver) = now.driver {
            return left(format!("it is off, and the driver {driver} is bound"));
        }
        self.correct_registers(&now)?;
        let mut now = self.state(recorded.bdf, NO_BAR)?;
        if let Some(state) = now.bars.iter().find(|state| state.unsafe_to_decode()) {
            return left(format!(
                "it is off, and BAR {} has no address of its own",
                state.bar.index
            ));
        }
        now.command |= COMMAND_MEMORY;
        self.restore_command(&now)?;
        let on = decodes(self.state(recorded.bdf, NO_BAR)?.command);
        if on {
            Ok(Some(DecodeOutcome::Restored))
        } else {
            left("it cannot be switched on".to_owned())
        }
    }

    /// A journal without a record of decode does not prove that it was on.
    fn unknown(&self, bdf: Bdf) -> Option<DecodeStep> {
        let why = match self.state(bdf, NO_BAR) {
            Ok(now) if decodes(now.command) => return None,
            Ok(_) => "it is off, and the journal does not say what it was".to_owned(),
            Err(e) => e.to_string(),
        };
        Some(DecodeStep {
            bdf,
            outcome: DecodeOutcome::Left { why },
        })
    }
}

// Writes to a GPU's own registers: memory decode, Resizable BAR control, a BAR's address. A BAR is only
// moved while its function decodes no memory, because for an instant it may overlap a neighbor's.

const COMMAND: u16 = 0x04;
/// Memory decode, of the command register.
pub(super) const COMMAND_MEMORY: u16 = 0x0002;
const FIRST_BAR: u16 = 0x10;
/// Bits 13:8 of Resizable BAR control.
const SIZE: u32 = 0x3f00;

impl Machine<'_> {
    fn write(&self, bdf: Bdf, offset: u16, bytes: &[u8]) -> Result<(), AccessError> {
        let file = format!("{DEVICES}/{bdf}/config");
        let failed = |source| AccessError::Io {
            what: "writing",
            file: file.clone(),
            source,
        };
        self.root
            .write_at(&file, u64::from(offset), bytes)
            .map_err(failed)
    }

    /// Switches memory decode off.
    pub(super) fn decode_off(&self, state: &FunctionState) -> Result<(), AccessError> {
        self.write(
            state.bdf,
            COMMAND,
            &(state.command & !COMMAND_MEMORY).to_le_bytes(),
        )
    }

    /// Restores the command register to its value in `state`.
    pub(super) fn restore_command(&self, state: &FunctionState) -> Result<(), AccessError> {
        self.write(state.bdf, COMMAND, &state.command.to_le_bytes())
    }

    /// Requests a size from the hardware; the address bits below it are lost. Decode must be off.
    pub(super) fn set_size(&self, state: &FunctionState, bytes: u64) -> Result<(), AccessError> {
        let code = bytes.checked_ilog2().and_then(|n| n.checked_sub(20));
        let (Some((offset, value)), Some(code)) = (state.control, code) else {
            return Ok(());
        };
        let value = (value & !SIZE) | ((code << 8) & SIZE);
        self.write(state.bdf, offset, &value.to_le_bytes())
    }

    /// Sets every register with a wrong address to the kernel's address, translated to the bus. A register
    /// whose bus address is unknown is not changed.
    pub(super) fn correct_registers(&self, state: &FunctionState) -> Result<(), AccessError> {
        // The kernel's flags and the register's flags have the same bit positions.
        let known = |state: &BarState| {
            Some((
                u16::from(state.bar.index),
                state.on_bus? | (state.bar.flags & 0xf),
            ))
        };
        let misplaced = state
            .bars
            .iter()
            .filter(|b| b.is_misplaced())
            .filter_map(known);
        let misplaced: Vec<(u16, u64)> = misplaced.collect();
        if misplaced.is_empty() {
            return Ok(());
        }
        self.decode_off(state)?;
        for (index, address) in misplaced {
            let at = FIRST_BAR.saturating_add(4 * index);
            let [low, high] = halves(address);
            self.write(state.bdf, at, &low)?;
            self.write(state.bdf, at.saturating_add(4), &high)?;
        }
        self.restore_command(state)
    }
}

/// The two registers of a 64-bit BAR. Its flag bits are read-only in hardware, and not in a recording.
fn halves(address: u64) -> [[u8; 4]; 2] {
    let [a, b, c, d, e, f, g, h] = address.to_le_bytes();
    [[a, b, c, d], [e, f, g, h]]
}
