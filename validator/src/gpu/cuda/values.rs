//! Filling memory with the values of collectives and checking them where they arrived, by kernels on the
//! memory's owner. What the values are is `collective`'s matter, how the kernels do it is said in
//! `kernels/nccl.cu`.

use super::error::GpuError;
use super::launch::{THREADS, at};
use super::memory::Span;
use super::stream::Stream;
use super::tally::Tally;
use crate::collective::{DataType, RedOp, Values};

/// The kernels' code for values that nobody reduced.
const COPY: u32 = u32::MAX;
/// What one access of a kernel moves.
const GROUP_BYTES: u64 = 16;
/// So many powers of two at most: 2^31 is the largest that the kernels make.
const MOST_POWERS: u32 = 32;

/// What a run of elements must hold, and how its elements are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValuesExpected {
    /// The rank whose values they are; `None`: all ranks', reduced.
    pub from: Option<usize>,
    /// How they are reduced; means nothing for one rank's.
    pub op: RedOp,
    /// How many ranks.
    pub ranks: usize,
    /// What the values were filled with.
    pub seed: u64,
    /// The number of the run's first element in the senders' buffers.
    pub first: u64,
    /// The number under which the run's first element is reported, where it is wrong.
    pub base: u64,
}

impl ValuesExpected {
    /// What the element must be that is reported as number `element`.
    #[must_use]
    pub fn value(&self, values: Values, element: u64) -> u64 {
        let i = self.first.wrapping_add(element.wrapping_sub(self.base));
        match self.from {
            Some(rank) => values.value(self.seed, rank, i),
            None => values.reduced(self.op, self.ranks, self.seed, i),
        }
    }
}

impl Stream {
    /// Element `k` of `to` becomes the value of `rank` with number `first + k`.
    ///
    /// # Errors
    /// The driver's; [`GpuError::Nonsense`] for a part of an element, or values that the kernels cannot make.
    pub fn fill_values(
        &self,
        to: Span,
        data: DataType,
        values: Values,
        rank: usize,
        seed: u64,
        first: u64,
    ) -> Result<(), GpuError> {
        let mut run = (to.address, elements(to, data)?, data.code(), number(rank)?, seed, first);
        let mut made = checked(values)?;
        if run.1 == 0 {
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
        ];
        self.launch(self.kernels().nccl_fill, self.groups(to), THREADS, &list, "fl_nccl_fill")
    }

    /// Counts the elements of `what` that are not what is expected, bit by bit, and adds the counts to
    /// `tally`, between its `begin` and `end`.
    ///
    /// # Errors
    /// As `fill_values`.
    pub fn check_values(
        &self,
        what: Span,
        data: DataType,
        values: Values,
        expect: &ValuesExpected,
        tally: &Tally,
    ) -> Result<(), GpuError> {
        let mut run = (what.address, elements(what, data)?, data.code());
        let mut from = match expect.from {
            Some(rank) => (COPY, number(rank)?, number(expect.ranks)?),
            None => (expect.op.code(), 0, number(expect.ranks)?),
        };
        let mut made = checked(values)?;
        if run.1 == 0 {
            return Ok(());
        }
        let mut numbers = (expect.seed, expect.first, expect.base, tally.place().address);
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
            at(&raw mut numbers.2),
            at(&raw mut numbers.3),
        ];
        self.launch(self.kernels().nccl_check, self.groups(what), THREADS, &list, "fl_nccl_check")
    }

    /// Blocks for a run, which may begin and end within a group.
    fn groups(&self, run: Span) -> u32 {
        self.grid(run.bytes / GROUP_BYTES + 2)
    }
}

/// How many elements lie there: whole ones, each on its own boundary.
fn elements(run: Span, data: DataType) -> Result<u64, GpuError> {
    let each = data.bytes();
    if run.bytes.is_multiple_of(each) && run.address.is_multiple_of(each) {
        return Ok(run.bytes / each);
    }
    Err(GpuError::Nonsense(format!("{} bytes at {:#x} are no run of {data}", run.bytes, run.address)))
}

/// Range, scale and powers as the kernels take them.
fn checked(values: Values) -> Result<(u32, u32, u32), GpuError> {
    let Values { range, scale, powers } = values;
    if range == 0 || scale == 0 || (powers && range > MOST_POWERS) {
        return Err(GpuError::Nonsense(format!("no kernel makes such values: {values:?}")));
    }
    Ok((range, scale, powers.into()))
}

fn number(ranks: usize) -> Result<u32, GpuError> {
    u32::try_from(ranks).map_err(|_| GpuError::Nonsense(format!("{ranks} ranks are too many")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Values = Values { range: 100, scale: 1, powers: false };

    #[test]
    fn an_element_is_expected_by_the_number_under_which_it_is_reported() {
        let seed = 77;
        let run = ValuesExpected { from: Some(2), op: RedOp::Sum, ranks: 4, seed, first: 1000, base: 30 };
        assert_eq!(run.value(PLAIN, 30), PLAIN.value(seed, 2, 1000));
        assert_eq!(run.value(PLAIN, 35), PLAIN.value(seed, 2, 1005));
        let all = ValuesExpected { from: None, ..run };
        let sum: u64 = (0..4).map(|rank| PLAIN.value(seed, rank, 1005)).sum();
        assert_eq!(all.value(PLAIN, 35), sum);
    }

    #[test]
    fn a_part_of_an_element_is_refused() {
        let run = |address, bytes| elements(Span { address, bytes }, DataType::Double);
        assert_eq!(run(0x1000, 32), Ok(4));
        assert!(run(0x1000, 33).is_err() && run(0x1004, 32).is_err());
    }

    #[test]
    fn values_that_no_kernel_makes_are_refused() {
        assert_eq!(checked(PLAIN), Ok((100, 1, 0)));
        assert_eq!(checked(Values { range: 32, scale: 8, powers: true }), Ok((32, 8, 1)));
        for bad in [Values { range: 0, ..PLAIN }, Values { scale: 0, ..PLAIN }] {
            assert!(checked(bad).is_err());
        }
        assert!(checked(Values { range: 33, scale: 8, powers: true }).is_err());
    }
}
