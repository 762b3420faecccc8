//! The fabric pass: decides which BARs and ACS registers to change, keeps the journal, makes the change, and
//! restores it.

#![forbid(unsafe_code)]

pub mod acs;
pub mod apply;
pub mod journal;
pub mod judge;
pub mod pass;
pub mod pass_through;
pub mod plan;
pub mod read;
pub mod rebar;
pub mod register;
pub mod restore;
pub mod text;
pub mod turn;

pub use read::{ReadError, read};
