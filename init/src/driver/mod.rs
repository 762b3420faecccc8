//! The GPU driver, started without udev: the driver image, its modules with the parameters for the
//! GPUs that are there, device nodes, and GPUs that stay initialised. All of it runs in a child of
//! process 1 (`init helper load-driver`), for any step of it can hang; `stages::driver` starts that
//! child and ends up with its report and the open GPUs. A cause has a code here and a remedy in the
//! validator.

pub mod candidate;
pub mod causes;
pub mod description;
pub mod elf;
pub mod hardware;
pub mod image;
pub mod in_force;
pub mod kernel_lines;
pub mod modinfo;
pub mod nodes;
pub mod parameters;
pub mod report;
pub mod report_parts;
pub mod start;
pub mod triplet;
pub mod unfinished;
