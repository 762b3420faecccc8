//! The data of a row's timed calls: fills the input of each call, checks its result and counts wrong elements,
//! all on the GPUs that own the memory. Calls use consecutive parts of the buffers; no two parts hold the same
//! values.

use super::layout::{BufferPart, Layout};
use super::local_ranks::LocalRanks;
use super::messages::Fault;
use super::rank_gpu::{GUARD, RankGpu};
use super::watch::{calls_time_limit, wait};
use super::{RowAsk, element};
use crate::nccl::{FirstWrong, Placement, Stray, Wrongs};
use gpu::pattern;
use gpu::{ExpectedRun, GpuError, Runs, Shape, Span, Values, ValuesExpected};

/// The content of receive buffers before a call: bytes that no value has, and not zero.
const POISON: u8 = 0xa5;
/// Eight such bytes, for comparing a gap.
const POISONED: u64 = u64::from_le_bytes([POISON; 8]);
/// A cache line, bytes.
const LINE: u64 = 128;
/// Makes the pattern of the guard bands differ from the words of the values.
const BAND_SEED: u64 = 0x6261_6e64_735f_5f5f;

/// A guard band of a rank's buffer, or the bytes between the buffer's used part and the band.
struct GuardBand<'s> {
    receive: bool,
    /// The used bytes of the buffer, for a band behind them.
    used: Option<u64>,
    span: Span<'s>,
    /// The number of its first word in the pattern: no two bands have the same words.
    first: u64,
}

/// The data of one placement's calls.
pub(super) struct DataCheck<'t> {
    pub(super) local: &'t LocalRanks,
    pub(super) ask: &'t RowAsk,
    pub(super) shape: Shape,
    pub(super) values: Values,
    pub(super) placement: Placement,
    pub(super) seed: u64,
    /// The number of checked calls, from the first part on.
    pub(super) calls: u64,
}

impl DataCheck<'_> {
    /// Fills every call's data, on the ranks' streams.
    pub(super) fn prepare(&self) -> Result<(), Fault> {
        self.each(|gpu| {
            let bytes = self.shape.bytes.saturating_mul(self.calls);
            let all = BufferPart {
                receive: true,
                offset: 0,
                bytes,
            };
            gpu.stream.set_bytes(gpu.span(all)?, POISON)?;
            let to = self.places(gpu, self.layout(gpu).send)?;
            let runs = self.runs(self.shape.send, 1);
            gpu.stream
                .fill_values(to, self.ask.data, self.values, gpu.rank, self.seed, &runs)?;
            for (_, gap) in self.gaps(gpu)? {
                gpu.stream.set_bytes(gap, POISON)?;
            }
            let mut bands = self.bands(gpu)?.into_iter();
            bands.try_for_each(|band| {
                gpu.stream
                    .fill(band.span, self.seed ^ BAND_SEED, band.first)
            })
        })
    }

    /// Where the memory of the checked calls ends in every rank's buffers, bytes: a whole number of cache lines.
    pub(super) const fn end(&self) -> u64 {
        self.shape
            .bytes
            .saturating_mul(self.calls)
            .next_multiple_of(LINE)
    }

    /// The used bytes of a rank's buffer: up to the end of the last call's data.
    fn used(&self, gpu: &RankGpu, receive: bool) -> u64 {
        let layout = self.layout(gpu);
        let parts = [layout.send, layout.receive]
            .into_iter()
            .filter(|part| part.receive == receive);
        let before = self
            .shape
            .bytes
            .saturating_mul(self.calls.saturating_sub(1));
        let end = parts
            .map(|part| part.offset.saturating_add(part.bytes))
            .max();
        end.map_or(0, |end| end.saturating_add(before))
    }

    fn bands<'s>(&self, gpu: &'s RankGpu) -> Result<Vec<GuardBand<'s>>, GpuError> {
        let both = [false, true]
            .into_iter()
            .flat_map(|receive| [(receive, None), (receive, Some(self.used(gpu, receive)))]);
        let band = |(n, (receive, used)): (u64, (bool, Option<u64>))| {
            let first = (gpu.rank.index() as u64 * 4 + n) * (GUARD / 4);
            Ok(GuardBand {
                receive,
                used,
                span: gpu.band(receive, used)?,
                first,
            })
        };
        (0..).zip(both).map(band).collect()
    }

    /// The gaps before the bands (after an odd number of 16-bit elements), each with whether it is in the receive buffer.
    fn gaps<'s>(&self, gpu: &'s RankGpu) -> Result<Vec<(bool, Span<'s>)>, GpuError> {
        let gap = |receive| Ok((receive, gpu.gap(receive, self.used(gpu, receive))?));
        let gaps: Result<Vec<_>, GpuError> = [false, true].into_iter().map(gap).collect();
        Ok(gaps?.into_iter().filter(|(_, gap)| gap.bytes > 0).collect())
    }

    /// Checks the results of all calls after they are done.
    pub(super) fn verify(&self) -> Result<Wrongs, Fault> {
        self.each(|gpu| self.queue_check(gpu))?;
        let calls = u32::try_from(self.calls).unwrap_or(u32::MAX);
        wait(self.local, calls_time_limit(self.shape.bytes, calls))?;
        let mut wrongs = Wrongs {
            calls: self.calls,
            ..Wrongs::default()
        };
        for gpu in &self.local.gpus {
            // Must precede `count`, which fetches too: the gaps were fetched together with the check.
            if wrongs.stray.is_none() {
                wrongs.stray = self.stray(gpu)?.map(Box::new);
            }
            self.count(gpu, &mut wrongs)?;
        }
        Ok(wrongs)
    }

    fn each(&self, act: impl Fn(&RankGpu) -> Result<(), GpuError>) -> Result<(), Fault> {
        self.local
            .gpus
            .iter()
            .try_for_each(|gpu| act(gpu).map_err(|e| Fault::of(Some(gpu.rank), &e)))
    }

    /// The layout of the first call's data.
    fn layout(&self, gpu: &RankGpu) -> Layout {
        let element = self.ask.data.bytes();
        Layout::new(
            self.ask.collective,
            self.shape,
            element,
            gpu.rank,
            self.placement,
            0,
        )
    }

    /// The memory from a part in the first call to the same part in the last call.
    fn places<'s>(&self, gpu: &'s RankGpu, part: BufferPart) -> Result<Span<'s>, GpuError> {
        let before = self
            .shape
            .bytes
            .saturating_mul(self.calls.saturating_sub(1));
        gpu.span(BufferPart {
            bytes: before.saturating_add(part.bytes),
            ..part
        })
    }

    /// Runs of `count` elements in each call's part. Numbers continue from call to call.
    fn runs(&self, count: u64, parts: u64) -> Runs {
        let stride = self.shape.bytes / self.ask.data.bytes();
        Runs {
            count,
            parts,
            calls: self.calls,
            stride,
            step: self.shape.send,
        }
    }

    /// The expected content of a rank's receive buffer after one call.
    fn expected(&self, gpu: &RankGpu) -> Vec<ExpectedRun> {
        self.ask
            .collective
            .expected(self.shape, self.local.ranks, gpu.rank, self.ask.root)
    }

    fn queue_check(&self, gpu: &RankGpu) -> Result<(), GpuError> {
        let (data, op, ranks, seed) = (self.ask.data, self.ask.op, self.local.ranks, self.seed);
        gpu.tally.begin(&gpu.stream)?;
        let parts = self.expected(gpu);
        if let Some(ExpectedRun {
            count, first, from, ..
        }) = parts.first().copied()
        {
            // Parts of several ranks are consecutive, in the ranks' order.
            let runs = self.runs(count, parts.len() as u64);
            let what = self.places(gpu, self.layout(gpu).receive)?;
            let expect = ValuesExpected {
                from,
                op,
                ranks,
                seed,
                first,
            };
            gpu.stream
                .check_values(what, data, self.values, &expect, &runs, &gpu.tally)?;
        }
        gpu.tally.end(&gpu.stream)?;
        for (place, (_, gap)) in (1..).zip(self.gaps(gpu)?) {
            gpu.fetch(place, gap)?;
        }
        gpu.bands.begin(&gpu.stream)?;
        for band in self.bands(gpu)? {
            gpu.stream
                .check_more(band.span, band.first, seed ^ BAND_SEED, seed, &gpu.bands)?;
        }
        gpu.bands.end(&gpu.stream)
    }

    /// What was changed beside one GPU's buffers.
    fn stray(&self, gpu: &RankGpu) -> Result<Option<Stray>, Fault> {
        let failed = |error: GpuError| Fault::of(Some(gpu.rank), &error);
        let (gaps, bands) = (
            self.gaps(gpu).map_err(failed)?,
            self.bands(gpu).map_err(failed)?,
        );
        let rank = gpu.rank;
        for (place, (receive, gap)) in (1..).zip(gaps) {
            let low = u64::MAX >> (64 - 8 * gap.bytes.min(8));
            let bits = gpu.fetched(place) & low;
            if bits != POISONED & low {
                let found = self.words(bits, low, None);
                return Ok(Some(Stray {
                    rank,
                    receive,
                    behind: true,
                    distance: 0,
                    words: 1,
                    found,
                }));
            }
        }
        let (counts, all) = (gpu.bands.checked(), bands.len() as u64 * (GUARD / 4));
        if counts.looked != all {
            let text = format!(
                "rank {rank}: {} words of {all} in guard bands were checked",
                counts.looked
            );
            return Err(Fault::broken(text));
        }
        for band in bands.iter().filter(|_| counts.wrong > 0) {
            if let Some(stray) = self.examine_band(gpu, band)? {
                return Ok(Some(stray));
            }
        }
        if counts.wrong > 0 {
            let text = format!(
                "rank {rank}: {} words of guard bands were wrong only once",
                counts.wrong
            );
            return Err(Fault::broken(text));
        }
        Ok(None)
    }

    /// Examines one band more closely.
    fn examine_band(&self, gpu: &RankGpu, band: &GuardBand<'_>) -> Result<Option<Stray>, Fault> {
        let failed = |error: GpuError| Fault::of(Some(gpu.rank), &error);
        let seed = self.seed ^ BAND_SEED;
        gpu.stream
            .check(band.span, band.first, seed, self.seed, &gpu.bands)
            .map_err(failed)?;
        wait(self.local, calls_time_limit(GUARD, 1))?;
        let counts = gpu.bands.checked();
        // The nearest change to the buffer.
        let nearest = if band.used.is_some() {
            counts.first
        } else {
            counts.last
        };
        let Some(word) = nearest else { return Ok(None) };
        let at = band.span.part(word * 4, 4).map_err(failed)?;
        gpu.fetch(0, at).map_err(failed)?;
        wait(self.local, calls_time_limit(4, 1))?;
        let bits = gpu.fetched(0) & u64::from(u32::MAX);
        let place = word.saturating_mul(4);
        let distance = match band.used {
            Some(used) => (used.next_multiple_of(4) - used).saturating_add(place),
            None => GUARD.saturating_sub(place.saturating_add(4)),
        };
        let found = self.words(bits, u64::from(u32::MAX), Some(word));
        let (rank, receive, behind) = (gpu.rank, band.receive, band.used.is_some());
        Ok(Some(Stray {
            rank,
            receive,
            behind,
            distance,
            words: counts.wrong,
            found,
        }))
    }

    /// Describes bits that were found beside a buffer, and their possible origin; `word` is their place in a band.
    fn words(&self, bits: u64, low: u64, word: Option<u64>) -> String {
        let of_band = |n: u64| {
            let i = n.saturating_mul(GUARD / 4).saturating_add(word?);
            (u64::from(pattern::word(self.seed ^ BAND_SEED, i)) == bits).then_some(n / 4)
        };
        let band = (0..self.local.ranks as u64 * 4).find_map(of_band);
        let text = element::text(self.ask.data, bits);
        match band {
            Some(rank) => format!("{text}, the guard pattern of rank {rank}"),
            None if bits == 0 => format!("{text}, zeros"),
            None if bits == low => format!("{text}, all ones"),
            None if bits == POISONED & low => {
                format!("{text}, what receive buffers hold before a call")
            }
            None if element::is_value(self.ask.data, bits) => {
                format!("{text}, a number as these calls move them")
            }
            None => format!("{text}, other data"),
        }
    }

    /// Adds the counts of one GPU.
    fn count(&self, gpu: &RankGpu, wrongs: &mut Wrongs) -> Result<(), Fault> {
        let parts = self.expected(gpu);
        let of_call: u64 = parts.iter().map(|part| part.count).sum();
        let all = of_call.saturating_mul(self.calls);
        let counts = gpu.tally.checked();
        if counts.looked != all {
            let text = format!(
                "rank {}: {} elements of {all} were checked",
                gpu.rank, counts.looked
            );
            return Err(Fault::broken(text));
        }
        wrongs.looked += all;
        wrongs.count += counts.wrong;
        wrongs.ones += counts.ones;
        let Some(number) = counts.first.filter(|_| wrongs.first.is_none()) else {
            return Ok(());
        };
        let (call, element) = (number / of_call.max(1), number % of_call.max(1));
        let part = parts
            .iter()
            .find(|p| element.checked_sub(p.at).is_some_and(|k| k < p.count));
        let part =
            part.ok_or_else(|| Fault::broken(format!("element {element} does not exist")))?;
        let part = ExpectedRun {
            first: part
                .first
                .saturating_add(call.saturating_mul(self.shape.send)),
            ..*part
        };
        let (op, ranks) = (self.ask.op, self.local.ranks);
        let wanted = element::expected(part, element - part.at, op, ranks, self.values, self.seed);
        let found = self.found(gpu, call, element)?;
        let expected = wanted.to_string();
        wrongs.first = Some(FirstWrong {
            rank: gpu.rank,
            call,
            element,
            found,
            expected,
        });
        Ok(())
    }

    /// The content of a received element.
    fn found(&self, gpu: &RankGpu, call: u64, element: u64) -> Result<String, Fault> {
        let bytes = self.ask.data.bytes();
        let fetch = || {
            let place = self.shape.bytes.saturating_mul(call);
            let within = place.saturating_add(element.saturating_mul(bytes));
            gpu.fetch(
                0,
                self.places(gpu, self.layout(gpu).receive)?
                    .part(within, bytes)?,
            )
        };
        fetch().map_err(|error| Fault::of(Some(gpu.rank), &error))?;
        wait(self.local, calls_time_limit(bytes, 1))?;
        Ok(element::text(self.ask.data, gpu.fetched(0)))
    }
}
