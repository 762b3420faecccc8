//! Large reports, in a process of their own.

use crate::client::{HUNG, small_values};
use crate::memory::peak_kib;
use crate::table::Counts;
use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};
use tempfile::TempDir;

/// The first word of this program's own children.
const CHILD: &str = "as-child";

/// Runs `firstlight` with the words after [`CHILD`]; prints its most memory to standard error at its end.
pub(crate) fn as_child(words: &[String]) -> Option<ExitCode> {
    let (first, _) = words.split_first().filter(|(first, _)| *first == CHILD)?;
    // Options are words here, too.
    let words = env::args_os()
        .skip_while(|word| word.to_str() != Some(first))
        .skip(1);
    let parsed =
        firstlight::cli::args::parse([OsString::from("firstlight")].into_iter().chain(words));
    let status = match parsed.map(firstlight::cli::run) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => {
            eprintln!("{error}");
            2
        }
        Err(_) => 64,
    };
    eprintln!("peak {}", peak_kib("self").unwrap_or(0));
    Some(ExitCode::from(status))
}

/// This program as `firstlight`.
pub(crate) fn child(words: &[&str]) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg(CHILD).args(words);
    command
}

pub(crate) fn large() -> Counts {
    const SIZE: usize = 50 << 20;
    let (dir, mut counts) = (TempDir::new().unwrap(), Counts::default());
    let (file, to) = (dir.path().join("report.json"), dir.path().join("out"));
    fs::write(&file, small_values("large", SIZE)).unwrap();
    for form in ["text", "html", "junit", "prometheus", "json"] {
        counts.runs += 1;
        let mut command = child(&["render"]);
        command
            .arg(&file)
            .args(["--to", form])
            .stdout(fs::File::create(&to).unwrap())
            .stderr(Stdio::piped());
        let mut running = command.spawn().unwrap();
        let due = Instant::now() + HUNG;
        while running.try_wait().unwrap().is_none() && Instant::now() < due {
            thread::sleep(Duration::from_millis(20));
        }
        if running.try_wait().unwrap().is_none() {
            let _ = running.kill();
            counts.hung += 1;
        }
        let ended = running.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        let peak = text
            .lines()
            .find_map(|line| line.strip_prefix("peak ")?.parse::<u64>().ok())
            .unwrap_or(0);
        let times = (peak << 10) as f64 / SIZE as f64;
        let known = ended.status.success() || form == "json";
        counts.check(known && peak > 0 && times <= 4.0, || {
            format!(
                "{form}: {:?}, {times:.2} times the report, {text:.300}",
                ended.status
            )
        });
        counts.note(format!(
            "render --to {form}: {times:.2} times the report's {} MiB",
            SIZE >> 20
        ));
    }
    counts
}
