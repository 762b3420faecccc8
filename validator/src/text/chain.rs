//! An error and its causes, in one line: each error describes only its own part.

use std::error::Error;

/// `what: why: why that`
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
