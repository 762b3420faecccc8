//! Tables about GPUs at work.

use super::row::{Cell, Cells, Column, Row, measured, plain, row};
use crate::platform::GpuId;
use serde_json::Value;

row! {
    /// The state of a GPU at one time, a part of the rows of several tables; `None` where NVML does not report it.
    GpuState {
        /// The GPU.
        gpu: GpuId = plain("GPU");
        /// The clock of its multiprocessors, MHz.
        sm: Option<f64> = measured("SM", "MHz");
        /// The clock of its memory, MHz.
        memory: Option<f64> = measured("memory", "MHz");
        /// Its temperature, degrees Celsius.
        temperature: Option<f64> = measured("temperature", "C");
        /// Its power, watts.
        power: Option<f64> = measured("power", "W");
        /// What keeps its clocks low; empty if nothing does.
        held_down_by: Option<String> = plain("held down by");
    }
}

/// One GPU at one time under load.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRow {
    /// Seconds since the beginning.
    pub time: f64,
    /// The state of the GPU.
    pub state: GpuState,
    /// Lanes of its link.
    pub lanes: Option<u32>,
}

impl SampleRow {
    /// The name of the table.
    pub const TABLE: &'static str = "seconds";
}

impl Row for SampleRow {
    fn columns() -> Vec<Column> {
        let mut columns = vec![measured("time", "s")];
        columns.extend(GpuState::columns());
        columns.push(measured("link", "lanes"));
        columns
    }

    fn cells(&self) -> Vec<Value> {
        let mut cells = vec![self.time.cell()];
        cells.extend(self.state.cells());
        cells.push(self.lanes.cell());
        cells
    }

    fn read(cells: &mut Cells<'_>) -> Option<Self> {
        Some(Self {
            time: cells.take()?,
            state: GpuState::read(cells)?,
            lanes: cells.take()?,
        })
    }
}

row! {
    /// The matrix products of one GPU.
    ProductsRow in "products" {
        /// The GPU.
        gpu: GpuId = plain("GPU");
        /// Products of two numbers that were right, 10^12.
        right: f64 = measured("right products", "10^12");
        /// How many a second, 10^12/s.
        rate: f64 = Self::RATE;
        /// Launches with a wrong sum.
        wrong_launches: usize = plain("wrong launches");
    }
}

impl ProductsRow {
    /// The column of the rates.
    pub const RATE: Column = measured("rate", "10^12/s");
}

row! {
    /// The test of one GPU's memory.
    MemoryRow in "memory" {
        /// The GPU.
        gpu: GpuId = plain("GPU");
        /// How much was tested, GiB.
        tested: f64 = measured("tested", "GiB");
        /// Of how much, GiB.
        of: f64 = measured("of", "GiB");
        /// How many times.
        passes: u64 = plain("passes");
        /// Words that were wrong.
        wrong_words: u64 = plain("wrong words");
    }
}
