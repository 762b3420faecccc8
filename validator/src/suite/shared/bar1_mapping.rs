//! How much of a GPU's BAR1 NVML counts as mapped. A static map covers all memory that the driver does not keep
//! for itself: 24210 of 24564 MiB on an RTX 4090. Without a static map BAR1 contains only what programs and displays
//! map at the moment: 5 of 65536 MiB on a board whose peers received nothing.

use crate::suite::TestContext;
use crate::suite::shared::gpu_snapshots::{START_LIMIT, driver_gpus, query_nvml};
use gpu::Bar1Memory;
use machine::pcie::model::{Bdf, Device};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What NVML reports about the BAR1 of each GPU.
pub(in crate::suite) type Bar1ByGpu = BTreeMap<Bdf, Result<Bar1Memory, String>>;

impl TestContext {
    /// What NVML reports about the BAR1 of each GPU that the driver holds, or why that is unknown. For tests that
    /// only read files: NVML is queried once, by a thread, within the time that such a test has.
    pub(in crate::suite) fn bar1_by_gpu(&self) -> Rc<Result<Bar1ByGpu, String>> {
        self.kept.get_or_make(|| {
            self.check_nvml()?;
            self.doing("asking NVML for the use of BAR1");
            let gpus = driver_gpus(self.fabric.as_ref().ok());
            query_nvml(START_LIMIT, move |nvml| {
                gpus.into_iter()
                    .map(|gpu| (gpu, nvml.bar1_memory(gpu)))
                    .collect()
            })
        })
    }
}

/// The driver keeps 1.4 % of an RTX 4090's memory for itself, 2.6 % of a board with 16 GiB; an eighth is far more.
const KEPT: u64 = 8;
/// Network cards and other programs map buffers, which are a part of the memory. If at most half of it is mapped,
/// there is no map of all memory.
const HALF: u64 = 2;

/// How much of a GPU's memory is mapped into BAR1 according to NVML; with the figures as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::suite) enum Bar1Mapping {
    /// All memory is mapped.
    All(String),
    /// More than programs usually map, and less than all.
    Part(String),
    /// Not all memory is mapped.
    Little(String),
    /// Why there is no count.
    Unknown(String),
}

impl Bar1Mapping {
    /// The figures as text, if there are any.
    pub(in crate::suite) fn words(&self) -> Option<String> {
        match self {
            Self::All(words) | Self::Part(words) | Self::Little(words) => Some(words.clone()),
            Self::Unknown(_) => None,
        }
    }
}

/// The mapping of one GPU.
pub(in crate::suite) fn mapping_of(
    gpu: &Device,
    bar1_by_gpu: &Result<Bar1ByGpu, String>,
) -> Bar1Mapping {
    let usage = match bar1_by_gpu
        .as_ref()
        .map(|bar1_by_gpu| bar1_by_gpu.get(&gpu.bdf))
    {
        Ok(Some(Ok(usage))) => *usage,
        Ok(Some(Err(why))) | Err(why) => return Bar1Mapping::Unknown(why.clone()),
        Ok(None) => return Bar1Mapping::Unknown("it was not asked".to_owned()),
    };
    // Some virtual machines count nothing.
    if usage.bar1 == 0 || usage.memory == 0 {
        return Bar1Mapping::Unknown("it counts no BAR1 or no memory".to_owned());
    }
    let words = words(&usage);
    match usage.mapped {
        mapped if mapped >= usage.memory - usage.memory / KEPT => Bar1Mapping::All(words),
        mapped if mapped <= usage.memory / HALF => Bar1Mapping::Little(words),
        _ => Bar1Mapping::Part(words),
    }
}

fn words(usage: &Bar1Memory) -> String {
    let mib = |bytes: u64| bytes >> 20;
    format!(
        "NVML counts {} MiB of BAR1 as used, of {} MiB of memory",
        mib(usage.mapped),
        mib(usage.memory)
    )
}
