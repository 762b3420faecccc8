//! Boots a driver's modules in QEMU with GPUs that respond like real boards, as far as the name of their chip.
//!
//!     bind-driver MODULES DRIVER.TOML VERSION
//!
//! Exits with 1 if a module does not load, a parameter is not in force, or a GPU whose family is in the description was not
//! bound; with 2 if nothing could be tried.

use harness::driver_image::PATH;
use harness::fakepci::{REGISTERS_WORD, Topology};
use harness::{Boot, DriverImage};
use serde_json::Value;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

/// PCI device ids (g_nv_name_released.h of NVIDIA's open modules), and the BAR1 sizes that they offer, as a mask (bit n is
/// 2^n MiB).
const BOARDS: [(&str, &str, &str); 4] = [
    ("GeForce RTX 4090", "2684", "0xffc0"),
    ("GeForce RTX 3090", "2204", "0xffc0"),
    ("GeForce RTX 5090", "2b85", "0xffc0"),
    ("RTX PRO 6000 Blackwell", "2bb1", "0x3ffc0"),
];

fn main() -> ExitCode {
    let words: Vec<_> = env::args().skip(1).collect();
    let [modules, description, version] = &words[..] else {
        eprintln!("usage: bind-driver MODULES DRIVER.TOML VERSION");
        return ExitCode::from(64);
    };
    match bind(Path::new(modules), Path::new(description), version) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("bind-driver: {why}");
            ExitCode::from(2)
        }
    }
}

/// The shipped driver image with other modules, and empty files of their version next to them.
fn image(modules: &Path, description: &Path, version: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let image = DriverImage::skeleton()?;
    let shipped = fs::read_to_string(image.path("driver.toml"))?;
    let shipped = shipped
        .lines()
        .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let shipped = shipped
        .ok_or("the image's driver.toml has no version")?
        .to_owned();
    if shipped != version {
        for library in fs::read_dir(image.path("lib"))? {
            let name = library?.file_name().to_string_lossy().into_owned();
            if let Some(stem) = name.strip_suffix(&shipped) {
                image.rename(&format!("lib/{name}"), &format!("lib/{stem}{version}"))?;
            }
        }
        image.rename(
            &format!("firmware/nvidia/{shipped}"),
            &format!("firmware/nvidia/{version}"),
        )?;
    }
    for module in ["nvidia.ko", "nvidia-uvm.ko"] {
        fs::copy(modules.join(module), image.path("modules").join(module))?;
    }
    fs::copy(description, image.path("driver.toml"))?;
    Ok(image.pack()?)
}

fn bind(modules: &Path, description: &Path, version: &str) -> Result<bool, Box<dyn Error>> {
    let mut topology = Topology::new();
    for (dev, (_, id, sizes)) in (1..).zip(BOARDS) {
        let root = topology.root_port(dev, "");
        topology.gpu(root, &format!("id=0x{id}10de sizes={sizes}"));
    }
    topology.interrupts();
    topology.registers();
    let packed = image(modules, description, version)?;
    eprintln!(
        "bind-driver: booting the modules of {version} in QEMU, with {} GPUs",
        BOARDS.len()
    );
    let boot = Boot::shipped()
        .driver()
        .memory(2048)
        .workload("true")
        .on_any_verdict()
        .append(REGISTERS_WORD);
    let booted = boot
        .fakepci(&topology)?
        .overlay(|o| o.file(PATH, packed))
        .run()?;
    let account = booted.json("firstlight/driver.json");
    let all = |key: &str| account[key].as_array().cloned().unwrap_or_default();
    let mut good = true;
    for module in all("modules")
        .iter()
        .filter(|m| m["name"].as_str().is_some_and(|n| n.starts_with("nvidia")))
    {
        println!("{}: {}", text(&module["name"]), text(&module["outcome"]));
        good &= module["outcome"] == "loaded";
    }
    println!(
        "families: {}",
        all("families")
            .iter()
            .map(text)
            .collect::<Vec<_>>()
            .join(" ")
    );
    for parameter in all("parameters") {
        println!(
            "{}: wanted {}, found {}",
            text(&parameter["name"]),
            parameter["wanted"],
            parameter["found"]
        );
        good &= parameter["wanted"] == parameter["found"];
    }
    let described = fs::read_to_string(description)?;
    for (dev, (name, id, _)) in (1..).zip(BOARDS) {
        let address = format!("0001:{dev:02x}:00.0");
        let findings = all("findings");
        let found: Vec<_> = findings
            .iter()
            .filter(|f| f["subject"] == *address)
            .collect();
        let refused = found.iter().any(|f| f["code"] == "DRIVER-FAILED");
        let messages: Vec<_> = found
            .iter()
            .map(|f| format!("{}: {}", text(&f["code"]), text(&f["message"])))
            .collect();
        println!("{name} (10de:{id}) at {address}: {}", messages.join("; "));
        good &= !found.is_empty() && (!refused || !has_family(&described, id));
    }
    if !good {
        eprintln!("{booted}");
    }
    Ok(good)
}

/// Whether one of the description's ranges contains a device id.
fn has_family(description: &str, id: &str) -> bool {
    let lists = description
        .lines()
        .filter_map(|line| line.strip_prefix("devices = "));
    lists.flat_map(|list| list.split('"')).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.len() == 4 && first <= id && id <= last
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
