//! Checks that `lspci`, an independent program, reads every modelled machine as we do, except where lspci itself is
//! wrong: it does not know the 32-bit ACS registers of Intel's chipset ports.

use crate::modelled::{MachineCopy, fabric, names};
use machine::pcie::model::{Device, Fabric, Kind};
use std::collections::BTreeMap;
use std::process::Command;

/// lspci's words for the ACS control bits, from bit 0 up.
const ACS_WORDS: [(&str, &str); 7] = [
    ("SrcValid", "SV"),
    ("TransBlk", "TB"),
    ("ReqRedir", "RR"),
    ("CmpltRedir", "CR"),
    ("UpstreamFwd", "UF"),
    ("EgressCtrl", "EC"),
    ("DirectTrans", "DT"),
];

/// lspci's block for each function.
fn blocks(name: &str) -> BTreeMap<String, String> {
    let copy = MachineCopy::of(name);
    let option = format!("sysfs.path={}", copy.at("sys/bus/pci").display());
    let output = Command::new("lspci")
        .args(["-O", &option, "-Dnvvv"])
        .output()
        .expect("pciutils is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let blocks = text.split("\n\n").filter(|b| !b.trim().is_empty());
    blocks
        .map(|b| (b.split(' ').next().unwrap().to_owned(), b.to_owned()))
        .collect()
}

fn line<'a>(block: &'a str, start: &str) -> Option<&'a str> {
    block
        .lines()
        .map(str::trim)
        .find_map(|l| l.strip_prefix(start))
        .map(str::trim)
}

/// Everything that lspci prints about a function and the model contains, in lspci's words.
fn ours(device: &Device) -> Vec<String> {
    let hex = |id: &str| id.trim_start_matches("0x").to_owned();
    let mut words = vec![format!(
        "ids {}:{}",
        hex(&device.vendor),
        hex(&device.device)
    )];
    if let Some(acs) = &device.acs {
        words.push(format!("acs {}", acs.enabled.join(" ")));
    }
    if let Some(link) = device.link.as_ref().filter(|_| !device.config.gone) {
        words.push(format!(
            "link {}GT/s x{}",
            if link.width == 0 { 2.5 } else { link.gts },
            link.width
        ));
    }
    words.extend(device.slot.map(|slot| format!("slot {slot}")));
    for bar in &device.rebar {
        let sizes: Vec<String> = bar.supported_bytes.iter().map(|b| size(*b)).collect();
        words.push(format!(
            "rebar {} {} of {}",
            bar.bar,
            size(bar.current_bytes),
            sizes.join(" ")
        ));
    }
    words.extend(device.driver.as_ref().map(|d| format!("driver {d}")));
    words.sort();
    words
}

fn theirs(block: &str) -> Vec<String> {
    let ids = block.split_whitespace().nth(2).unwrap();
    let mut words = vec![format!("ids {ids}")];
    if let Some(control) = line(block, "ACSCtl:") {
        let on = ACS_WORDS
            .iter()
            .filter(|(word, _)| control.contains(&format!("{word}+")))
            .map(|w| w.1);
        words.push(format!("acs {}", on.collect::<Vec<_>>().join(" ")));
    }
    if let Some(status) = line(block, "LnkSta:") {
        let value = |key: &str| {
            status
                .split(key)
                .nth(1)
                .unwrap()
                .split([' ', ','])
                .next()
                .unwrap()
                .to_owned()
        };
        words.push(format!("link {} {}", value("Speed "), value("Width ")));
    }
    words.extend(
        line(block, "Slot #").map(|rest| format!("slot {}", rest.split(',').next().unwrap())),
    );
    for bar in block.lines().filter(|l| l.contains("current size: ")) {
        let (bar, rest) = bar
            .trim()
            .strip_prefix("BAR ")
            .unwrap()
            .split_once(": current size: ")
            .unwrap();
        let (current, supported) = rest.split_once(", supported: ").unwrap();
        words.push(format!("rebar {bar} {current} of {supported}"));
    }
    words.extend(line(block, "Kernel driver in use:").map(|d| format!("driver {d}")));
    words.sort();
    words
}

fn size(bytes: u64) -> String {
    if bytes >= 1 << 30 {
        format!("{}GB", bytes >> 30)
    } else {
        format!("{}MB", bytes >> 20)
    }
}

/// The functions on which we and lspci differ, with the output of each.
fn differences(name: &str, fabric: &Fabric) -> Vec<(String, Vec<String>, Vec<String>)> {
    let mut blocks = blocks(name);
    let mut differences = Vec::new();
    for device in &fabric.devices {
        let block = blocks
            .remove(&device.bdf.to_string())
            .expect("lspci lists it too");
        let (ours, theirs) = (ours(device), theirs(&block));
        if ours != theirs {
            differences.push((device.bdf.to_string(), ours, theirs));
        }
    }
    assert_eq!(blocks.len(), 0, "{name}: lspci lists more");
    differences
}

#[test]
fn lspci_reads_every_machine_as_we_do() {
    for name in names().into_iter().filter(|n| *n != "intel-pch") {
        assert_eq!(differences(name, &fabric(name)), [], "{name}");
    }
}

#[test]
fn lspci_is_wrong_only_about_the_intel_chipset_port() {
    let differences = differences("intel-pch", &fabric("intel-pch"));
    assert_eq!(differences.len(), 1);
    let (bdf, ours, theirs) = &differences[0];
    assert_eq!(bdf, "0000:00:1c.0");
    assert!(ours.contains(&"acs SV RR CR UF".to_owned()) && theirs.contains(&"acs ".to_owned()));
}

#[test]
fn a_bit_more_would_be_noticed() {
    let mut fabric = fabric("switch-acs");
    let port = fabric
        .devices
        .iter_mut()
        .find(|d| d.kind == Kind::Downstream)
        .unwrap();
    port.acs.as_mut().unwrap().enabled.push("EC".into());
    assert_eq!(differences("switch-acs", &fabric).len(), 1);
}
