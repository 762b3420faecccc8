//! From what a clock said to a figure: units, the median of samples, how far they scatter, and how
//! often a noisy figure is measured again. Pure; taking a sample is the caller's. No figure is
//! ever zero, negative or not a number: a clock that says so has measured nothing.

mod repeat;
mod unit;

pub use repeat::{BANDWIDTH, LATENCY, Measured, Policy, STAGED, median};
pub use unit::{gb_s, ns_per_load, us};

/// Why there is no figure.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Unusable {
    /// The clock stood still, ran backwards or said nothing.
    #[error("the clock says that {what} took {ms} ms, which cannot be")]
    Time {
        /// What was timed.
        what: &'static str,
        /// What it said, milliseconds.
        ms: f64,
    },
    /// Nothing was moved, so there is no speed.
    #[error("{what} of nothing is no figure")]
    Nothing {
        /// What was to be told.
        what: &'static str,
    },
    /// A sample that is no positive, finite number.
    #[error("a sample of {value} is no figure")]
    Sample {
        /// The sample.
        value: f64,
    },
    /// No sample was taken.
    #[error("no sample was taken")]
    None,
}
