//! Text for people: names, times, sizes, and values from outside. Pure.

pub(crate) mod shown;
pub(crate) mod size;
pub(crate) mod time;

use std::error::Error;

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
