//! Runs the matrix of faults and healthy machines on simulated GPUs, prints its table, and counts false PASS and false
//! FAIL. Exits with 0 if there are none and everything else is correct too, 1 if not. `--page` prints the tables of
//! docs/what-each-level-rules-out.md instead.

use harness::matrix::{Selection, cases, counts, page, run, table};
use std::process::ExitCode;
use std::{env, fs, thread};

const USAGE: &str =
    "usage: matrix [--all | --part] [--level LEVEL].. [--gpus N].. [--workers N] [--list | --keep FOLDER] [NAME..]
       matrix --page";

fn main() -> ExitCode {
    match parse_options(env::args().skip(1)).and_then(|options| run_matrix(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// What is to be run or printed.
struct Options {
    selection: Selection,
    workers: usize,
    page: bool,
    list: bool,
    keep: Option<String>,
}

fn parse_options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let workers = thread::available_parallelism().map_or(2, usize::from);
    let mut options = Options {
        selection: Selection::default(),
        workers,
        page: false,
        list: false,
        keep: None,
    };
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| format!("{word} needs a value\n{USAGE}"))
        };
        let number = |text: String| {
            text.parse::<usize>()
                .map_err(|_| format!("{text:?} is no number\n{USAGE}"))
        };
        match word.as_str() {
            "--all" => options.selection.all = true,
            "--part" => options.selection.part = true,
            "--page" => options.page = true,
            "--list" => options.list = true,
            "--level" => options.selection.levels.push(value()?),
            "--gpus" => options.selection.gpus.push(number(value()?)?),
            "--workers" => options.workers = number(value()?)?,
            "--keep" => options.keep = Some(value()?),
            _ if word.starts_with('-') => return Err(USAGE.to_owned()),
            _ => options.selection.names.push(word),
        }
    }
    Ok(options)
}

fn run_matrix(options: &Options) -> Result<bool, String> {
    if options.page {
        print!("{}", page().map_err(|e| e.one_line())?);
        return Ok(true);
    }
    let cases = cases(&options.selection).map_err(|e| e.one_line())?;
    if cases.is_empty() {
        return Err(format!("no case is named so\n{USAGE}"));
    }
    if options.list {
        cases
            .iter()
            .for_each(|case| println!("{}", case.full_name()));
        return Ok(true);
    }
    let results = run(&cases, options.workers, |done, result| {
        let (name, verdict, assessment) = (
            result.case.full_name(),
            &result.verdict,
            result.assessment.description(),
        );
        eprintln!(
            "{done:>4}/{} {:>5.1} s  {assessment}: {name}: {verdict} {}",
            cases.len(),
            result.seconds,
            result.blamed.join(" ")
        );
        if let Some(folder) = options
            .keep
            .as_ref()
            .filter(|_| !result.assessment.is_right())
        {
            let file = format!("{folder}/{}.txt", name.replace(['/', ' ', '>'], "_"));
            if let Err(why) =
                fs::create_dir_all(folder).and_then(|()| fs::write(&file, &result.text))
            {
                eprintln!("{file}: {why}");
            }
        }
    });
    let counts = counts(&results);
    println!("{}\n{counts}", table(&results));
    Ok(counts.all_right())
}
