//! One transfer between two GPUs: its definition, its faults, and how much many good ones prove.

mod cell;
mod fault;
mod rate;

pub(in crate::suite) use cell::{Cell, Engine, Kind, Memory, Way, size};
pub(in crate::suite) use fault::{Fault, SAMPLE, Traces, What, findings, ones, unanswered};
pub(in crate::suite) use rate::ruled_out;
