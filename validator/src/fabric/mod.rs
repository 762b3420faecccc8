//! The fabric pass: which BARs and ACS registers should change, the journal, the change itself, and its undoing.

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
