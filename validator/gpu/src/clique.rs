//! All GPUs of the machine, or some of them, each with a context. Opening them takes seconds, so it is done
//! once for all tests of a worker.

use super::cuda::{self, Gpu, GpuError};
use machine::GpuId;
use machine::pcie::model::Bdf;

/// All GPUs that CUDA sees, in CUDA's order, or only the requested ones.
#[derive(Debug)]
pub struct Clique {
    /// The GPUs; if all are open, the n-th has ordinal n.
    pub gpus: Vec<Gpu>,
    /// The CUDA version that the driver offers.
    pub cuda: String,
}

impl Clique {
    /// Starts CUDA and a context on every GPU.
    ///
    /// # Errors
    /// CUDA cannot be started, or a GPU cannot be used.
    pub fn open() -> Result<Self, GpuError> {
        Self::of(GpuId::all(cuda::count()?))
    }

    /// Starts CUDA and a context on these GPUs only, given by CUDA's numbers and in this order: the process of one
    /// rank must not use memory of other ranks' GPUs.
    ///
    /// # Errors
    /// As for `open`; a number without a GPU, or a repeated one.
    pub fn open_only(gpus: &[GpuId]) -> Result<Self, GpuError> {
        let count = cuda::count()?;
        for (at, n) in gpus.iter().enumerate() {
            if n.index() >= count {
                return Err(GpuError::Nonsense(format!(
                    "there is no GPU {n}: CUDA sees {count}"
                )));
            }
            if gpus.iter().take(at).any(|before| before == n) {
                return Err(GpuError::Nonsense(format!("GPU {n} is requested twice")));
            }
        }
        Self::of(gpus.iter().copied())
    }

    fn of(gpus: impl Iterator<Item = GpuId>) -> Result<Self, GpuError> {
        let cuda = cuda::version()?;
        Ok(Self {
            gpus: gpus
                .map(|gpu| cuda::open(gpu.index()))
                .collect::<Result<_, _>>()?,
            cuda,
        })
    }

    /// The number of GPUs.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.gpus.len()
    }

    /// Whether there are no GPUs.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.gpus.is_empty()
    }

    /// The GPU with this number, if all are open.
    #[must_use]
    pub fn gpu(&self, gpu: GpuId) -> Option<&Gpu> {
        self.gpus.get(gpu.index())
    }

    /// Every ordered pair of different GPUs.
    pub fn pairs(&self) -> impl Iterator<Item = (&Gpu, &Gpu)> {
        let others = |a: &Gpu| {
            self.gpus.iter().filter({
                let n = a.ordinal;
                move |b| b.ordinal != n
            })
        };
        self.gpus
            .iter()
            .flat_map(move |a| others(a).map(move |b| (a, b)))
    }

    /// The addresses in CUDA's order.
    #[must_use]
    pub fn addresses(&self) -> Vec<Bdf> {
        self.gpus.iter().map(|g| g.bdf).collect()
    }
}
