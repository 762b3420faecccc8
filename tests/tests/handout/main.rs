//! What is handed out: a driver added to a finished image, from a checkout in which nothing is built, must be the image that a
//! full build makes, and two releases of one commit must be the same bytes. `./run handout-tests` runs them; it builds modules
//! (minutes) and, twice, programs and package. One at a time: each test needs all processors.

mod added;
mod release;

use std::process::{Command, Output};

/// Runs a command whose progress a person may want to see, and returns what it printed.
fn told(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    output
}
