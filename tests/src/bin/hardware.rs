//! Runs firstlight's GPU tests on this machine and prints what was reached; with `--against DIR` also how that compares
//! with the results of p2pBandwidthLatencyTest and nvbandwidth, and NCCL's collectives with the tables of nccl-tests.
//!
//! Exits with 1 if a GPU test did not end well, or a limit or a promised time was missed; 2 if nothing could be measured or
//! compared; 64 for wrong use.

use harness::hardware::compare::LimitResult;
use harness::hardware::nccl::compare::Comparison as SweepComparison;
use harness::hardware::nccl::{self, ReferenceTable};
use harness::hardware::run::{self, Measurement, Options, OutputFolder, USAGE};
use harness::hardware::{
    Comparison, OwnReport, Reference, References, compare, read_references, text,
};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("hardware: {why}\n{USAGE}");
            return ExitCode::from(64);
        }
    };
    match measure(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("hardware: {why}");
            ExitCode::from(2)
        }
    }
}

/// The result of the comparisons so far.
struct ComparisonTotals {
    /// Number of GPUs on this machine, once it is known.
    gpus: Option<usize>,
    /// Number of saved outputs that were compared.
    compared: usize,
    /// Whether nothing was missed.
    good: bool,
}

/// Returns true if everything is as promised.
fn measure(options: &Options) -> Result<bool, String> {
    // References first, so that an invalid folder is reported before minutes of measuring.
    let references = references(options)?;
    let into = OutputFolder::new(options).map_err(|e| e.one_line())?;
    let mut totals = ComparisonTotals {
        gpus: None,
        compared: 0,
        good: true,
    };
    if options.wants(Measurement::Matrices) {
        let report = run::report(options, &into).map_err(|e| e.one_line())?;
        let ours = OwnReport::parse(&report).map_err(|why| format!("the report: {why}"))?;
        print!("{}", text::report_table(&ours));
        totals.gpus = Some(ours.gpus);
        totals.good = ended_well(&ours);
        totals.matrices(&ours, &references.matrices)?;
    }
    totals.sweeps(options, &into, &references.sweeps)?;
    if totals.compared == 0 && !options.against.is_empty() {
        let here = totals.gpus.map_or_else(
            || "as many GPUs as here".to_owned(),
            |n| format!("{n} GPUs"),
        );
        return Err(format!("no output of a peer is of {here}"));
    }
    Ok(totals.good)
}

/// The outputs of all folders, as far as they are requested.
fn references(options: &Options) -> Result<References, String> {
    let mut all = References::default();
    for folder in &options.against {
        let References { matrices, sweeps } = read_references(folder)?;
        all.matrices.extend(
            matrices
                .into_iter()
                .filter(|_| options.wants(Measurement::Matrices)),
        );
        all.sweeps.extend(
            sweeps
                .into_iter()
                .filter(|_| options.wants(Measurement::Nccl)),
        );
    }
    if options.report.is_some() && options.nccl.is_none() && !all.sweeps.is_empty() {
        let path = shown(&all.sweeps[0].path);
        return Err(format!(
            "{path}: --report runs nothing; say --nccl DIR or --only matrices"
        ));
    }
    Ok(all)
}

/// Returns true if the tests ended well and in time.
fn ended_well(ours: &OwnReport) -> bool {
    let mut good = text::in_time(ours) != Some(false);
    for test in ours
        .tests
        .iter()
        .filter(|t| (t.is_gpus() || t.is_nccl()) && !t.is_fine())
    {
        println!("\n{} is {}: {}", test.id, test.outcome, test.summary);
        good = false;
    }
    if !ours
        .tests
        .iter()
        .any(|t| t.id == "p2p-integrity" && t.is_fine())
    {
        println!("\nNot proven that data arrives: no figure here means anything.");
        good = false;
    }
    good
}

impl ComparisonTotals {
    /// Whether a reference has the same number of GPUs; prints a line if not.
    fn fits(&self, path: &Path, gpus: usize) -> bool {
        match self.gpus {
            Some(here) if here != gpus => {
                println!(
                    "\n{}: {gpus} GPUs, here are {here}: not compared",
                    shown(path)
                );
                false
            }
            _ => true,
        }
    }

    fn matrices(&mut self, ours: &OwnReport, references: &[Reference]) -> Result<(), String> {
        let (mut matrices, mut cells, mut missed, mut over) = (0, 0, 0, 0);
        for reference in references {
            if !self.fits(&reference.path, reference.gpus) {
                continue;
            }
            self.compared += 1;
            let comparisons = compare(ours, reference)
                .map_err(|why| format!("{}: {why}", shown(&reference.path)))?;
            print!("\n{}", text::comparison_table(reference, &comparisons));
            let count =
                |what: fn(&Comparison) -> usize| comparisons.iter().map(what).sum::<usize>();
            matrices += comparisons.len();
            cells += count(|c| c.all().count());
            missed += count(|c| c.count(LimitResult::Missed));
            over += count(|c| c.count(LimitResult::Better));
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
    fn sweeps(
        &mut self,
        options: &Options,
        into: &OutputFolder,
        references: &[ReferenceTable],
    ) -> Result<(), String> {
        for folder in references.chunk_by(|a, b| a.path.parent() == b.path.parent()) {
            let (mut done, mut unrun) = (Vec::new(), 0);
            for theirs in folder {
                match self.sweep(options, into, theirs) {
                    Ok(compared) => done.extend(compared),
                    Err(why) => {
                        println!("\n{}: not reached: {why}", theirs.run.name());
                        unrun += 1;
                    }
                }
            }
            if let Some(folder) = folder
                .first()
                .and_then(|p| p.path.parent())
                .filter(|_| !done.is_empty())
            {
                println!("\nagainst nccl-tests in {}", shown(folder));
                print!("{}", nccl::compare::tables(&done, unrun));
            }
            self.compared += done.len() + unrun;
            self.good &= unrun == 0 && done.iter().all(SweepComparison::reached);
        }
        Ok(())
    }

    /// Returns `None` if the reference has another number of GPUs, which is printed.
    fn sweep(
        &mut self,
        options: &Options,
        into: &OutputFolder,
        theirs: &ReferenceTable,
    ) -> Result<Option<SweepComparison>, String> {
        let gpus = theirs.sweep.gpus;
        if !self.fits(&theirs.path, gpus) {
            return Ok(None);
        }
        let ours = nccl::ours::sweep(options, &theirs.run, into).map_err(|e| e.one_line())?;
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
