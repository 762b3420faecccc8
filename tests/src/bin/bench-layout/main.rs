//! Compares image layouts: one initrd that contains the driver, as shipped, and a small unified image with the driver in a
//! compressed file system next to it, read in place from a USB stick or fetched over the network.
//!
//!     bench-layout [RUNS]
//!
//! Takes the shipped image apart, puts it together in each way, boots it with UEFI firmware from a USB stick and over HTTP,
//! with a script in place of init that mounts the driver and reads the files that its start reads. Prints bytes, seconds
//! since power-on and memory in use, with the ratio to the shipped layout on the same medium in the same run. There is no
//! limit here: docs/decisions/image.md records the choice based on these figures. Exits with 2 if nothing could be
//! measured.

mod layout;

use harness::Boot;
use layout::{BootableLayout, LAYOUTS, LayoutBuilder, Origin};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let runs = std::env::args()
        .nth(1)
        .map_or(Ok(3), |text| text.parse::<usize>());
    let Some(runs) = runs.ok().filter(|n| *n > 0) else {
        eprintln!("usage: bench-layout [RUNS]");
        return ExitCode::from(64);
    };
    let rows: Vec<_> = [Origin::Stick, Origin::Http]
        .into_iter()
        .flat_map(|from| LAYOUTS.iter().map(move |layout| (from, layout)))
        .collect();
    let names: Vec<_> = rows
        .iter()
        .map(|(from, layout)| format!("{}: {}", from.name(), layout.name))
        .collect();
    let measured = LayoutBuilder::make().and_then(|builder| {
        let boots = rows
            .iter()
            .map(|(from, layout)| builder.build(layout, *from));
        measure(runs, &names, &boots.collect::<Result<Vec<_>, _>>()?)
    });
    match measured {
        Ok(measured) => {
            print!(
                "{}",
                table(&names, |row| row - row % LAYOUTS.len(), &measured)
            );
            println!("{runs} runs, emulated processor unless FIRSTLIGHT_ACCEL says otherwise");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("bench-layout: {why}");
            ExitCode::from(2)
        }
    }
}

/// One row per run, one column per boot: a busy host slows all boots of a row alike.
fn measure(
    runs: usize,
    names: &[String],
    boots: &[BootableLayout],
) -> Result<Vec<Vec<Figures>>, Box<dyn Error>> {
    let mut read = None;
    let mut measured = Vec::new();
    for run in 1..=runs {
        let mut row = Vec::new();
        for (name, layout) in names.iter().zip(boots) {
            let (figures, bytes) = boot(layout)?;
            eprintln!("run {run}: {name}: {figures:.1?}");
            if *read.get_or_insert(bytes) != bytes {
                return Err(format!(
                    "{name}: {bytes} bytes of the driver were read, not the same as before"
                )
                .into());
            }
            row.push(figures);
        }
        measured.push(row);
    }
    Ok(measured)
}

fn boot(layout: &BootableLayout) -> Result<(Figures, u64), Box<dyn Error>> {
    let boot = Boot::shipped()
        .compressed()
        .memory(2048)
        .append(&layout.words)
        .from(layout.medium.clone());
    let boot = boot.stop_after("LAYOUT-END", Duration::ZERO);
    let booted = boot.run().map_err(|e| e.one_line())?;
    parse_figures(&booted.console, booted.took, layout)
        .ok_or_else(|| format!("the script printed no figures\n{booted}").into())
}

/// The table's columns, with their units.
const COLUMNS: [&str; 8] = [
    "firmware loads, MB",
    "read later, MB",
    "in all, MB",
    "to /init, s",
    "to driver mounted, s",
    "to all read, s",
    "in use, MB",
    "not free, MB",
];

/// One boot's figures, in the order of [`COLUMNS`].
pub type Figures = [f64; COLUMNS.len()];

/// Parses what the measuring script printed in a boot that took `took`; also returns how many bytes of the driver it read.
/// `None` without its line. Times begin at power-on; the script's own clock began with the kernel.
pub fn parse_figures(
    console: &str,
    took: Duration,
    layout: &BootableLayout,
) -> Option<(Figures, u64)> {
    let line = console.lines().find(|line| line.starts_with("LAYOUT "))?;
    let value = |key: &str| {
        let word = line
            .split_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))?;
        word.parse::<f64>().ok()
    };
    let now = value("now")?;
    let since_power_on = |key: &str| Some(took.as_secs_f64() - (now - value(key)?));
    let megabytes = |bytes: f64| bytes / 1e6;
    let figures = [
        megabytes(layout.firmware_bytes as f64),
        megabytes(value("later")?),
        megabytes(layout.all_bytes as f64),
        since_power_on("init")?,
        since_power_on("mounted")?,
        since_power_on("read")?,
        megabytes(value("used")? * 1024.0),
        megabytes(value("taken")? * 1024.0),
    ];
    Some((figures, value("bytes")? as u64))
}

/// The table, in Markdown: a row per name with the median of its runs and, in parentheses, the median of its ratios to the
/// row `base` of the same run. Indexed as `runs[run][row]`.
pub fn table(names: &[String], base: impl Fn(usize) -> usize, runs: &[Vec<Figures>]) -> String {
    let mut lines = vec![COLUMNS.map(str::to_owned).to_vec()];
    lines[0].insert(0, "layout".to_owned());
    for (row, name) in names.iter().enumerate() {
        let cell = |n: usize| {
            let figure = median(runs.iter().map(|run| run[row][n]).collect());
            let ratio = median(
                runs.iter()
                    .map(|run| run[row][n] / run[base(row)][n])
                    .collect(),
            );
            let with_ratio = base(row) != row && ratio.is_finite();
            if with_ratio {
                format!("{figure:.1} ({ratio:.2})")
            } else {
                format!("{figure:.1}")
            }
        };
        lines.push(
            [name.clone()]
                .into_iter()
                .chain((0..COLUMNS.len()).map(cell))
                .collect(),
        );
    }
    let width = |n: usize| {
        lines
            .iter()
            .map(|line| line[n].len())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<_> = (0..=COLUMNS.len()).map(width).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (n, (cell, width)) in line.iter().zip(&widths).enumerate() {
            text += &if n == 0 {
                format!("| {cell:<width$} |")
            } else {
                format!(" {cell:>width$} |")
            };
        }
        text += "\n";
        if number == 0 {
            let rule = |n: usize, width: &usize| {
                if n == 0 {
                    "-".repeat(width + 2)
                } else {
                    "-".repeat(width + 1) + ":"
                }
            };
            let rules: Vec<_> = widths
                .iter()
                .enumerate()
                .map(|(n, width)| rule(n, width))
                .collect();
            text += &format!("|{}|\n", rules.join("|"));
        }
    }
    text
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::Medium;

    const LINE: &str =
        "LAYOUT init=2.00 mounted=3.00 read=7.50 now=8.00 bytes=99 later=0 used=1000 taken=2000";

    fn ready() -> BootableLayout {
        BootableLayout {
            medium: Medium::Direct,
            words: String::new(),
            firmware_bytes: 5_000_000,
            all_bytes: 7_000_000,
        }
    }

    #[test]
    fn times_begin_at_power_on_and_not_with_the_kernel() {
        let console = format!("[    0.1] LAYOUT\n{LINE}\nLAYOUT-END\n");
        let (figures, bytes) = parse_figures(&console, Duration::from_secs(20), &ready()).unwrap();
        assert_eq!(
            (figures, bytes),
            ([5.0, 0.0, 7.0, 14.0, 15.0, 19.5, 1.024, 2.048], 99)
        );
    }

    #[test]
    fn a_line_with_a_figure_missing_is_no_measurement() {
        for key in [
            "init", "mounted", "read", "now", "bytes", "later", "used", "taken",
        ] {
            let without = LINE.replace(&format!("{key}="), "x=");
            assert!(
                parse_figures(&without, Duration::from_secs(20), &ready()).is_none(),
                "{key}"
            );
        }
    }

    #[test]
    fn ratios_are_those_of_the_same_run_and_the_base_has_none() {
        let names = ["a".to_owned(), "b".to_owned()];
        let run = |a: f64, b: f64| vec![[a; COLUMNS.len()], [b; COLUMNS.len()]];
        let text = table(
            &names,
            |_| 0,
            &[run(1.0, 0.5), run(10.0, 5.0), run(100.0, 70.0)],
        );
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[2].starts_with("| a      |") && lines[2].contains(" 10.0 |"),
            "{text}"
        );
        assert!(lines[3].contains(" 5.0 (0.50) |"), "{text}");
        assert!(
            lines.iter().all(|line| line.len() == lines[0].len()),
            "{text}"
        );
    }

    #[test]
    fn a_ratio_to_zero_is_not_shown() {
        let runs = [vec![[0.0; COLUMNS.len()], [3.0; COLUMNS.len()]]];
        assert!(!table(&["a".to_owned(), "b".to_owned()], |_| 0, &runs).contains("inf"));
    }
}
