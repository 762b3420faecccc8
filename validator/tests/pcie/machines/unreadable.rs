//! Are files that are missing, unreadable or wrong reported, and never taken for good ones?

use super::*;
use firstlight::machine::root::Root;

#[test]
fn a_missing_list_of_devices_is_an_error_and_not_zero_gpus() {
    let copy = Copy::of("narrow-link");
    fs::rename(copy.at("sys/bus/pci/devices"), copy.at("sys/bus/pci/elsewhere")).unwrap();
    let error = Fabric::read(&copy.root()).unwrap_err();
    assert!(error.to_string().contains("sys/bus/pci/devices"), "{error}");
    assert!(Fabric::read(&Root::new("/does/not/exist")).is_err());
}

#[test]
fn each_file_that_cannot_be_read_is_told_about() {
    for name in ["config", "resource", "vendor", "class"] {
        let copy = Copy::of("narrow-link");
        let file = copy.file("0000:01:00.0", name);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let fabric = copy.fabric();
        let told = fabric.findings.iter().any(|f| {
            f.code == "PCI-UNREADABLE"
                && f.severity == Error
                && f.message.contains(&format!("0000:01:00.0/{name}"))
        });
        assert!(told, "{name}: {:?}", findings(&fabric));
    }
}

#[test]
fn ids_that_sysfs_lost_come_from_the_registers_so_that_no_gpu_is_lost() {
    let copy = Copy::of("narrow-link");
    fs::remove_file(copy.file("0000:01:00.0", "vendor")).unwrap();
    fs::write(copy.file("0000:01:00.0", "class"), "display\n").unwrap();
    assert_eq!(copy.fabric().gpus.len(), 2);
}

#[test]
fn a_port_whose_configuration_cannot_be_read_is_not_taken_for_clear() {
    let copy = Copy::of("narrow-link");
    fs::remove_file(copy.file("0000:00:01.1", "config")).unwrap();
    let codes: Vec<_> = findings(&copy.fabric()).iter().map(|f| f.0.to_owned()).collect();
    assert_eq!(codes, ["PCI-UNREADABLE", "ACS-UNKNOWN", "LINK-NARROW"]);
}

#[test]
fn a_port_that_is_not_listed_is_not_taken_for_clear() {
    let copy = Copy::of("epyc-8x4090");
    fs::remove_file(copy.at("sys/bus/pci/devices/0000:00:01.1")).unwrap();
    let fabric = copy.fabric();
    assert_eq!(
        findings(&fabric),
        [("PCI-UNREADABLE", Error, "0000:00:01.1"), ("ACS-UNKNOWN", Error, "0000:00:01.1")]
    );
    let said = &fabric.findings[0].message;
    assert_eq!(said, "0000:00:01.1 is above 0000:01:00.0 but is not in /sys/bus/pci/devices");
}

/// Zeros, an extended space that does not answer, another function's registers.
#[test]
fn a_port_whose_registers_cannot_be_its_own_is_not_taken_for_clear() {
    let (port, gpu) = ("0000:00:01.1", "0000:01:00.0");
    let silent = |mut bytes: Vec<u8>| {
        bytes[0x100..].fill(0xff);
        bytes
    };
    let copy = Copy::of("epyc-8x4090");
    let (own, other) =
        (fs::read(copy.file(port, "config")).unwrap(), fs::read(copy.file(gpu, "config")).unwrap());
    for bytes in [vec![0; 4096], silent(own), other] {
        fs::write(copy.file(port, "config"), bytes).unwrap();
        let codes: Vec<_> = findings(&copy.fabric()).iter().map(|f| (f.0.to_owned(), f.1)).collect();
        assert_eq!(codes, [("PCI-MALFORMED".to_owned(), Warn), ("ACS-UNKNOWN".to_owned(), Error)]);
    }
}

#[test]
fn a_gpu_with_the_registers_of_another_card_is_an_error() {
    let copy = Copy::of("epyc-8x4090");
    fs::copy(copy.file("0000:c4:00.0", "config"), copy.file("0000:01:00.0", "config")).unwrap();
    let fabric = copy.fabric();
    assert_eq!(findings(&fabric), [("PCI-MALFORMED", Error, "0000:01:00.0")]);
    assert!(fabric.findings[0].message.ends_with("sysfs says 10de:2684"), "{}", fabric.findings[0].message);
}

#[test]
fn what_a_file_holds_is_quoted_short_and_without_control_characters() {
    let copy = Copy::of("epyc-8x4090");
    fs::write(copy.file("0000:01:00.0", "numa_node"), format!("a\x1b[2Jevil\nline{}", "x".repeat(1 << 20)))
        .unwrap();
    let said = &copy.fabric().findings[0];
    assert!(
        said.message.contains("'a\\u{1b}[2Jevil\\nlinexxx") && said.message.len() < 250,
        "{}",
        said.message
    );
    assert!(said.evidence.iter().all(|e| e.len() < 250));
}

#[test]
fn what_an_ordinary_user_sees_is_told_as_that() {
    let copy = Copy::of("narrow-link");
    let config = copy.file("0000:00:01.1", "config");
    let header = fs::read(&config).unwrap()[..64].to_vec();
    fs::write(&config, header).unwrap();
    let fabric = copy.fabric();
    assert!(fabric.findings[0].message.ends_with("only 64 bytes are readable, root can read 256 or 4096"));
    assert_eq!(fabric.findings[1].code, "ACS-UNKNOWN");
}

#[test]
fn a_flattened_machine_has_no_tree_and_says_so() {
    let copy = Copy::of("narrow-link");
    let link = copy.at("sys/bus/pci/devices/0000:01:00.0");
    let real = link.canonicalize().unwrap();
    fs::remove_file(&link).unwrap();
    fs::rename(real, &link).unwrap();
    let fabric = copy.fabric();
    assert!(fabric.findings[0].message.contains("no link into /sys/devices"), "{:?}", fabric.findings[0]);
}

#[test]
fn names_from_sysfs_hold_no_control_characters() {
    let copy = Copy::of("epyc-8x4090");
    let evil = "a\u{1b}[2Jb\nc";
    fs::write(copy.file("0000:01:00.0", "local_cpulist"), evil).unwrap();
    let first = copy.fabric().gpus[0].to_string();
    fs::remove_file(copy.file(&first, "driver")).unwrap();
    symlink(format!("../drivers/{evil}"), copy.file(&first, "driver")).unwrap();
    fs::create_dir(copy.at("sys/class/infiniband").join(evil)).unwrap();
    symlink("../../../0000:c4:00.0", copy.at("sys/class/infiniband").join(evil).join("device")).unwrap();
    fs::create_dir(copy.at("sys/bus/pci/devices").join(evil)).unwrap();
    let fabric = copy.fabric();
    let json = serde_json::to_string(&fabric).unwrap();
    assert!(!json.contains("\\u001b") && json.contains("[2Jb"), "{json}");
    let names = fabric.rdma.iter().map(|r| r.name.as_str());
    assert!(
        names
            .chain(fabric.findings.iter().map(|f| f.message.as_str()))
            .all(|n| !n.contains(char::is_control))
    );
}
