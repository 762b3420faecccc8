//! Measures the time from the firmware's start to the verdict: USB and UEFI HTTP boot of the unified image compared with
//! the direct boot of kernel and initrd by the same firmware, in the same run.
//!
//!     bench-media [RUNS]
//!
//! The stick's menu waits its one second. For comparison, without a limit: the stick without that wait, iPXE on a BIOS, and
//! the direct boot without UEFI firmware. Exits with 1 if a median ratio is over its limit, 2 if nothing could be measured.

use harness::boot::medium::FolderServer;
use harness::boot::medium::MAC;
use harness::stick::{SYSTEM, Stick};
use harness::{Boot, Image, Medium};
use std::error::Error;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// What is measured, and the maximum ratio of its time to the direct boot's.
const MEDIA: [(&str, Option<f64>); 6] = [
    ("UEFI, kernel and initrd at hand", None),
    ("UEFI, USB stick", Some(1.3)),
    ("UEFI, USB stick, no wait at menu", None),
    ("UEFI HTTP boot", Some(2.5)),
    ("BIOS, iPXE over HTTP", None),
    ("no firmware, kernel and initrd", None),
];

fn main() -> ExitCode {
    let runs = std::env::args()
        .nth(1)
        .map_or(Ok(3), |text| text.parse::<usize>());
    let Some(runs) = runs.ok().filter(|n| *n > 0) else {
        eprintln!("usage: bench-media [RUNS]");
        return ExitCode::from(64);
    };
    match measure(runs) {
        Ok(times) => report(&times),
        Err(why) => {
            eprintln!("bench-media: {why}");
            ExitCode::from(2)
        }
    }
}

/// One column per medium, one row per run: a busy host slows all boots of a row alike.
fn measure(runs: usize) -> Result<Vec<Vec<f64>>, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let served = serve(dir.path())?;
    let mut times = Vec::new();
    for run in 1..=runs {
        let stick = Stick::shipped(dir.path())?;
        let mut row = vec![
            seconds(Medium::DirectUefi)?,
            seconds(Medium::Stick(stick.path().into()))?,
        ];
        let menu = String::from_utf8(stick.get(SYSTEM, "loader/loader.conf")?)?;
        stick.put(
            SYSTEM,
            "loader/loader.conf",
            menu.replace("timeout 1", "timeout 0"),
        )?;
        row.push(seconds(Medium::Stick(stick.path().into()))?);
        row.push(seconds(Medium::UefiHttp(served.url("firstlight.efi")))?);
        row.push(seconds(Medium::IpxeBios(served.url("boot.ipxe")))?);
        row.push(seconds(Medium::Direct)?);
        eprintln!(
            "run {run}: {}",
            row.iter()
                .map(|s| format!("{s:.1} s"))
                .collect::<Vec<_>>()
                .join(", ")
        );
        times.push(row);
    }
    Ok(times)
}

fn serve(dir: &Path) -> Result<FolderServer, Box<dyn Error>> {
    let folder = dir.join("pxe");
    fs::create_dir_all(folder.join("node"))?;
    for entry in fs::read_dir(fs::canonicalize(Image::shipped().pxe()?)?)? {
        let entry = entry?;
        if entry.path().is_file() {
            symlink(entry.path(), folder.join(entry.file_name()))?;
        }
    }
    fs::write(
        folder.join("node").join(format!("{MAC}.ipxe")),
        "#!ipxe\nset wait 1\n",
    )?;
    Ok(FolderServer::folder(&folder)?)
}

/// Seconds from QEMU's start to the line with the verdict. The verdict is FAIL, since the boot does not state that no GPU
/// is expected; the time is the same.
fn seconds(medium: Medium) -> Result<f64, Box<dyn Error>> {
    let boot = Boot::shipped().compressed().memory(2048).from(medium);
    let booted = boot
        .stop_after("FIRSTLIGHT verdict=", Duration::ZERO)
        .run()
        .map_err(|e| e.one_line())?;
    Ok(booted.took.as_secs_f64())
}

fn report(times: &[Vec<f64>]) -> ExitCode {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!(
        "{:<34} {:>8} {:>12} {:>7}",
        "firmware to verdict", "median", "of direct", "limit"
    );
    let mut within = true;
    for (n, (what, limit)) in MEDIA.iter().enumerate() {
        let seconds = median(times.iter().map(|row| row[n]).collect());
        let ratio = median(times.iter().map(|row| row[n] / row[0]).collect());
        let limit_text = limit.map_or_else(String::new, |limit| format!("{limit:.2}x"));
        println!("{what:<34} {seconds:>6.1} s {ratio:>11.2}x {limit_text:>7}");
        within &= limit.is_none_or(|limit| ratio <= limit);
    }
    println!(
        "{} runs, emulated processor unless FIRSTLIGHT_ACCEL says otherwise",
        times.len()
    );
    if within {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
