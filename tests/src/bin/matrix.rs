//! Runs the matrix of faults and healthy machines on simulated GPUs, prints its table, and counts false PASS and false
//! FAIL. Exits with 0 if there are none and everything else is correct too, 1 if not. `--page` prints the tables of
//! docs/what-each-level-rules-out.md instead.

use harness::matrix::{Chosen, cases, counts, page, run, table};
use std::process::ExitCode;
use std::{env, fs, thread};

const USAGE: &str = "usage: matrix [--all | --part] [--level LEVEL].. [--gpus N].. [--workers N] [--list | --keep FOLDER] [NAME..]
       matrix --page";

fn main() -> ExitCode {
    match wanted(env::args().skip(1)).and_then(|wanted| act(&wanted)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// What is to be run or printed.
struct Wanted {
    chosen: Chosen,
    workers: usize,
    page: bool,
    list: bool,
    keep: Option<String>,
}

fn wanted(mut words: impl Iterator<Item = String>) -> Result<Wanted, String> {
    let workers = thread::available_parallelism().map_or(2, usize::from);
    let mut wanted = Wanted { chosen: Chosen::default(), workers, page: false, list: false, keep: None };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
        let number =
            |text: String| text.parse::<usize>().map_err(|_| format!("{text:?} is no number\n{USAGE}"));
        match word.as_str() {
            "--all" => wanted.chosen.all = true,
            "--part" => wanted.chosen.part = true,
            "--page" => wanted.page = true,
            "--list" => wanted.list = true,
            "--level" => wanted.chosen.levels.push(value()?),
            "--gpus" => wanted.chosen.gpus.push(number(value()?)?),
            "--workers" => wanted.workers = number(value()?)?,
            "--keep" => wanted.keep = Some(value()?),
            _ if word.starts_with('-') => return Err(USAGE.to_owned()),
            _ => wanted.chosen.names.push(word),
        }
    }
    Ok(wanted)
}

fn act(wanted: &Wanted) -> Result<bool, String> {
    if wanted.page {
        print!("{}", page().map_err(|e| e.one_line())?);
        return Ok(true);
    }
    let cases = cases(&wanted.chosen).map_err(|e| e.one_line())?;
    if cases.is_empty() {
        return Err(format!("no case is named so\n{USAGE}"));
    }
    if wanted.list {
        cases.iter().for_each(|case| println!("{}", case.full_name()));
        return Ok(true);
    }
    let results = run(&cases, wanted.workers, |done, result| {
        let (name, verdict, mark) = (result.case.full_name(), &result.verdict, result.mark.word());
        eprintln!(
            "{done:>4}/{} {:>5.1} s  {mark}: {name}: {verdict} {}",
            cases.len(),
            result.seconds,
            result.blamed.join(" ")
        );
        if let Some(folder) = wanted.keep.as_ref().filter(|_| !result.mark.is_right()) {
            let file = format!("{folder}/{}.txt", name.replace(['/', ' ', '>'], "_"));
            if let Err(why) = fs::create_dir_all(folder).and_then(|()| fs::write(&file, &result.text)) {
                eprintln!("{file}: {why}");
            }
        }
    });
    let counts = counts(&results);
    println!("{}\n{counts}", table(&results));
    Ok(counts.right())
}
