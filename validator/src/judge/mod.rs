//! What measured figures mean: floors from what the links can carry, and the signatures of known
//! faults. Pure: figures in, findings out, each with what was measured, what was expected and why.
//! What is measured, and how often, is the tests' and `measure`'s matter.

mod carrier;
mod fair;
mod link;
mod noise;
mod pair;
mod together;

pub use carrier::{Carrier, Floor, Grade, NVLINK_GB_S};
pub use fair::fair;
pub use link::{host, loaded, raw_to_host};
pub use noise::noise;
pub use pair::{Figures, asymmetric, is_staged, latency, pair};
pub use together::collapse;

/// A figure as people read it and JSON keeps it: two decimals.
fn told(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests;
