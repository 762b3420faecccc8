//! Text that a person reads: names, moments, sizes, and values that come from outside. Pure.

pub(crate) mod chain;
pub(crate) mod nearest;
pub(crate) mod shown;
pub(crate) mod size;
pub(crate) mod time;
