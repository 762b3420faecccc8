//! Measures the boot of the shipped image over several runs and holds it to its promise: kernel to
//! process 1, process 1 to the verdict, and process 1's own share of that, as it prints them.
//!
//!     bench-boot [RUNS]
//!
//! Exits with 1 when a median is over its limit, 2 when nothing could be measured.

use harness::{Boot, Booted};
use std::process::ExitCode;

/// What is measured, its unit, its limit, and the word of the boot's line behind which it stands.
const TIMES: [(&str, &str, f64, &str); 3] = [
    ("kernel start to /init", "s", 2.5, "kernel "),
    ("/init to verdict", "s", 3.0, "init to verdict "),
    ("init's own time", "ms", 50.0, "init's own "),
];

fn main() -> ExitCode {
    let runs = std::env::args().nth(1).map_or(Ok(5), |text| text.parse::<usize>());
    let Some(runs) = runs.ok().filter(|n| *n > 0) else {
        eprintln!("usage: bench-boot [RUNS]");
        return ExitCode::from(64);
    };
    match (1..=runs).map(run).collect::<Result<Vec<_>, _>>() {
        Ok(measured) => report(&measured),
        Err(why) => {
            eprintln!("bench-boot: {why}");
            ExitCode::from(2)
        }
    }
}

/// One boot's times, in the order of [`TIMES`].
fn run(number: usize) -> Result<[f64; 3], String> {
    let booted = Boot::shipped().append("firstlight.expect.gpus=0").run().map_err(|e| e.to_string())?;
    let times = times(&booted).ok_or_else(|| format!("the console has no line of times\n{booted}"))?;
    eprintln!("run {number}: {} s {} s {} ms", times[0], times[1], times[2]);
    Ok(times)
}

fn times(booted: &Booted) -> Option<[f64; 3]> {
    let line = booted.lines().find(|line| line.starts_with("boot "))?;
    let value = |key: &str| line.split(key).nth(1)?.split_whitespace().next()?.parse().ok();
    let [kernel, verdict, own] = TIMES.map(|(.., key)| value(key));
    Some([kernel?, verdict?, own?])
}

fn report(measured: &[[f64; 3]]) -> ExitCode {
    println!("{:<24} {:>8} {:>8} {:>8} {:>8} {:>9}", "boot", "min", "median", "max", "limit", "of limit");
    let mut within = true;
    for (n, (what, unit, limit, _)) in TIMES.iter().enumerate() {
        let mut values: Vec<f64> = measured.iter().map(|times| times[n]).collect();
        values.sort_by(f64::total_cmp);
        let (min, median, max) = (values[0], values[values.len() / 2], values[values.len() - 1]);
        let ratio = median / limit;
        within &= ratio <= 1.0;
        println!(
            "{:<24} {min:>8.2} {median:>8.2} {max:>8.2} {limit:>8.2} {ratio:>8.2}x",
            format!("{what}, {unit}")
        );
    }
    println!("{} runs, emulated processor unless FIRSTLIGHT_ACCEL says otherwise", measured.len());
    if within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
