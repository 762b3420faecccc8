//! Writes to a GPU's own registers: memory decode, Resizable BAR control, a BAR's address. A BAR is only
//! moved while its function decodes no memory, because for an instant it may overlap a neighbor's.

use super::state::{Base, State};
use super::{DEVICES, Machine, Trouble};
use crate::machine::pcie::model::Bdf;

const COMMAND: u16 = 0x04;
/// Memory decode, of the command register.
pub(super) const COMMAND_MEMORY: u16 = 0x0002;
const FIRST_BAR: u16 = 0x10;
/// Bits 13:8 of Resizable BAR control.
const SIZE: u32 = 0x3f00;

impl Machine<'_> {
    fn write(&self, bdf: Bdf, offset: u16, bytes: &[u8]) -> Result<(), Trouble> {
        let file = format!("{DEVICES}/{bdf}/config");
        let failed = |source| Trouble::Io { what: "writing", file: file.clone(), source };
        self.root.write_at(&file, u64::from(offset), bytes).map_err(failed)
    }

    /// Switches memory decode off.
    pub(super) fn decode_off(&self, state: &State) -> Result<(), Trouble> {
        self.write(state.bdf, COMMAND, &(state.command & !COMMAND_MEMORY).to_le_bytes())
    }

    /// Restores the command register to its value in `state`.
    pub(super) fn decode_as(&self, state: &State) -> Result<(), Trouble> {
        self.write(state.bdf, COMMAND, &state.command.to_le_bytes())
    }

    /// Requests a size from the hardware; the address bits below it are lost. Decode must be off.
    pub(super) fn set_size(&self, state: &State, bytes: u64) -> Result<(), Trouble> {
        let code = bytes.checked_ilog2().and_then(|n| n.checked_sub(20));
        let (Some((offset, value)), Some(code)) = (state.control, code) else { return Ok(()) };
        let value = (value & !SIZE) | ((code << 8) & SIZE);
        self.write(state.bdf, offset, &value.to_le_bytes())
    }

    /// Sets every register with a wrong address to the kernel's address, translated to the bus. A register
    /// whose bus address is unknown is not changed.
    pub(super) fn mend(&self, state: &State) -> Result<(), Trouble> {
        // The kernel's flags and the register's flags have the same bit positions.
        let known = |base: &Base| Some((u16::from(base.bar.index), base.on_bus? | (base.bar.flags & 0xf)));
        let astray = state.bars.iter().filter(|b| b.astray()).filter_map(known);
        let astray: Vec<(u16, u64)> = astray.collect();
        if astray.is_empty() {
            return Ok(());
        }
        self.decode_off(state)?;
        for (index, address) in astray {
            let at = FIRST_BAR.saturating_add(4 * index);
            let [low, high] = halves(address);
            self.write(state.bdf, at, &low)?;
            self.write(state.bdf, at.saturating_add(4), &high)?;
        }
        self.decode_as(state)
    }
}

/// The two registers of a 64-bit BAR. Its flag bits are read-only in hardware, and not in a recording.
fn halves(address: u64) -> [[u8; 4]; 2] {
    let [a, b, c, d, e, f, g, h] = address.to_le_bytes();
    [[a, b, c, d], [e, f, g, h]]
}
