//! One transfer between two GPUs: what it is, what goes wrong in it, and how much many good ones prove.

mod cell;
mod fault;
mod rate;

pub(super) use cell::{Cell, Engine, Kind, Memory, Way, size};
pub(super) use fault::{Fault, SAMPLE, Traces, What, findings};
pub(super) use rate::ruled_out;
