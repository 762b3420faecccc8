//! Text for people: names, times, sizes, and values from outside. Pure.

pub(crate) mod chain;
pub(crate) mod nearest;
pub(crate) mod shown;
pub(crate) mod size;
pub(crate) mod time;
