//! Checks that the text output fits 80 columns and reports what was done, and that `firstlight topo` prints what
//! `nvidia-smi topo -m` printed on that machine.

use crate::modelled::{MachineCopy, bdf, fabric, names};
use fabric::acs::AcsPolicy;
use fabric::apply::fix;
use fabric::plan::plan;
use fabric::rebar::RebarChoice;
use fabric::rebar::{self, Sysfs};
use fabric::restore::restore;
use fabric::text;
use machine::pcie::topo::{NvLinks, Topology};
use outcome::finding::FindingEntry;
use outcome::platform::Host;
use std::fs;

#[track_caller]
fn fits(name: &str, text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{name}: {line}");
    }
}

#[test]
fn every_machine_is_shown_and_planned_in_80_columns() {
    for name in names() {
        let mut fabric = fabric(name);
        fabric.root = format!("machines/{name}");
        fits(name, &text::show(&fabric.shown(&Host::default())));
        let bars = rebar::plan::plan(&fabric, RebarChoice::Fix, &[]);
        let acs = plan(&fabric, AcsPolicy::All);
        let found = [&acs.findings[..], &bars.findings].concat();
        fits(
            name,
            &text::plan(
                &fabric,
                &acs,
                &bars,
                &FindingEntry::all(&found, &Host::default()),
            ),
        );
    }
}

#[test]
fn fix_says_what_was_written_and_what_it_reads() {
    let copy = MachineCopy::of("switch-acs");
    let fabric = copy.fabric();
    let plan = plan(&fabric, AcsPolicy::Path);
    let journal = copy.at("run/firstlight/fabric.json");
    let bars = rebar::plan::plan(&fabric, RebarChoice::Fix, &[]);
    let bars = rebar::fix(&copy.root(), &Sysfs(&copy.root()), &bars, &journal).unwrap();
    let applied = fix(&copy.root(), &plan, &journal).unwrap();
    let shown = text::fixed(
        "COPY",
        &plan,
        &applied,
        &bars,
        &FindingEntry::all(&applied.findings, &Host::default()),
    );
    fits("switch-acs", &shown);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "fabric fix   the machine in COPY");
    assert_eq!(
        lines.last(),
        Some(&"ACS path: 4 of 4 cleared; BAR1 3 of 3 full size")
    );
    assert_eq!(lines[1], "BAR1: 3 of 3 GPUs have their largest size");
    assert_eq!(
        lines[2],
        "  0000:02:08.0 ACS control 0x001d -> 0x0000  reads 0x0000"
    );

    let restored = text::restored("COPY", &restore(&copy.root(), &journal).unwrap());
    let lines: Vec<&str> = restored.lines().collect();
    assert_eq!(
        lines[1],
        "4 of 4 registers have their values from before the pass"
    );
    assert_eq!(lines[2], "  0000:02:11.0 ACS control 0x0000 -> 0x001d");
}

#[test]
fn the_same_advice_is_given_once() {
    let text = text::show(&fabric("epyc-8x4090-before").shown(&Host::default()));
    assert_eq!(text.matches("ACS-REDIRECT: ").count(), 8);
    assert_eq!(text.matches("remedy: ").count(), 1);
}

/// The output for eight RTX 4090 and four NICs, with its tabs expanded to eight columns.
const GOLDEN: &str = include_str!("golden/topo-epyc-8x4090.txt");

fn expanded(text: &str) -> String {
    let line = |line: &str| {
        line.chars().fold(String::new(), |mut done, c| {
            match c {
                '\t' => done.push_str(&" ".repeat(8 - done.chars().count() % 8)),
                c => done.push(c),
            }
            done
        })
    };
    text.lines().map(|l| line(l) + "\n").collect()
}

fn matrix(fabric: &machine::pcie::model::Fabric) -> String {
    Topology::from(fabric, &NvLinks::new()).text()
}

#[test]
fn the_matrix_of_eight_4090_is_the_one_that_was_published() {
    assert_eq!(expanded(&matrix(&fabric("epyc-8x4090"))), GOLDEN);
}

#[test]
fn acs_and_bar_sizes_do_not_change_the_matrix() {
    assert_eq!(expanded(&matrix(&fabric("epyc-8x4090-before"))), GOLDEN);
}

#[test]
fn another_numa_node_is_another_matrix() {
    let copy = MachineCopy::of("epyc-8x4090");
    fs::write(copy.file("0000:25:00.0", "numa_node"), "3\n").unwrap();
    let changed = expanded(&matrix(&copy.fabric()));
    assert_ne!(changed, GOLDEN);
    assert!(changed.contains("GPU0     X      NODE    SYS"), "{changed}");
}

#[test]
fn columns_are_separated_by_tabs_as_nvidia_smi_does() {
    let text = matrix(&fabric("narrow-link"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    );
    assert_eq!(lines[1], "GPU0\t X \tPHB\t0-15\tN/A\t\tN/A");
    assert_eq!(lines[2], "GPU1\tPHB\t X \t0-15\tN/A\t\tN/A");
    assert!(
        !text.contains("NIC Legend"),
        "a NIC without RDMA is none to nvidia-smi"
    );
}

#[test]
fn switches_are_told_apart() {
    let text = matrix(&fabric("switch-acs"));
    let rows: Vec<&str> = text.lines().skip(1).take(4).collect();
    assert_eq!(rows[0], "GPU0\t X \tPIX\tPXB\tPIX\t0-31\t0\t\tN/A");
    assert_eq!(rows[2], "GPU2\tPXB\tPXB\t X \tPXB\t0-31\t0\t\tN/A");
    assert_eq!(rows[3], "NIC0\tPIX\tPIX\tPXB\t X ");
}

#[test]
fn nvlinks_win_over_pcie() {
    let links = NvLinks::from([((bdf("0000:01:00.0"), bdf("0000:02:00.0")), 18)]);
    let text = Topology::from(&fabric("narrow-link"), &links).text();
    assert!(
        text.contains("GPU0\t X \tNV18\t") && text.contains("GPU1\tNV18\t X \t"),
        "{text}"
    );
}

#[test]
fn the_json_holds_the_same_letters() {
    let topology = Topology::from(&fabric("epyc-8x4090"), &NvLinks::new());
    let json = serde_json::to_value(&topology).unwrap();
    assert_eq!(json["schema"], "firstlight.topo/1");
    assert_eq!(json["matrix"][6][8], "PHB");
    assert_eq!(json["matrix"][8][9], "PIX");
    assert_eq!(json["gpus"][6]["bdf"], "0000:c1:00.0");
    assert_eq!(json["gpus"][6]["cpu_affinity"], "40-47,104-111");
    assert_eq!(json["nics"][3]["device"], "mlx5_3");
}

/// Linux shows only the first 64 bytes to users other than root: then the tree shows which bridge is which kind of
/// port.
#[test]
fn without_root_the_letters_are_the_same() {
    for name in ["switch-acs", "epyc-8x4090", "rebar-small", "second-domain"] {
        let copy = MachineCopy::of(name);
        let whole = matrix(&copy.fabric());
        for device in copy.fabric().devices {
            let config = copy.file(&device.bdf.to_string(), "config");
            let bytes = fs::read(&config).unwrap();
            fs::write(config, &bytes[..64]).unwrap();
        }
        let fabric = copy.fabric();
        assert_eq!(matrix(&fabric), whole, "{name}");
        assert!(fabric.findings.iter().any(|f| {
            f.message
                .to_string()
                .ends_with("only 64 bytes are readable, root can read 256 or 4096")
        }));
    }
}
