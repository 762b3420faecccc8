//! Measures the boot of the shipped image over several runs and holds it to its promise: kernel to
//! process 1, process 1 to the verdict, and process 1's own share of that, as it prints them.
//!
//!     bench-boot [RUNS]
//!
//! Exits with 1 when a median is over its limit, 2 when nothing could be measured.

use harness::{Boot, Booted};
use std::process::ExitCode;

/// What is measured, its unit and its limit.
const TIMES: [(&str, &str, Option<f64>); 4] = [
    ("kernel start to /init *", "s", Some(2.5)),
    ("initrd unpacked in", "s", None),
    ("/init to verdict", "s", Some(3.0)),
    ("init's own time", "ms", Some(50.0)),
];

type Times = [f64; TIMES.len()];

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
fn run(number: usize) -> Result<Times, String> {
    let booted =
        Boot::shipped().memory(2048).append("firstlight.expect.gpus=0").run().map_err(|e| e.told())?;
    let times = times(&booted).ok_or_else(|| format!("the console has no lines of times\n{booted}"))?;
    let [kernel, initrd, verdict, own] = times;
    eprintln!("run {number}: kernel {kernel:.2} s, initrd {initrd} s, verdict {verdict} s, own {own} ms");
    Ok(times)
}

/// From the lines `boot .. kernel K s, init to verdict V s, init's own O ms` and
/// `initrd .. unpacked in U s ..`.
fn times(booted: &Booted) -> Option<Times> {
    let line = |name: &str| booted.lines().find(|line| line.starts_with(name));
    let value =
        |line: &str, key: &str| line.split(key).nth(1)?.split_whitespace().next()?.parse::<f64>().ok();
    let boot = line("boot ")?;
    let unpacking = value(line("initrd ")?, "unpacked in ")?;
    let kernel = value(boot, "kernel ")? - unpacking;
    Some([kernel, unpacking, value(boot, "init to verdict ")?, value(boot, "init's own ")?])
}

fn report(measured: &[Times]) -> ExitCode {
    println!("{:<26} {:>8} {:>8} {:>8} {:>8} {:>9}", "boot", "min", "median", "max", "limit", "of limit");
    let mut within = true;
    for (n, (what, unit, limit)) in TIMES.iter().enumerate() {
        let mut values: Vec<f64> = measured.iter().map(|times| times[n]).collect();
        values.sort_by(f64::total_cmp);
        let (min, median, max) = (values[0], values[values.len() / 2], values[values.len() - 1]);
        let held = limit.map_or_else(String::new, |limit| format!("{limit:>8.2} {:>8.2}x", median / limit));
        within &= limit.is_none_or(|limit| median <= limit);
        println!("{:<26} {min:>8.2} {median:>8.2} {max:>8.2} {held}", format!("{what}, {unit}"));
    }
    println!("* unpacking the initrd left out: with the driver in it that takes longer than all else");
    println!("{} runs, emulated processor unless FIRSTLIGHT_ACCEL says otherwise", measured.len());
    if within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
