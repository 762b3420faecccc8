//! The devices, their names and their ids.

use crate::state::{Code, Result};
use crate::state::{Handle, call, device, put, put_text, query_device};
use simgpu_model::scenario::Machine;
use simgpu_model::{Scenario, events};
use std::ffi::{CStr, c_char, c_int, c_uint};

/// A device's PCI address and ids.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct PciInfo {
    legacy: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    ids: c_uint,
    subsystem: c_uint,
    address: [u8; 32],
}

/// The PCI address and ids of a GPU.
pub(crate) fn pci(scenario: &Scenario, gpu: usize) -> PciInfo {
    let (domain, bus, device) = scenario.machine.address(gpu);
    let [ids, subsystem] = scenario.machine.pci_ids;
    let place = format!("{bus:02X}:{device:02X}.0");
    let legacy = text(&format!("{domain:04X}:{place}"));
    PciInfo {
        legacy,
        domain,
        bus,
        device,
        ids,
        subsystem,
        address: text(&format!("{domain:08X}:{place}")),
    }
}

/// What NVML says of a switch that a virtual machine does not show.
pub(crate) fn nowhere() -> PciInfo {
    let place = "FF:FF.0";
    PciInfo {
        legacy: text(&format!("FFFF:{place}")),
        domain: u32::MAX,
        bus: 0xff,
        device: 0xff,
        ids: 0,
        subsystem: 0,
        address: text(&format!("FFFFFFFF:{place}")),
    }
}

/// Text, padded with zeros.
fn text<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    for (slot, byte) in bytes.iter_mut().zip(text.bytes().take(N - 1)) {
        *slot = byte;
    }
    bytes
}

/// A GPU's UUID as `GPU-` and hexadecimal digits.
fn uuid(gpu: usize) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let bytes = Machine::uuid(gpu);
    let part = |from: usize, to: usize| hex(bytes.get(from..to).unwrap_or_default());
    format!(
        "GPU-{}-{}-{}-{}-{}",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 16)
    )
}

/// Returns the device that `is` matches to the caller.
///
/// # Safety
/// `handle` is null or writable.
unsafe fn find(handle: *mut Handle, is: impl Fn(&Scenario, usize) -> bool) -> c_int {
    call(|scenario| {
        let found = scenario
            .visible()
            .into_iter()
            .find(|gpu| is(scenario, *gpu));
        let found = found.ok_or(Code::NOT_FOUND)?;
        if events::is_lost(scenario, found) {
            return Err(Code::GPU_IS_LOST);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { put(handle, device(found)) }
    })
}

/// Reads the caller's text.
///
/// # Safety
/// `text` is null or ends with a zero byte.
unsafe fn read(text: *const c_char) -> Result<String> {
    if text.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_int {
    call(|scenario| {
        let n = c_uint::try_from(scenario.visible().len()).map_err(|_| Code::UNKNOWN)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(count, n) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, handle: *mut Handle) -> c_int {
    call(|scenario| {
        let place = usize::try_from(index).map_err(|_| Code::INVALID_ARGUMENT)?;
        let gpu = scenario
            .visible()
            .get(place)
            .copied()
            .ok_or(Code::INVALID_ARGUMENT)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(handle, device(gpu)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    address: *const c_char,
    handle: *mut Handle,
) -> c_int {
    // SAFETY: the caller's text.
    let Ok(wanted) = (unsafe { read(address) }) else {
        return Code::INVALID_ARGUMENT.0;
    };
    // Domains are written with four digits or eight.
    let number = |text: &str| {
        let (place, _) = text.split_once('.')?;
        place
            .split(':')
            .map(|p| u32::from_str_radix(p, 16).ok())
            .collect::<Option<Vec<_>>>()
    };
    let Some(wanted) = number(&wanted) else {
        return Code::INVALID_ARGUMENT.0;
    };
    let is = |scenario: &Scenario, gpu| {
        let (domain, bus, device) = scenario.machine.address(gpu);
        wanted == [domain, bus, device]
    };
    // SAFETY: the caller's pointer is valid.
    unsafe { find(handle, is) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByUUID(
    identity: *const c_char,
    handle: *mut Handle,
) -> c_int {
    // SAFETY: the caller's text.
    let Ok(wanted) = (unsafe { read(identity) }) else {
        return Code::INVALID_ARGUMENT.0;
    };
    // SAFETY: the caller's pointer is valid.
    unsafe { find(handle, |_, gpu| uuid(gpu) == wanted) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetIndex(handle: Handle, index: *mut c_uint) -> c_int {
    query_device(handle, |scenario, gpu| {
        let place = scenario
            .visible()
            .iter()
            .position(|g| *g == gpu)
            .ok_or(Code::NOT_FOUND)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(index, c_uint::try_from(place).map_err(|_| Code::UNKNOWN)?) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMinorNumber(handle: Handle, minor: *mut c_uint) -> c_int {
    // SAFETY: the caller's pointer is valid.
    query_device(handle, |_, gpu| unsafe {
        put(minor, c_uint::try_from(gpu).map_err(|_| Code::UNKNOWN)?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetName(handle: Handle, name: *mut c_char, length: c_uint) -> c_int {
    // SAFETY: the caller's buffer of `length` bytes.
    query_device(handle, |scenario, _| unsafe {
        put_text(name, length, &scenario.machine.full_name())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetUUID(handle: Handle, to: *mut c_char, length: c_uint) -> c_int {
    query_device(handle, |scenario, gpu| {
        let other = if scenario.machine.nvml_uuid_differs.contains(&gpu) {
            90
        } else {
            0
        };
        // SAFETY: the caller's buffer of `length` bytes.
        unsafe { put_text(to, length, &uuid(gpu + other)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetVbiosVersion(
    handle: Handle,
    to: *mut c_char,
    length: c_uint,
) -> c_int {
    // SAFETY: the caller's buffer of `length` bytes.
    query_device(handle, |_, _| unsafe {
        put_text(to, length, "95.02.3c.80.b4")
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(handle: Handle, to: *mut PciInfo) -> c_int {
    // SAFETY: the caller's pointer is valid.
    query_device(handle, |scenario, gpu| unsafe {
        put(to, pci(scenario, gpu))
    })
}
