//! The program: parses the command line, runs one command and exits with its status. A panic prints
//! a line and exits with the status of ERROR, never with that of a pass.

use firstlight::cli::args::{NoArgs, parse};
use firstlight::cli::{self, NOT_DONE, SUCCESS, USAGE_ERROR};
use std::io::{self, Write};
use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    start_log();
    // The panic hook has already printed the message and its location.
    let status = catch_unwind(run).unwrap_or_else(|_| {
        complain(
            "internal fault; this is a defect of firstlight, please report it with the lines above",
        );
        NOT_DONE
    });
    ExitCode::from(status)
}

fn run() -> u8 {
    let args = match parse(std::env::args_os()) {
        Ok(args) => args,
        Err(NoArgs::Asked(text)) => {
            // A closed pipe means that the reader has read enough.
            let _ = io::stdout().write_all(text.as_bytes());
            return SUCCESS;
        }
        Err(NoArgs::Unsaid(help)) => {
            // As in `complain`.
            let _ = io::stderr().write_all(help.as_bytes());
            return USAGE_ERROR;
        }
        Err(NoArgs::Wrong(why)) => {
            complain(&why);
            return USAGE_ERROR;
        }
    };
    cli::run(args).unwrap_or_else(|error| {
        complain(&error.to_string());
        error.exit_status()
    })
}

fn complain(line: &str) {
    // If standard error cannot be written, the line cannot be reported anywhere.
    let _ = writeln!(io::stderr(), "firstlight: {line}");
}

/// Logs and progress to standard error; standard output is for results.
fn start_log() {
    use simplelog::{ConfigBuilder, LevelFilter, WriteLogger};
    let config = ConfigBuilder::new()
        .set_time_level(LevelFilter::Off)
        .set_thread_level(LevelFilter::Off)
        .set_target_level(LevelFilter::Off)
        .build();
    // This fails only if a logger is already set, which is then used instead.
    let _ = WriteLogger::init(LevelFilter::Info, config, io::stderr());
}
