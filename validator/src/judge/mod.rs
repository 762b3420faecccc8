//! What measured figures mean: floors from what the links can carry, and the signatures of known
//! faults. Pure: figures in, findings out, each with what was measured, what was expected and why.
//! What is measured, and how often, is the tests' and `measure`'s matter.

mod carrier;
mod ceiling;
mod clock;
mod latency;
mod link;
mod network;
mod noise;
mod nvlink;
mod outlier;
mod pair;
mod sizes;
mod together;

pub use carrier::{Carrier, Floor, Grade, Mover, NVLINK_GB_S};
pub use ceiling::{contradicted, impossible};
pub use clock::{Stretch, clock};
pub use latency::{Like, Small, latency};
pub use link::{disagree, host, loaded, raw_to_host};
pub use network::{Expected, Known, Network, Ran, classes};
pub use noise::noise;
pub use nvlink::{Board, Links, nvlinks};
pub use outlier::outliers;
pub use pair::{Figures, asymmetric, is_staged, mover, pair};
pub use sizes::{Size, expected_by_size, slow_size};
pub use together::{collapse, starved};

/// A figure as people read it and JSON keeps it: two decimals.
fn told(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests;
