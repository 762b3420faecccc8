//! Parses the standard output of nccl-tests 2.19. Its figures are cross-checked: the bandwidth of each row must follow from
//! size and time, and the average below the rows must be their mean, so that a damaged or truncated table is rejected and
//! not used.

use super::{NAMES, PlacementFigures, SizeRow, Sweep};

/// The first line of an output.
const FIRST: &str = "# nccl-tests version";
const FIGURES: [&str; 4] = ["time", "algbw", "busbw", "#wrong"];
/// Figures are printed with two decimals, so that this much may be lost.
const ROUNDED: f64 = 0.01;

/// The tables of a file with several outputs, each with its collective.
///
/// # Errors
/// If the file has no output, one of an unknown program, two of one program, or a table that [`parse`] rejects.
pub fn parse_all(text: &str) -> Result<Vec<(&'static str, Sweep)>, String> {
    let mut tables: Vec<(&'static str, Sweep)> = Vec::new();
    for output in outputs(text) {
        let collective = collective(output)?;
        if tables.iter().any(|(other, _)| *other == collective) {
            return Err(format!("there are two outputs of {collective}_perf"));
        }
        tables.push((collective, parse(output, collective)?));
    }
    if tables.is_empty() {
        Err(format!("there is no {FIRST:?}"))
    } else {
        Ok(tables)
    }
}

/// The outputs in a file: each begins at such a first line.
pub fn outputs(text: &str) -> impl Iterator<Item = &str> {
    let starts = |at: &usize| *at == 0 || text[..*at].ends_with('\n');
    let begins: Vec<usize> = text
        .match_indices(FIRST)
        .map(|(at, _)| at)
        .filter(starts)
        .collect();
    let ends = begins
        .iter()
        .skip(1)
        .copied()
        .chain([text.len()])
        .collect::<Vec<_>>();
    begins
        .into_iter()
        .zip(ends)
        .map(|(begin, end)| &text[begin..end])
}

fn collective(output: &str) -> Result<&'static str, String> {
    let named = |line: &'_ str| {
        line.strip_prefix("# Collective test starting: ")
            .map(str::to_owned)
    };
    let program = output
        .lines()
        .find_map(named)
        .ok_or("there is no line \"# Collective test starting:\"")?;
    let known = NAMES
        .into_iter()
        .find(|name| program.strip_suffix("_perf") == Some(name));
    known.ok_or_else(|| {
        format!(
            "{program} is unknown; known are {}, each with _perf",
            NAMES.join(", ")
        )
    })
}

/// Parses the table of `collective`.
///
/// # Errors
/// What is missing or invalid, and a run with wrong elements, which cannot be compared with.
pub fn parse(text: &str, collective: &str) -> Result<Sweep, String> {
    let program = format!("{collective}_perf");
    after(text, "# nccl-tests version ")?;
    let started = after(text, "# Collective test starting: ")?;
    if started != program {
        return Err(format!("it is of {started}, expected {program}"));
    }
    let gpus = ranks(text)?;
    let mut lines = text.lines().skip_while(|line| !is_head(line)).skip(1);
    let units = lines
        .next()
        .ok_or("there is no line \"size count type redop root time algbw ..\"")?;
    if units
        .split_whitespace()
        .ne("# (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)".split(' '))
    {
        return Err(format!(
            "the units read {units:?}, expected (B), (us) and (GB/s)"
        ));
    }
    let factor = bus_factor(collective, gpus);
    let mut sweep = Sweep {
        gpus,
        data: String::new(),
        rows: Vec::new(),
    };
    for (n, line) in lines
        .by_ref()
        .take_while(|line| !line.starts_with('#'))
        .enumerate()
    {
        let (data, row) =
            row(line, factor).map_err(|why| format!("row {n} reads {line:?}: {why}"))?;
        if n > 0 && data != sweep.data {
            return Err(format!(
                "row {n} is of {data}, the rows before of {}",
                sweep.data
            ));
        }
        sweep.data = data;
        sweep.rows.push(row);
    }
    sweep.ends().ok_or("it has no row of a size above 0")?;
    let errors = after(text, "# Out of bounds values : ")?;
    if errors != "0 OK"
        || sweep
            .rows
            .iter()
            .flat_map(|row| row.placements)
            .any(|t| t.wrong > Some(0))
    {
        return Err(format!(
            "elements were wrong there ({errors}): it is no yardstick"
        ));
    }
    average(text, &sweep)?;
    Ok(sweep)
}

/// The text after `label`, at the beginning of a line.
fn after<'a>(text: &'a str, label: &str) -> Result<&'a str, String> {
    let found = text.lines().find_map(|line| line.strip_prefix(label));
    found
        .map(str::trim)
        .ok_or_else(|| format!("there is no \"{}\"", label.trim()))
}

/// The number of ranks; each must have its line.
fn ranks(text: &str) -> Result<usize, String> {
    let mut ranks = 0;
    for line in text.lines().filter(|line| line.starts_with("#  Rank ")) {
        if line
            .split_whitespace()
            .nth(2)
            .and_then(|word| word.parse().ok())
            != Some(ranks)
        {
            return Err(format!("read {line:?}, expected rank {ranks}"));
        }
        ranks += 1;
    }
    if ranks == 0 {
        Err("there is no line of a rank".to_owned())
    } else {
        Ok(ranks)
    }
}

fn is_head(line: &str) -> bool {
    let names = ["#", "size", "count", "type", "redop", "root"];
    line.split_whitespace()
        .eq(names.into_iter().chain(FIGURES).chain(FIGURES))
}

/// Bus bandwidth divided by algorithm bandwidth (PERFORMANCE.md of nccl-tests).
fn bus_factor(collective: &str, gpus: usize) -> f64 {
    let n = gpus as f64;
    match collective {
        "all_reduce" => 2.0 * (n - 1.0) / n,
        "broadcast" | "reduce" | "sendrecv" => 1.0,
        _ => (n - 1.0) / n,
    }
}

/// A row's element type and figures.
fn row(line: &str, factor: f64) -> Result<(String, SizeRow), String> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [bytes, count, data, _, _, ref figures @ ..] = words[..] else {
        return Err(format!("{} columns, expected 13", words.len()));
    };
    let whole = |word: &str| {
        word.parse::<u64>()
            .map_err(|_| format!("{word} is no whole number"))
    };
    let (bytes, _) = (whole(bytes)?, whole(count)?);
    let ([time, algbw, busbw, wrong], [time2, algbw2, busbw2, wrong2]) = match *figures {
        [a, b, c, d, e, f, g, h] => ([a, b, c, d], [e, f, g, h]),
        _ => return Err(format!("{} columns, expected 13", words.len())),
    };
    let placement = |[time, algbw, busbw, wrong]: [&str; 4]| {
        let (us, algbw, busbw) = (figure(time)?, figure(algbw)?, figure(busbw)?);
        if us == 0.0 {
            return Err("it took no time".to_owned());
        }
        let made = bytes as f64 / 1e3 / us;
        for (name, read, made) in [("algbw", algbw, made), ("busbw", busbw, made * factor)] {
            // Both the figure and the time are rounded.
            if (read - made).abs() > ROUNDED + made * (ROUNDED / us + 1e-3) {
                return Err(format!(
                    "{name} is {read}, but size and time make {made:.2}"
                ));
            }
        }
        let wrong = if wrong == "N/A" {
            None
        } else {
            Some(whole(wrong)?)
        };
        Ok(PlacementFigures { us, busbw, wrong })
    };
    let out_of_place = placement([time, algbw, busbw, wrong])?;
    if out_of_place.wrong.is_none() {
        return Err("its elements were not checked (-c 0)".to_owned());
    }
    Ok((
        data.to_owned(),
        SizeRow {
            bytes,
            placements: [out_of_place, placement([time2, algbw2, busbw2, wrong2])?],
        },
    ))
}

fn figure(word: &str) -> Result<f64, String> {
    let figure = word
        .parse()
        .ok()
        .filter(|f: &f64| f.is_finite() && *f >= 0.0);
    figure.ok_or_else(|| format!("{word} is no figure"))
}

/// Checks that the average below the rows is their mean, so that none is missing or changed.
fn average(text: &str, sweep: &Sweep) -> Result<(), String> {
    let printed = figure(after(text, "# Avg bus bandwidth    : ")?)?;
    let all: Vec<_> = sweep
        .rows
        .iter()
        .flat_map(|row| row.placements)
        .map(|timed| timed.busbw)
        .collect();
    let made = all.iter().sum::<f64>() / all.len() as f64;
    if (printed - made).abs() > ROUNDED {
        return Err(format!(
            "the average is {printed}, but the {} rows make {made:.3}",
            sweep.rows.len()
        ));
    }
    Ok(())
}
