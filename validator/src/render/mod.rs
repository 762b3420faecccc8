//! Views of a report. Each is a pure function of the report.

pub(crate) mod alike;
mod element;
#[cfg(test)]
mod fixture;
pub mod html;
pub mod json;
pub mod junit;
pub mod last_line;
pub mod list;
pub mod nccl;
pub mod p2p;
pub mod prometheus;
pub mod text;
mod words;
