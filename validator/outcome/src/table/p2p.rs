//! Tables about transfers between GPUs.

use super::gpu::GpuState;
use super::row::{Cell, Cells, Column, GpuList, Row, Seed, YesNo, measured, plain, row};
use crate::platform::{GpuId, Pair};
use serde_json::Value;

/// The name of three tables of what was tried with each pair: the rows of each are of another type.
pub(super) const TRIED: &str = "tried";

row! {
    /// All pairs with the same prediction about peer access and the same answers.
    ExpectedRow in "p2p.expected" {
        /// The pairs, as a finding names them.
        pairs: String = plain("pairs");
        /// What was predicted.
        expected: String = plain("expected");
        /// Whether CUDA reports peer access.
        cuda: YesNo = plain("CUDA");
        /// NVML's answer.
        nvml: String = plain("NVML");
        /// The reason of the prediction.
        because: String = plain("because");
    }
}

row! {
    /// The result of one ordered pair of GPUs.
    PairRow in "p2p.pairs" {
        /// Where the data is.
        from: GpuId = plain("from");
        /// Where it goes.
        to: GpuId = plain("to");
        /// `ok`, `ZEROS`, `WRONG`, `HANG`, `refused` or `ERROR`.
        result: String = plain("result");
    }
}

impl PairRow {
    /// The result of this pair.
    #[must_use]
    pub fn new(pair: Pair, result: impl Into<String>) -> Self {
        Self {
            from: pair.from,
            to: pair.to,
            result: result.into(),
        }
    }

    /// The pair.
    #[must_use]
    pub const fn pair(&self) -> Pair {
        Pair::new(self.from, self.to)
    }

    /// Whether data arrived.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.result == "ok"
    }
}

row! {
    /// Transfers of one kind that were checked with each pair.
    IntegrityRow {
        /// The kind.
        what: String = plain("what");
        /// The engine, and whether it writes or reads.
        by: String = plain("by");
        /// The kind of memory.
        memory: String = plain("memory");
        /// The smallest size, bytes.
        smallest: Option<u64> = measured("smallest", "B");
        /// The largest size, bytes.
        largest: Option<u64> = measured("largest", "B");
        /// How many were made with a pair.
        transfers: u64 = plain("transfers a pair");
        /// Their sizes together, bytes.
        bytes: u64 = measured("bytes a pair", "B");
        /// The lowest rate of faults that they rule out.
        ruled_out: String = plain("faults ruled out above");
        /// Of transfers at random places.
        seed: Option<Seed> = plain("seed");
    }
}

row! {
    /// Transfers of one kind that were checked between two processes with each pair.
    ProcessesRow {
        /// How the processes share memory.
        memory: String = plain("memory");
        /// How many pairs.
        pairs: usize = plain("pairs");
        /// The smallest size, bytes.
        smallest: u64 = measured("smallest", "B");
        /// The largest size, bytes.
        largest: u64 = measured("largest", "B");
        /// How many were made with a pair.
        transfers: u64 = plain("transfers a pair");
        /// Their sizes together, bytes.
        bytes: u64 = measured("bytes a pair", "B");
    }
}

row! {
    /// Transfers of one kind that were checked all over the memory of each pair.
    ReachRow {
        /// The kind.
        what: String = plain("what");
        /// The engine, and whether it writes or reads.
        by: String = plain("by");
        /// How many pairs.
        pairs: usize = plain("pairs");
        /// The smallest size, bytes.
        smallest: u64 = measured("smallest", "B");
        /// The largest size, bytes.
        largest: u64 = measured("largest", "B");
        /// How many were made with a pair.
        transfers: u64 = plain("transfers a pair");
        /// Their sizes together, bytes.
        bytes: u64 = measured("bytes a pair", "B");
        /// The lowest rate of faults that they rule out.
        ruled_out: String = plain("faults ruled out above");
        /// Of transfers at random places.
        seed: Option<Seed> = plain("seed");
    }
}

row! {
    /// All-reduces of one kind and size in kernels of several GPUs.
    AllReduceRow in "allreduce" {
        /// The GPUs.
        gpus: GpuList = plain("GPUs");
        /// The size, bytes.
        bytes: u64 = measured("size", "B");
        /// `one-shot` or `two-shot`.
        kind: String = plain("all-reduce");
        /// How many were made.
        rounds: u64 = plain("rounds");
        /// The median of their times, microseconds; `None` if one stalled.
        median: Option<f64> = Self::MEDIAN;
    }
}

impl AllReduceRow {
    /// The column of the times.
    pub const MEDIAN: Column = measured("median", "us");
}

row! {
    /// The bandwidth of one pair at one size; `None` where the data was wrong.
    BySizeRow in "bandwidth.by-size" {
        /// The pair.
        pair: Pair = plain("pair");
        /// The kind of its path.
        way: String = plain("way");
        /// The size, bytes.
        bytes: u64 = measured("size", "bytes");
        /// Written by copy engines, GB/s.
        copy_engine: Option<f64> = Self::COPY_ENGINE;
        /// Written by kernels, GB/s.
        kernel: Option<f64> = Self::KERNEL;
    }
}

impl BySizeRow {
    /// The column of the speeds by copy engines, named as the matrix.
    pub const COPY_ENGINE: Column = measured("ce.write", "GB/s");
    /// The column of the speeds by kernels, named as the matrix.
    pub const KERNEL: Column = measured("sm.write", "GB/s");
}

row! {
    /// The spread of the samples of one matrix.
    SpreadRow in "bandwidth.spread" {
        /// The matrix.
        matrix: String = plain("matrix");
        /// How many figures it has.
        figures: usize = plain("figures");
        /// How many samples they were made from.
        samples: usize = plain("samples");
        /// The largest spread within one figure, per cent of it.
        spread: f64 = measured("spread", "%");
        /// The pair with that figure.
        pair: Pair = plain("pair");
        /// The slowest sample, per cent of its figure.
        slowest: f64 = measured("slowest", "%");
        /// How many samples were slow.
        slow: usize = plain("slow");
    }
}

row! {
    /// Transfers of many pairs at the same time. `None`: not measured, or no limit is known.
    TogetherRow in "together" {
        /// The pattern of the transfers.
        pattern: String = plain("pattern");
        /// How many there are.
        transfers: usize = plain("transfers");
        /// All bytes from the first start to the last stop (nvbandwidth's figure), the better of two where it was
        /// measured again, GB/s.
        measured: Option<f64> = Self::MEASURED;
        /// What the links allow, from each pair's speed alone, and for shared links from the most that was seen to
        /// pass, GB/s.
        expected: Option<f64> = measured("expected", "GB/s");
        /// `measured` as a fraction of `expected`.
        ratio: Option<f64> = plain("ratio");
        /// What limits them.
        limit: Option<String> = plain("limit");
        /// What they may reach by the links alone, GB/s.
        links: Option<f64> = measured("links", "GB/s");
        /// The sum of each transfer's speed by its own clock, GB/s.
        sum: Option<f64> = measured("sum", "GB/s");
        /// The sum of the pairs' speeds one by one, GB/s.
        alone: Option<f64> = measured("alone", "GB/s");
    }
}

impl TogetherRow {
    /// The column of the measured speeds.
    pub const MEASURED: Column = measured("measured", "GB/s");
}

/// One second of one GPU while all pairs transfer data.
#[derive(Debug, Clone, PartialEq)]
pub struct SoakRow {
    /// Seconds since the beginning.
    pub time: f64,
    /// What all pairs moved together in that second, GB/s.
    pub gb_s: f64,
    /// The state of the GPU.
    pub state: GpuState,
    /// What moved the data.
    pub by: String,
}

impl SoakRow {
    /// The name of the table.
    pub const TABLE: &'static str = "soak";
}

impl Row for SoakRow {
    fn columns() -> Vec<Column> {
        let mut columns = vec![measured("time", "s"), measured("all pairs", "GB/s")];
        columns.extend(GpuState::columns());
        columns.push(plain("moved by"));
        columns
    }

    fn cells(&self) -> Vec<Value> {
        let mut cells = vec![self.time.cell(), self.gb_s.cell()];
        cells.extend(self.state.cells());
        cells.push(self.by.cell());
        cells
    }

    fn read(cells: &mut Cells<'_>) -> Option<Self> {
        Some(Self {
            time: cells.take()?,
            gb_s: cells.take()?,
            state: GpuState::read(cells)?,
            by: cells.take()?,
        })
    }
}
