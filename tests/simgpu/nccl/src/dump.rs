//! The topology and the graphs as NCCL writes them: as XML files if the environment names them, and as log lines.

use crate::comm::Comm;
use crate::driver::Driver;
use crate::environment::environment;
use crate::transport::distance;
use std::fmt::Write;
use std::fs;

/// Writes the files that the environment names; as in NCCL, a file that cannot be written causes only a warning.
pub(crate) fn write(driver: &Driver, comm: &Comm, direct: bool) {
    let files = [
        (&environment().topology, topology(driver, comm)),
        (&environment().graph, graphs(driver, comm, direct)),
    ];
    for (path, text) in files {
        if let Some(Err(e)) = path.as_ref().map(|path| fs::write(path, &text)) {
            let text = format!(
                "Unable to open {}, not dumping topology: {e}",
                path.as_deref().unwrap_or_default()
            );
            crate::log::warn(comm.own().ordinal, "graph/xml.cc:300", &text);
        }
    }
}

/// The speed of a lane of each generation as the kernel writes it, and the rate that NCCL assumes for it in GB/s.
fn speed(generation: u32) -> (&'static str, f64) {
    match generation {
        1 => ("2.5 GT/s PCIe", 0.1875),
        2 => ("5.0 GT/s PCIe", 0.375),
        3 => ("8.0 GT/s PCIe", 0.75),
        4 => ("16.0 GT/s PCIe", 1.5),
        _ => ("32.0 GT/s PCIe", 3.0),
    }
}

/// The rate that NCCL assumes for one NVLink, in GB/s.
fn nvlink(driver: &Driver) -> f64 {
    if driver
        .scenario
        .machine
        .capability
        .first()
        .is_some_and(|c| *c >= 9)
    {
        20.6
    } else {
        20.0
    }
}

fn topology(driver: &Driver, comm: &Comm) -> String {
    let machine = &driver.scenario.machine;
    let node = |gpu: usize| machine.numa.get(gpu).copied().unwrap_or(-1);
    let mut nodes: Vec<_> = comm.ranks.iter().map(|r| node(r.gpu)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut out = String::from("<system version=\"1\">\n");
    for numa in nodes {
        let _ = writeln!(
            out,
            "  <cpu host_hash=\"0x51d9b5a7c0de0001\" numaid=\"{numa}\" affinity=\"00000000,ffffffff\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"143\" modelid=\"49\">"
        );
        for (rank, r) in comm
            .ranks
            .iter()
            .enumerate()
            .filter(|(_, r)| node(r.gpu) == numa)
        {
            write_gpu(&mut out, driver, rank, r.gpu, r.ordinal);
        }
        out.push_str("  </cpu>\n");
    }
    out.push_str("</system>\n");
    out
}

fn write_gpu(out: &mut String, driver: &Driver, rank: usize, gpu: usize, ordinal: usize) {
    let machine = &driver.scenario.machine;
    let [id, subsystem] = machine.pci_ids;
    let (vendor, device) = (id & 0xffff, id >> 16);
    let (sub_vendor, sub_device) = (subsystem & 0xffff, subsystem >> 16);
    let bdf = machine.bdf.get(gpu).cloned().unwrap_or_default();
    let (rate, width) = (speed(machine.pcie.r#gen).0, machine.pcie.width);
    let class = if machine.nvlink.is_some() {
        "0x030200"
    } else {
        "0x030000"
    };
    let [major, minor] = machine.capability;
    let _ = writeln!(
        out,
        "    <pci busid=\"{bdf}\" class=\"{class}\" vendor=\"0x{vendor:04x}\" device=\"0x{device:04x}\" subsystem_vendor=\"0x{sub_vendor:04x}\" subsystem_device=\"0x{sub_device:04x}\" link_speed=\"{rate}\" link_width=\"{width}\">"
    );
    let open =
        format!("      <gpu dev=\"{ordinal}\" sm=\"{major}{minor}\" rank=\"{rank}\" gdr=\"0\"");
    match machine.nvlink {
        Some(link) => {
            let _ = writeln!(
                out,
                "{open}>\n        <nvlink target=\"fffffff:ffff:ff\" count=\"{}\" tclass=\"0x068000\"/>\n      </gpu>",
                link.links
            );
        }
        None => {
            let _ = writeln!(out, "{open}/>");
        }
    }
    out.push_str("    </pci>\n");
}

/// Rate of a channel in GB/s, and the level of its farthest connection.
fn rate_and_path_type(driver: &Driver, comm: &Comm, direct: bool) -> (f64, &'static str) {
    let machine = &driver.scenario.machine;
    let all = match machine.nvlink {
        Some(link) if direct => nvlink(driver) * f64::from(link.links),
        _ => speed(machine.pcie.r#gen).1 * f64::from(machine.pcie.width),
    };
    let pairs = comm
        .ranks
        .iter()
        .flat_map(|a| comm.ranks.iter().map(move |b| (a.gpu, b.gpu)));
    let far = pairs
        .filter(|(a, b)| a != b)
        .filter_map(|(a, b)| distance(&driver.scenario, a, b))
        .max();
    let way = match far {
        Some(level) if direct => level.name(),
        _ => "SYS",
    };
    (all / f64::from(comm.channels.max(1)), way)
}

fn graphs(driver: &Driver, comm: &Comm, direct: bool) -> String {
    let (rate, way) = rate_and_path_type(driver, comm, direct);
    let channels = comm.channels;
    let mut out = String::from("<graphs version=\"1\">\n");
    for (id, pattern) in [(0, 4), (1, 3)] {
        let _ = writeln!(
            out,
            "  <graph id=\"{id}\" pattern=\"{pattern}\" crossnic=\"0\" nchannels=\"{channels}\" speedintra=\"{rate}\" speedinter=\"{rate}\" latencyinter=\"0\" typeintra=\"{way}\" typeinter=\"PIX\" samechannels=\"1\">"
        );
        for _ in 0..channels {
            out.push_str("    <channel>\n");
            for rank in &comm.ranks {
                let _ = writeln!(out, "      <gpu dev=\"{}\"/>", rank.ordinal);
            }
            out.push_str("    </channel>\n");
        }
        out.push_str("  </graph>\n");
    }
    for (id, pattern) in [(2, 1), (3, 5)] {
        let _ = writeln!(
            out,
            "  <graph id=\"{id}\" pattern=\"{pattern}\" crossnic=\"0\" nchannels=\"0\" speedintra=\"0\" speedinter=\"0\" latencyinter=\"0\" typeintra=\"{way}\" typeinter=\"PIX\" samechannels=\"1\"/>"
        );
    }
    out.push_str("</graphs>\n");
    out
}

/// The line about the whole machine.
pub(crate) fn system(driver: &Driver) -> String {
    let machine = &driver.scenario.machine;
    let pci = speed(machine.pcie.r#gen).1 * f64::from(machine.pcie.width);
    let most = machine
        .nvlink
        .map_or(pci, |link| nvlink(driver) * f64::from(link.links));
    format!("=== System : maxBw {most:.1} totalBw {most:.1} ===")
}

/// The lines about the rings.
pub(crate) fn pattern(driver: &Driver, comm: &Comm, direct: bool) -> Vec<String> {
    let (rate, way) = rate_and_path_type(driver, comm, direct);
    let channels = comm.channels;
    let ring: Vec<_> = comm
        .ranks
        .iter()
        .map(|r| format!("GPU/0-{:x}", crate::comm::bus_id(driver, r.gpu)))
        .collect();
    let first = format!(
        "Pattern 4, crossNic 0, nChannels {channels}, bw {rate:.6}/{rate:.6}, type {way}/PIX, sameChannels 1"
    );
    let one = |c| format!("{c:2} : {}", ring.join(" "));
    [
        "==========================================".to_owned(),
        first,
    ]
    .into_iter()
    .chain((0..channels).map(one))
    .collect()
}
