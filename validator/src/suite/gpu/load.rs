//! Products on all GPUs at once, and the sums that must come out. Every launch is checked against the host's
//! own calculation, block by block.

use gpu::pattern::{Nonces, PRODUCTS, product_sum};
use gpu::{Arithmetic, Clique, Gpu, GpuError, Stream, Sums};
use machine::GpuId;
use std::time::{Duration, Instant};

/// Different batches of a launch: as many as the host calculates in a few milliseconds.
const BATCHES: u32 = 16;
/// The most repetitions of a launch.
const MOST_TIMES: u32 = 1 << 16;
/// A launch takes a fraction of a second; more than this is a hang.
const HANG: Duration = Duration::from_secs(20);

/// Blocks of one launch with a wrong sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WrongSum {
    pub(super) gpu: GpuId,
    pub(super) arithmetic: &'static str,
    /// How many blocks, and of how many.
    pub(super) blocks: u32,
    pub(super) of: u32,
    /// The multiprocessors that they ran on, each once.
    pub(super) multiprocessors: Vec<u64>,
}

/// One queue of products of one GPU.
#[derive(Debug)]
struct WorkQueue<'g> {
    gpu: &'g Gpu,
    stream: Stream,
    sums: Sums,
    /// The work that was launched: its arithmetic, its repetitions and the sum of one repetition.
    job: Option<(Arithmetic, u32, u64)>,
    /// The arithmetic of what is launched next: the two take turns.
    next: Arithmetic,
    /// Repetitions that take about 1 ms.
    per_ms: f64,
}

/// All GPUs at work.
#[derive(Debug)]
pub(super) struct Load<'g> {
    queues: Vec<WorkQueue<'g>>,
    nonces: Nonces,
    /// The present seed, and the sum of its batches.
    seed: (u64, u64),
    pub(super) wrong: Vec<WrongSum>,
    /// Products of two numbers that were right, by GPU.
    pub(super) right: Vec<f64>,
}

impl<'g> Load<'g> {
    /// Creates two queues for each GPU, so that it always has work, and measures how long work takes there.
    pub(super) fn new(clique: &'g Clique) -> Result<Self, GpuError> {
        let queue = |gpu: &'g Gpu| {
            Ok(WorkQueue {
                gpu,
                stream: gpu.stream()?,
                sums: Sums::new(gpu)?,
                job: None,
                next: Arithmetic::Int8,
                per_ms: 1.0,
            })
        };
        let twice = clique.gpus.iter().chain(&clique.gpus);
        let queues = twice.map(queue).collect::<Result<_, GpuError>>()?;
        let right = vec![0.0; clique.gpus.len()];
        let mut load = Self {
            queues,
            nonces: Nonces::new(),
            seed: (0, 0),
            wrong: Vec::new(),
            right,
        };
        load.next_seed();
        for n in 0..load.queues.len() {
            load.measure(n)?;
        }
        Ok(load)
    }

    /// Another seed for what is launched next.
    pub(super) fn next_seed(&mut self) {
        let seed = self.nonces.next();
        self.seed = (seed, product_sum(seed, BATCHES));
    }

    /// Measures the time of one repetition. The first launches only load the kernels, one for each arithmetic.
    fn measure(&mut self, n: usize) -> Result<(), GpuError> {
        let mut took = 0.0_f64;
        for times in [1, 1, 8, 8] {
            let start = Instant::now();
            self.launch(n, times)?;
            self.collect(n)?;
            took = start.elapsed().as_secs_f64() * 1000.0 / f64::from(times);
        }
        if let Some(queue) = self.queues.get_mut(n) {
            queue.per_ms = 1.0 / took.max(1e-4);
        }
        Ok(())
    }

    /// Launches work of about this duration on every queue that has none, and checks finished work.
    pub(super) fn keep_busy(&mut self, duration: Duration) -> Result<(), GpuError> {
        for n in 0..self.queues.len() {
            let Some(queue) = self.queues.get(n) else {
                break;
            };
            if queue.job.is_some() && !queue.stream.done()? {
                continue;
            }
            let times = repetitions(queue.per_ms, duration);
            self.collect(n)?;
            self.launch(n, times)?;
        }
        Ok(())
    }

    /// Waits for all queues and checks their results.
    pub(super) fn drain(&mut self) -> Result<(), GpuError> {
        (0..self.queues.len()).try_for_each(|n| self.collect(n))
    }

    fn launch(&mut self, n: usize, times: u32) -> Result<(), GpuError> {
        let (seed, sum) = self.seed;
        let Some(queue) = self.queues.get_mut(n) else {
            return Ok(());
        };
        queue
            .stream
            .products(queue.next, seed, (BATCHES, times), &queue.sums)?;
        queue.job = Some((queue.next, times, sum));
        queue.next = match queue.next {
            Arithmetic::Int8 => Arithmetic::Float,
            Arithmetic::Float => Arithmetic::Int8,
        };
        Ok(())
    }

    fn collect(&mut self, n: usize) -> Result<(), GpuError> {
        let Some(queue) = self.queues.get_mut(n) else {
            return Ok(());
        };
        let Some((arithmetic, times, sum)) = queue.job.take() else {
            return Ok(());
        };
        let gpu = queue.gpu.id();
        queue
            .stream
            .finish(&format!("GPU {gpu}: matrix products"), HANG)?;
        let expected = sum.wrapping_mul(u64::from(times));
        let wrong: Vec<_> = queue
            .sums
            .read()
            .filter(|(found, _)| *found != expected)
            .map(|(_, sm)| sm)
            .collect();
        if wrong.is_empty() {
            let done =
                f64::from(queue.sums.blocks()) * f64::from(BATCHES) * f64::from(times) * batch();
            if let Some(right) = self.right.get_mut(gpu.index()) {
                *right += done;
            }
        } else {
            self.wrong
                .push(WrongSum::of(gpu, arithmetic, wrong, queue.sums.blocks()));
        }
        Ok(())
    }
}

impl WrongSum {
    fn of(gpu: GpuId, arithmetic: Arithmetic, mut multiprocessors: Vec<u64>, of: u32) -> Self {
        let blocks = u32::try_from(multiprocessors.len()).unwrap_or(u32::MAX);
        multiprocessors.sort_unstable();
        multiprocessors.dedup();
        let arithmetic = match arithmetic {
            Arithmetic::Int8 => "int8",
            Arithmetic::Float => "floating point",
        };
        Self {
            gpu,
            arithmetic,
            blocks,
            of,
            multiprocessors,
        }
    }
}

/// Products of two numbers in a batch.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
const fn batch() -> f64 {
    PRODUCTS as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped"
)]
fn repetitions(per_ms: f64, duration: Duration) -> u32 {
    (per_ms * duration.as_secs_f64() * 1000.0).clamp(1.0, f64::from(MOST_TIMES)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_are_as_long_as_asked() {
        assert_eq!(repetitions(20.0, Duration::from_millis(50)), 1000);
        assert_eq!(repetitions(0.001, Duration::from_millis(50)), 1);
        assert_eq!(
            repetitions(f64::INFINITY, Duration::from_millis(50)),
            MOST_TIMES
        );
    }

    #[test]
    fn multiprocessors_are_named_once() {
        let wrong = WrongSum::of(2.into(), Arithmetic::Float, vec![7, 3, 7], 264);
        assert_eq!((wrong.blocks, wrong.multiprocessors), (3, vec![3, 7]));
    }
}
