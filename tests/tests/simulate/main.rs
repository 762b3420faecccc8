//! The program on simulated GPUs, on this host: does each scenario and each class of faults get its verdict?
//! Needs cargo alone. `cargo test --test simulate NAME` runs those whose names hold NAME.

mod matrix;
mod recipe;
mod scenarios;
mod verdict;
