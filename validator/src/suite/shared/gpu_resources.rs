//! A GPU with the stream, tallies and host memory that a test needs to check its memory; allocated once.

use gpu::{Gpu, GpuError, Pinned, Span, Stream, Tally};
use std::time::Duration;

/// Filling and checking a GPU's own memory takes milliseconds.
const OWN: Duration = Duration::from_secs(4);
/// The most words of a sample.
const SAMPLE: u64 = 8;

/// A GPU with a stream, and tallies for three checks at a time.
#[derive(Debug)]
pub(in crate::suite) struct GpuResources<'g> {
    pub(in crate::suite) gpu: &'g Gpu,
    pub(in crate::suite) stream: Stream,
    pub(in crate::suite) tallies: [Tally; 3],
    host: Pinned,
}

impl<'g> GpuResources<'g> {
    pub(in crate::suite) fn new(gpu: &'g Gpu) -> Result<Self, GpuError> {
        let tallies = [Tally::new(gpu)?, Tally::new(gpu)?, Tally::new(gpu)?];
        Ok(Self {
            gpu,
            stream: gpu.stream()?,
            tallies,
            host: Pinned::alloc(gpu, 4096)?,
        })
    }

    /// Waits for this GPU's work on its own memory.
    pub(in crate::suite) fn wait(&self) -> Result<(), GpuError> {
        self.stream.finish(
            &format!("GPU {}: checking its own memory", self.gpu.id()),
            OWN,
        )
    }

    /// Words of `what` from word `place` on: a sample for the report.
    pub(in crate::suite) fn sample(
        &self,
        what: Span<'_>,
        place: u64,
    ) -> Result<Vec<u32>, GpuError> {
        let count = SAMPLE.min(what.words().saturating_sub(place));
        self.stream.copy_out(
            self.host.span(0, count * 4)?,
            what.part(place * 4, count * 4)?,
        )?;
        self.wait()?;
        Ok(self.host.words(0, count))
    }
}
