//! Starts the GPU driver without udev: mounts the driver image, loads its modules with the parameters for
//! the GPUs of the machine, makes device nodes, and keeps the GPUs initialised. All of it runs in a child
//! of process 1 (`init helper load-driver`), because any step can hang; `stages::driver` starts that child
//! and receives its report and the open GPUs. Causes have codes here; the remedies are in the validator.

pub mod candidate;
pub mod causes;
pub mod compatibility;
pub mod description;
pub mod hardware;
pub mod image;
pub mod in_force;
pub mod kernel_lines;
pub mod modinfo;
pub mod nodes;
pub mod nvlink5;
pub mod parameters;
pub mod start;
pub mod unfinished;

/// The result of the driver's start, which `driver.json` carries to the validator: the account of
/// [`contract::driver_account`] with the codes that init may write.
pub mod report {
    pub use contract::driver_account::{Code, Image, Module, Node, Outcome, Parameter};
    pub use contract::outcome::Severity;

    /// The whole file.
    pub type Report = contract::driver_account::Account<Code>;
    /// One finding.
    pub type Finding = contract::driver_account::Finding<Code>;
}
