//! The stages of the boot, one module each. Each returns a typed value whose `Display` is the text of the
//! stage's line; `main.rs` has their order.

mod clock;
pub mod config;
pub mod decide;
pub mod driver;
pub mod fabric;
pub mod firmware;
pub mod keep;
pub mod lock_down;
pub mod mounts;
pub mod network;
pub mod nodes;
pub mod publish;
pub mod recover;
pub mod reset;
pub mod result;
pub mod screen;
mod server_layers;
mod strays;
pub mod validate;
pub mod watchdog;
