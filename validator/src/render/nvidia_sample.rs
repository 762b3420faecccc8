//! A report's peer-to-peer matrices in the layout of p2pBandwidthLatencyTest, so that anything that parses
//! its output can parse ours. There are two differences for missing values: a cell without a figure is `N/A`
//! (the sample prints the figure of a copy through host memory, under "P2P=Enabled"), and a matrix that was
//! not measured is all `N/A` instead of absent.

use machine::pcie::model::Bdf;
use outcome::Matrix;
use outcome::metric::Metric;
use report::Report;
use report::render::words;
use std::fmt::Write as _;

// The sample's fixed lines, and the matrix under each of its titles.

const TITLE: &str = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]";

const NOTE_ACCESS: &str = "\
***NOTE: In case a device doesn't have P2P access to other one, it falls back to normal memcopy procedure.
So you can see lesser Bandwidth (GB/s) and unstable Latency (us) in those cases.";

const NOTE_END: &str = "NOTE: The CUDA Samples are not meant for performance measurements. \
                                   Results may vary when GPU Boost is enabled.";

/// Title and matrix, GB/s.
const BANDWIDTHS: [(&str, Metric); 4] = [
    (
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
        Metric::SAMPLE_UNI_OFF,
    ),
    (
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)",
        Metric::SAMPLE_UNI_ON,
    ),
    (
        "Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
        Metric::SAMPLE_BI_OFF,
    ),
    (
        "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)",
        Metric::SAMPLE_BI_ON,
    ),
];

/// Title, matrix of GPU times and of CPU times, us.
const LATENCIES: [(&str, Metric, Metric); 2] = [
    (
        "P2P=Disabled Latency Matrix (us)",
        Metric::LATENCY_OFF_GPU,
        Metric::LATENCY_OFF_HOST,
    ),
    (
        "P2P=Enabled Latency (P2P Writes) Matrix (us)",
        Metric::LATENCY_ON_GPU,
        Metric::LATENCY_ON_HOST,
    ),
];

/// One GPU of the header; its number is its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The model.
    pub name: String,
    /// Its address.
    pub bdf: Bdf,
}

/// The tables of a report; `None` if it has none of these matrices. GPUs are numbered by address, as in the
/// tests.
#[must_use]
pub fn report_tables(report: &Report) -> Option<String> {
    let matrices: Vec<_> = report.tests.iter().flat_map(|t| &t.matrices).collect();
    let wanted = |m: &&Matrix| {
        matches!(
            m.metric(),
            Some(Metric::Access | Metric::Sample { .. } | Metric::SmallCopy { .. })
        )
    };
    matrices.iter().copied().find(wanted)?;
    let devices = report.gpus.iter().map(|g| Device {
        name: words::model(report, g).to_owned(),
        bdf: g.bdf,
    });
    Some(text(&devices.collect::<Vec<_>>(), &matrices))
}

/// The tables of `devices`, from the matrices of these names among `matrices`.
#[must_use]
pub fn text(devices: &[Device], matrices: &[&Matrix]) -> String {
    let table = Table {
        size: devices.len(),
        matrices,
    };
    let mut text = format!("{TITLE}\n");
    for (n, Device { name, bdf }) in devices.iter().enumerate() {
        let Bdf {
            domain,
            bus,
            device,
            ..
        } = bdf;
        // Writing into a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "Device: {n}, {name}, pciBusID: {bus:x}, pciDeviceID: {device:x}, pciDomainID:{domain:x}"
        );
    }
    text += &table.access();
    let _ = write!(text, "\n{NOTE_ACCESS}\n\n{}", table.connectivity());
    for (title, name) in BANDWIDTHS {
        let _ = write!(text, "{title}\n{}", table.figures("D\\D", name));
    }
    for (title, gpu, cpu) in LATENCIES {
        let _ = write!(
            text,
            "{title}\n{}\n{}",
            table.figures("GPU", gpu),
            table.figures("CPU", cpu)
        );
    }
    let _ = write!(text, "\n{NOTE_END}\n");
    text
}

/// The matrices of `size` GPUs.
struct Table<'a> {
    size: usize,
    matrices: &'a [&'a Matrix],
}

impl Table<'_> {
    fn value(&self, metric: Metric, row: usize, column: usize) -> Option<f64> {
        let matrix = self.matrices.iter().find(|m| m.metric() == Some(metric))?;
        *matrix.values.get(row)?.get(column)?
    }

    fn access(&self) -> String {
        let mut text = String::new();
        for (row, column) in self.pairs() {
            let can = match self.value(Metric::ACCESS, row, column) {
                Some(1.0) => "CAN",
                _ => "CANNOT",
            };
            let _ = writeln!(text, "Device={row} {can} Access Peer Device={column}");
        }
        text
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let size = self.size;
        let row = move |row| {
            (0..size)
                .filter(move |column| *column != row)
                .map(move |column| (row, column))
        };
        (0..size).flat_map(row)
    }

    fn connectivity(&self) -> String {
        let columns: String = (0..self.size).map(|n| format!("{n:>6}")).collect();
        let mut text = format!("P2P Connectivity Matrix\n     D\\D{columns}\n");
        for row in 0..self.size {
            let cells: String = (0..self.size)
                .map(|column| self.reaches(row, column))
                .collect();
            let _ = writeln!(text, "{row:>6}\t{cells}");
        }
        text
    }

    /// A GPU has access to itself, whether or not that was tested.
    fn reaches(&self, row: usize, column: usize) -> String {
        let value = self
            .value(Metric::ACCESS, row, column)
            .or((row == column).then_some(1.0));
        value.map_or_else(|| format!("{:>6}", "N/A"), |v| format!("{v:>6.0}"))
    }

    fn figures(&self, corner: &str, metric: Metric) -> String {
        let columns: String = (0..self.size).map(|n| format!("{n:>6} ")).collect();
        let mut text = format!("{corner:>6}{columns}\n");
        for row in 0..self.size {
            let cells: String = (0..self.size)
                .map(|column| cell(self.value(metric, row, column)))
                .collect();
            let _ = writeln!(text, "{row:>6} {cells}");
        }
        text
    }
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| format!("{:>6} ", "N/A"), |v| format!("{v:>6.2} "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A recorded output of the sample.
    fn recorded(machine: &str) -> String {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/peers");
        fs::read_to_string(peers.join(machine).join("p2pBandwidthLatencyTest.txt")).unwrap()
    }

    /// Every line that starts with a number, as numbers: the rows of all matrices in their order.
    fn rows(text: &str, size: usize) -> Vec<Vec<Option<f64>>> {
        let lines = text.lines().map(|l| {
            l.split_whitespace()
                .map(|w| w.parse().ok())
                .collect::<Vec<_>>()
        });
        let rows =
            lines.filter(|cells| cells.len() == size + 1 && cells.iter().all(Option::is_some));
        rows.map(|cells| cells[1..].to_vec()).collect()
    }

    /// Our matrices with the recorded figures.
    fn matrices(text: &str, size: usize) -> Vec<Matrix> {
        let names = std::iter::once(Metric::ACCESS)
            .chain(BANDWIDTHS.map(|(_, name)| name))
            .chain(LATENCIES.into_iter().flat_map(|(_, gpu, cpu)| [gpu, cpu]));
        let labels: Vec<String> = (0..size).map(|n| n.to_string()).collect();
        let rows = rows(text, size);
        let matrix = |(metric, values): (Metric, &[Vec<Option<f64>>])| Matrix {
            name: metric.name().to_owned(),
            unit: "x".to_owned(),
            rows: labels.clone(),
            columns: labels.clone(),
            values: values.to_vec(),
        };
        assert_eq!(rows.len(), 9 * size);
        names.zip(rows.chunks(size)).map(matrix).collect()
    }

    fn devices(size: u8) -> Vec<Device> {
        let bdf = |n| Bdf {
            domain: 0,
            bus: 0,
            device: n + 6,
            function: 0,
        };
        (0..size)
            .map(|n| Device {
                name: "NVIDIA H200".into(),
                bdf: bdf(n),
            })
            .collect()
    }

    #[test]
    fn recorded_figures_give_the_recorded_output_byte_for_byte() {
        for (machine, size) in [("h200-2", 2), ("h200-4", 4)] {
            let recorded = recorded(machine);
            let matrices = matrices(&recorded, usize::from(size));
            let all: Vec<_> = matrices.iter().collect();
            assert_eq!(text(&devices(size), &all), recorded, "{machine}");
        }
    }

    #[test]
    fn unmeasured_values_are_na_and_unknown_access_is_zero() {
        let mut matrices = matrices(&recorded("h200-2"), 2);
        matrices.retain(|m| !m.name.ends_with(".off.cpu"));
        for matrix in matrices
            .iter_mut()
            .filter(|m| m.name.ends_with(".on") || m.metric() == Some(Metric::ACCESS))
        {
            matrix.values[0][1] = None;
        }
        let text = text(&devices(2), &matrices.iter().collect::<Vec<_>>());
        assert!(
            text.contains(
                "Device=0 CANNOT Access Peer Device=1\nDevice=1 CAN Access Peer Device=0\n"
            )
        );
        assert!(
            text.contains("     0\t     1   N/A\n     1\t     1     1\n"),
            "{text}"
        );
        assert!(
            text.contains("     0 3941.35    N/A \n     1 392.47 3959.14 \n"),
            "{text}"
        );
        assert!(
            text.contains("   CPU     0      1 \n     0    N/A    N/A \n     1    N/A    N/A \n"),
            "{text}"
        );
    }

    #[test]
    fn addresses_are_hexadecimal_as_in_the_sample() {
        let device = Device {
            name: "X".into(),
            bdf: "10000:c1:1f.0".parse().unwrap(),
        };
        let text = text(&[device], &[]);
        assert!(
            text.contains("\nDevice: 0, X, pciBusID: c1, pciDeviceID: 1f, pciDomainID:10000\n"),
            "{text}"
        );
    }
}
