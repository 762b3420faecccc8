//! The program `firstlight-collect`, which `firstlight collect` starts: parses the command line, receives reports
//! until it is stopped, exits with its status.

use clap::Parser;
use contract::status::{NOT_DONE, SUCCESS, USAGE_ERROR};
use firstlight_collect::{CollectError, Options, run};
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(e) if e.use_stderr() => {
            let text = e.render().to_string();
            let lines = text
                .lines()
                .take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more"));
            let line = lines
                .flat_map(str::split_whitespace)
                .collect::<Vec<_>>()
                .join(" ");
            complain(line.strip_prefix("error: ").unwrap_or(&line));
            return ExitCode::from(USAGE_ERROR);
        }
        Err(e) => {
            // A closed pipe means that the reader has read enough.
            let _ = io::stdout().write_all(e.render().to_string().as_bytes());
            return ExitCode::from(SUCCESS);
        }
    };
    match options.machine_key() {
        Ok(None) => {}
        Ok(Some(key)) => {
            // A closed pipe means that nobody wants it.
            let _ = io::stdout().write_all(key.as_bytes());
            return ExitCode::from(SUCCESS);
        }
        Err(error) => return failed(&error),
    }
    let listening = |address| {
        // Without standard output the address is known from the option.
        let _ = writeln!(io::stdout(), "listening on http://{address}/");
        let _ = io::stdout().flush();
    };
    match run(&options, listening) {
        Ok(()) => ExitCode::from(SUCCESS),
        Err(error) => failed(&error),
    }
}

fn failed(error: &CollectError) -> ExitCode {
    complain(&error.to_string());
    ExitCode::from(if matches!(error, CollectError::Usage(_)) {
        USAGE_ERROR
    } else {
        NOT_DONE
    })
}

fn complain(line: &str) {
    // Without standard error the line is lost.
    let _ = writeln!(io::stderr(), "firstlight collect: {line}");
}
