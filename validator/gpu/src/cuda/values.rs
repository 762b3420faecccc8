//! Fills memory with the values of collectives and checks received ones, with kernels on the GPU that owns the
//! memory. `nccl::value` defines the values, `kernels/nccl.cu` describes the kernels.

use super::error::GpuError;
use super::launch::{THREADS, at};
use super::stream::Stream;
use super::tally::Tally;
use crate::cuda::memory::span::{Extent, Span};
use crate::{DataType, RedOp, Values};
use machine::Rank;

/// The kernels' code for values that are not reduced.
const COPY: u32 = u32::MAX;
/// Bytes of one access of a kernel.
const GROUP_BYTES: u64 = 16;
/// The most powers of two: 2^31 is the largest that the kernels make.
const MOST_POWERS: u32 = 32;

/// The elements of several calls of a collective, in one buffer: each call has `parts` consecutive runs of
/// `count`, and the next call's runs begin `stride` elements after its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// Elements of one run.
    pub count: u64,
    /// Runs of one call, each with the next rank's values.
    pub parts: u64,
    /// The number of calls.
    pub calls: u64,
    /// Elements from one call's first to the next one's.
    pub stride: u64,
    /// How much value numbers increase from one call to the next.
    pub step: u64,
}

impl Runs {
    /// Elements of all runs together.
    #[must_use]
    pub const fn elements(&self) -> u64 {
        self.count
            .saturating_mul(self.parts)
            .saturating_mul(self.calls)
    }

    /// Elements from the beginning of the first run to the end of the last one.
    #[must_use]
    pub const fn reach(&self) -> u64 {
        if self.elements() == 0 {
            return 0;
        }
        let before = self.calls.saturating_sub(1).saturating_mul(self.stride);
        before.saturating_add(self.parts.saturating_mul(self.count))
    }

    /// The same elements in fewer runs: two calls without a gap and with consecutive numbers are one run.
    const fn joined(self) -> Self {
        if self.parts == 1 && self.stride == self.count && self.step == self.count {
            let count = self.elements();
            return Self {
                count,
                parts: 1,
                calls: 1,
                stride: count,
                step: count,
            };
        }
        self
    }
}

/// The expected elements of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValuesExpected {
    /// The rank of the first run's values; each further run of a call has the next rank's. `None`: all ranks'
    /// values, reduced.
    pub from: Option<Rank>,
    /// The reduction; ignored for one rank's values.
    pub op: RedOp,
    /// The number of ranks.
    pub ranks: usize,
    /// The seed of the values.
    pub seed: u64,
    /// The number of the first call's first element in the senders' buffers.
    pub first: u64,
}

impl Stream {
    /// Sets element `k` of call `c` in `to` to the value of `rank` with number `c * step + k`.
    ///
    /// # Errors
    /// The driver's error; [`GpuError::Nonsense`] for a part of an element, runs that do not fit, or values
    /// that the kernels cannot make.
    pub fn fill_values(
        &self,
        to: Span<'_>,
        data: DataType,
        values: Values,
        rank: Rank,
        seed: u64,
        runs: &Runs,
    ) -> Result<(), GpuError> {
        let all = fitting(to, data, runs)?;
        let mut run = (
            to.address,
            all.count,
            data.code(),
            number(rank.index())?,
            seed,
            0_u64,
        );
        let mut made = checked(values)?;
        let mut calls = (all.calls, all.stride, all.step);
        if all.elements() == 0 {
            return Ok(());
        }
        let list = [
            at(&raw mut run.0),
            at(&raw mut run.1),
            at(&raw mut run.2),
            at(&raw mut run.3),
            at(&raw mut run.4),
            at(&raw mut run.5),
            at(&raw mut made.0),
            at(&raw mut made.1),
            at(&raw mut made.2),
            at(&raw mut calls.0),
            at(&raw mut calls.1),
            at(&raw mut calls.2),
        ];
        self.launch(
            self.kernels().nccl_fill,
            self.groups(data, &all),
            THREADS,
            &list,
            "fl_nccl_fill",
        )
    }

    /// Counts the elements of `what` that differ from the expected ones in any bit, and adds the counts to
    /// `tally`, between its `begin` and `end`. A wrong element is reported by its number in all runs.
    ///
    /// # Errors
    /// As for `fill_values`.
    pub fn check_values(
        &self,
        what: Span<'_>,
        data: DataType,
        values: Values,
        expect: &ValuesExpected,
        runs: &Runs,
        tally: &Tally,
    ) -> Result<(), GpuError> {
        let all = fitting(what, data, runs)?;
        let mut run = (what.address, all.count, data.code());
        let mut from = match expect.from {
            Some(rank) => (COPY, number(rank.index())?, number(expect.ranks)?),
            None => (expect.op.code(), 0, number(expect.ranks)?),
        };
        let mut made = checked(values)?;
        if all.elements() == 0 {
            return Ok(());
        }
        let mut numbers = (expect.seed, expect.first, tally.place().address);
        let mut calls = (all.parts, all.calls, all.stride, all.step);
        let list = [
            at(&raw mut run.0),
            at(&raw mut run.1),
            at(&raw mut run.2),
            at(&raw mut from.0),
            at(&raw mut from.1),
            at(&raw mut from.2),
            at(&raw mut numbers.0),
            at(&raw mut numbers.1),
            at(&raw mut made.0),
            at(&raw mut made.1),
            at(&raw mut made.2),
            at(&raw mut calls.0),
            at(&raw mut calls.1),
            at(&raw mut calls.2),
            at(&raw mut calls.3),
            at(&raw mut numbers.2),
        ];
        self.launch(
            self.kernels().nccl_check,
            self.groups(data, &all),
            THREADS,
            &list,
            "fl_nccl_check",
        )
    }

    /// The number of blocks for runs, each of which may begin and end within a group; short runs have a block each.
    fn groups(&self, data: DataType, runs: &Runs) -> u32 {
        let groups = runs.elements().saturating_mul(data.bytes()) / GROUP_BYTES + 2;
        self.grid(
            groups.max(
                runs.calls
                    .saturating_mul(runs.parts)
                    .saturating_mul(THREADS.into()),
            ),
        )
    }
}

/// The runs in `there`, joined as far as possible: whole elements, each aligned to its size.
fn fitting(there: Span<'_>, data: DataType, runs: &Runs) -> Result<Runs, GpuError> {
    let each = data.bytes();
    let fits = runs.reach().saturating_mul(each) <= there.bytes;
    if fits && there.bytes.is_multiple_of(each) && there.address.is_multiple_of(each) {
        return Ok(runs.joined());
    }
    let Extent { address, bytes } = *there;
    Err(GpuError::Nonsense(format!(
        "{bytes} bytes at {address:#x} do not hold {runs:?} of {data}"
    )))
}

/// Range, scale and powers in the kernels' form.
fn checked(values: Values) -> Result<(u32, u32, u32), GpuError> {
    let Values {
        range,
        scale,
        powers,
    } = values;
    if range == 0 || scale == 0 || (powers && range > MOST_POWERS) {
        return Err(GpuError::Nonsense(format!(
            "the kernels cannot make these values: {values:?}"
        )));
    }
    Ok((range, scale, powers.into()))
}

fn number(ranks: usize) -> Result<u32, GpuError> {
    u32::try_from(ranks).map_err(|_| GpuError::Nonsense(format!("{ranks} ranks are too many")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Values = Values {
        range: 100,
        scale: 1,
        powers: false,
    };

    const RUNS: Runs = Runs {
        count: 4,
        parts: 1,
        calls: 3,
        stride: 4,
        step: 4,
    };

    #[test]
    fn a_part_of_an_element_and_runs_that_do_not_fit_are_refused() {
        let of = |address, bytes, runs: &Runs| {
            fitting(Span::fixture(address, bytes), DataType::Double, runs)
        };
        assert!(of(0x1000, 96, &RUNS).is_ok());
        assert!(of(0x1000, 97, &RUNS).is_err() && of(0x1004, 96, &RUNS).is_err());
        assert!(of(0x1000, 88, &RUNS).is_err());
        // The gap after the last call may be missing.
        let apart = Runs { stride: 6, ..RUNS };
        assert!(of(0x1000, 8 * 16, &apart).is_ok() && of(0x1000, 8 * 15, &apart).is_err());
    }

    #[test]
    fn runs_without_gaps_are_joined_and_others_are_not() {
        let one = Runs {
            count: 12,
            parts: 1,
            calls: 1,
            stride: 12,
            step: 12,
        };
        assert_eq!(
            (RUNS.joined(), RUNS.elements(), RUNS.reach()),
            (one, 12, 12)
        );
        for apart in [
            Runs { stride: 6, ..RUNS },
            Runs { step: 16, ..RUNS },
            Runs { parts: 2, ..RUNS },
        ] {
            assert_eq!(apart.joined(), apart);
        }
        let none = Runs { calls: 0, ..RUNS };
        assert_eq!((none.elements(), none.reach()), (0, 0));
    }

    #[test]
    fn values_that_the_kernels_cannot_make_are_refused() {
        assert_eq!(checked(PLAIN), Ok((100, 1, 0)));
        assert_eq!(
            checked(Values {
                range: 32,
                scale: 8,
                powers: true
            }),
            Ok((32, 8, 1))
        );
        for bad in [Values { range: 0, ..PLAIN }, Values { scale: 0, ..PLAIN }] {
            assert!(checked(bad).is_err());
        }
        assert!(
            checked(Values {
                range: 33,
                scale: 8,
                powers: true
            })
            .is_err()
        );
    }
}
