//! The findings of the Resizable BAR pass: one for each reason why a BAR1 is not as large as possible.

use super::limit::{DEFAULT_BAR1, limit};
use super::resize::Resize;
use super::state::{BarState, bar_states};
use crate::journal::Grown;
use machine::host::nvidia::{boards, chip};
use machine::pcie::aperture;
use machine::pcie::bus_address::BusWindow;
use machine::pcie::model::Device;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use outcome::text::size;
use std::collections::BTreeSet;

/// The GPU offers no other size.
pub(super) fn absent(gpu: &Device) -> Finding {
    let bar = gpu.aperture();
    let has = bar.map_or_else(
        || "no BAR1".to_owned(),
        |b| format!("BAR1 of {}", size(b.bytes)),
    );
    let small = bar.is_none_or(|b| b.bytes <= DEFAULT_BAR1);
    let severity = if small {
        Severity::Warn
    } else {
        Severity::Info
    };
    let shown = gpu.config.bytes;
    let why = if shown < 4096 {
        format!(" in the {shown} bytes that can be read")
    } else {
        String::new()
    };
    let message = format!(
        "{} has {has} and no Resizable BAR capability for it{why}",
        gpu.bdf
    );
    let finding = Code::RebarAbsent.finding(severity, gpu.bdf, message);
    if small {
        finding
    } else {
        finding.because(Reason::FixedBar)
    }
}

/// The largest size that the GPU offers does not cover its memory, and a VBIOS could offer more.
pub(super) fn limited(gpu: &Device, largest: u64) -> Option<Finding> {
    let boards = chip::number(&gpu.device)
        .map_or_else(Vec::new, |id| boards::possible(id, Some(largest >> 20)));
    let memory = boards.iter().map(|board| board.memory_mib << 20).min();
    let reason = limit(gpu, memory).filter(|reason| *reason == Reason::VbiosLimit)?;
    let message = format!(
        "{} has BAR1 of {largest}, and offers no larger one",
        gpu.bdf,
        largest = size(largest)
    );
    Some(
        Code::RebarAbsent
            .finding(Severity::Warn, gpu.bdf, message)
            .because(reason),
    )
}

/// The GPU is in use.
pub(super) fn busy(gpu: &Device, present: u64, wanted: u64, why: &str) -> Finding {
    let message = format!(
        "{} keeps BAR1 of {}, expected {}: {why}",
        gpu.bdf,
        size(present),
        size(wanted)
    );
    let finding = Code::RebarBusy.finding(Severity::Warn, gpu.bdf, message);
    finding.values(present, wanted, Some("bytes"))
}

/// A framebuffer is on the GPU.
pub(super) fn screen(gpu: &Device, present: u64, wanted: u64, name: &str) -> Finding {
    busy(gpu, present, wanted, &format!("{name} is on it")).because(Reason::DisplayKept)
}

/// The kernel forbids the writes that a restore would need.
pub(super) fn locked(mode: &str) -> Finding {
    let message = format!(
        "BAR1 was not changed: the kernel is locked down ({mode}), so a change could not be undone"
    );
    Code::Lockdown
        .finding(Severity::Warn, Subject::Machine, message)
        .values(mode, "none", None)
}

/// BAR1 has another size than before.
pub(super) fn resized(gpu: &Resize, bytes: u64) -> Finding {
    let message = format!(
        "{} BAR1 was {}, is {}",
        gpu.bdf,
        size(gpu.before_bytes),
        size(bytes)
    );
    let finding = Code::RebarResized.finding(Severity::Info, gpu.bdf, message);
    finding.values(bytes, gpu.wanted_bytes, Some("bytes"))
}

/// BAR1 is smaller than it should be for lack of addresses.
pub(super) fn no_room(
    gpu: &Resize,
    present: u64,
    assigned: bool,
    blocked: Option<&str>,
) -> Finding {
    let place = if assigned { "" } else { " and no address" };
    let (bdf, wanted) = (gpu.bdf, size(gpu.wanted_bytes));
    let message = format!(
        "{bdf} has BAR1 of {}{place}, expected {wanted}: no address space for more",
        size(present)
    );
    let severity = if assigned {
        Severity::Warn
    } else {
        Severity::Fail
    };
    let finding = Code::RebarNoRoom.finding(severity, bdf, message);
    let finding = finding.values(present, gpu.wanted_bytes, Some("bytes"));
    match blocked {
        Some(why) => finding.because(Reason::NeighbourInUse(why.into())),
        None => finding,
    }
}

/// No size was accepted, for a reason that applies to all sizes.
pub(super) fn never(gpu: &Resize, code: Code, why: &str) -> Finding {
    let (bdf, has, wanted) = (gpu.bdf, size(gpu.before_bytes), size(gpu.wanted_bytes));
    let message = format!("{bdf} keeps BAR1 of {has}, expected {wanted}: {why}");
    code.finding(Severity::Warn, bdf, message).values(
        gpu.before_bytes,
        gpu.wanted_bytes,
        Some("bytes"),
    )
}

/// The GPU must not be used.
pub(super) fn broken(gpu: &Resize, why: &str) -> Finding {
    let message = format!(
        "{} could not be restored to its previous state: {why}",
        gpu.bdf
    );
    Code::RebarBroken.finding(Severity::Fail, gpu.bdf, message)
}

/// The size of BAR1 in the GPU's Resizable BAR control differs from the kernel's: either the GPU answers at
/// addresses that the kernel gave to something else, or it does not answer where the kernel expects it.
#[must_use]
pub fn disagrees(gpu: &Device) -> Option<Finding> {
    let bar = gpu.aperture().filter(|b| b.start != 0)?;
    let control = gpu
        .aperture_sizes()
        .filter(|r| r.bar == bar.index)?
        .current_bytes;
    (control != bar.bytes).then(|| {
        let message = format!(
            "{} has BAR1 of {} by its Resizable BAR control, the kernel believes {}",
            gpu.bdf,
            size(control),
            size(bar.bytes)
        );
        let finding = Code::RebarBroken.finding(Severity::Fail, gpu.bdf, message);
        finding.values(control, bar.bytes, Some("bytes"))
    })
}

/// Findings from the registers and the kernel about a GPU's BARs, before and after any pass; `above`: the
/// windows of the bridges above it, the nearest first. Without an address for BAR0, its registers, no driver can use the GPU.
pub(crate) fn bar_fault(
    gpu: &Device,
    registers: &[Option<u64>; 6],
    above: &[Vec<BusWindow>],
) -> Option<Finding> {
    if let Some(finding) = disagrees(gpu) {
        return Some(finding);
    }
    let window = aperture::in_registers(registers);
    let states = bar_states(gpu.bars.clone(), registers, above);
    let placed = |index: u8| {
        let own = |state: &&BarState| state.bar.index == index && state.bar.start != 0;
        states.iter().find(own)
    };
    // The kernel may keep nothing of a BAR1 for which it found no address.
    let lost = window.filter(|index| placed(*index).is_none());
    let others = states.iter().filter(|state| state.is_unplaced());
    let empty: BTreeSet<u8> = others
        .clone()
        .map(|state| state.bar.index)
        .chain(lost)
        .collect();
    if !empty.is_empty() {
        let name = |index: &u8| match index {
            index if Some(*index) == window => "BAR1".to_owned(),
            index => format!("BAR{index}"),
        };
        let names = empty.iter().map(name).collect::<Vec<_>>().join(" and ");
        let message = format!("{} has no address for {names}", gpu.bdf);
        let finding = Code::RebarNoRoom.finding(Severity::Fail, gpu.bdf, message);
        let plain = others.clone().find(|state| state.is_plain());
        return Some(match plain {
            Some(state) => finding.because(Reason::PlainBarUnplaced(Some(state.bar.bytes))),
            None => finding,
        });
    }
    let state = placed(window?)?;
    state.is_misplaced().then(|| {
        let (bdf, start) = (gpu.bdf, state.bar.start);
        let held = state
            .register
            .map_or_else(|| "no address".to_owned(), |r| format!("{r:#x}"));
        let on_bus = match state.on_bus {
            Some(on_bus) if on_bus == start => String::new(),
            Some(on_bus) => format!(", which is {on_bus:#x} on the bus"),
            None => ", whose bus address is unknown".to_owned(),
        };
        let message = format!("{bdf} has {held} in BAR1, the kernel expects {start:#x}{on_bus}");
        let expected = state.on_bus.map(|address| format!("{address:#x}"));
        let finding = Code::RebarBroken
            .finding(Severity::Fail, bdf, message)
            .values(held, expected, None);
        // A resize leaves some addresses; a GPU without any has lost all of them.
        let lost =
            state.register == Some(0) && states.iter().all(|b| b.register.is_none_or(|r| r == 0));
        if lost {
            finding.because(Reason::AddressesLost)
        } else {
            finding
        }
    })
}

/// The attempts, for a finding's evidence.
pub(super) fn tried(entry: &Grown) -> Vec<String> {
    let firmware = format!("firmware left {}", size(entry.before_bytes));
    let tries = entry.tries.iter().map(|t| {
        let how = if t.together {
            " together with its neighbours"
        } else {
            ""
        };
        let outcome = t.outcome.as_deref().unwrap_or("did not finish");
        format!("{}{how}: {outcome}", size(t.bytes))
    });
    std::iter::once(firmware).chain(tries).collect()
}
