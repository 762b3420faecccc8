//! The stages of the boot, one module each. Each returns a typed value whose `Display` is the text of the
//! stage's line; `main.rs` has their order.

mod clock;
pub mod config;
pub mod decide;
pub mod driver;
pub mod fabric;
mod image_id;
mod keep;
pub mod last_boot;
pub mod lock_down;
pub mod marks;
pub mod mounts;
pub mod network;
pub mod publish;
pub mod recover;
pub mod reset;
pub mod result;
pub mod screen;
pub mod secure_boot;
mod server_layers;
pub mod validate;
pub mod watchdog;
