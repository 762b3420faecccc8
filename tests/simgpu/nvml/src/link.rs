//! Links: PCIe as it is now and at its maximum, and NVLink; and what NVML reports about pairs of GPUs.

use crate::device::{PciInfo, nowhere, pci};
use crate::process::own_usage;
use crate::state::{Code, Result};
use crate::state::{Handle, gpu, put, query_device};
use simgpu_model::nvlink::moved;
use simgpu_model::scenario::{Event, Fault, Kind, NvLink};
use simgpu_model::{Scenario, events};
use std::ffi::{c_int, c_uint};

/// Generation and width of a GPU's PCIe link under load.
fn pcie_under_load(scenario: &Scenario, gpu: usize) -> (u32, u32) {
    let narrow = scenario
        .fault
        .iter()
        .filter(|f| f.kind == Kind::Narrow && f.gpu == Some(gpu));
    let pcie = scenario.machine.pcie;
    let (r#gen, width) = narrow.fold((pcie.r#gen, pcie.width), |(r#gen, width), f| {
        (f.r#gen.unwrap_or(r#gen), f.width.unwrap_or(width))
    });
    (r#gen, events::lanes(scenario, gpu).unwrap_or(width))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCurrPcieLinkGeneration(handle: Handle, to: *mut c_uint) -> c_int {
    query_device(handle, |scenario, gpu| {
        let (r#gen, _) = pcie_under_load(scenario, gpu);
        let found = if own_usage(gpu).busy {
            r#gen
        } else {
            r#gen.min(scenario.machine.pcie.idle_gen)
        };
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCurrPcieLinkWidth(handle: Handle, to: *mut c_uint) -> c_int {
    // SAFETY: the caller's pointer is valid.
    query_device(handle, |scenario, gpu| unsafe {
        put(to, pcie_under_load(scenario, gpu).1)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxPcieLinkGeneration(handle: Handle, to: *mut c_uint) -> c_int {
    // SAFETY: the caller's pointer is valid.
    query_device(handle, |scenario, _| unsafe {
        put(to, scenario.machine.pcie.r#gen)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxPcieLinkWidth(handle: Handle, to: *mut c_uint) -> c_int {
    // SAFETY: the caller's pointer is valid.
    query_device(handle, |scenario, _| unsafe {
        put(to, scenario.machine.pcie.width)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPcieReplayCounter(handle: Handle, to: *mut c_uint) -> c_int {
    query_device(handle, |scenario, gpu| {
        let sum = events::sum(scenario, gpu, |event| event.pcie_replays);
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, c_uint::try_from(sum).map_err(|_| Code::UNKNOWN)?) }
    })
}

/// Errors of an NVLink by NVML's numbers: 0 replays, 1 recoveries, 2 CRC of flits, 3 CRC of data, which rises on each link.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkErrorCounter(
    handle: Handle,
    link: c_uint,
    counter: c_uint,
    to: *mut u64,
) -> c_int {
    query_device(handle, |scenario, gpu| {
        nvlink(scenario, link)?;
        if scenario.machine.nvlink_uncounted {
            return Err(Code::NOT_SUPPORTED);
        }
        let found = errors(scenario, gpu, link, counter).ok_or(Code::INVALID_ARGUMENT)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, found) }
    })
}

/// One kind of a link's errors, by the number of the counter above.
pub(crate) fn errors(
    scenario: &Scenario,
    gpu: usize,
    link: c_uint,
    counter: c_uint,
) -> Option<u64> {
    let sum = |of: fn(&Event) -> u64| {
        if link == 0 {
            events::sum(scenario, gpu, of)
        } else {
            0
        }
    };
    match counter {
        0 => Some(sum(|event| event.nvlink_replays)),
        1 => Some(sum(|event| event.nvlink_recoveries)),
        2 => Some(0),
        3 => Some(scenario.nvlink_crc(gpu, link, moved(gpu))),
        _ => None,
    }
}

/// The machine's NVLink description, if it has a link with this number.
fn nvlink(scenario: &Scenario, link: c_uint) -> Result<NvLink> {
    let nvlink = scenario.machine.nvlink.ok_or(Code::NOT_SUPPORTED)?;
    if link < nvlink.links {
        Ok(nvlink)
    } else {
        Err(Code::INVALID_ARGUMENT)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkState(
    handle: Handle,
    link: c_uint,
    up: *mut c_uint,
) -> c_int {
    query_device(handle, |scenario, gpu| {
        let all = nvlink(scenario, link)?.links;
        let silent = |f: &&Fault| f.kind == Kind::NvlinkError && f.gpu.is_none_or(|g| g == gpu);
        if let Some(fault) = scenario.fault.iter().find(silent) {
            return Err(Code(fault.code));
        }
        let is_up = link < all.saturating_sub(scenario.nvlinks_down(gpu));
        // SAFETY: the caller's pointer is valid.
        unsafe { put(up, c_uint::from(is_up)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkVersion(
    handle: Handle,
    link: c_uint,
    to: *mut c_uint,
) -> c_int {
    query_device(handle, |scenario, _| {
        let found = nvlink(scenario, link)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, found.version) }
    })
}

/// Switches are not visible in a virtual machine; links without switches lead to the other GPUs in turn.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    handle: Handle,
    link: c_uint,
    to: *mut PciInfo,
) -> c_int {
    query_device(handle, |scenario, gpu| {
        if nvlink(scenario, link)?.switch {
            // SAFETY: the caller's pointer is valid.
            return unsafe { put(to, nowhere()) };
        }
        let others: Vec<_> = scenario
            .visible()
            .into_iter()
            .filter(|g| *g != gpu)
            .collect();
        let place = usize::try_from(link).map_err(|_| Code::UNKNOWN)?;
        let place = place.checked_rem(others.len()).ok_or(Code::NOT_SUPPORTED)?;
        let other = others.get(place).copied().ok_or(Code::NOT_SUPPORTED)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, pci(scenario, other)) }
    })
}

/// What can be queried about a pair.
const READ: c_uint = 0;
const WRITE: c_uint = 1;
const NVLINK: c_uint = 2;
const ATOMICS: c_uint = 3;
const PCI: c_uint = 4;
/// The status of a capability that the GPUs do not have.
const NOT_SUPPORTED: c_uint = 5;

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetP2PStatus(
    a: Handle,
    b: Handle,
    index: c_uint,
    status: *mut c_uint,
) -> c_int {
    query_device(a, |scenario, from| {
        let to = gpu(scenario, b)?;
        if from == to {
            // As four H200 answer (driver 580.159.04).
            // SAFETY: the caller's pointer is valid.
            return unsafe { put(status, 0) };
        }
        let linked = scenario.machine.nvlink.is_some();
        let found = match index {
            NVLINK if !linked => NOT_SUPPORTED,
            PCI if linked => NOT_SUPPORTED,
            READ | WRITE | NVLINK | PCI => scenario.nvml_status(from, to, false),
            ATOMICS => scenario.nvml_status(from, to, true),
            _ => return Err(Code::INVALID_ARGUMENT),
        };
        // SAFETY: the caller's pointer is valid.
        unsafe { put(status, found) }
    })
}

/// The distance between two GPUs: 40 within one NUMA node, 50 across sockets.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    a: Handle,
    b: Handle,
    level: *mut c_uint,
) -> c_int {
    query_device(a, |scenario, from| {
        let to = gpu(scenario, b)?;
        if from == to {
            return Err(Code::NOT_SUPPORTED);
        }
        let numa = |gpu| scenario.machine.numa.get(gpu);
        let found = if numa(from) == numa(to) { 40 } else { 50 };
        // SAFETY: the caller's pointer is valid.
        unsafe { put(level, found) }
    })
}

/// `nvmlGpuFabricInfo_v3_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct FabricInfo {
    version: c_uint,
    cluster: [u8; 16],
    status: c_int,
    clique: c_uint,
    state: u8,
    mask: c_uint,
    summary: u8,
}

/// The first NVLinks whose switches form a fabric that GPUs register with: those of Hopper, which NVML calls version 6.
const WITH_FABRIC: c_uint = 6;

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGpuFabricInfoV(handle: Handle, to: *mut FabricInfo) -> c_int {
    query_device(handle, |scenario, gpu| {
        let there = |link: &NvLink| link.switch && link.version >= WITH_FABRIC;
        scenario
            .machine
            .nvlink
            .as_ref()
            .filter(|link| there(link))
            .ok_or(Code::NOT_SUPPORTED)?;
        let said = scenario
            .machine
            .nvlink_fabric
            .iter()
            .find(|member| member.gpu == gpu);
        let (state, status, clique) = said.map_or((3, 0, 0), |member| {
            (member.state, member.status, member.clique)
        });
        let (mask, summary) = said.map_or((0, 0), |member| (member.mask, member.summary));
        let cluster = [said.map_or(0, |member| member.cluster); 16];
        let version =
            c_uint::try_from(size_of::<FabricInfo>()).map_err(|_| Code::UNKNOWN)? | 3 << 24;
        // SAFETY: the caller's pointer is valid, and its version says that it is of this form.
        unsafe {
            put(
                to,
                FabricInfo {
                    version,
                    cluster,
                    status,
                    clique,
                    state,
                    mask,
                    summary,
                },
            )
        }
    })
}
