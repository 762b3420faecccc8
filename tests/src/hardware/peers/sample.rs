//! The standard output of p2pBandwidthLatencyTest. A matrix is a title, a line of column numbers
//! behind `D\D`, `GPU` or `CPU`, and a row for each GPU; the two latency titles have a matrix of the
//! GPU's clock and one of the processor's.

use crate::hardware::Grid;

/// Titles and our names; with two names the second is the processor's.
const TITLES: [(&str, &str, Option<&str>); 6] = [
    ("Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)", "sample.uni.off", None),
    ("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)", "sample.uni.on", None),
    ("Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)", "sample.bi.off", None),
    ("Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)", "sample.bi.on", None),
    ("P2P=Disabled Latency Matrix (us)", "sample.latency.off.gpu", Some("sample.latency.off.cpu")),
    ("P2P=Enabled Latency (P2P Writes) Matrix (us)", "sample.latency.on.gpu", Some("sample.latency.on.cpu")),
];

/// The number of GPUs and all matrices of figures.
///
/// # Errors
/// What is missing or not as it should be.
pub fn parse(text: &str) -> Result<(usize, Vec<Grid>), String> {
    let gpus = text.lines().filter(|l| l.starts_with("Device: ")).count();
    let mut grids = Vec::new();
    for (title, gpu, cpu) in TITLES {
        let corner = if cpu.is_some() { "GPU" } else { "D\\D" };
        grids.push(Grid { name: gpu.to_owned(), values: matrix(text, title, corner, gpus)? });
        if let Some(cpu) = cpu {
            grids.push(Grid { name: cpu.to_owned(), values: matrix(text, title, "CPU", gpus)? });
        }
    }
    Ok((gpus, grids))
}

fn matrix(text: &str, title: &str, corner: &str, gpus: usize) -> Result<Vec<Vec<Option<f64>>>, String> {
    let mut lines = text.lines().skip_while(|l| *l != title);
    lines.next().ok_or_else(|| format!("there is no \"{title}\""))?;
    let heads = |l: &&str| l.split_whitespace().next() == Some(corner);
    let mut lines = lines.skip_while(|l| !heads(l));
    let head = lines.next().ok_or_else(|| format!("\"{title}\" has no line of {corner}"))?;
    if head.split_whitespace().count() != gpus + 1 {
        return Err(format!("\"{title}\": read {head:?}, expected {gpus} columns"));
    }
    let mut rows = Vec::new();
    for n in 0..gpus {
        let line = lines.next().ok_or_else(|| format!("\"{title}\" ends after {n} of {gpus} rows"))?;
        rows.push(row(line, n, gpus).ok_or_else(|| format!("\"{title}\": row {n} reads {line:?}"))?);
    }
    Ok(rows)
}

fn row(line: &str, n: usize, gpus: usize) -> Option<Vec<Option<f64>>> {
    let mut words = line.split_whitespace();
    let number: usize = words.next()?.parse().ok()?;
    let cells = words.map(cell).collect::<Option<Vec<_>>>()?;
    (number == n && cells.len() == gpus).then_some(cells)
}

/// `None` for what is no cell.
fn cell(word: &str) -> Option<Option<f64>> {
    if word == "N/A" {
        return Some(None);
    }
    word.parse().ok().filter(|f: &f64| f.is_finite()).map(Some)
}
