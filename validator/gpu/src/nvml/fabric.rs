//! A GPU's registration with the NVLink fabric, which NVSwitches need: `nvmlDeviceGetGpuFabricInfoV` (nvml.h). The library that
//! the other files use has no wrapper for it.
#![expect(
    unsafe_code,
    reason = "functions of a shared library are found by name and called as its header declares them"
)]

use super::Nvml;
use super::raw::{Device, NOT_SUPPORTED, device, library};
use machine::pcie::model::Bdf;
use std::ffi::{c_int, c_uint};

/// `NVML_ERROR_ARGUMENT_VERSION_MISMATCH`: this driver has an earlier form of the answer.
const OTHER_VERSION: c_int = 25;

type FabricInfo = unsafe extern "C" fn(Device, *mut Raw) -> c_int;

/// `nvmlGpuFabricInfo_v3_t`, of which `nvmlGpuFabricInfo_v2_t` is the beginning without the summary.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Raw {
    version: c_uint,
    cluster: [u8; 16],
    status: c_int,
    clique: c_uint,
    state: u8,
    mask: c_uint,
    summary: u8,
}

/// The sizes of both forms, and their numbers.
const FORMS: [(c_uint, c_uint); 2] = [(40, 3), (36, 2)];

/// How far a GPU's registration with the NVLink fabric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// It has not begun.
    NotStarted,
    /// It is under way.
    InProgress,
    /// It ended with this status, an `nvmlReturn_t`; 0 is success.
    Completed(u32),
}

/// A GPU's registration with the NVLink fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvLinkFabric {
    /// How far it is.
    pub registration: Registration,
    /// The fabric's UUID; all zero within one machine.
    pub cluster: [u8; 16],
    /// The number of the GPUs that reach each other.
    pub clique: u32,
    /// What the fabric says about this GPU's links.
    pub health: FabricHealth,
}

/// The health of a GPU in the NVLink fabric (`NVML_GPU_FABRIC_HEALTH_*` of nvml.h). A driver that does not say something says
/// nothing bad.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FabricHealth {
    /// Fewer links carry data than there are.
    pub degraded_bandwidth: bool,
    /// A route is being repaired.
    pub route_recovery: bool,
    /// A route does not work.
    pub route_unhealthy: bool,
    /// Accesses timed out, and the GPU is being repaired.
    pub access_timeout: bool,
    /// The configuration is wrong: NVML's number, 2 and above.
    pub misconfigured: Option<u32>,
    /// The summary is "unhealthy".
    pub unhealthy: bool,
    /// The summary is "limited capacity".
    pub limited: bool,
}

impl FabricHealth {
    const fn of(mask: u32, summary: u8) -> Self {
        const TRUE: u32 = 1;
        let configuration = (mask >> 8) & 15;
        Self {
            degraded_bandwidth: mask & 3 == TRUE,
            route_recovery: (mask >> 2) & 3 == TRUE,
            route_unhealthy: (mask >> 4) & 3 == TRUE,
            access_timeout: (mask >> 6) & 3 == TRUE,
            misconfigured: if configuration >= 2 {
                Some(configuration)
            } else {
                None
            },
            unhealthy: summary == 2,
            limited: summary == 3,
        }
    }
}

impl Nvml {
    /// The registration of a GPU; `None` if the GPU has no part in such a fabric, or the driver cannot say.
    ///
    /// # Errors
    /// NVML's error.
    pub fn nvlink_fabric(&self, gpu: Bdf) -> Result<Option<NvLinkFabric>, String> {
        let library = library()?;
        // SAFETY: the type is that of nvml.h.
        let Ok(ask) = (unsafe { library.get::<FabricInfo>(b"nvmlDeviceGetGpuFabricInfoV\0") })
        else {
            return Ok(None);
        };
        let device = device(library, gpu)?;
        for (size, number) in FORMS {
            let mut answer = Raw {
                version: size | number << 24,
                ..Raw::default()
            };
            // SAFETY: NVML writes as many bytes as the version says, and both forms fit.
            match unsafe { ask(device, &raw mut answer) } {
                0 => return Ok(parse(&answer)),
                NOT_SUPPORTED => return Ok(None),
                OTHER_VERSION => {}
                code => return Err(format!("nvmlDeviceGetGpuFabricInfoV returned {code}")),
            }
        }
        Ok(None)
    }
}

fn parse(raw: &Raw) -> Option<NvLinkFabric> {
    let registration = match raw.state {
        1 => Registration::NotStarted,
        2 => Registration::InProgress,
        3 => Registration::Completed(raw.status.unsigned_abs()),
        // `NVML_GPU_FABRIC_STATE_NOT_SUPPORTED`
        _ => return None,
    };
    let health = FabricHealth::of(raw.mask, raw.summary);
    Some(NvLinkFabric {
        registration,
        cluster: raw.cluster,
        clique: raw.clique,
        health,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As four H200 with driver 580.159.04 answer.
    #[test]
    fn a_healthy_gpu_says_completed_and_nothing_bad() {
        let raw = Raw {
            state: 3,
            ..Raw::default()
        };
        let fabric = parse(&raw).unwrap();
        assert_eq!(
            (fabric.registration, fabric.health),
            (Registration::Completed(0), FabricHealth::default())
        );
        assert_eq!(parse(&Raw::default()), None);
        assert_eq!(
            parse(&Raw { state: 2, ..raw }).unwrap().registration,
            Registration::InProgress
        );
    }

    #[test]
    fn each_part_of_the_mask_has_its_meaning() {
        // All four flags "false" and no wrong configuration.
        assert_eq!(FabricHealth::of(0b01_1010_1010, 1), FabricHealth::default());
        let bad = FabricHealth::of(0b0101_0101_0101, 2);
        assert!(
            bad.degraded_bandwidth
                && bad.route_recovery
                && bad.route_unhealthy
                && bad.access_timeout
                && bad.unhealthy
        );
        assert_eq!((bad.misconfigured, bad.limited), (Some(5), false));
        assert!(FabricHealth::of(0, 3).limited);
    }

    #[test]
    fn the_forms_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Raw>(), 40);
        assert_eq!(std::mem::offset_of!(Raw, summary), 36);
    }
}
