//! Simulated GPUs for the shipped `firstlight`: a scenario of `tests/simgpu/scenarios` is laid out
//! as a folder with a driver's libraries, beside a modelled machine that fits it, and the program
//! judges both. What it should say is the scenario's `[expect]`; comparing is the test's.

mod layout;
mod machine;
mod names;
mod overlay;
mod run;
pub(crate) mod scenario;

pub use layout::{Libraries, lay_out};
pub use machine::root;
pub use overlay::overlay;
pub use run::{Judged, firstlight, judge, prepared, validate};
pub use scenario::{Expect, Scenario};
