//! Lays out a modelled machine as a folder for `firstlight --root`. Without arguments it lists them.

use machines::{ALL, Machine, Tree, named};
use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: machine [NAME DIR | all DIR]";

fn main() -> ExitCode {
    let words: Vec<_> = env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => list(),
        ["all", to] => every(Path::new(to)),
        [machine, to] => one(machine, Path::new(to)),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("machine: {e}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> Result<(), Box<dyn Error>> {
    let line = |machine: fn() -> Machine| {
        let Machine { name, about, .. } = machine();
        format!("{name:18} {about}\n")
    };
    // The reader may have closed the pipe early.
    let _ = io::stdout().write_all(ALL.map(line).concat().as_bytes());
    Ok(())
}

fn every(to: &Path) -> Result<(), Box<dyn Error>> {
    ALL.map(|machine| machine())
        .iter()
        .try_for_each(|m| write(&m.tree(), &to.join(m.name)))
}

fn one(machine: &str, to: &Path) -> Result<(), Box<dyn Error>> {
    let names = || {
        format!(
            "no modelled machine is called {machine}; allowed: {}",
            machines::names().join(", ")
        )
    };
    write(&named(machine).ok_or_else(names)?.tree(), to)
}

fn write(tree: &Tree, to: &Path) -> Result<(), Box<dyn Error>> {
    if to.exists() {
        return Err(format!("{}: exists already", to.display()).into());
    }
    tree.write(to)
        .map_err(|e| format!("{}: {e}", to.display()).into())
}
