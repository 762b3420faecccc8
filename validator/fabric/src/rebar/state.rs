//! The present state of one function's BARs, from three sources: the Resizable BAR control register, the BAR
//! registers, and the kernel's view (`resource`), translated to bus addresses.

use super::{AccessError, DEVICES, Machine};
use machine::pcie::bus_address::{self, BusWindow};
use machine::pcie::config_space;
use machine::pcie::model::{Bar, Bdf};
use machine::pcie::resource;
use std::io::{self, ErrorKind};

/// The kernel's resource flags (include/linux/ioport.h).
const MEM: u64 = 0x200;
const PREFETCHABLE: u64 = 0x2000;
const MEM_64: u64 = 0x10_0000;
const UNSET: u64 = 0x2000_0000;

/// One BAR: the kernel's view and the register's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BarState {
    pub(super) bar: Bar,
    pub(super) register: Option<u64>,
    /// The value that the register should have according to the kernel; `None` if it is unknown.
    pub(super) on_bus: Option<u64>,
}

impl BarState {
    /// True if the kernel has assigned it an address.
    pub(super) fn assigned(&self) -> bool {
        self.bar.start != 0 && self.bar.flags & UNSET == 0
    }

    /// True if it is memory that the kernel has found no address for.
    pub(super) fn is_unplaced(&self) -> bool {
        self.bar.flags & MEM != 0 && !self.assigned()
    }

    /// True if it needs a window for memory that is not prefetchable.
    pub(super) fn is_plain(&self) -> bool {
        self.bar.flags & PREFETCHABLE == 0
    }

    /// True if decoding it would claim addresses that are not its own.
    pub(super) fn unsafe_to_decode(&self) -> bool {
        self.bar.flags & MEM != 0 && (!self.assigned() || self.is_misplaced())
    }

    /// True if the register differs from the kernel's view. Only 64-bit BARs are compared.
    pub(super) fn is_misplaced(&self) -> bool {
        let wide = MEM | MEM_64;
        let right = self.on_bus.is_some() && self.register == self.on_bus;
        self.assigned() && self.bar.flags & wide == wide && !right
    }
}

/// The present state of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FunctionState {
    pub(super) bdf: Bdf,
    /// A port; the kernel manages its windows.
    pub(super) bridge: bool,
    /// Device and vendor id.
    pub(super) ids: Option<u32>,
    /// The command register.
    pub(super) command: u16,
    pub(super) driver: Option<String>,
    pub(super) bars: Vec<BarState>,
    /// The control register of the BAR in question: its offset and value.
    pub(super) control: Option<(u16, u32)>,
}

impl FunctionState {
    /// The size that the hardware has for the BAR in question.
    pub(super) fn hardware_bytes(&self) -> Option<u64> {
        self.control
            .and_then(|(_, value)| config_space::rebar_size(value))
    }

    pub(super) fn bar(&self, bar: u8) -> Option<&BarState> {
        self.bars.iter().find(|b| b.bar.index == bar)
    }

    /// True if BAR `bar` has this size for hardware and kernel alike, an address, and no register differs.
    pub(super) fn has_size(&self, bar: u8, bytes: u64) -> bool {
        let state = self
            .bar(bar)
            .filter(|b| b.bar.bytes == bytes && b.assigned());
        state.is_some()
            && self.hardware_bytes() == Some(bytes)
            && !self.bars.iter().any(BarState::is_misplaced)
    }

    /// True if every BAR that had an address in `before` has one.
    pub(super) fn keeps_addresses(&self, before: &Self) -> bool {
        let lost = |old: &BarState| {
            old.assigned() && !self.bar(old.bar.index).is_some_and(BarState::assigned)
        };
        !before.bars.iter().any(lost)
    }

    /// True if sizes are as before, every BAR that had an address has one, and no register differs. The
    /// addresses themselves may differ.
    pub(super) fn matches(&self, before: &Self) -> bool {
        let size = |old: &BarState| {
            self.bar(old.bar.index)
                .is_some_and(|new| new.bar.bytes == old.bar.bytes)
        };
        self.hardware_bytes() == before.hardware_bytes()
            && before.bars.iter().all(size)
            && self.keeps_addresses(before)
            && !self.bars.iter().any(BarState::is_misplaced)
    }

    /// The three sources about `bar`, in words.
    pub(super) fn describe(&self, bar: u8) -> String {
        let size =
            |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), outcome::text::size);
        let state = self.bar(bar);
        let register = state
            .and_then(|b| b.register)
            .map_or_else(|| "unreadable".to_owned(), |r| format!("{r:#x}"));
        let kernel = state.map_or_else(
            || "nothing".to_owned(),
            |b| {
                let place = if b.assigned() {
                    format!("at {:#x}", b.bar.start)
                } else {
                    "without address".to_owned()
                };
                format!("{} {place}", size(Some(b.bar.bytes)))
            },
        );
        format!(
            "ReBAR control {}, BAR register {register}, kernel {kernel}",
            size(self.hardware_bytes())
        )
    }
}

impl Machine<'_> {
    /// The windows of the bridges above `bdf`, the nearest first. Unreadable bridges are left out.
    fn above(&self, bdf: Bdf) -> Result<Vec<Vec<BusWindow>>, AccessError> {
        if let Some(known) = bus_address::of_this_machine(self.root) {
            return Ok(known);
        }
        let path = self.path(bdf)?;
        let bridges = path
            .iter()
            .rev()
            .filter_map(|name| name.to_str()?.parse::<Bdf>().ok());
        let windows = |bridge: Bdf| {
            let folder = format!("{DEVICES}/{bridge}");
            let bytes = self.root.read(format!("{folder}/config")).ok()?;
            let text = self.root.text(format!("{folder}/resource")).ok()?;
            Some(bus_address::windows(&config_space::parse(&bytes), &text))
        };
        Ok(bridges
            .filter(|bridge| *bridge != bdf)
            .filter_map(windows)
            .collect())
    }

    /// Reads `bdf`, with the control register of its BAR `bar`.
    pub(super) fn state(&self, bdf: Bdf, bar: u8) -> Result<FunctionState, AccessError> {
        let file = format!("{DEVICES}/{bdf}/config");
        let bytes = self.root.read(&file).map_err(|e| unread(&file, e))?;
        let space = config_space::parse(&bytes);
        let command = config_space::command(&bytes).filter(|_| !space.gone);
        let command = command.ok_or_else(|| AccessError::Malformed {
            file: file.clone(),
            why: "the function does not answer".to_owned(),
        })?;
        let file = format!("{DEVICES}/{bdf}/resource");
        let text = self.root.text(&file).map_err(|e| unread(&file, e))?;
        let bars = resource::parse(&text).map_err(|why| AccessError::Malformed { file, why })?;
        let bridge = space.layout != 0;
        let bars = if bridge {
            Vec::new()
        } else {
            bar_states(bars, &space.bases, &self.above(bdf)?)
        };
        let ids = Some((u32::from(space.device) << 16) | u32::from(space.vendor));
        let control = config_space::rebar_control(&bytes, bar);
        Ok(FunctionState {
            bdf,
            bridge,
            ids,
            command,
            driver: self.driver(bdf)?,
            bars,
            control,
        })
    }

    fn driver(&self, bdf: Bdf) -> Result<Option<String>, AccessError> {
        let file = format!("{DEVICES}/{bdf}/driver");
        match self.root.link(&file) {
            Ok(target) => Ok(target.file_name().map(|n| n.to_string_lossy().into_owned())),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(unread(&file, source)),
        }
    }
}

/// BARs with their actual and expected register contents.
pub(super) fn bar_states(
    bars: Vec<Bar>,
    registers: &[Option<u64>; 6],
    above: &[Vec<BusWindow>],
) -> Vec<BarState> {
    let register = |bar: &Bar| registers.get(usize::from(bar.index)).copied().flatten();
    let own: Vec<_> = bars
        .into_iter()
        .map(|bar| (bar.clone(), register(&bar)))
        .collect();
    let state = |(bar, register): &(Bar, Option<u64>)| {
        let on_bus = bus_address::of(bar, above, &own);
        BarState {
            bar: bar.clone(),
            register: *register,
            on_bus,
        }
    };
    own.iter().map(state).collect()
}

pub(super) fn unread(file: &str, source: io::Error) -> AccessError {
    AccessError::Io {
        what: "reading",
        file: file.to_owned(),
        source,
    }
}
