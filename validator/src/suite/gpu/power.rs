//! Power steps: all GPUs go from idle to full load at the same moment, which is the hardest load for a power supply.
//! `products` makes the load and judges it.

use super::{SPARE, products};
use crate::suite::{Group, Test};
use outcome::test;
use report::Level;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::GPU_POWER,
    title: "Power steps",
    proves: "all GPUs go from idle to full load together, again and again, and every result is right",
    level: Level::Acceptance,
    deadline: SPARE,
    mandatory: false,
    group: Group::Gpu,
    run: products::in_steps,
};
