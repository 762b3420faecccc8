//! NVML, the driver's management library: peer-to-peer, links, processes on a GPU, and its state. GPUs are
//! given by their PCI address, and a missing answer is reported as such.

mod answers;
mod ask;
mod fabric;
mod nvlink;
mod raw;
mod status;
mod tallies;

pub use answers::{Bar1Memory, Confidential, Link, NvmlGpus, P2pAnswers, Process, State, Status};
pub use fabric::{FabricHealth, NvLinkFabric, Registration};
pub use nvlink::{NvLink, NvLinkStates, Remote, count_nvlinks};
pub use status::{ComputeMode, Counter, CounterValue, GpuSnapshot, GpuStatus, Presence};
pub use tallies::{Limit, LinkErrors, PcieCounter, Tallies};

use machine::pcie::model::Bdf;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, P2pCapabilitiesIndex, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml as Library};
use outcome::text::chain;
use std::sync::OnceLock;

/// NVML, started.
#[derive(Debug)]
pub struct Nvml(Library);

impl Nvml {
    fn start() -> Result<Self, String> {
        Library::init()
            .map(Self)
            .map_err(|e| format!("libnvidia-ml.so.1: {}", chain(&e)))
    }

    /// NVML as this process has it for good: loaded and started by the first call and never shut down, so that no thread shuts it
    /// down or starts it while another asks it something.
    ///
    /// # Errors
    /// NVML's or the loader's error, in one line; the same on every later call.
    pub fn of_process() -> Result<&'static Self, &'static str> {
        static NVML: OnceLock<Result<Nvml, String>> = OnceLock::new();
        NVML.get_or_init(Self::start)
            .as_ref()
            .map_err(String::as_str)
    }

    /// NVML's answer about `from` using `to`.
    #[must_use]
    pub fn p2p(&self, from: Bdf, to: Bdf) -> P2pAnswers {
        let ask = |index: P2pCapabilitiesIndex| {
            let (from, to) = (self.device(from)?, self.device(to)?);
            from.p2p_status(&to, index)
                .map(Status::from)
                .map_err(|e| chain(&e))
        };
        P2pAnswers {
            read: ask(P2pCapabilitiesIndex::Read),
            write: ask(P2pCapabilitiesIndex::Write),
            atomics: ask(P2pCapabilitiesIndex::Atomics),
            prop: ask(P2pCapabilitiesIndex::Prop),
        }
    }

    /// The driver's version and all GPUs, as NVML lists them.
    ///
    /// # Errors
    /// NVML's error.
    pub fn gpus(&self) -> Result<NvmlGpus, String> {
        let read = || -> Result<_, NvmlError> {
            let driver = self.0.sys_driver_version()?;
            let mut gpus = Vec::new();
            for index in 0..self.0.device_count()? {
                let device = self.0.device_by_index(index)?;
                gpus.push((device.pci_info()?.bus_id, device.uuid()?));
            }
            Ok((driver, gpus))
        };
        let (driver, listed) = read().map_err(|e| chain(&e))?;
        let place = |(at, uuid): (String, String)| {
            Ok((
                at.to_lowercase()
                    .parse()
                    .map_err(|_| format!("NVML has a GPU at {at}, which is no address"))?,
                uuid,
            ))
        };
        Ok(NvmlGpus {
            driver,
            gpus: listed
                .into_iter()
                .map(place)
                .collect::<Result<_, String>>()?,
        })
    }

    /// A GPU's present PCIe link.
    ///
    /// # Errors
    /// NVML's error; virtual machines often do not report it.
    pub fn link(&self, gpu: Bdf) -> Result<Link, String> {
        let device = self.device(gpu)?;
        let link = || -> Result<Link, NvmlError> {
            Ok(Link {
                generation: device.current_pcie_link_gen()?,
                width: device.current_pcie_link_width()?,
                max_generation: device.max_pcie_link_gen()?,
                max_width: device.max_pcie_link_width()?,
            })
        };
        link().map_err(|e| chain(&e))
    }

    /// How many packets this GPU's PCIe link has repeated since the driver started it.
    ///
    /// # Errors
    /// NVML's error.
    pub fn replays(&self, gpu: Bdf) -> Result<u32, String> {
        self.device(gpu)?
            .pcie_replay_counter()
            .map_err(|e| chain(&e))
    }

    /// How much of a GPU's BAR1 is mapped, and how much memory it has.
    ///
    /// # Errors
    /// NVML's error.
    pub fn bar1_memory(&self, gpu: Bdf) -> Result<Bar1Memory, String> {
        let device = self.device(gpu)?;
        let bar1 = device.bar1_memory_info().map_err(|e| chain(&e))?;
        let memory = device.memory_info().map_err(|e| chain(&e))?;
        Ok(Bar1Memory {
            bar1: bar1.total,
            mapped: bar1.used,
            memory: memory.total,
            usable: memory.total.saturating_sub(memory.reserved),
        })
    }

    /// The mode of confidential computing that is on; `None` if there is none, or NVML does not say. NVML has one answer for
    /// all GPUs, and takes any of them.
    #[must_use]
    pub fn confidential(&self) -> Option<Confidential> {
        let any = self.0.device_by_index(0).ok()?;
        let protected_pcie = any.is_multi_gpu_protected_pcie_enabled().is_ok_and(|on| on);
        let on = protected_pcie || any.is_cc_enabled().is_ok_and(|on| on);
        on.then(|| Confidential {
            protected_pcie,
            ready: any.get_confidential_compute_state().ok(),
        })
    }

    /// A GPU's state.
    ///
    /// # Errors
    /// NVML cannot find the GPU.
    pub fn state(&self, gpu: Bdf) -> Result<State, String> {
        let device = self.device(gpu)?;
        Ok(State {
            sm_mhz: device.clock_info(Clock::SM).ok(),
            memory_mhz: device.clock_info(Clock::Memory).ok(),
            celsius: device.temperature(TemperatureSensor::Gpu).ok(),
            watts: device.power_usage().ok().map(|mw| f64::from(mw) / 1000.0),
            throttled: device
                .current_throttle_reasons()
                .map(throttled)
                .unwrap_or_default(),
        })
    }

    fn device(&self, gpu: Bdf) -> Result<Device<'_>, String> {
        self.0
            .device_by_pci_bus_id(gpu.to_string())
            .map_err(|e| format!("{gpu}: {}", chain(&e)))
    }
}

/// The relevant reasons: idling and deliberately set clocks are not included.
fn throttled(reasons: ThrottleReasons) -> Vec<String> {
    [
        (ThrottleReasons::SW_POWER_CAP, "power cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (
            ThrottleReasons::SW_THERMAL_SLOWDOWN,
            "temperature (software)",
        ),
        (
            ThrottleReasons::HW_THERMAL_SLOWDOWN,
            "temperature (hardware)",
        ),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
    ]
    .into_iter()
    .filter(|(reason, _)| reasons.contains(*reason))
    .map(|(_, word)| word.to_owned())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_set_clocks_are_not_throttling() {
        let idle = ThrottleReasons::GPU_IDLE | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING;
        assert!(throttled(idle).is_empty());
        assert_eq!(
            throttled(idle | ThrottleReasons::SW_POWER_CAP),
            ["power cap"]
        );
    }
}
