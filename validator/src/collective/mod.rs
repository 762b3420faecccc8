//! Collectives as values: what each is, how many bytes it moves, what its buffers hold and how its speed is
//! counted, after nccl-tests; what NCCL says of its transports and what that proves; what P2P is worth, and
//! what a workload is told of it. Pure: calling NCCL is `gpu::nccl`'s matter, its processes are `ranks`'.

pub mod advice;
mod data;
mod distance;
pub mod dump;
pub mod gain;
mod kind;
pub mod log;
mod ring;
mod row;
mod sweep;
mod value;

pub use data::{DataType, RedOp, Values};
pub use distance::Distance;
pub use kind::{Collective, Expected, Shape};
pub use ring::{Ring, best_ring};
pub use row::{FirstWrong, Placement, Row, Timed, Wrongs};
pub use sweep::{BadSweep, Sweep};
