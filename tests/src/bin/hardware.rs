//! Runs firstlight's GPU tests on this machine and prints what was reached; with `--against DIR`
//! also how that compares with what p2pBandwidthLatencyTest and nvbandwidth reached.
//!
//! Exits with 1 when a GPU test did not end well, a limit was missed or the promised time was not
//! kept; 2 when nothing could be measured or compared; 64 for wrong use.

use harness::hardware::compare::Mark;
use harness::hardware::words::{USAGE, Words};
use harness::hardware::{Comparison, Ours, Peer, compare, read_peer, run, text};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words = match Words::parse(std::env::args_os().skip(1)) {
        Ok(words) => words,
        Err(why) => {
            eprintln!("hardware: {why}\n{USAGE}");
            return ExitCode::from(64);
        }
    };
    match measure(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("hardware: {why}");
            ExitCode::from(2)
        }
    }
}

/// True when everything is as promised.
fn measure(words: &Words) -> Result<bool, String> {
    // Peers first: a folder that is not what it should be is told before minutes of measuring.
    let peers = words.against.iter().map(|d| read_peer(d)).collect::<Result<Vec<_>, _>>()?.concat();
    let report = run::report(words).map_err(|e| e.told())?;
    let ours = Ours::parse(&report).map_err(|why| format!("the report: {why}"))?;
    print!("{}", text::reached(&ours));
    let mut good = text::in_time(&ours) != Some(false);
    for test in ours.tests.iter().filter(|t| t.is_gpus() && !t.is_fine()) {
        println!("\n{} is {}: {}", test.id, test.outcome, test.summary);
        good = false;
    }
    if !ours.tests.iter().any(|t| t.id == "p2p-integrity" && t.is_fine()) {
        println!("\nNot proven that data arrives: no figure here means anything.");
        good = false;
    }
    Ok(against(&ours, &peers)? && good)
}

/// True when no limit was missed.
fn against(ours: &Ours, peers: &[Peer]) -> Result<bool, String> {
    let (fitting, others): (Vec<&Peer>, Vec<_>) = peers.iter().partition(|p| p.gpus == ours.gpus);
    for peer in &others {
        println!("\n{}: {} GPUs, here are {}: not compared", shown(&peer.path), peer.gpus, ours.gpus);
    }
    if fitting.is_empty() && !others.is_empty() {
        return Err(format!("no output of a peer is of {} GPUs", ours.gpus));
    }
    let (mut matrices, mut cells, mut missed, mut over) = (0, 0, 0, 0);
    for peer in fitting {
        let comparisons = compare(ours, peer).map_err(|why| format!("{}: {why}", shown(&peer.path)))?;
        print!("\n{}", text::against(peer, &comparisons));
        let count = |what: fn(&Comparison) -> usize| comparisons.iter().map(what).sum::<usize>();
        matrices += comparisons.len();
        cells += count(|c| c.all().count());
        missed += count(|c| c.count(Mark::Miss));
        over += count(|c| c.count(Mark::Over));
    }
    if matrices > 0 {
        println!("\n{matrices} matrices, {cells} cells: {missed} MISS (!), {over} better than the limit (+)");
    }
    Ok(missed == 0)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
