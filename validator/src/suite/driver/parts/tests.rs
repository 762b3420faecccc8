//! Each part of another version, missing, or for another kernel.

use super::*;
use crate::host::nvidia::fixture::nvidia;

const KERNEL: Option<&str> = Some("6.12.107-firstlight");

fn spoilt(spoil: impl Fn(&mut Nvidia)) -> Vec<Finding> {
    let mut nvidia = nvidia("555.58.02", 2);
    spoil(&mut nvidia);
    let loaded = nvidia.loaded.clone().unwrap().unwrap();
    judge(&nvidia, &loaded, KERNEL)
}

#[track_caller]
fn one(findings: &[Finding], code: Code, severity: Severity) -> &Finding {
    let [finding] = findings else { panic!("{findings:?}") };
    assert!(finding.is(code) && finding.severity == severity, "{finding:?}");
    finding
}

fn other(path: &str) -> Read<Option<Library>> {
    Ok(Some(Library { path: path.to_owned(), version: Some("550.163.01".to_owned()) }))
}

#[test]
fn one_version_everywhere_is_as_it_should_be() {
    assert_eq!(spoilt(|_| ()), vec![]);
    let good = nvidia("555.58.02", 2);
    let said = summary(&good, good.loaded.as_ref().unwrap().as_ref().unwrap(), KERNEL);
    assert_eq!(said, "555.58.02: module, libcuda, libnvidia-ml, GSP firmware; built for 6.12.107-firstlight");
}

#[test]
fn every_part_of_another_version_is_named() {
    let found = spoilt(|n| n.cuda = other("/usr/lib64/libcuda.so.1"));
    let finding = one(&found, Code::DriverMismatch, Severity::Fail);
    assert_eq!(finding.message, "the loaded module is 555.58.02, but libcuda 550.163.01");
    assert!(finding.evidence.contains(&"/usr/lib64/libcuda.so.1: libcuda 550.163.01".to_owned()));
    for spoil in [
        (|n| n.ml = other("/x")) as fn(&mut Nvidia),
        |n| n.gpus.as_mut().unwrap().values_mut().next().unwrap().firmware = Some("550.163.01".into()),
        |n| n.loaded.as_mut().unwrap().as_mut().unwrap().says = "550.163.01".into(),
        |n| {
            let account = n.account.as_mut().unwrap().as_mut().unwrap();
            account.image.as_mut().unwrap().version = "550.163.01".into();
        },
    ] {
        let found = spoilt(spoil);
        assert!(one(&found, Code::DriverMismatch, Severity::Fail).message.contains("550.163.01"));
    }
}

#[test]
fn a_library_that_cannot_be_found_or_named_is_an_error() {
    for library in
        [Ok(None), Err("/lib: denied".to_owned()), Ok(Some(Library { path: "/l".into(), version: None }))]
    {
        one(&spoilt(|n| n.cuda = library.clone()), Code::DriverMissing, Severity::Error);
    }
}

#[test]
fn firmware_is_asked_of_the_gpus_first_and_then_of_the_folders() {
    let unused = |n: &mut Nvidia| n.gpus.as_mut().unwrap().values_mut().for_each(|g| g.firmware = None);
    assert_eq!(spoilt(|n| n.firmware = Ok(vec![])), vec![], "the GPUs tell");
    assert_eq!(spoilt(unused), vec![], "the folder tells");
    let gone = spoilt(|n| {
        unused(n);
        n.firmware = Ok(vec![]);
    });
    one(&gone, Code::GspMissing, Severity::Error);
    let closed = spoilt(|n| {
        unused(n);
        n.firmware = Ok(vec![]);
        n.loaded.as_mut().unwrap().as_mut().unwrap().open = false;
    });
    assert_eq!(closed, vec![]);
    let old = spoilt(|n| {
        unused(n);
        n.firmware = Ok(vec!["535.1.2".into()]);
    });
    assert!(one(&old, Code::DriverMismatch, Severity::Fail).message.contains("GSP firmware 535.1.2"));
}

#[test]
fn a_module_for_another_kernel_fails() {
    let nvidia = nvidia("555.58.02", 1);
    let loaded = nvidia.loaded.clone().unwrap().unwrap();
    let found = judge(&nvidia, &loaded, Some("6.1.0"));
    one(&found, Code::DriverVermagic, Severity::Fail);
    assert_eq!(judge(&nvidia, &loaded, None), vec![]);
}
