//! Lets the program judge simulated GPUs on this host: `simulate [SCENARIO [LEVEL] [WORD..]]`, by default `healthy`. Words
//! behind it go to the program: options of `validate`, or another command with its own. Uses the program and libraries
//! that were built next to this one; `tests/simulate.sh` builds them. `list` prints the scenarios.

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
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => simulate("healthy", None, &[]),
        ["list"] => list(),
        [scenario, level, rest @ ..] if LEVELS.contains(level) => {
            simulate(scenario, Some(level), rest)
        }
        [scenario, rest @ ..] => simulate(scenario, None, rest),
    }
    .unwrap_or_else(|(status, why)| {
        eprintln!("simulate: {why}");
        ExitCode::from(status)
    })
}

/// The levels of `validate`.
const LEVELS: [&str; 4] = ["quick", "standard", "full", "acceptance"];

type SimulateResult = Result<ExitCode, (u8, Box<dyn Error>)>;

fn list() -> SimulateResult {
    let line = |name: &String| Ok(format!("{name:20} {}\n", Scenario::description(name)?));
    let all: harness::Result<String> =
        Scenario::names().and_then(|names| names.iter().map(line).collect());
    // The reader may have closed the pipe early.
    let _ = io::stdout().write_all(all.map_err(|e| (ERROR, e.into()))?.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn simulate(name: &str, level: Option<&str>, rest: &[&str]) -> SimulateResult {
    Scenario::check_exists(name).map_err(|why| (USAGE, why.into()))?;
    run(name, level, rest).map_err(|e| (ERROR, e))
}

/// The command and its words: `validate`, unless the words begin with another command.
fn words<'a>(level: Option<&'a str>, rest: &[&'a str]) -> Vec<&'a str> {
    let (command, rest) = match rest {
        [command, rest @ ..] if !command.starts_with('-') => (*command, rest),
        _ => ("validate", rest),
    };
    let level = level.into_iter().flat_map(|level| ["--level", level]);
    [command]
        .into_iter()
        .chain(level)
        .chain(rest.iter().copied())
        .collect()
}

/// Exits with the program's status.
fn run(name: &str, level: Option<&str>, rest: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    let scenario = Scenario::named(name)?;
    let own_folder = env::current_exe()?
        .parent()
        .map_or_else(PathBuf::new, PathBuf::from);
    let about = format!(
        "Simulated: scenario {name}: {}\nSimulated: {} GPUs, in a modelled machine. Nothing of this host is tested.\n",
        Scenario::description(name)?,
        scenario.count()
    );
    // With words of their own, standard output may be for a program.
    if rest.is_empty() {
        // The reader may have closed the pipe early.
        let _ = writeln!(io::stdout(), "{about}");
    } else {
        eprintln!("{about}");
    }
    let dir = tempfile::tempdir()?;
    let libraries = Libraries::in_folder(&own_folder);
    let mut command = validator_command(
        &own_folder.join("firstlight"),
        &libraries,
        &scenario,
        dir.path(),
    )?;
    let terminal = ["TERM", "NO_COLOR"]
        .into_iter()
        .filter_map(|name| Some((name, env::var_os(name)?)));
    // File names among the words are the caller's.
    if let Some(folder) = env::var_os("FIRSTLIGHT_CALLER") {
        command.current_dir(folder);
    }
    let status = command.envs(terminal).args(words(level, rest)).status()?;
    let code = status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .ok_or("firstlight ended by a signal")?;
    Ok(ExitCode::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_to_validate_or_to_the_command_that_they_begin_with() {
        assert_eq!(words(None, &[]), ["validate"]);
        assert_eq!(
            words(Some("quick"), &["--json", "r.json"]),
            ["validate", "--level", "quick", "--json", "r.json"]
        );
        assert_eq!(words(None, &["nccl", "all_reduce"]), ["nccl", "all_reduce"]);
        assert_eq!(
            words(Some("quick"), &["p2p", "--json"]),
            ["p2p", "--level", "quick", "--json"]
        );
    }
}
