//! Checks that each modelled machine is read correctly.

use super::*;
use machine::host::iommu::IommuMode;
use machine::pcie::model::PathKind;
use machine::root::Root;
use outcome::finding::Severity::Fail;

#[track_caller]
fn found(name: &str, expected: &[Named]) -> Fabric {
    let fabric = fabric(name);
    assert_eq!(findings(&fabric), expected, "{name}");
    fabric
}

#[test]
fn healthy_machines_have_no_finding() {
    for name in ["epyc-8x4090", "second-domain", "lost-cpus", "nouveau"] {
        found(name, &[]);
    }
}

#[test]
fn the_server_is_read_whole() {
    let fabric = fabric("epyc-8x4090");
    assert_eq!(
        (fabric.gpus.len(), fabric.nics.len(), fabric.rdma.len()),
        (8, 4, 4)
    );
    assert_eq!(fabric.paths.len(), 28 + 32);
    assert!(
        fabric
            .paths
            .iter()
            .all(|p| (p.raw_gb_s - 31.508).abs() < 0.001)
    );
    assert_eq!(
        fabric
            .paths
            .iter()
            .filter(|p| p.kind == PathKind::Phb)
            .count(),
        4
    );
    let gpu = fabric
        .devices
        .iter()
        .find(|d| d.bdf == bdf("0000:c1:00.0"))
        .unwrap();
    assert_eq!(
        (gpu.numa, gpu.driver.as_deref(), gpu.boot_vga),
        (Some(5), Some("nvidia"), false)
    );
    assert_eq!(
        gpu.bars
            .iter()
            .map(|b| (b.index, b.bytes))
            .collect::<Vec<_>>(),
        [(0, 16 << 20), (1, 32 << 30)]
    );
    assert_eq!(
        gpu.rebar.iter().map(|r| (r.bar, r.current_bytes)).nth(1),
        Some((1, 32 << 30))
    );
    assert_eq!(fabric.iommu.mode, IommuMode::Off);
    assert_eq!(fabric.iommu.firmware_tables, ["IVRS"]);
    assert_eq!(fabric.cpus.online, 128);
}

#[test]
fn before_the_pass_every_port_on_gpu_paths_redirects() {
    let fabric = fabric("epyc-8x4090-before");
    let redirects = fabric
        .findings
        .iter()
        .filter(|f| f.is(Code::AcsRedirect) && f.severity == Fail);
    assert_eq!(
        redirects.count(),
        8,
        "eight GPU ports; the cards exchange nothing with a GeForce"
    );
    let first = &fabric.findings[0];
    assert_eq!(
        (&first.measured, &first.expected),
        (&0x1d.into(), &0.into())
    );
    assert_eq!(
        first.message.to_string(),
        "0000:00:01.1 redirects peer traffic: ACS control is 0x001d (SV RR CR UF), expected 0x0000"
    );
}

#[test]
fn only_ports_that_are_crossed_redirect() {
    let on = |b| named("ACS-REDIRECT", Fail, b);
    // 0000:07:08.0, inside the inner switch, is only passed through.
    let ports = [
        "0000:02:08.0",
        "0000:02:09.0",
        "0000:02:10.0",
        "0000:02:11.0",
    ];
    found("switch-acs", &ports.map(on));
}

#[test]
fn an_intel_chipset_port_is_read_at_8() {
    let fabric = found(
        "intel-pch",
        &[
            named("ACS-QUIRK", Fail, "0000:00:1c.0"),
            named("LINK-NARROW", Info, "0000:02:00.0"),
        ],
    );
    let port = fabric
        .devices
        .iter()
        .find(|d| d.bdf == bdf("0000:00:1c.0"))
        .unwrap();
    assert_eq!(
        port.acs.as_ref().map(|a| (a.quirk, a.ctrl)),
        Some((true, 0x001d))
    );
    assert!(
        fabric.findings[1]
            .message
            .to_string()
            .ends_with("all 4 lanes that its port offers; the device itself has 16")
    );
}

#[test]
fn without_ecam_nothing_can_be_said_about_acs() {
    let no = |b| named("NO-ECAM", Fail, b);
    // The third port has the board's own network card.
    let ports = [
        named("NO-ECAM", Info, "0000:00:02.1"),
        no("0000:00:01.1"),
        no("0000:00:01.2"),
    ];
    found("no-ecam", &ports);
}

#[test]
fn a_dead_gpu_is_still_counted_and_its_paths_have_no_speed() {
    let fabric = found("dead-gpu", &[named("GPU-GONE", Fail, "0000:02:00.0")]);
    assert_eq!(fabric.gpus.len(), 2);
    let path = fabric
        .paths
        .iter()
        .find(|p| p.b == bdf("0000:02:00.0"))
        .unwrap();
    assert_eq!((path.kind, path.ports.len()), (PathKind::Phb, 2));
    assert!(path.raw_gb_s.abs() < f64::EPSILON);
}

#[test]
fn broken_chains_are_told_with_their_offsets() {
    let fabric = found(
        "malformed-chain",
        &[
            named("PCI-MALFORMED", Warn, "0000:00:01.2"),
            named("PCI-MALFORMED", Warn, "0000:01:00.0"),
            named("ACS-UNKNOWN", Error, "0000:00:01.2"),
        ],
    );
    assert_eq!(
        fabric.findings[1].message.to_string(),
        "0000:01:00.0: capability chain loops at 0x148: points back to 0x100"
    );
}

#[test]
fn a_translating_iommu_is_told_by_its_groups() {
    let fabric = fabric("iommu-translated");
    assert_eq!(
        (fabric.iommu.mode, fabric.iommu.groups),
        (IommuMode::Translated, 7)
    );
    assert_eq!(fabric.iommu.classes, ["ivhd0"]);
}

#[test]
fn lost_processors_are_counted() {
    let cpus = fabric("lost-cpus").cpus;
    assert_eq!((cpus.possible, cpus.present, cpus.online), (384, 384, 255));
}

#[test]
fn domains_beyond_16_bits_and_beyond_zero_are_read() {
    let fabric = fabric("second-domain");
    assert_eq!(fabric.gpus, [bdf("0000:01:00.0"), bdf("0001:01:00.0")]);
    assert_eq!(fabric.paths[0].kind, PathKind::Sys);
    let drive = fabric
        .devices
        .iter()
        .find(|d| d.bdf == bdf("10000:01:00.0"))
        .unwrap();
    assert_eq!(drive.parent, Some(bdf("10000:00:02.0")));
    assert_eq!(drive.root_bus.as_deref(), Some("pci10000:00"));
}

#[test]
fn a_narrow_link_is_warned_about_and_halves_the_path() {
    let fabric = found("narrow-link", &[named("LINK-NARROW", Warn, "0000:02:00.0")]);
    let narrow = &fabric.findings[0];
    assert_eq!(
        (&narrow.measured, &narrow.expected),
        (&8.into(), &16.into())
    );
    assert_eq!(narrow.unit.as_deref(), Some("lanes"));
    assert!((fabric.paths[0].raw_gb_s - 15.754).abs() < 0.001);
}

#[test]
fn a_card_faster_than_its_slot_is_no_finding() {
    let fabric = found("boot-display", &[]);
    assert!(
        fabric
            .devices
            .iter()
            .any(|d| d.boot_vga && d.bdf == bdf("0000:01:00.0"))
    );
}

#[test]
fn every_machine_survives_a_round_trip_through_json() {
    for name in names() {
        let fabric = fabric(name);
        let json = serde_json::to_string(&fabric).unwrap();
        assert_eq!(
            serde_json::from_str::<Fabric>(&json).unwrap(),
            fabric,
            "{name}"
        );
    }
}

// Files that are missing, unreadable or wrong must be reported, and never be taken for good ones.

#[test]
fn a_missing_list_of_devices_is_an_error_and_not_zero_gpus() {
    let copy = MachineCopy::of("narrow-link");
    fs::rename(
        copy.at("sys/bus/pci/devices"),
        copy.at("sys/bus/pci/elsewhere"),
    )
    .unwrap();
    let error = fabric::read(&copy.root()).unwrap_err();
    assert!(error.to_string().contains("sys/bus/pci/devices"), "{error}");
    assert!(fabric::read(&Root::new("/does/not/exist")).is_err());
}

#[test]
fn each_file_that_cannot_be_read_is_told_about() {
    for name in ["config", "resource", "vendor", "class"] {
        let copy = MachineCopy::of("narrow-link");
        let file = copy.file("0000:01:00.0", name);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let fabric = copy.fabric();
        let reported = fabric.findings.iter().any(|f| {
            let says = f
                .message
                .to_string()
                .contains(&format!("0000:01:00.0/{name}"));
            f.is(Code::PciUnreadable) && f.severity == Error && says
        });
        assert!(reported, "{name}: {:?}", findings(&fabric));
    }
}

#[test]
fn ids_that_sysfs_lost_come_from_the_registers_so_that_no_gpu_is_lost() {
    let copy = MachineCopy::of("narrow-link");
    fs::remove_file(copy.file("0000:01:00.0", "vendor")).unwrap();
    fs::write(copy.file("0000:01:00.0", "class"), "display\n").unwrap();
    assert_eq!(copy.fabric().gpus.len(), 2);
}

#[test]
fn a_port_whose_configuration_cannot_be_read_is_not_taken_for_clear() {
    let copy = MachineCopy::of("narrow-link");
    fs::remove_file(copy.file("0000:00:01.1", "config")).unwrap();
    let codes: Vec<_> = findings(&copy.fabric())
        .iter()
        .map(|f| f.0.to_owned())
        .collect();
    assert_eq!(codes, ["PCI-UNREADABLE", "ACS-UNKNOWN", "LINK-NARROW"]);
}

#[test]
fn a_port_that_is_not_listed_is_not_taken_for_clear() {
    let copy = MachineCopy::of("epyc-8x4090");
    fs::remove_file(copy.at("sys/bus/pci/devices/0000:00:01.1")).unwrap();
    let fabric = copy.fabric();
    assert_eq!(
        findings(&fabric),
        [
            named("PCI-UNREADABLE", Error, "0000:00:01.1"),
            named("ACS-UNKNOWN", Error, "0000:00:01.1")
        ]
    );
    let message = fabric.findings[0].message.to_string();
    assert_eq!(
        message,
        "0000:00:01.1 is above 0000:01:00.0 but is not in /sys/bus/pci/devices"
    );
}

/// Zeros, an extended space that does not respond, another function's registers.
#[test]
fn a_port_whose_registers_cannot_be_its_own_is_not_taken_for_clear() {
    let (port, gpu) = ("0000:00:01.1", "0000:01:00.0");
    let silent = |mut bytes: Vec<u8>| {
        bytes[0x100..].fill(0xff);
        bytes
    };
    let copy = MachineCopy::of("epyc-8x4090");
    let (own, other) = (
        fs::read(copy.file(port, "config")).unwrap(),
        fs::read(copy.file(gpu, "config")).unwrap(),
    );
    for bytes in [vec![0; 4096], silent(own), other] {
        fs::write(copy.file(port, "config"), bytes).unwrap();
        let codes: Vec<_> = findings(&copy.fabric())
            .iter()
            .map(|f| (f.0.to_owned(), f.1))
            .collect();
        assert_eq!(
            codes,
            [
                ("PCI-MALFORMED".to_owned(), Warn),
                ("ACS-UNKNOWN".to_owned(), Error)
            ]
        );
    }
}

#[test]
fn a_gpu_with_the_registers_of_another_card_is_an_error() {
    let copy = MachineCopy::of("epyc-8x4090");
    fs::copy(
        copy.file("0000:c4:00.0", "config"),
        copy.file("0000:01:00.0", "config"),
    )
    .unwrap();
    let fabric = copy.fabric();
    assert_eq!(
        findings(&fabric),
        [named("PCI-MALFORMED", Error, "0000:01:00.0")]
    );
    assert!(
        fabric.findings[0]
            .message
            .to_string()
            .ends_with("sysfs says 10de:2684"),
        "{}",
        fabric.findings[0].message
    );
}

#[test]
fn what_a_file_holds_is_quoted_short_and_without_control_characters() {
    let copy = MachineCopy::of("epyc-8x4090");
    fs::write(
        copy.file("0000:01:00.0", "numa_node"),
        format!("a\x1b[2Jevil\nline{}", "x".repeat(1 << 20)),
    )
    .unwrap();
    let finding = &copy.fabric().findings[0];
    let message = finding.message.to_string();
    assert!(
        message.contains("'a\\u{1b}[2Jevil\\nlinexxx") && message.len() < 250,
        "{message}"
    );
    assert!(finding.evidence.iter().all(|e| e.len() < 250));
}

#[test]
fn what_an_ordinary_user_sees_is_told_as_that() {
    let copy = MachineCopy::of("narrow-link");
    let config = copy.file("0000:00:01.1", "config");
    let header = fs::read(&config).unwrap()[..64].to_vec();
    fs::write(&config, header).unwrap();
    let fabric = copy.fabric();
    assert!(
        fabric.findings[0]
            .message
            .to_string()
            .ends_with("only 64 bytes are readable, root can read 256 or 4096")
    );
    assert_eq!(fabric.findings[1].code, Code::AcsUnknown);
}

#[test]
fn a_flattened_machine_has_no_tree_and_says_so() {
    let copy = MachineCopy::of("narrow-link");
    let link = copy.at("sys/bus/pci/devices/0000:01:00.0");
    let real = link.canonicalize().unwrap();
    fs::remove_file(&link).unwrap();
    fs::rename(real, &link).unwrap();
    let fabric = copy.fabric();
    assert!(
        fabric.findings[0]
            .message
            .to_string()
            .contains("no link into /sys/devices"),
        "{:?}",
        fabric.findings[0]
    );
}

#[test]
fn names_from_sysfs_hold_no_control_characters() {
    let copy = MachineCopy::of("epyc-8x4090");
    let evil = "a\u{1b}[2Jb\nc";
    fs::write(copy.file("0000:01:00.0", "local_cpulist"), evil).unwrap();
    let first = copy.fabric().gpus[0].to_string();
    fs::remove_file(copy.file(&first, "driver")).unwrap();
    symlink(format!("../drivers/{evil}"), copy.file(&first, "driver")).unwrap();
    fs::create_dir(copy.at("sys/class/infiniband").join(evil)).unwrap();
    symlink(
        "../../../0000:c4:00.0",
        copy.at("sys/class/infiniband").join(evil).join("device"),
    )
    .unwrap();
    fs::create_dir(copy.at("sys/bus/pci/devices").join(evil)).unwrap();
    let fabric = copy.fabric();
    let json = serde_json::to_string(&fabric).unwrap();
    assert!(!json.contains("\\u001b") && json.contains("[2Jb"), "{json}");
    let names = fabric.rdma.iter().map(|r| r.name.clone());
    let messages = fabric.findings.iter().map(|f| f.message.to_string());
    assert!(names.chain(messages).all(|n| !n.contains(char::is_control)));
}
