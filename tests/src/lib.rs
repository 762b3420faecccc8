//! Boots the shipped image in QEMU, and returns its output and the files that it left behind. Nothing here depends on how
//! the appliance works inside: a test describes a machine, kernel words and extra files, and judges the console, the end
//! and the files that come back.

pub mod archive;
pub mod boot;
pub mod checkout;
pub mod config_space;
pub mod driver_host;
pub mod driver_image;
pub mod driver_inputs;
pub mod error;
pub mod fakepci;
pub mod hardware;
pub mod image;
pub mod lab;
pub mod matrix;
pub mod overlay;
pub mod postgres;
pub mod report;
pub mod servers;
pub mod signed;
pub mod simgpu;
pub mod stick;
mod times;

pub use boot::booted::{Booted, End, Verdict};
pub use boot::medium::Medium;
pub use boot::watch::RunningMachine;
pub use boot::{Boot, CABLES};
pub use checkout::Checkout;
pub use driver_image::DriverImage;
pub use error::{Error, Result};
pub use image::{Image, cache, workspace};
pub use overlay::Overlay;
pub use report::Report;
