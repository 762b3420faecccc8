//! All GPUs of the machine together, each with a context. Opening them is what costs seconds, so it
//! is done once for all tests of a worker.

use super::cuda::{self, Gpu, GpuError};
use crate::pcie::model::Bdf;

/// All GPUs that CUDA sees, in its order.
#[derive(Debug)]
pub struct Clique {
    /// The GPUs; the n-th has ordinal n.
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
        let cuda = cuda::version()?;
        Ok(Self { gpus: cuda::open_all()?, cuda })
    }

    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.gpus.len()
    }

    /// True without any.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.gpus.is_empty()
    }

    /// GPU `n`.
    #[must_use]
    pub fn gpu(&self, n: usize) -> Option<&Gpu> {
        self.gpus.get(n)
    }

    /// Every ordered pair of different GPUs.
    pub fn pairs(&self) -> impl Iterator<Item = (&Gpu, &Gpu)> {
        let others = |a: &Gpu| {
            self.gpus.iter().filter({
                let n = a.ordinal;
                move |b| b.ordinal != n
            })
        };
        self.gpus.iter().flat_map(move |a| others(a).map(move |b| (a, b)))
    }

    /// The addresses in CUDA's order.
    #[must_use]
    pub fn addresses(&self) -> Vec<Bdf> {
        self.gpus.iter().map(|g| g.bdf).collect()
    }
}
