//! Text for people: counts, times, sizes, errors, and untrusted text made safe to print. Pure.

pub(crate) mod shown;
pub(crate) mod size;
pub(crate) mod time;

use std::error::Error;
use std::fmt::Display;

/// A number and what it counts, in the singular: `1 GPU`, `4 GPUs`.
#[must_use]
pub(crate) fn count<N: Copy + Display + PartialEq + From<u8>>(n: N, what: &str) -> String {
    let s = if n == N::from(1) { "" } else { "s" };
    format!("{n} {what}{s}")
}

/// An error and its causes in one line, `what: why: why that`: each error describes only its own part.
#[must_use]
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
