//! How much of a GPU's BAR1 NVML counts as mapped. A static map covers all memory that the driver does not keep
//! for itself: 24210 of 24564 MiB on an RTX 4090. Without a static map BAR1 contains only what programs and displays
//! map at the moment: 5 of 65536 MiB on a board whose peers received nothing.

use crate::gpu::Window;
use crate::machine::pcie::model::{Bdf, Device};
use crate::suite::Machine;
use crate::suite::shared::look::{FIRST, asked, held};
use std::collections::BTreeMap;

/// NVML's answers by GPU.
pub(in crate::suite) type Windows = BTreeMap<Bdf, Result<Window, String>>;

impl Machine {
    /// What NVML reports about the BAR1 of each GPU that the driver holds, or why that is unknown. For tests that
    /// only read files: NVML is queried once, by a thread, within the time that such a test has.
    pub fn windows(&self) -> &Result<Windows, String> {
        self.gpus.windows.get_or_init(|| {
            self.asks_nvml()?;
            self.doing("asking NVML for the use of BAR1");
            let gpus = held(self.fabric.as_ref().ok());
            asked(FIRST, move |nvml| gpus.into_iter().map(|gpu| (gpu, nvml.window(gpu))).collect())
        })
    }
}

/// The driver keeps 1.4 % of an RTX 4090's memory for itself, 2.6 % of a board with 16 GiB; an eighth is far more.
const KEPT: u64 = 8;
/// Network cards and other programs map buffers, which are a part of the memory. If at most half of it is mapped,
/// there is no map of all memory.
const HALF: u64 = 2;

/// What NVML counts, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::suite) enum Count {
    /// All memory is mapped.
    All(String),
    /// More than programs usually map, and less than all.
    Part(String),
    /// Not all memory is mapped.
    Little(String),
    /// Why there is no count.
    Unknown(String),
}

impl Count {
    /// The figures, if there are any.
    pub(in crate::suite) fn words(&self) -> Option<String> {
        match self {
            Self::All(words) | Self::Part(words) | Self::Little(words) => Some(words.clone()),
            Self::Unknown(_) => None,
        }
    }
}

/// The count of one GPU.
pub(in crate::suite) fn counted(gpu: &Device, windows: &Result<Windows, String>) -> Count {
    let window = match windows.as_ref().map(|windows| windows.get(&gpu.bdf)) {
        Ok(Some(Ok(window))) => *window,
        Ok(Some(Err(why))) | Err(why) => return Count::Unknown(why.clone()),
        Ok(None) => return Count::Unknown("it was not asked".to_owned()),
    };
    // Some virtual machines count nothing.
    if window.bar1 == 0 || window.memory == 0 {
        return Count::Unknown("it counts no BAR1 or no memory".to_owned());
    }
    let words = words(&window);
    match window.mapped {
        mapped if mapped >= window.memory - window.memory / KEPT => Count::All(words),
        mapped if mapped <= window.memory / HALF => Count::Little(words),
        _ => Count::Part(words),
    }
}

fn words(window: &Window) -> String {
    let mib = |bytes: u64| bytes >> 20;
    format!("NVML counts {} MiB of BAR1 as used, of {} MiB of memory", mib(window.mapped), mib(window.memory))
}
