//! Compares the GPUs' clocks with the host's before anything is measured by them: every GPU waits while a
//! known time passes on the host.

use super::bench::Bench;
use crate::floors::{ClockPeriod, clock_deviation};
use crate::suite::TestContext;
use crate::suite::shared::gpu_fault::fault_finding;
use gpu::GpuError;
use machine::GpuId;
use outcome::finding::{Finding, Subject};
use std::thread;
use std::time::{Duration, Instant};

/// How long the GPUs wait: a hundred times what starting and noticing take.
const HELD: Duration = Duration::from_millis(5);
/// The most clocks that the GPUs wait: 2 s at 2 GHz.
const MOST_CLOCKS: u64 = 4_000_000_000;
/// A host that sleeps this long is busy with other work, and tries again.
const OVERSLEPT: Duration = Duration::from_secs(1);
/// How often the clocks are compared, if the host is busy.
const TRIES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(10);

impl Bench<'_> {
    /// Returns without error where all clocks agree with the host's.
    ///
    /// # Errors
    /// `GPU-CLOCK` for the first GPU that disagrees; a fault of CUDA or of a GPU.
    pub(super) fn check_clocks(&self, context: &TestContext) -> Result<(), Box<Finding>> {
        context.doing("comparing the GPUs' clocks with the host's");
        let mut all = Vec::new();
        for _ in 0..TRIES {
            let (slept, measured) = self
                .measure_wait()
                .map_err(|e| fault_finding(Subject::Machine, &e))?;
            all = measured;
            if slept < OVERSLEPT {
                break;
            }
        }
        all.iter()
            .find_map(clock_deviation)
            .map_or(Ok(()), |finding| Err(Box::new(finding)))
    }

    /// How long the host slept, and how long each GPU measured.
    fn measure_wait(&self) -> Result<(Duration, Vec<ClockPeriod>), GpuError> {
        let lanes: Vec<_> = self
            .bench_gpus
            .iter()
            .filter_map(|bench_gpu| bench_gpu.lanes.first())
            .collect();
        let begun = Instant::now();
        for lane in &lanes {
            lane.stream.record(&lane.start)?;
        }
        for lane in &lanes {
            lane.finish("reading a GPU's clock", PATIENCE)?;
        }
        self.latch.close();
        for lane in &lanes {
            lane.stream.park(&self.latch, MOST_CLOCKS)?;
            lane.stream.record(&lane.stop)?;
            lane.is_idle()?;
        }
        // All GPUs have begun to wait at some time before this one.
        let asleep = Instant::now();
        thread::sleep(HELD);
        let slept = asleep.elapsed();
        self.latch.open();
        for lane in &lanes {
            lane.finish("reading a GPU's clock", PATIENCE)?;
        }
        let all = begun.elapsed();
        let stretch = |(gpu, lane): (GpuId, &&super::bench::Lane)| {
            let gpu_ms = lane.stop.ms_since(&lane.start)?;
            Ok(ClockPeriod {
                gpu,
                gpu_ms,
                least_ms: ms(slept),
                most_ms: ms(all),
            })
        };
        Ok((
            slept,
            GpuId::each(&lanes)
                .map(stretch)
                .collect::<Result<_, GpuError>>()?,
        ))
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
