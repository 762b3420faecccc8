//! Which image layout: one initrd that holds the driver, as it ships, against a small unified image with the
//! driver in a compressed file system beside it, read in place from a USB stick or fetched over the network.
//!
//!     bench-layout [RUNS]
//!
//! Takes the shipped image apart, puts it together in each way, boots it by UEFI firmware from a USB stick and
//! over HTTP, with a script in the place of init that mounts the driver and reads what its start reads. Prints
//! bytes, seconds since power-on and memory in use, with the ratio to the shipped layout on the same medium in the
//! same run. There is no limit here: docs/decisions/image.md says what was chosen by these figures. Exits with 2 when
//! nothing could be measured.

mod figures;
mod layout;

use figures::Figures;
use harness::Boot;
use layout::{LAYOUTS, Origin, Parts, Ready};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let runs = std::env::args().nth(1).map_or(Ok(3), |text| text.parse::<usize>());
    let Some(runs) = runs.ok().filter(|n| *n > 0) else {
        eprintln!("usage: bench-layout [RUNS]");
        return ExitCode::from(64);
    };
    let rows: Vec<_> = [Origin::Stick, Origin::Http]
        .into_iter()
        .flat_map(|from| LAYOUTS.iter().map(move |layout| (from, layout)))
        .collect();
    let names: Vec<_> =
        rows.iter().map(|(from, layout)| format!("{}: {}", from.name(), layout.name)).collect();
    let measured = Parts::make().and_then(|parts| {
        let boots = rows.iter().map(|(from, layout)| parts.ready(layout, *from));
        measure(runs, &names, &boots.collect::<Result<Vec<_>, _>>()?)
    });
    match measured {
        Ok(measured) => {
            print!("{}", figures::table(&names, |row| row - row % LAYOUTS.len(), &measured));
            println!("{runs} runs, emulated processor unless FIRSTLIGHT_ACCEL says otherwise");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("bench-layout: {why}");
            ExitCode::from(2)
        }
    }
}

/// One row for each run, one column for each boot: a busy host slows all of a row alike.
fn measure(runs: usize, names: &[String], boots: &[Ready]) -> Result<Vec<Vec<Figures>>, Box<dyn Error>> {
    let mut read = None;
    let mut measured = Vec::new();
    for run in 1..=runs {
        let mut row = Vec::new();
        for (name, ready) in names.iter().zip(boots) {
            let (figures, bytes) = boot(ready)?;
            eprintln!("run {run}: {name}: {figures:.1?}");
            if *read.get_or_insert(bytes) != bytes {
                return Err(
                    format!("{name}: {bytes} bytes of the driver were read, not the same as before").into()
                );
            }
            row.push(figures);
        }
        measured.push(row);
    }
    Ok(measured)
}

fn boot(ready: &Ready) -> Result<(Figures, u64), Box<dyn Error>> {
    let boot = Boot::shipped().compressed().memory(2048).append(&ready.words).from(ready.medium.clone());
    let boot = boot.deadline(Duration::from_secs(600)).stop_after("LAYOUT-END", Duration::ZERO);
    let booted = boot.run().map_err(|e| e.told())?;
    figures::of(&booted.console, booted.took, ready)
        .ok_or_else(|| format!("the script told no figures\n{booted}").into())
}
