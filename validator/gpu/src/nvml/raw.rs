//! Calls of NVML for which the library that the other files use has no wrapper, or one that leaves out an argument: the loaded
//! library, a device of it, and fields with a scope (nvml.h).
#![expect(
    unsafe_code,
    reason = "functions of a shared library are found by name and called as its header declares them"
)]

use super::status::CounterValue;
use libloading::{Library, Symbol};
use machine::pcie::model::Bdf;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The loader's name of the library, which NVML's own start has already loaded.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// `NVML_ERROR_INVALID_ARGUMENT`: an old driver reports an unknown field so.
const INVALID_ARGUMENT: c_int = 2;
/// `NVML_ERROR_NOT_SUPPORTED`
pub(super) const NOT_SUPPORTED: c_int = 3;
/// Entries that one call asks for at most, and those behind them that belong to nobody.
const MOST: usize = 48;
const SPARE: usize = 16;
/// The memory for calls that are not under way. It is never given back: recorded once with driver 580.159 on two H200, while
/// other programs asked NVML, too: the time of a call stood behind the last entry of memory that had been given back, and the
/// heap was broken.
static ENTRIES: Mutex<Vec<Vec<FieldValue>>> = Mutex::new(Vec::new());
/// The scope that stands for all links of a GPU; the number of a link is a scope, too.
pub(super) const ALL_LINKS: u32 = u32::MAX;

/// `nvmlDevice_t`
pub(super) type Device = *mut c_void;
type FindDevice = unsafe extern "C" fn(*const c_char, *mut Device) -> c_int;
type FieldValues = unsafe extern "C" fn(Device, c_int, *mut FieldValue) -> c_int;

/// `nvmlFieldValue_t`
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct FieldValue {
    id: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency: i64,
    kind: c_uint,
    result: c_int,
    value: u64,
}

/// The library, which NVML's own start has already loaded; it is found once.
///
/// # Errors
/// The loader's error.
pub(super) fn library() -> Result<&'static Library, String> {
    static FOUND: OnceLock<Result<Library, String>> = OnceLock::new();
    // SAFETY: the library is loaded already, so that nothing of it runs.
    let find = || unsafe { Library::new(LIBRARY) }.map_err(|e| format!("{LIBRARY}: {e}"));
    FOUND.get_or_init(find).as_ref().map_err(String::clone)
}

/// The device at an address.
///
/// # Errors
/// NVML's number.
pub(super) fn device(library: &Library, gpu: Bdf) -> Result<Device, String> {
    // SAFETY: the type is that of nvml.h.
    let find = unsafe { library.get::<FindDevice>(b"nvmlDeviceGetHandleByPciBusId_v2\0") }
        .map_err(|e| e.to_string())?;
    let address = CString::new(gpu.to_string()).map_err(|e| e.to_string())?;
    let mut device: Device = std::ptr::null_mut();
    // SAFETY: the address ends with 0, and NVML writes one handle.
    match unsafe { find(address.as_ptr(), &raw mut device) } {
        0 => Ok(device),
        code => Err(format!("nvmlDeviceGetHandleByPciBusId_v2 returned {code}")),
    }
}

/// The values of fields, each with its scope, in the order in which they are asked for.
pub(super) fn fields(gpu: Bdf, asked: &[(u32, u32)]) -> Vec<CounterValue> {
    let read =
        |asked: &[(u32, u32)]| read(gpu, asked).unwrap_or_else(|unread| vec![unread; asked.len()]);
    asked.chunks(MOST).flat_map(read).collect()
}

/// At most `MOST` fields.
fn read(gpu: Bdf, asked: &[(u32, u32)]) -> Result<Vec<CounterValue>, CounterValue> {
    let library = library().map_err(CounterValue::Unread)?;
    // SAFETY: the type is that of nvml.h.
    let ask: Result<Symbol<'_, FieldValues>, _> =
        unsafe { library.get(b"nvmlDeviceGetFieldValues\0") };
    let ask = ask.map_err(|_| CounterValue::Unsupported)?;
    let device = device(library, gpu).map_err(CounterValue::Unread)?;
    let count = c_int::try_from(asked.len()).map_err(|e| CounterValue::Unread(e.to_string()))?;
    let free = || ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut entries = free()
        .pop()
        .unwrap_or_else(|| vec![FieldValue::default(); MOST + SPARE]);
    for (entry, (id, scope)) in entries.iter_mut().zip(asked) {
        *entry = FieldValue {
            id: *id,
            scope: *scope,
            ..FieldValue::default()
        };
    }
    // SAFETY: NVML reads and writes as many entries as the count says.
    let values = match unsafe { ask(device, count, entries.as_mut_ptr()) } {
        0 => Ok(entries.iter().take(asked.len()).map(value).collect()),
        INVALID_ARGUMENT | NOT_SUPPORTED => Err(CounterValue::Unsupported),
        code => Err(CounterValue::Unread(format!(
            "nvmlDeviceGetFieldValues returned {code}"
        ))),
    };
    free().push(entries);
    values
}

/// `nvmlValueType_t`: double, unsigned int, unsigned long, unsigned long long, signed long long, signed int, unsigned short.
fn value(field: &FieldValue) -> CounterValue {
    match (field.result, field.kind) {
        (0, 1 | 5) => CounterValue::At(field.value & u64::from(u32::MAX)),
        (0, 2..=4) => CounterValue::At(field.value),
        (0, 6) => CounterValue::At(field.value & u64::from(u16::MAX)),
        (0, kind) => CounterValue::Unread(format!(
            "NVML's field {} has a value of type {kind}",
            field.id
        )),
        (INVALID_ARGUMENT | NOT_SUPPORTED, _) => CounterValue::Unsupported,
        (code, _) => CounterValue::Unread(format!("NVML's field {} returned {code}", field.id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_the_size_of_the_header_and_its_value_that_of_its_type() {
        assert_eq!(size_of::<FieldValue>(), 40);
        let field = |kind, result| FieldValue {
            id: 138,
            kind,
            result,
            value: 0xffff_ffff_0000_0007,
            ..Default::default()
        };
        assert_eq!(value(&field(1, 0)), CounterValue::At(7));
        assert_eq!(value(&field(3, 0)), CounterValue::At(0xffff_ffff_0000_0007));
        assert_eq!(value(&field(3, NOT_SUPPORTED)), CounterValue::Unsupported);
        assert!(
            matches!(value(&field(3, 999)), CounterValue::Unread(why) if why.contains("138 returned 999"))
        );
        assert!(matches!(value(&field(0, 0)), CounterValue::Unread(_)));
    }
}
