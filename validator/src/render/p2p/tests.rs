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
    let lines = text.lines().map(|l| l.split_whitespace().map(|w| w.parse().ok()).collect::<Vec<_>>());
    let rows = lines.filter(|cells| cells.len() == size + 1 && cells.iter().all(Option::is_some));
    rows.map(|cells| cells[1..].to_vec()).collect()
}

/// Our matrices with the recorded figures.
fn matrices(text: &str, size: usize) -> Vec<Matrix> {
    let names = std::iter::once(CONNECTIVITY)
        .chain(BANDWIDTHS.map(|(_, name)| name))
        .chain(LATENCIES.into_iter().flat_map(|(_, gpu, cpu)| [gpu, cpu]));
    let labels: Vec<String> = (0..size).map(|n| n.to_string()).collect();
    let rows = rows(text, size);
    let matrix = |(name, values): (&str, &[Vec<Option<f64>>])| Matrix {
        name: name.to_owned(),
        unit: "x".to_owned(),
        rows: labels.clone(),
        columns: labels.clone(),
        values: values.to_vec(),
    };
    assert_eq!(rows.len(), 9 * size);
    names.zip(rows.chunks(size)).map(matrix).collect()
}

fn devices(size: u8) -> Vec<Device> {
    let bdf = |n| Bdf { domain: 0, bus: 0, device: n + 6, function: 0 };
    (0..size).map(|n| Device { name: "NVIDIA H200".into(), bdf: bdf(n) }).collect()
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
fn what_was_not_measured_is_not_available_and_what_is_not_known_cannot() {
    let mut matrices = matrices(&recorded("h200-2"), 2);
    matrices.retain(|m| !m.name.ends_with(".off.cpu"));
    for matrix in matrices.iter_mut().filter(|m| m.name.ends_with(".on") || m.name == CONNECTIVITY) {
        matrix.values[0][1] = None;
    }
    let text = text(&devices(2), &matrices.iter().collect::<Vec<_>>());
    assert!(text.contains("Device=0 CANNOT Access Peer Device=1\nDevice=1 CAN Access Peer Device=0\n"));
    assert!(text.contains("     0\t     1   N/A\n     1\t     1     1\n"), "{text}");
    assert!(text.contains("     0 3941.35    N/A \n     1 392.47 3959.14 \n"), "{text}");
    assert!(text.contains("   CPU     0      1 \n     0    N/A    N/A \n     1    N/A    N/A \n"), "{text}");
}

#[test]
fn addresses_are_told_in_hexadecimal_as_the_sample_does() {
    let device = Device { name: "X".into(), bdf: "10000:c1:1f.0".parse().unwrap() };
    let text = text(&[device], &[]);
    assert!(text.contains("\nDevice: 0, X, pciBusID: c1, pciDeviceID: 1f, pciDomainID:10000\n"), "{text}");
}
