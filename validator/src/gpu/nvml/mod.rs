//! NVML, the driver's management library: what it says about peer-to-peer, links, who else uses a
//! GPU, and how it fares. Everything is asked by address, and an answer that does not come is told
//! as such.

mod ask;
mod nvlink;
mod standing;
mod told;

pub use nvlink::{NvLink, NvLinkStates, Remote, joined};
pub use standing::{ComputeMode, Counted, Counter, Look, Presence, Standing};
pub use told::{Link, P2pTold, Process, State, Status};

use crate::machine::pcie::model::Bdf;
use crate::text::chain::chain;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, P2pCapabilitiesIndex, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml as Library};

/// NVML, started; dropped, it is ended.
#[derive(Debug)]
pub struct Nvml(Library);

impl Nvml {
    /// Loads and starts NVML.
    ///
    /// # Errors
    /// NVML's or the loader's words, in one line.
    pub fn start() -> Result<Self, String> {
        Library::init().map(Self).map_err(|e| format!("libnvidia-ml.so.1: {}", chain(&e)))
    }

    /// What it says about `from` using `to`.
    #[must_use]
    pub fn p2p(&self, from: Bdf, to: Bdf) -> P2pTold {
        let ask = |index: P2pCapabilitiesIndex| {
            let (from, to) = (self.device(from)?, self.device(to)?);
            from.p2p_status(&to, index).map(Status::from).map_err(|e| chain(&e))
        };
        P2pTold {
            read: ask(P2pCapabilitiesIndex::Read),
            write: ask(P2pCapabilitiesIndex::Write),
            atomics: ask(P2pCapabilitiesIndex::Atomics),
            prop: ask(P2pCapabilitiesIndex::Prop),
        }
    }

    /// A GPU's PCIe link now.
    ///
    /// # Errors
    /// NVML's; virtual machines often do not tell.
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

    /// How many packets this GPU's PCIe link had to repeat since the driver started it.
    ///
    /// # Errors
    /// NVML's.
    pub fn replays(&self, gpu: Bdf) -> Result<u32, String> {
        self.device(gpu)?.pcie_replay_counter().map_err(|e| chain(&e))
    }

    /// How a GPU fares.
    ///
    /// # Errors
    /// When the GPU cannot be asked at all.
    pub fn state(&self, gpu: Bdf) -> Result<State, String> {
        let device = self.device(gpu)?;
        Ok(State {
            sm_mhz: device.clock_info(Clock::SM).ok(),
            memory_mhz: device.clock_info(Clock::Memory).ok(),
            celsius: device.temperature(TemperatureSensor::Gpu).ok(),
            watts: device.power_usage().ok().map(|mw| f64::from(mw) / 1000.0),
            throttled: device.current_throttle_reasons().map(throttled).unwrap_or_default(),
        })
    }

    fn device(&self, gpu: Bdf) -> Result<Device<'_>, String> {
        self.0.device_by_pci_bus_id(gpu.to_string()).map_err(|e| format!("{gpu}: {}", chain(&e)))
    }
}

/// The reasons that matter: an idle GPU and clocks that somebody chose are none.
fn throttled(reasons: ThrottleReasons) -> Vec<String> {
    [
        (ThrottleReasons::SW_POWER_CAP, "power cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "temperature (software)"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "temperature (hardware)"),
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
    fn idle_and_chosen_clocks_are_no_throttling() {
        let idle = ThrottleReasons::GPU_IDLE | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING;
        assert!(throttled(idle).is_empty());
        assert_eq!(throttled(idle | ThrottleReasons::SW_POWER_CAP), ["power cap"]);
    }
}
