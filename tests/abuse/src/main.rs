//! Attacks on everything of firstlight that others can reach: the receiver, `publish`, the meeting of nodes, the time, what
//! reads reports, and process 1. Prints a row for each: how often it ran, and how many reports were lost, answers were wrong, and programs hung
//! or crashed; exits with status 1 unless all of these are zero. `./run abuse [NAME..]`: all, or those whose names hold a word.
//! Its traffic stays on the loopback interface or in namespaces of its own, and each loop has an end.

mod client;
mod meeting;
mod memory;
mod process_one;
mod publish;
mod receiver;
mod reports;
mod table;

use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use table::{Attack, Counts};

/// When no further attack begins; `./run abuse` takes at most 15 minutes.
const ALL: Duration = Duration::from_secs(13 * 60);

const ATTACKS: &[(&str, Attack)] = &[
    ("receiver: many small values", receiver::small_values),
    ("receiver: hostile reports", receiver::hostile_reports),
    ("receiver: idle and slow clients", receiver::slow_clients),
    ("receiver: clients that reconnect", receiver::reconnecting),
    ("receiver: readers that do not read", receiver::slow_readers),
    ("receiver: 1000 nodes at once", receiver::all_at_once),
    ("receiver: late and early reports", receiver::late_reports),
    (
        "receiver: database removed or replaced",
        receiver::database_gone,
    ),
    ("receiver: killed while it stores", receiver::killed),
    ("receiver: forged MACs and machine keys", receiver::forged),
    ("publish: a report that always fails", publish::poison),
    ("publish: killed while it sends", publish::killed),
    ("publish: pipes as secrets", publish::pipes),
    ("report: 50 MB of small values", reports::large),
    (
        "meeting: silent, strange and wrong peers",
        meeting::strangers,
    ),
    ("time: datagrams of others", meeting::time),
    ("process 1: boots under faults", process_one::boots),
];

fn main() -> ExitCode {
    let words: Vec<String> = env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    if let Some(status) = reports::as_child(&words) {
        return status;
    }
    let begun = Instant::now();
    println!(
        "{:<42} {:>6} {:>5} {:>6} {:>5} {:>8}  seconds",
        "attack", "runs", "lost", "wrong", "hung", "crashed"
    );
    let mut all = Counts::default();
    for (name, attack) in ATTACKS {
        if !words.is_empty() && !words.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        if begun.elapsed() > ALL {
            println!("{name:<42} not run: the time is over");
            all.wrong += 1;
            continue;
        }
        let from = Instant::now();
        let counts = attack();
        println!("{}", counts.row(name, from.elapsed()));
        all.add(&counts);
    }
    println!("{}", all.row("together", begun.elapsed()));
    if all.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
