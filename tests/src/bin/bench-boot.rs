//! Measures the boot of the shipped image over several runs: kernel to process 1, process 1 to the verdict, process 1's own
//! share of that, and its stages, as it prints them. Each run also boots a null process 1, a static program that only makes
//! the same mounts (`tests/null-init`), on the same kernel, and one machine with 8 simulated GPUs, UEFI variables and a
//! watchdog device twice: as it is, and with neither the watchdog nor a place for marks in use.
//!
//!     bench-boot [RUNS]
//!
//! Init's own limit of 50 ms is for hardware: an emulated processor has to translate all code when it first runs. Under
//! emulation the ratio to the null program is the meaningful figure.
//!
//! Exits with 1 if a median is over its limit, 2 if nothing could be measured.

use harness::boot::stages_of_boot;
use harness::simgpu::{Scenario, overlay};
use harness::{Boot, Booted, workspace};
use std::process::{Command, ExitCode};

/// What is measured, its unit, its limit, and whether the limit also applies to an emulated processor.
const TIMES: [(&str, &str, Option<f64>, bool); 7] = [
    ("kernel start to /init *", "s", Some(2.5), true),
    ("initrd unpacked in", "s", None, true),
    ("/init to verdict", "s", Some(3.0), true),
    ("init's own time", "ms", Some(50.0), false),
    ("a null program's time", "ms", None, true),
    ("with watchdog and marks", "s", None, true),
    ("with neither", "s", None, true),
];

/// Rows of [`TIMES`]: init's own time, the null program's, and a boot with and without a watchdog and marks.
const OWN: usize = 3;
const NULL: usize = 4;
const GUARDED: usize = 5;
const BARE: usize = 6;

/// The maximum ratio of the times from the kernel's start to the verdict with and without a watchdog and marks.
const GUARD_LIMIT: f64 = 1.02;

type Times = [f64; TIMES.len()];

/// The milliseconds of each stage of the machine without GPUs, in the order of the boot.
type Stages = Vec<(String, f64)>;

fn main() -> ExitCode {
    let runs = std::env::args()
        .nth(1)
        .map_or(Ok(5), |text| text.parse::<usize>());
    let Some(runs) = runs.ok().filter(|n| *n > 0) else {
        eprintln!("usage: bench-boot [RUNS]");
        return ExitCode::from(64);
    };
    let measured = null_program().and_then(|null| {
        (1..=runs)
            .map(|n| run(n, &null))
            .collect::<Result<Vec<_>, _>>()
    });
    match measured {
        Ok(measured) => report(&measured),
        Err(why) => {
            eprintln!("bench-boot: {why}");
            ExitCode::from(2)
        }
    }
}

/// The null process 1, compiled with this host's compiler.
fn null_program() -> Result<Vec<u8>, String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (source, program) = (
        workspace().join("tests/null-init/null-init.c"),
        dir.path().join("null-init"),
    );
    let built = Command::new("gcc")
        .args(["-static", "-Os", "-o"])
        .args([&program, &source])
        .status();
    match built {
        Ok(status) if status.success() => std::fs::read(&program).map_err(|e| e.to_string()),
        Ok(status) => Err(format!("gcc: {status}")),
        Err(e) => Err(format!("gcc: {e}")),
    }
}

/// One boot's times and the null program's, in the order of [`TIMES`], and the times of its stages.
fn run(number: usize, null: &[u8]) -> Result<(Times, Stages), String> {
    let boot = Boot::shipped().compressed().memory(2048);
    let booted = boot
        .append("firstlight.expect.gpus=0")
        .run()
        .map_err(|e| e.one_line())?;
    let boot = Boot::shipped()
        .memory(2048)
        .overlay(|o| o.program(NULL_PATH, null));
    let nothing = boot
        .append(&format!("rdinit=/{NULL_PATH}"))
        .run()
        .map_err(|e| e.one_line())?;
    let lines = |booted: &Booted| format!("the console has no lines of times\n{booted}");
    let [kernel, initrd, verdict, own] = times(&booted).ok_or_else(|| lines(&booted))?;
    let null = null_time(&nothing).ok_or_else(|| lines(&nothing))?;
    // Alternates the order, since the first boot may find the host's caches colder.
    let order = if number.is_multiple_of(2) {
        [true, false]
    } else {
        [false, true]
    };
    let [first, second] = order.map(to_verdict);
    let (guarded, bare) = if order[0] {
        (first?, second?)
    } else {
        (second?, first?)
    };
    eprintln!(
        "run {number}: kernel {kernel:.2} s, initrd {initrd} s, verdict {verdict} s, own {own} ms, null {null} ms, \
         with watchdog and marks {guarded:.2} s, with neither {bare:.2} s"
    );
    Ok((
        [kernel, initrd, verdict, own, null, guarded, bare],
        stages(&booted),
    ))
}

/// Seconds from the kernel's start to the verdict on a machine with GPUs, UEFI variables and a watchdog device; unless
/// `guarded`, neither of the last two is used.
fn to_verdict(guarded: bool) -> Result<f64, String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let gpus = Scenario::named("healthy")
        .and_then(|scenario| overlay(&scenario))
        .map_err(|e| e.one_line())?;
    let boot = Boot::shipped()
        .whole()
        .memory(2048)
        .device("i6300esb")
        .overlay(|_| gpus);
    let boot = boot.append("firstlight.policy.on_pass=poweroff");
    let boot = if guarded {
        boot
    } else {
        boot.append("firstlight.watchdog.mode=off efi=noruntime")
    };
    let boot = boot
        .with_firmware(&dir.path().join("variables"))
        .map_err(|e| e.one_line())?;
    let booted = boot.run().map_err(|e| e.one_line())?;
    // Checks that the boots used or did not use these as intended.
    let (armed, marked) = (
        has(&booted, "watchdog", "i6300ESB"),
        !has(&booted, "reset", "no place for a mark"),
    );
    if (armed, marked) != (guarded, guarded) {
        return Err(format!(
            "watchdog: {armed}, marks: {marked}, wanted: {guarded}\n{booted}"
        ));
    }
    let [kernel, _, verdict, _] =
        times(&booted).ok_or_else(|| format!("the console has no lines of times\n{booted}"))?;
    Ok(kernel + verdict)
}

/// Whether the line of a stage contains this text.
fn has(booted: &Booted, stage: &str, what: &str) -> bool {
    booted
        .lines()
        .any(|line| line.starts_with(stage) && line.contains(what))
}

/// Parses the lines of the stages: name, what it did, `N ms`.
fn stages(booted: &Booted) -> Stages {
    let milliseconds = |name: &String| {
        let line = booted
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")) && line.ends_with(" ms"))?;
        line.strip_suffix(" ms")?
            .split_whitespace()
            .next_back()?
            .parse()
            .ok()
    };
    stages_of_boot()
        .into_iter()
        .filter_map(|name| milliseconds(&name).map(|ms| (name, ms)))
        .collect()
}

/// The path of the null program in the image.
const NULL_PATH: &str = "t/null-init";

/// Parses the line `null N mounted in T ms`.
fn null_time(booted: &Booted) -> Option<f64> {
    let line = booted.lines().find(|line| line.starts_with("null "))?;
    line.split("mounted in ")
        .nth(1)?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Parses the lines `boot .. kernel K s, init to verdict V s, init's own O ms` and `initrd .. unpacked in U s ..`.
fn times(booted: &Booted) -> Option<[f64; NULL]> {
    let line = |name: &str| booted.lines().find(|line| line.starts_with(name));
    let value = |line: &str, key: &str| {
        line.split(key)
            .nth(1)?
            .split_whitespace()
            .next()?
            .parse::<f64>()
            .ok()
    };
    let boot = line("boot ")?;
    let unpacking = value(line("initrd ")?, "unpacked in ")?;
    let kernel = value(boot, "kernel ")? - unpacking;
    Some([
        kernel,
        unpacking,
        value(boot, "init to verdict ")?,
        value(boot, "init's own ")?,
    ])
}

/// The median of each stage, the longest first.
fn stage_medians(measured: &[(Times, Stages)]) -> Stages {
    let Some((_, first)) = measured.first() else {
        return Vec::new();
    };
    let median = |name: &String| {
        let of = |stages: &Stages| {
            stages
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, ms)| *ms)
        };
        let mut values: Vec<_> = measured
            .iter()
            .filter_map(|(_, stages)| of(stages))
            .collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let mut medians: Stages = first
        .iter()
        .map(|(name, _)| (name.clone(), median(name)))
        .collect();
    medians.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    medians
}

fn report(measured: &[(Times, Stages)]) -> ExitCode {
    println!(
        "{:<26} {:>8} {:>8} {:>8} {:>8} {:>9}",
        "boot", "min", "median", "max", "limit", "of limit"
    );
    let hardware = std::env::var("FIRSTLIGHT_ACCEL").is_ok_and(|name| name != "tcg");
    let (mut within, mut medians) = (true, [0.0; TIMES.len()]);
    for (n, (what, unit, limit, emulated)) in TIMES.iter().enumerate() {
        let limit = limit.filter(|_| *emulated || hardware);
        let mut values: Vec<f64> = measured.iter().map(|(times, _)| times[n]).collect();
        values.sort_by(f64::total_cmp);
        let (min, median, max) = (
            values[0],
            values[values.len() / 2],
            values[values.len() - 1],
        );
        let held = limit.map_or_else(String::new, |limit| {
            format!("{limit:>8.2} {:>8.2}x", median / limit)
        });
        medians[n] = median;
        within &= limit.is_none_or(|limit| median <= limit);
        println!(
            "{:<26} {min:>8.2} {median:>8.2} {max:>8.2} {held}",
            format!("{what}, {unit}")
        );
    }
    println!(
        "* unpacking the initrd left out: with the driver in it that takes longer than all else"
    );
    println!(
        "init's own time is {:.1} of the null program's",
        medians[OWN] / medians[NULL]
    );
    let waits: Vec<_> = stage_medians(measured)
        .iter()
        .map(|(name, ms)| format!("{name} {ms:.0}"))
        .collect();
    println!("stages without GPUs, ms, median: {}", waits.join(", "));
    let share = medians[GUARDED] / medians[BARE];
    within &= share <= GUARD_LIMIT;
    println!(
        "a watchdog and marks add {:.2} s to a boot with 8 GPUs: {share:.3} of the time without them, limit {GUARD_LIMIT}",
        medians[GUARDED] - medians[BARE]
    );
    println!(
        "{} runs, emulated processor unless FIRSTLIGHT_ACCEL says otherwise",
        measured.len()
    );
    if within {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
