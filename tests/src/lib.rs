//! The harness.

pub mod machines;
