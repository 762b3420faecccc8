//! Everything about NCCL except the tests: rows and sizes as nccl-tests counts them, what NCCL's log and
//! topology dump prove, settings for a workload, and the processes of the ranks (`ranks`).

pub mod advice;
pub mod conf;
mod distance;
pub mod dump;
pub mod log;
pub mod nvls;
pub mod ranks;
mod ring;
mod row;
mod sweep;

pub use distance::Distance;
pub use ring::{Ring, best_ring};
pub use row::{FirstWrong, Placement, Row, Stray, Timed, Wrongs};
pub use sweep::{BadSweep, Sweep};

/// `2.29.7` for 22907, as NCCL reports its version.
#[must_use]
pub fn version_text(number: u32) -> String {
    format!(
        "{}.{}.{}",
        number / 10_000,
        number / 100 % 100,
        number % 100
    )
}
