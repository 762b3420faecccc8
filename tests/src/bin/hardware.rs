//! Runs firstlight's GPU tests on this machine and prints what was reached; with `--against DIR` also how that compares
//! with the results of p2pBandwidthLatencyTest and nvbandwidth, and NCCL's collectives with the tables of nccl-tests.
//!
//! Exits with 1 if a GPU test did not end well, or a limit or a promised time was missed; 2 if nothing could be measured or
//! compared; 64 for wrong use.

use harness::hardware::compare::Mark;
use harness::hardware::nccl::compare::Comparison as Sweeps;
use harness::hardware::nccl::{self, Theirs};
use harness::hardware::run::{self, Folder, Part, USAGE, Words};
use harness::hardware::{Comparison, Ours, Peer, Peers, compare, read_peers, text};
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

/// The comparisons so far.
struct Against {
    /// Number of GPUs on this machine, once it is known.
    gpus: Option<usize>,
    /// Number of saved outputs that were compared.
    compared: usize,
    /// Whether nothing was missed.
    good: bool,
}

/// Returns true if everything is as promised.
fn measure(words: &Words) -> Result<bool, String> {
    // Peers first, so that an invalid folder is reported before minutes of measuring.
    let peers = peers(words)?;
    let into = Folder::new(words).map_err(|e| e.one_line())?;
    let mut against = Against { gpus: None, compared: 0, good: true };
    if words.wants(Part::Matrices) {
        let report = run::report(words, &into).map_err(|e| e.one_line())?;
        let ours = Ours::parse(&report).map_err(|why| format!("the report: {why}"))?;
        print!("{}", text::reached(&ours));
        against.gpus = Some(ours.gpus);
        against.good = sound(&ours);
        against.matrices(&ours, &peers.matrices)?;
    }
    against.sweeps(words, &into, &peers.sweeps)?;
    if against.compared == 0 && !words.against.is_empty() {
        let here = against.gpus.map_or_else(|| "as many GPUs as here".to_owned(), |n| format!("{n} GPUs"));
        return Err(format!("no output of a peer is of {here}"));
    }
    Ok(against.good)
}

/// The outputs of all folders, as far as they are requested.
fn peers(words: &Words) -> Result<Peers, String> {
    let mut all = Peers::default();
    for folder in &words.against {
        let Peers { matrices, sweeps } = read_peers(folder)?;
        all.matrices.extend(matrices.into_iter().filter(|_| words.wants(Part::Matrices)));
        all.sweeps.extend(sweeps.into_iter().filter(|_| words.wants(Part::Nccl)));
    }
    if words.report.is_some() && words.nccl.is_none() && !all.sweeps.is_empty() {
        let path = shown(&all.sweeps[0].path);
        return Err(format!("{path}: --report runs nothing; say --nccl DIR or --only matrices"));
    }
    Ok(all)
}

/// Returns true if the tests ended well and in time.
fn sound(ours: &Ours) -> bool {
    let mut good = text::in_time(ours) != Some(false);
    for test in ours.tests.iter().filter(|t| (t.is_gpus() || t.is_nccl()) && !t.is_fine()) {
        println!("\n{} is {}: {}", test.id, test.outcome, test.summary);
        good = false;
    }
    if !ours.tests.iter().any(|t| t.id == "p2p-integrity" && t.is_fine()) {
        println!("\nNot proven that data arrives: no figure here means anything.");
        good = false;
    }
    good
}

impl Against {
    /// Whether a peer has the same number of GPUs; prints a line if not.
    fn fits(&self, path: &Path, gpus: usize) -> bool {
        match self.gpus {
            Some(here) if here != gpus => {
                println!("\n{}: {gpus} GPUs, here are {here}: not compared", shown(path));
                false
            }
            _ => true,
        }
    }

    fn matrices(&mut self, ours: &Ours, peers: &[Peer]) -> Result<(), String> {
        let (mut matrices, mut cells, mut missed, mut over) = (0, 0, 0, 0);
        for peer in peers {
            if !self.fits(&peer.path, peer.gpus) {
                continue;
            }
            self.compared += 1;
            let comparisons = compare(ours, peer).map_err(|why| format!("{}: {why}", shown(&peer.path)))?;
            print!("\n{}", text::against(peer, &comparisons));
            let count = |what: fn(&Comparison) -> usize| comparisons.iter().map(what).sum::<usize>();
            matrices += comparisons.len();
            cells += count(|c| c.all().count());
            missed += count(|c| c.count(Mark::Miss));
            over += count(|c| c.count(Mark::Over));
        }
        if matrices > 0 {
            println!(
                "\n{matrices} matrices, {cells} cells: {missed} MISS (!), {over} better than the limit (+)"
            );
        }
        self.good &= missed == 0;
        Ok(())
    }

    /// Runs the sweeps one after the other, since each needs all GPUs. One that cannot be run does not prevent the others.
    fn sweeps(&mut self, words: &Words, into: &Folder, peers: &[Theirs]) -> Result<(), String> {
        for folder in peers.chunk_by(|a, b| a.path.parent() == b.path.parent()) {
            let (mut done, mut unrun) = (Vec::new(), 0);
            for theirs in folder {
                match self.sweep(words, into, theirs) {
                    Ok(compared) => done.extend(compared),
                    Err(why) => {
                        println!("\n{}: not reached: {why}", theirs.asked.name());
                        unrun += 1;
                    }
                }
            }
            if let Some(folder) = folder.first().and_then(|p| p.path.parent()).filter(|_| !done.is_empty()) {
                println!("\nagainst nccl-tests in {}", shown(folder));
                print!("{}", nccl::compare::all(&done, unrun));
            }
            self.compared += done.len() + unrun;
            self.good &= unrun == 0 && done.iter().all(Sweeps::reached);
        }
        Ok(())
    }

    /// Returns `None` if the peer has another number of GPUs, which is printed.
    fn sweep(&mut self, words: &Words, into: &Folder, theirs: &Theirs) -> Result<Option<Sweeps>, String> {
        let gpus = theirs.sweep.gpus;
        if !self.fits(&theirs.path, gpus) {
            return Ok(None);
        }
        let ours = nccl::ours::sweep(words, &theirs.asked, into).map_err(|e| e.one_line())?;
        let ours = nccl::ours::parse(&ours)?;
        self.gpus = self.gpus.or(Some(ours.gpus));
        if ours.gpus != gpus && self.fits(&theirs.path, gpus) {
            return Err(format!("it ran on {} of {gpus} GPUs", ours.gpus));
        }
        if ours.gpus != gpus {
            return Ok(None);
        }
        nccl::compare::compare(&ours, theirs).map(Some)
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
