//! From clock readings to a figure: units, the median of samples, their scatter, and how often a noisy figure
//! is measured again. Pure; the caller takes the samples. No figure is ever zero, negative or NaN: a clock
//! with such a reading has measured nothing.

mod repeat;
mod unit;

pub use repeat::{BANDWIDTH, LATENCY, Measured, Policy, STAGED, median};
pub use unit::{gb_s, ns_per_load, us};

/// Why there is no figure.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Unusable {
    /// The clock stood still, ran backwards or gave no reading.
    #[error("the clock reports that {what} took {ms} ms, which is impossible")]
    Time {
        /// What was timed.
        what: &'static str,
        /// The reading, milliseconds.
        ms: f64,
    },
    /// Nothing was moved, so there is no speed.
    #[error("{what} of 0 bytes or operations has no figure")]
    Nothing {
        /// What was measured.
        what: &'static str,
    },
    /// A sample that is not a positive, finite number.
    #[error("a sample of {value} is not a valid figure")]
    Sample {
        /// The sample.
        value: f64,
    },
    /// No sample was taken.
    #[error("no sample was taken")]
    None,
}
