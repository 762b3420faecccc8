//! Lets the program judge simulated GPUs on this host: `simulate [SCENARIO [LEVEL]]`, by default `healthy`. Uses the
//! program and libraries that were built next to this one; `tests/simulate.sh` builds them. `list` prints the scenarios.

use harness::simgpu::{Libraries, Scenario, validator_command};
use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit statuses of the program: no verdict could be reached, and wrong use.
const ERROR: u8 = 2;
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let words: Vec<_> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => simulate("healthy", None),
        ["list"] => list(),
        [scenario] => simulate(scenario, None),
        [scenario, level] => simulate(scenario, Some(level)),
        _ => Err((USAGE, "usage: simulate [SCENARIO [LEVEL] | list]".into())),
    }
    .unwrap_or_else(|(status, why)| {
        eprintln!("simulate: {why}");
        ExitCode::from(status)
    })
}

type SimulateResult = Result<ExitCode, (u8, Box<dyn Error>)>;

fn list() -> SimulateResult {
    let line = |name: &String| Ok(format!("{name:20} {}\n", Scenario::description(name)?));
    let all: harness::Result<String> = Scenario::names().and_then(|names| names.iter().map(line).collect());
    // The reader may have closed the pipe early.
    let _ = io::stdout().write_all(all.map_err(|e| (ERROR, e.into()))?.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn simulate(name: &str, level: Option<&str>) -> SimulateResult {
    Scenario::check_exists(name).map_err(|why| (USAGE, why.into()))?;
    run(name, level).map_err(|e| (ERROR, e))
}

/// Exits with the program's status.
fn run(name: &str, level: Option<&str>) -> Result<ExitCode, Box<dyn Error>> {
    let scenario = Scenario::named(name)?;
    let own_folder = env::current_exe()?.parent().map_or_else(PathBuf::new, PathBuf::from);
    println!("Simulated: scenario {name}: {}", Scenario::description(name)?);
    println!("Simulated: {} GPUs, in a modelled machine. Nothing of this host is tested.\n", scenario.count());
    let mut words = vec!["validate"];
    words.extend(level.into_iter().flat_map(|level| ["--level", level]));
    let dir = tempfile::tempdir()?;
    let libraries = Libraries::in_folder(&own_folder);
    let mut command = validator_command(&own_folder.join("firstlight"), &libraries, &scenario, dir.path())?;
    let status = command.args(words).status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).ok_or("firstlight ended by a signal")?;
    Ok(ExitCode::from(code))
}
