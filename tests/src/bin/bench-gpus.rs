//! What level standard costs with more and more simulated GPUs, without faults: seconds of wall and processor, memory, and
//! how long real links would work for it. Prints the table of docs/what-each-level-rules-out.md.
//!
//!     bench-gpus [GPUS]..
//!
//! The links' time is the simulated one: that of the validator's own process and of NCCL's processes one after the other;
//! of processes with one GPU each, which work together, the longest. What the driver's calls and the processes' starts take
//! on real machines is not in it.
//!
//! Exits with 1 if a machine does not pass, or if a pair takes longer with the most GPUs than with the fewest, 2 if nothing
//! could be measured.

use harness::simgpu::{Scenario, with_prepared};
use harness::{Error, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use std::{fs, thread};

const GPUS: [usize; 4] = [8, 16, 32, 64];

/// What one machine took.
struct Cost {
    gpus: usize,
    wall_s: f64,
    processor_s: f64,
    /// Of the largest process.
    memory_mb: f64,
    links_s: f64,
    passed: bool,
}

/// The word before a command that this program runs to measure it: what the children of a process of its own have used is the
/// command's alone.
const RUN: &str = "--run";

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    if let [first, program, words @ ..] = words.as_slice()
        && first == RUN
    {
        return run(program, words);
    }
    let mut sizes = Vec::new();
    for word in &words {
        match word.parse() {
            Ok(gpus) if gpus >= 2 => sizes.push(gpus),
            _ => {
                eprintln!("bench-gpus: {word:?} is no number of GPUs: a whole number from 2 on");
                return ExitCode::from(64);
            }
        }
    }
    if sizes.is_empty() {
        sizes.extend(GPUS);
    }
    sizes.sort_unstable();
    let measured: Result<Vec<_>> = sizes.into_iter().map(measure).collect();
    match measured {
        Ok(costs) => report(&costs),
        Err(why) => {
            eprintln!("bench-gpus: {}", why.one_line());
            ExitCode::from(2)
        }
    }
}

/// Runs a command, and prints its processor seconds and the bytes of its largest process.
fn run(program: &str, words: &[String]) -> ExitCode {
    let status = Command::new(program)
        .args(words)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    match (status, getrusage(UsageWho::RUSAGE_CHILDREN)) {
        (Ok(status), Ok(used)) => {
            let processor_s = seconds(used.user_time()) + seconds(used.system_time());
            println!("{processor_s} {}", used.max_rss() * 1024);
            if status.success() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        _ => ExitCode::from(2),
    }
}

fn measure(gpus: usize) -> Result<Cost> {
    eprintln!("{gpus} simulated GPUs, level standard");
    let scenario = Scenario::named("healthy")?.gpus(gpus);
    let words = ["validate", "--level", "standard"];
    with_prepared(&scenario, &words, |command, dir| {
        let this = std::env::current_exe().map_err(Error::file("find", "this program"))?;
        let begun = Instant::now();
        let output = Command::new(this)
            .arg(RUN)
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::null())
            .output()
            .map_err(|e| program(e.to_string()))?;
        let wall_s = begun.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = text
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [processor_s, bytes] = numbers[..] else {
            return Err(program(format!("not measured: {}", output.status)));
        };
        Ok(Cost {
            gpus,
            wall_s,
            processor_s,
            memory_mb: bytes / 1e6,
            links_s: links_s(&dir.join("lib"))?,
            passed: output.status.success(),
        })
    })
}

fn program(why: String) -> Error {
    Error::Program {
        program: "firstlight".into(),
        why,
    }
}

/// The links' seconds, from the files that the processes have left: GPUs and ns (`tests/simgpu/model/src/work_time.rs`).
fn links_s(folder: &Path) -> Result<f64> {
    let (mut alone, mut together) = (0.0, 0.0_f64);
    for entry in fs::read_dir(folder).map_err(Error::file("read", folder))? {
        let path = entry.map_err(Error::file("read", folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("work-time.") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        let words: Vec<_> = text.split_whitespace().collect();
        let [gpus, ns] = words[..] else {
            return Err(program(format!("{}: {text:?}", path.display())));
        };
        let seconds = ns.parse::<f64>().map_err(|e| program(e.to_string()))? / 1e9;
        if gpus == "1" {
            together = together.max(seconds);
        } else {
            alone += seconds;
        }
    }
    Ok(alone + together)
}

fn report(costs: &[Cost]) -> ExitCode {
    let processors = thread::available_parallelism().map_or(0, usize::from);
    println!("{processors} processors\n");
    println!(
        "| GPUs | ordered pairs | wall, s | processor, s | largest process, MB | wall for each pair, s | real links, s | real links for each pair, s |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    let pairs = |cost: &Cost| (cost.gpus * (cost.gpus - 1)) as f64;
    for cost in costs {
        println!(
            "| {} | {} | {:.1} | {:.1} | {:.0} | {:.3} | {:.1} | {:.2} |",
            cost.gpus,
            pairs(cost),
            cost.wall_s,
            cost.processor_s,
            cost.memory_mb,
            cost.wall_s / pairs(cost),
            cost.links_s,
            cost.links_s / pairs(cost)
        );
    }
    let mut good = true;
    for cost in costs.iter().filter(|cost| !cost.passed) {
        eprintln!("{} GPUs do not pass", cost.gpus);
        good = false;
    }
    if let [first, .., last] = costs {
        for (what, of) in [
            ("wall", (|cost| cost.wall_s) as fn(&Cost) -> f64),
            ("the links", |cost| cost.links_s),
        ] {
            let ratio = (of(last) / pairs(last)) / (of(first) / pairs(first));
            println!(
                "a pair, {} to {} GPUs, {what}: {ratio:.2}",
                first.gpus, last.gpus
            );
            good &= ratio <= 1.0;
        }
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
