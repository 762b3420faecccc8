use super::*;
use crate::pcie::model::Kind;
use crate::pcie::sample::{device, fabric, two_gpus, with_acs};

#[track_caller]
fn planned(devices: Vec<Device>, policy: AcsPolicy) -> (Vec<String>, Vec<(String, Severity)>) {
    told(plan(&fabric(devices), policy))
}

fn told(plan: Plan) -> (Vec<String>, Vec<(String, Severity)>) {
    let actions = plan.actions.iter().map(ToString::to_string).collect();
    (actions, plan.findings.into_iter().map(|f| (f.code, f.severity)).collect())
}

#[test]
fn ports_on_gpu_paths_are_cleared_and_others_left() {
    let mut devices = two_gpus();
    devices.push(with_acs(device("0000:00:03.0", Kind::RootPort, None), 0x001d));
    let clear = "0000:00:01.0 ACS control 0x001d -> 0x0000".to_owned();
    assert_eq!(planned(devices.clone(), AcsPolicy::Path), (vec![clear.clone()], vec![]));
    let other = "0000:00:03.0 ACS control 0x001d -> 0x0000".to_owned();
    assert_eq!(planned(devices.clone(), AcsPolicy::All), (vec![clear, other], vec![]));
    assert_eq!(planned(devices, AcsPolicy::Off), (vec![], vec![]));
}

#[test]
fn the_register_stands_six_bytes_into_the_capability() {
    let plan = plan(&fabric(two_gpus()), AcsPolicy::Path);
    assert_eq!((plan.actions[0].offset, plan.covered), (0x148 + 6, 2));
}

#[test]
fn bits_that_only_check_are_cleared_as_well() {
    let mut devices = two_gpus();
    devices[0] = with_acs(devices[0].clone(), 0x0001);
    assert_eq!(planned(devices, AcsPolicy::Path).0, ["0000:00:01.0 ACS control 0x0001 -> 0x0000"]);
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
        (vec![], vec![("ACS-QUIRK".into(), Severity::Fail)])
    );
    devices[0] = with_acs(devices[0].clone(), 0x0001);
    devices[0].acs.as_mut().unwrap().quirk = true;
    assert_eq!(planned(devices, AcsPolicy::Path).1, [("ACS-QUIRK".into(), Severity::Info)]);
}

#[test]
fn a_port_on_a_gpu_path_without_ecam_fails_and_elsewhere_is_told() {
    let mut devices = two_gpus();
    devices[0].acs = None;
    devices[0].config.bytes = 256;
    assert_eq!(planned(devices, AcsPolicy::Path), (vec![], vec![("NO-ECAM".into(), Severity::Fail)]));
    let mut devices = two_gpus();
    let mut port = device("0000:00:03.0", Kind::RootPort, None);
    port.config.bytes = 256;
    devices.push(port);
    assert_eq!(planned(devices, AcsPolicy::All).1, [("NO-ECAM".into(), Severity::Info)]);
}

#[test]
fn a_port_of_which_nothing_can_be_told_is_an_error() {
    let gone = |d: &mut Device| d.config.gone = true;
    let broken = |d: &mut Device| {
        d.acs = None;
        d.config.faults.push("capability chain loops".into());
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
            (vec![], vec![("ACS-UNKNOWN".into(), Severity::Error)])
        );
    }
}

#[test]
fn a_locked_down_kernel_is_told_and_nothing_is_tried() {
    for mode in ["integrity", "confidentiality"] {
        let mut fabric = fabric(two_gpus());
        fabric.lockdown = Some(mode.into());
        assert_eq!(told(plan(&fabric, AcsPolicy::Path)), (vec![], vec![("LOCKDOWN".into(), Severity::Fail)]));
    }
    let mut fabric = fabric(two_gpus());
    fabric.lockdown = Some("none".into());
    assert_eq!(told(plan(&fabric, AcsPolicy::Path)).0.len(), 1);
}

#[test]
fn lockdown_does_not_matter_when_there_is_nothing_to_write() {
    let mut devices = two_gpus();
    devices[0] = with_acs(devices[0].clone(), 0);
    let mut fabric = fabric(devices);
    fabric.lockdown = Some("integrity".into());
    assert_eq!(told(plan(&fabric, AcsPolicy::Path)), (vec![], vec![]));
}

#[test]
fn acs_is_kept_for_pass_through_and_for_data_direct() {
    let mut passed = fabric(two_gpus());
    passed.devices[3].driver = Some("vfio-pci".into());
    assert_eq!(told(plan(&passed, AcsPolicy::Path)).0.len(), 1, "without a group nothing is isolated");
    passed.iommu.groups = 4;
    assert_eq!(told(plan(&passed, AcsPolicy::Path)), (vec![], vec![("ACS-KEPT".into(), Severity::Warn)]));
    for driver in ["mlx5_vfio_pci", "nvgrace-gpu-vfio-pci", "nvgrace_gpu_vfio_pci"] {
        passed.devices[3].driver = Some(driver.into());
        let plan = plan(&passed, AcsPolicy::Path);
        let message = &plan.findings[0].message;
        assert!(message.ends_with(&format!("is given to a virtual machine by {driver}")), "{message}");
        assert_eq!(told(plan), (vec![], vec![("ACS-KEPT".into(), Severity::Warn)]));
    }
    for driver in ["nvidia", "vfio-platform", "mlx5_core"] {
        passed.devices[3].driver = Some(driver.into());
        assert_eq!(told(plan(&passed, AcsPolicy::Path)).0.len(), 1, "{driver}");
    }
    let mut direct = fabric(two_gpus());
    direct.devices.push(device("0000:05:00.0", Kind::Endpoint, None));
    direct.devices[4].vendor = "0x15b3".into();
    direct.devices[4].device = "0x2100".into();
    assert_eq!(told(plan(&direct, AcsPolicy::Path)), (vec![], vec![("ACS-KEPT".into(), Severity::Warn)]));
}
