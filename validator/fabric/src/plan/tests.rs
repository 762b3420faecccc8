use super::*;
use machine::pcie::model::{Kind, Undetermined};
use machine::pcie::sample::{device, fabric, gpu, two_gpus, with_acs};

#[track_caller]
fn planned(devices: Vec<Device>, policy: AcsPolicy) -> (Vec<String>, Vec<(Code, Severity)>) {
    data(plan(&fabric(devices), policy))
}

fn data(plan: Plan) -> (Vec<String>, Vec<(Code, Severity)>) {
    let actions = plan.actions.iter().map(ToString::to_string).collect();
    (
        actions,
        plan.findings
            .into_iter()
            .map(|f| (f.code, f.severity))
            .collect(),
    )
}

#[test]
fn ports_on_gpu_paths_are_cleared_and_others_left() {
    let mut devices = two_gpus();
    devices.push(with_acs(
        device("0000:00:03.0", Kind::RootPort, None),
        0x001d,
    ));
    let clear = "0000:00:01.0 ACS control 0x001d -> 0x0000".to_owned();
    assert_eq!(
        planned(devices.clone(), AcsPolicy::Path),
        (vec![clear.clone()], vec![])
    );
    let other = "0000:00:03.0 ACS control 0x001d -> 0x0000".to_owned();
    assert_eq!(
        planned(devices.clone(), AcsPolicy::All),
        (vec![clear, other], vec![])
    );
    assert_eq!(planned(devices, AcsPolicy::Off), (vec![], vec![]));
}

#[test]
fn the_register_is_six_bytes_into_the_capability() {
    let plan = plan(&fabric(two_gpus()), AcsPolicy::Path);
    assert_eq!((plan.actions[0].offset, plan.covered), (0x148 + 6, 2));
}

/// Source validation, translation blocking and upstream forwarding have no effect on peers; with redirection they are cleared too.
#[test]
fn a_port_whose_bits_only_check_is_not_written() {
    for (ctrl, written) in [(0x0001, 0), (0x0011, 0), (0x0013, 0), (0x0005, 1)] {
        let mut devices = two_gpus();
        devices[0] = with_acs(devices[0].clone(), ctrl);
        for policy in [AcsPolicy::Path, AcsPolicy::All] {
            let plan = plan(&fabric(devices.clone()), policy);
            assert_eq!(
                (plan.actions.len(), plan.covered),
                (written, 2),
                "{ctrl:#x}"
            );
            assert!(plan.actions.iter().all(|action| action.after == 0));
            assert_eq!(plan.findings, []);
        }
    }
}

#[test]
fn one_gpu_alone_has_no_path_and_nothing_is_written() {
    let mut devices = two_gpus();
    devices.pop();
    assert_eq!(planned(devices, AcsPolicy::Path), (vec![], vec![]));
}

#[test]
fn an_intel_chipset_port_is_refused() {
    let mut devices = two_gpus();
    devices[0].acs.as_mut().unwrap().quirk = true;
    assert_eq!(
        planned(devices.clone(), AcsPolicy::Path),
        (vec![], vec![(Code::AcsQuirk, Severity::Fail)])
    );
    devices[0] = with_acs(devices[0].clone(), 0x0001);
    devices[0].acs.as_mut().unwrap().quirk = true;
    assert_eq!(
        planned(devices, AcsPolicy::Path).1,
        [(Code::AcsQuirk, Severity::Info)]
    );
}

#[test]
fn a_port_without_ecam_fails_on_a_gpu_path_and_is_reported_elsewhere() {
    let mut devices = two_gpus();
    devices[0].acs = None;
    devices[0].config.bytes = 256;
    assert_eq!(
        planned(devices, AcsPolicy::Path),
        (vec![], vec![(Code::NoEcam, Severity::Fail)])
    );
    let mut devices = two_gpus();
    let mut port = device("0000:00:03.0", Kind::RootPort, None);
    port.config.bytes = 256;
    devices.push(port);
    assert_eq!(
        planned(devices, AcsPolicy::All).1,
        [(Code::NoEcam, Severity::Info)]
    );
}

#[test]
fn a_port_of_unknown_state_is_an_error() {
    let gone = |d: &mut Device| d.config.gone = true;
    let broken = |d: &mut Device| {
        d.acs = None;
        d.config.faults.push("capability chain loops".into());
        d.config.undetermined.push(Undetermined::Acs);
    };
    let unread = |d: &mut Device| {
        d.acs = None;
        d.config.bytes = 0;
    };
    let faults: [fn(&mut Device); 3] = [gone, broken, unread];
    for fault in faults {
        let mut devices = two_gpus();
        fault(&mut devices[0]);
        assert_eq!(
            planned(devices, AcsPolicy::Path),
            (vec![], vec![(Code::AcsUnknown, Severity::Error)])
        );
    }
}

#[test]
fn a_locked_down_kernel_is_reported_and_nothing_is_tried() {
    for mode in ["integrity", "confidentiality"] {
        let mut fabric = fabric(two_gpus());
        fabric.lockdown = Some(mode.into());
        assert_eq!(
            data(plan(&fabric, AcsPolicy::Path)),
            (vec![], vec![(Code::Lockdown, Severity::Fail)])
        );
    }
    let mut fabric = fabric(two_gpus());
    fabric.lockdown = Some("none".into());
    assert_eq!(data(plan(&fabric, AcsPolicy::Path)).0.len(), 1);
}

#[test]
fn lockdown_does_not_matter_when_there_is_nothing_to_write() {
    let mut devices = two_gpus();
    devices[0] = with_acs(devices[0].clone(), 0);
    let mut fabric = fabric(devices);
    fabric.lockdown = Some("integrity".into());
    assert_eq!(data(plan(&fabric, AcsPolicy::Path)), (vec![], vec![]));
}

/// Three GPUs, each below its own root port, with ACS on at all root ports.
fn three_gpus() -> Vec<Device> {
    let mut devices = two_gpus();
    devices.push(device("0000:00:03.0", Kind::RootPort, None));
    devices.push(gpu("0000:03:00.0", "0000:00:03.0"));
    for port in [0, 1, 4] {
        devices[port] = with_acs(devices[port].clone(), 0x001d);
    }
    devices
}

#[test]
fn a_passed_through_gpu_keeps_the_acs_of_its_own_port_only() {
    let mut passed = fabric(three_gpus());
    passed.devices[5].driver = Some("vfio-pci".into());
    assert_eq!(
        data(plan(&passed, AcsPolicy::Path)).0.len(),
        3,
        "without a group nothing is isolated"
    );
    passed.iommu.groups = 6;
    let cleared =
        ["0000:00:01.0", "0000:00:02.0"].map(|b| format!("{b} ACS control 0x001d -> 0x0000"));
    assert_eq!(
        data(plan(&passed, AcsPolicy::Path)),
        (cleared.to_vec(), vec![]),
        "nothing turns at its port"
    );
    let all = plan(&passed, AcsPolicy::All);
    assert_eq!(
        (all.findings[0].subject.to_string(), all.findings.len()),
        ("0000:00:03.0".to_owned(), 1)
    );
    assert_eq!(
        data(all),
        (cleared.to_vec(), vec![(Code::AcsKept, Severity::Warn)])
    );
    for driver in [
        "mlx5_vfio_pci",
        "nvgrace-gpu-vfio-pci",
        "nvgrace_gpu_vfio_pci",
    ] {
        passed.devices[5].driver = Some(driver.into());
        let message = &plan(&passed, AcsPolicy::All).findings[0].message;
        assert!(
            message.ends_with(&format!(
                "0000:03:00.0 is passed to a virtual machine by {driver}"
            )),
            "{message}"
        );
    }
    for driver in ["nvidia", "vfio-platform", "mlx5_core"] {
        passed.devices[5].driver = Some(driver.into());
        assert_eq!(data(plan(&passed, AcsPolicy::Path)).0.len(), 3, "{driver}");
    }
}

#[test]
fn a_port_shared_with_a_passed_through_card_is_kept_and_reported() {
    let mut devices = three_gpus();
    devices.push(device("0000:01:00.1", Kind::Endpoint, Some("0000:00:01.0")));
    devices[6].driver = Some("vfio-pci".into());
    let mut shared = fabric(devices);
    shared.iommu.groups = 6;
    let plan = plan(&shared, AcsPolicy::Path);
    assert_eq!(plan.findings[0].subject, "0000:00:01.0");
    assert_eq!(data(plan).0.len(), 2);
}

#[test]
fn data_direct_keeps_the_acs_of_its_own_hierarchy() {
    let mut devices = three_gpus();
    devices.push(device("0000:01:00.1", Kind::Endpoint, Some("0000:00:01.0")));
    (devices[6].vendor, devices[6].device) = ("0x15b3".into(), "0x2100".into());
    let (actions, findings) = planned(devices, AcsPolicy::Path);
    assert_eq!(
        (actions.len(), findings),
        (2, vec![(Code::AcsKept, Severity::Warn)])
    );
}

#[test]
fn a_port_set_for_translated_requests_is_kept_and_reported() {
    let mut devices = two_gpus();
    devices[0] = with_acs(devices[0].clone(), 0x0044);
    devices[2].routing.ats = true;
    let mut fabric = fabric(devices);
    fabric.iommu.mode = machine::host::iommu::IommuMode::Translated;
    assert_eq!(
        data(plan(&fabric, AcsPolicy::Path)),
        (vec![], vec![(Code::AcsRedirect, Severity::Info)])
    );
    fabric.devices[2].routing.ats = false;
    assert_eq!(data(plan(&fabric, AcsPolicy::Path)).0.len(), 1);
}
