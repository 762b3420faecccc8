//! What a GPU counts of its clocks and links: for how long something lowered its clocks, errors of its NVLinks and of its PCIe
//! link, and the data that crossed its NVLinks. Read, and never reset. What is normal was measured on four H200: the CRC counter
//! of each NVLink rises under load, and bad packets, receiver and lane errors and recoveries of a PCIe link are not 0 at rest.

use super::Nvml;
use super::raw::{ALL_LINKS, fields};
use super::status::{CounterValue, GpuStatus};
use machine::pcie::model::Bdf;
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::PerformancePolicy;
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Instant;

/// What lowers a GPU's clocks, as NVML adds up its time (`NVML_PERF_POLICY_*`). Low utilization and the totals of all are not
/// throttling, and not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The power limit.
    Power,
    /// Heat.
    Thermal,
    /// Another GPU of its group.
    SyncBoost,
    /// The board's own limit.
    Board,
    /// The voltage at which the GPU is reliable.
    Reliability,
}

const LIMITS: [(PerformancePolicy, Limit); 5] = [
    (PerformancePolicy::Power, Limit::Power),
    (PerformancePolicy::Thermal, Limit::Thermal),
    (PerformancePolicy::SyncBoost, Limit::SyncBoost),
    (PerformancePolicy::BoardLimit, Limit::Board),
    (PerformancePolicy::Reliability, Limit::Reliability),
];

/// Errors of a PCIe link that are 0 on healthy machines (`NVML_FI_DEV_PCIE_*` of nvml.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PcieCounter {
    /// Packets that were sent again.
    Replays,
    /// Packets that were sent again until the link was trained again.
    ReplayRollovers,
    /// Uncorrected errors that are not fatal.
    NonFatal,
    /// Fatal errors.
    Fatal,
}

const PCIE: [(u32, PcieCounter); 4] = [
    (94, PcieCounter::Replays),
    (95, PcieCounter::ReplayRollovers),
    (179, PcieCounter::NonFatal),
    (180, PcieCounter::Fatal),
];

/// `NVML_FI_DEV_NVLINK_LINK_COUNT`
const LINK_COUNT: u32 = 91;
/// `NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX` and `_RX`: KiB; with the number of a link as scope, of that link alone.
const DATA: [u32; 2] = [138, 139];
/// `NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY`, `_RECOVERY` and `_CRC`: of all links together in 1 to 2 ms (measured on H200), where one
/// link's counter takes 1.1 ms.
const ERRORS: [u32; 3] = [161, 162, 163];
/// `NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS` and `_EVENTS`, which NVLink 5 has in place of the older counters.
const RECOVERIES: [u32; 2] = [214, 215];
/// The most NVLinks of one GPU (`NVML_NVLINK_MAX_LINKS`).
const MOST_LINKS: u64 = 18;

/// Errors of one NVLink of a GPU, or of all together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkErrors {
    /// Packets that were sent again.
    pub replays: CounterValue,
    /// How often a link was trained again.
    pub recoveries: CounterValue,
    /// How often that failed.
    pub failed_recoveries: CounterValue,
    /// Corrected errors of data, which rise on each healthy link under load.
    pub data_crc: CounterValue,
}

impl Default for LinkErrors {
    /// Nothing is known.
    fn default() -> Self {
        let [replays, recoveries, failed_recoveries, data_crc] =
            [const { CounterValue::Unsupported }; 4];
        Self {
            replays,
            recoveries,
            failed_recoveries,
            data_crc,
        }
    }
}

/// What a GPU counts of its clocks and links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tallies {
    /// For how long each limit has lowered its clocks, ns.
    pub limited: BTreeMap<Limit, CounterValue>,
    /// How many NVLinks it has.
    pub links: CounterValue,
    /// Data that left it by all its NVLinks, KiB.
    pub nvlink_sent: CounterValue,
    /// Data that reached it by all its NVLinks, KiB.
    pub nvlink_received: CounterValue,
    /// The errors of all its NVLinks together.
    pub nvlink_errors: LinkErrors,
    /// The errors of each of its NVLinks, by number; empty where nobody asked for them.
    pub nvlinks: BTreeMap<u32, LinkErrors>,
    /// The errors of its PCIe link.
    pub pcie: BTreeMap<PcieCounter, CounterValue>,
}

impl Default for Tallies {
    /// Nothing is known.
    fn default() -> Self {
        let [links, nvlink_sent, nvlink_received] = [const { CounterValue::Unsupported }; 3];
        Self {
            limited: BTreeMap::new(),
            links,
            nvlink_sent,
            nvlink_received,
            nvlink_errors: LinkErrors::default(),
            nvlinks: BTreeMap::new(),
            pcie: BTreeMap::new(),
        }
    }
}

impl Tallies {
    /// Whether its NVLinks have counted so many errors since `before` that each link is worth a look: `crc` or more corrected
    /// ones, or any other.
    #[must_use]
    pub fn has_link_errors(&self, before: &Self, crc: u64) -> bool {
        let (now, before) = (&self.nvlink_errors, &before.nvlink_errors);
        let others = [
            (&now.replays, &before.replays),
            (&now.recoveries, &before.recoveries),
            (&now.failed_recoveries, &before.failed_recoveries),
        ];
        others
            .iter()
            .any(|(now, before)| now.since(before).is_some_and(|more| more > 0))
            || now
                .data_crc
                .since(&before.data_crc)
                .is_some_and(|more| more >= crc)
    }
}

impl Nvml {
    /// What a GPU counts now. Where NVML has no sum of its NVLinks' errors they are read link by link, until `until`.
    pub(super) fn tallies(&self, gpu: Bdf, until: Instant) -> Tallies {
        let Ok(device) = self.device(gpu) else {
            return Tallies::default();
        };
        let asked = [(LINK_COUNT, 0)]
            .into_iter()
            .chain(DATA.iter().chain(&ERRORS).map(|id| (*id, ALL_LINKS)));
        let asked: Vec<_> = asked.chain(PCIE.map(|(id, _)| (id, 0))).collect();
        let mut values = fields(gpu, &asked).into_iter();
        let mut next = || values.next().unwrap_or(CounterValue::Unsupported);
        let [
            links,
            nvlink_sent,
            nvlink_received,
            replays,
            recoveries,
            data_crc,
        ] = std::array::from_fn(|_| next());
        let pcie = PCIE.iter().map(|(_, counter)| (*counter, next())).collect();
        let limited = |(policy, limit)| {
            let time = device
                .violation_status(policy)
                .map(|time| time.violation_time);
            (limit, CounterValue::of(time))
        };
        let limited = LIMITS.map(limited).into_iter().collect();
        let sums = LinkErrors {
            replays,
            recoveries,
            failed_recoveries: CounterValue::Unsupported,
            data_crc,
        };
        let (nvlink_errors, nvlinks) =
            if sums.replays.known().is_some() || links == CounterValue::At(0) {
                (sums, BTreeMap::new())
            } else {
                let nvlinks = link_errors(&device, gpu, links.known(), Some(until));
                (sum(&nvlinks), nvlinks)
            };
        Tallies {
            limited,
            links,
            nvlink_sent,
            nvlink_received,
            nvlink_errors,
            nvlinks,
            pcie,
        }
    }

    /// Adds the errors of each NVLink to what is known of `gpus`.
    pub fn add_links(&self, gpus: &mut [GpuStatus]) {
        for GpuStatus { gpu, tallies, .. } in gpus {
            if let (true, Ok(device)) = (tallies.nvlinks.is_empty(), self.device(*gpu)) {
                tallies.nvlinks = link_errors(&device, *gpu, tallies.links.known(), None);
            }
        }
    }

    /// The data that left a GPU by all its NVLinks and that reached it so far, KiB: exactly the bytes that were copied
    /// (measured on four H200). A value that the GPU does not have is unknown, not zero; and so are the values of a GPU that has
    /// not counted anything at all, because older GPUs count only after they were told to.
    #[must_use]
    pub fn nvlink_data(&self, gpu: Bdf) -> [CounterValue; 2] {
        let mut values = fields(gpu, &DATA.map(|id| (id, ALL_LINKS))).into_iter();
        let data = std::array::from_fn(|_| values.next().unwrap_or(CounterValue::Unsupported));
        if data == [CounterValue::At(0), CounterValue::At(0)] {
            [const { CounterValue::Unsupported }; 2]
        } else {
            data
        }
    }
}

const LATE: &str = "reading them takes too long";

/// `known`: how many links NVML says that the GPU has. What is not read by `until` is unknown.
fn link_errors(
    device: &Device<'_>,
    gpu: Bdf,
    known: Option<u64>,
    until: Option<Instant>,
) -> BTreeMap<u32, LinkErrors> {
    let links = u32::try_from(known.unwrap_or(MOST_LINKS).min(MOST_LINKS)).unwrap_or_default();
    let is_late = || until.is_some_and(|until| Instant::now() >= until);
    let mut all = BTreeMap::new();
    for index in 0..links {
        let link = device.link_wrapper_for(index);
        // There is no such link.
        if known.is_none()
            && matches!(
                link.is_active(),
                Err(NvmlError::NotSupported | NvmlError::InvalidArg)
            )
        {
            break;
        }
        let count = |counter| match is_late() {
            true => CounterValue::Unread(LATE.to_owned()),
            false => CounterValue::of(link.error_counter(counter)),
        };
        let errors = LinkErrors {
            replays: count(ErrorCounter::DlReplay),
            recoveries: count(ErrorCounter::DlRecovery),
            failed_recoveries: CounterValue::Unsupported,
            data_crc: count(ErrorCounter::DlCrcData),
        };
        all.insert(index, errors);
    }
    if all
        .values()
        .any(|link| link.recoveries == CounterValue::Unsupported)
    {
        let asked: Vec<_> = all
            .keys()
            .flat_map(|link| RECOVERIES.map(|id| (id, *link)))
            .collect();
        let mut events = fields(gpu, &asked).into_iter();
        for link in all.values_mut() {
            let mut next = || events.next().unwrap_or(CounterValue::Unsupported);
            (link.failed_recoveries, link.recoveries) = (next(), next());
        }
    }
    all
}

/// A sum is known if each link's value is.
fn sum(links: &BTreeMap<u32, LinkErrors>) -> LinkErrors {
    let of = |count: fn(&LinkErrors) -> &CounterValue| {
        let mut total = 0;
        for value in links.values().map(count) {
            match value {
                CounterValue::At(errors) => total += errors,
                unknown => return unknown.clone(),
            }
        }
        if links.is_empty() {
            CounterValue::Unsupported
        } else {
            CounterValue::At(total)
        }
    };
    LinkErrors {
        replays: of(|link| &link.replays),
        recoveries: of(|link| &link.recoveries),
        failed_recoveries: of(|link| &link.failed_recoveries),
        data_crc: of(|link| &link.data_crc),
    }
}
