//! The tests. Each is one file: its metadata (id, what a pass proves, deadline) and a pure judge over a typed
//! input; reading that input takes a few lines. `ALL` is the one ordered list: the console, the report,
//! `firstlight list` and `docs/tests.md` follow it.

mod benchmark;
mod context;
mod driver;
mod fabric;
mod gpu;
mod host;
mod nccl;
mod p2p;
pub mod protocol;
mod rdma;
mod selection;
mod shared;

pub use context::{Gpus, Kept, TestContext};
pub use selection::{TestPlan, plan, selection};

use crate::config::{Expect, Level, Validate};
use ::gpu::{GpuSnapshot, GpuStatus};
use ::machine::pcie::model::Fabric;
use contract::mark::Step;
use outcome::Judgement;
use outcome::finding::Finding;
use outcome::test::{self, Properties, Traffic};
use std::time::Duration;

/// What a test needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// No driver: tests of kernel, processors, fabric. They come first.
    Host,
    /// GPUs through CUDA, which is started once for all of these tests.
    Gpu,
}

/// One test.
#[derive(Debug)]
pub struct Test {
    /// What others know of it without running it, its id among them.
    pub about: &'static Properties,
    /// The human-readable title.
    pub title: &'static str,
    /// What a pass proves, as a sentence.
    pub proves: &'static str,
    /// The lowest level that runs it.
    pub level: Level,
    /// The deadline: a test that exceeds it is stopped and counts as an error. With more than 8 GPUs, a test of
    /// group `Gpu` has more time.
    pub deadline: Duration,
    /// Whether the verdict is ERROR without this test.
    pub mandatory: bool,
    /// What it needs.
    pub group: Group,
    /// Reads and judges. Returns a finding instead if it could not judge (boxed because it is large).
    pub run: fn(&TestContext) -> Result<Judgement, Box<Finding>>,
}

/// Ordered pairs of 8 GPUs.
const PAIRS_OF_8: usize = 8 * 7;

impl Test {
    /// Its id: short and stable; used by `--only` and the report.
    #[must_use]
    pub const fn id(&self) -> &'static str {
        self.about.id
    }

    /// The time limit on a machine with this many GPUs: GPU tests have more time with more pairs, and tests that
    /// only level `acceptance` runs have the configured `acceptance_s` in addition.
    #[must_use]
    pub fn time_limit(&self, gpus: usize, asked: &Validate) -> Duration {
        if self.level == Level::Acceptance {
            return self
                .deadline
                .saturating_add(Duration::from_secs(asked.acceptance_s));
        }
        let pairs = gpus.saturating_mul(gpus.saturating_sub(1));
        let times = u32::try_from(pairs.div_ceil(PAIRS_OF_8))
            .unwrap_or(u32::MAX)
            .max(1);
        if self.group == Group::Gpu {
            self.deadline.saturating_mul(times)
        } else {
            self.deadline
        }
    }
}

/// The step that a test belongs to if it can take the machine down.
#[must_use]
pub fn step_of(test: &Test) -> Option<Step> {
    if test.about.full_load {
        return Some(Step::FullLoad);
    }
    (test.about.traffic != Traffic::None).then_some(Step::PeerWrite)
}

/// Runs a test in this process. A fault after which CUDA cannot be used counts even if the test did not notice it.
pub fn run_test(test: &Test, context: &TestContext) -> Judgement {
    let judgement = (test.run)(context).unwrap_or_else(|why| Judgement::by(*why));
    shared::gpu_fault::with_unnoticed_loss(judgement, ::gpu::cuda_loss())
}

/// The state of the GPUs after a test, for the parent; `None` if nothing of this run has used them.
pub fn snapshot_after(
    test: &Test,
    judgement: &Judgement,
    context: &TestContext,
) -> Option<GpuSnapshot> {
    context.snapshot_after(test, judgement, nccl::is_any_starting(context))
}

/// Lets the processes that tests keep exit, without waiting for that: no test follows.
pub fn release_processes(context: &TestContext) {
    nccl::release_all(context);
}

/// Every test, in the order in which they run and are shown.
pub const ALL: &[&Test] = &[
    &fabric::fabric::TEST,
    &host::cmdline::TEST,
    &host::image::TEST,
    &host::iommu::TEST,
    &host::cpus::TEST,
    &host::gpus::TEST,
    &driver::drivers::TEST,
    &driver::driver::TEST,
    &driver::params::TEST,
    &driver::patch::TEST,
    &driver::nodes::TEST,
    &fabric::bar1::TEST,
    &fabric::bar1_static::TEST,
    &driver::xid::TEST,
    &fabric::acs::TEST,
    &fabric::links::TEST,
    &rdma::nics::TEST,
    &host::display::TEST,
    &driver::cuda::TEST,
    &rdma::gdr::TEST,
    &gpu::memory::TEST,
    &gpu::products::TEST,
    &gpu::power::TEST,
    &p2p::capability::TEST,
    &p2p::integrity::TEST,
    &p2p::processes::TEST,
    &p2p::reach::TEST,
    &p2p::order::TEST,
    &p2p::allreduce::TEST,
    &p2p::bandwidth::TEST,
    &p2p::latency::TEST,
    &gpu::host_bandwidth::TEST,
    &p2p::together::TEST,
    &p2p::soak::TEST,
    &nccl::NCCL,
    &nccl::ALLREDUCE,
    &nccl::COLLECTIVE,
    &nccl::TYPES,
    &nccl::CALLS,
    &nccl::PROCESSES,
    &nccl::NVLS,
    &nccl::CHANNELS,
];

/// For a test that only reads files: ten seconds are a hundred times what it takes on a large machine.
const FILE_DEADLINE: Duration = Duration::from_secs(10);

/// For a test that also queries NVML, which starts every GPU that no other program holds open.
const NVML_DEADLINE: Duration = Duration::from_secs(30);

/// The other process of `p2p-processes`; serves until the worker has no more requests.
///
/// # Errors
/// The worker sent something malformed, or is gone.
pub fn serve_p2p_processes() -> std::io::Result<()> {
    p2p::processes::serve()
}

/// A rank's process of `p2p-allreduce`; serves until the worker has no more requests.
///
/// # Errors
/// The worker sent something malformed, or is gone.
pub fn serve_p2p_allreduce() -> std::io::Result<()> {
    p2p::allreduce::serve()
}

pub use shared::gpu_snapshots::{MIN_CRC, NVML_HANGS};

/// The present state of the machine's GPUs.
///
/// # Errors
/// NVML's error, or that it does not answer in time.
pub fn gpu_states(fabric: Option<&Fabric>) -> Result<Vec<GpuStatus>, String> {
    shared::gpu_snapshots::query_status(
        shared::gpu_snapshots::PROBE_LIMIT,
        shared::gpu_snapshots::driver_gpus(fabric),
    )
}

/// The tests that this configuration requires because no other test can judge what it expects.
#[must_use]
pub const fn demanded(expect: &Expect) -> &'static [&'static str] {
    if expect.golden {
        &[test::IMAGE.id]
    } else {
        &[]
    }
}

/// The tests that run at every level because of the GPUs here. Between GeForce RTX 30, kernels that use their peers' memory
/// directly were seen to give wrong sums while copies and NCCL were right (noonghunna/club-3090, issue 922).
#[must_use]
pub fn needed_by(fabric: &Fabric) -> &'static [&'static str] {
    let gpus = fabric
        .devices
        .iter()
        .filter(|device| fabric.gpus.contains(&device.bdf));
    if gpus
        .filter(|gpu| shared::peer_mechanism::is_geforce_ampere(gpu))
        .count()
        > 1
    {
        &[test::P2P_ALLREDUCE.id]
    } else {
        &[]
    }
}

/// The tests without which nothing is proven about this many GPUs. With one GPU, tests of pairs are not
/// among them.
pub fn mandatory_gpu_tests(gpus: usize) -> impl Iterator<Item = &'static Test> {
    let mandatory = move |test: &&Test| gpus > 0 && test.group == Group::Gpu && test.mandatory;
    let of_one = move |test: &&Test| gpus > 1 || test.id() == driver::cuda::TEST.id();
    ALL.iter().copied().filter(mandatory).filter(of_one)
}

/// The ids of all tests, in order.
#[must_use]
pub fn ids() -> Vec<&'static str> {
    ids_of(|_| true)
}

/// The ids of the tests with such properties, in order.
pub fn ids_of(with: impl Fn(&Properties) -> bool) -> Vec<&'static str> {
    ALL.iter()
        .map(|test| test.about)
        .filter(|about| with(about))
        .map(|about| about.id)
        .collect()
}

/// The test with that id.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Test> {
    ALL.iter().copied().find(|t| t.id() == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcome::finding::Code;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_unique_and_fit_the_console() {
        assert_eq!(ids().iter().collect::<BTreeSet<_>>().len(), ALL.len());
        for test in ALL {
            assert!(test.id().len() <= 15, "{}", test.id());
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(test.id().chars().all(fits), "{}", test.id());
        }
    }

    #[test]
    fn each_test_has_one_row_of_properties_and_a_code_that_its_pass_rules_out() {
        let rows: Vec<_> = test::ALL.iter().map(|row| row.id).collect();
        assert_eq!(rows.iter().collect::<BTreeSet<_>>(), ids().iter().collect());
        assert_eq!(rows.len(), ALL.len());
        let ruled_out = Code::ALL.iter().flat_map(|code| code.row().ruled_out_by);
        assert_eq!(
            ruled_out.map(|row| row.id).collect::<BTreeSet<_>>(),
            ids().into_iter().collect()
        );
    }

    #[test]
    fn each_gpu_by_itself_and_what_adds_load_are_apart_from_what_has_peers() {
        for test in ALL {
            assert!(
                !(test.about.each_gpu && step_of(test).is_some()),
                "{}",
                test.id()
            );
            assert!(
                !test.about.full_load || test.level == Level::Acceptance,
                "{}",
                test.id()
            );
            assert!(!test.about.proves_peers || test.mandatory, "{}", test.id());
        }
        let peers: Vec<_> = ALL
            .iter()
            .filter(|t| step_of(t) == Some(Step::PeerWrite))
            .map(|t| t.id())
            .collect();
        let from_first = ids()
            .into_iter()
            .skip_while(|id| *id != test::P2P_CAPABILITY.id);
        assert_eq!(
            peers,
            from_first
                .filter(|id| *id != test::HOST_BANDWIDTH.id)
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn known_problems_name_tests_of_the_suite() {
        report::known_problems::KnownProblems::with(None, &ids()).unwrap();
    }

    #[test]
    fn every_test_says_what_a_pass_proves() {
        for test in ALL {
            assert!(
                test.proves.len() > 20 && !test.proves.ends_with('.'),
                "{}",
                test.id()
            );
            assert!(!test.title.is_empty() && !test.deadline.is_zero());
        }
    }
}
