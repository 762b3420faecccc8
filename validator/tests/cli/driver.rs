//! The tests of NVIDIA's driver on a machine with eight GPUs on which one thing is spoilt, and on
//! machines that lack it altogether.

use super::machine::{Machine, codes, test};
use serde_json::{Value, json};
use std::fs;

fn report(machine: &Machine) -> Value {
    let said = machine.run("validate --json -");
    serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {}{}", said.out, said.err))
}

/// Changes a value of init's account.
fn account(machine: &Machine, pointer: &str, value: Value) {
    let path = machine.at("run/firstlight/driver.json");
    let mut account: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    *account.pointer_mut(pointer).unwrap() = value;
    fs::write(path, account.to_string()).unwrap();
}

fn log(machine: &Machine, line: &str) {
    let path = machine.at("dev/kmsg");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, format!("{text}3,900,900,-;{line}\n")).unwrap();
}

/// As if the module had never been loaded.
fn unload(machine: &Machine) {
    for gone in ["sys/module/nvidia", "sys/module/nvidia_uvm", "proc/driver"] {
        fs::remove_dir_all(machine.at(gone)).unwrap();
    }
    for gpu in fs::read_dir(machine.at("sys/bus/pci/drivers/nvidia")).unwrap().map(Result::unwrap) {
        let bound = machine.at("sys/bus/pci/devices").join(gpu.file_name()).join("driver");
        fs::remove_file(bound).unwrap();
    }
}

fn noted(code: &str, severity: &str) -> Value {
    json!([{ "code": code, "severity": severity, "subject": "nvidia", "message": "said by init", "evidence": [] }])
}

/// Which test it is about, what is spoilt, how that test ends, and the code that says why.
type Spoilt = (&'static str, fn(&Machine), &'static str, &'static str);

#[test]
fn each_single_spoilt_thing_costs_the_pass() {
    let spoilt: [Spoilt; 24] = [
        ("driver", |m| m.write("sys/module/nvidia/version", "550.1\n"), "fail", "DRIVER-MISMATCH"),
        (
            "driver",
            |m| fs::remove_file(m.at("sys/module/nvidia/version")).unwrap(),
            "error",
            "SYS-UNREADABLE",
        ),
        (
            "driver",
            |m| fs::remove_file(m.at("proc/driver/nvidia/version")).unwrap(),
            "error",
            "SYS-UNREADABLE",
        ),
        (
            "driver",
            |m| fs::remove_dir_all(m.at("run/firstlight/driver/lib")).unwrap(),
            "error",
            "DRIVER-MISSING",
        ),
        ("driver", |m| m.write("proc/sys/kernel/osrelease", "6.1.0\n"), "fail", "DRIVER-VERMAGIC"),
        ("driver", |m| account(m, "/findings", noted("GPU-VBIOS", "fail")), "fail", "GPU-VBIOS"),
        ("driver", |m| account(m, "/findings", noted("DRIVER-TIMEOUT", "error")), "error", "DRIVER-TIMEOUT"),
        (
            "driver",
            |m| account(m, "/findings", noted("NVSWITCH-NO-MANAGER", "warn")),
            "warn",
            "NVSWITCH-NO-MANAGER",
        ),
        ("driver", |m| account(m, "/findings", noted("NO-SUCH-CODE", "info")), "error", "SYS-UNREADABLE"),
        ("driver", |m| m.write("run/firstlight/driver.json", "{"), "error", "SYS-UNREADABLE"),
        ("driver", |m| account(m, "/schema", json!("firstlight.driver/2")), "error", "SYS-UNREADABLE"),
        ("driver", |m| log(m, "NVRM: API mismatch: the client has the version 1"), "warn", "DRIVER-MISMATCH"),
        (
            "driver-params",
            |m| m.write("proc/driver/nvidia/params", "RegistryDwords: \"\"\n"),
            "fail",
            "DRIVER-PARAMETERS",
        ),
        ("patch", |m| account(m, "/modules/0/patch", Value::Null), "fail", "PATCH-MISSING"),
        ("patch", |m| m.write("sys/module/nvidia/srcversion", "X\n"), "fail", "PATCH-MISSING"),
        ("patch", |m| log(m, "NVRM: nvAssertFailed: x @ field_desc.h:273"), "fail", "PATCH-NOT-EFFECTIVE"),
        ("patch", |m| fs::remove_file(m.at("dev/kmsg")).unwrap(), "error", "KMSG-UNREADABLE"),
        ("nodes", |m| fs::remove_file(m.at("dev/nvidia7")).unwrap(), "fail", "NODES-MISSING"),
        ("nodes", |m| m.write("dev/nvidia-uvm", "c 511 0\n"), "fail", "NODES-MISSING"),
        ("nodes", |m| fs::remove_file(m.at("proc/devices")).unwrap(), "error", "SYS-UNREADABLE"),
        ("bar1-static", |m| fs::remove_file(m.at("dev/kmsg")).unwrap(), "error", "KMSG-UNREADABLE"),
        ("bar1-static", |m| m.write("dev/kmsg", "4,0,0,-;Linux version\n"), "fail", "BAR1-NOT-STATIC"),
        ("xid", |m| m.write("dev/kmsg", ""), "error", "KMSG-UNREADABLE"),
        ("xid", |m| log(m, "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus."), "fail", "GPU-XID"),
    ];
    for (id, spoil, outcome, code) in spoilt {
        let machine = Machine::modelled("epyc-8x4090");
        spoil(&machine);
        let report = report(&machine);
        assert_eq!(test(&report, id)["outcome"], outcome, "{id} {code}: {}", test(&report, id));
        assert!(codes(&report, id).contains(&code.to_owned()), "{code}: {}", test(&report, id));
    }
}

#[test]
fn gpus_whose_driver_is_not_loaded_fail_unless_the_configuration_says_so() {
    let machine = Machine::modelled("epyc-8x4090");
    unload(&machine);
    let outcome = |machine: &Machine| {
        let report = report(machine);
        let outcomes = ["driver", "driver-params", "patch", "nodes", "bar1-static"];
        outcomes.map(|id| test(&report, id)["outcome"].as_str().unwrap().to_owned()).join(" ")
    };
    let na = "not-applicable";
    assert_eq!(outcome(&machine), format!("fail {na} {na} {na} {na}"));
    account(&machine, "/load", json!(false));
    assert_eq!(outcome(&machine), format!("{na} {na} {na} {na} {na}"));
    fs::remove_file(machine.at("run/firstlight/driver.json")).unwrap();
    assert_eq!(outcome(&machine), format!("fail {na} {na} {na} {na}"));
}

#[test]
fn without_a_gpu_the_driver_stage_is_told_and_a_pass_stays_a_pass() {
    let machine = Machine::small();
    let text = fs::read_to_string(Machine::modelled("epyc-8x4090").at("run/firstlight/driver.json")).unwrap();
    machine.write("run/firstlight/driver.json", &text);
    account(&machine, "/modules/0/outcome", json!("failed"));
    account(&machine, "/modules/0/error", json!("ENODEV"));
    account(&machine, "/findings", noted("DRIVER-NO-GPU", "info"));
    let report = machine.report("");
    assert_eq!(report["verdict"], "PASS");
    let driver = test(&report, "driver");
    assert_eq!(driver["summary"], "no NVIDIA GPU; loading nvidia failed with ENODEV");
    assert_eq!(codes(&report, "driver"), ["DRIVER-NO-GPU"]);
}

#[test]
fn a_gpu_with_peer_to_peer_of_its_own_needs_no_patch() {
    let report = report(&Machine::modelled("h200-vm"));
    let summary = |id: &str| test(&report, id)["summary"].as_str().unwrap();
    assert_eq!(
        summary("driver"),
        "580.159.04: module, libcuda, libnvidia-ml, GSP firmware; its file is not available, but the kernel accepted it"
    );
    assert_eq!(summary("bar1"), "1 GPUs: 256 GiB; more than 256 MiB; no other size is offered");
    for id in ["driver-params", "patch", "bar1-static"] {
        assert_eq!(test(&report, id)["outcome"], "not-applicable", "{id}");
    }
}

#[test]
fn a_library_path_of_the_configuration_is_read_below_the_root() {
    let machine = Machine::modelled("driver-mismatch");
    machine.write("opt/nvidia/libcuda.so.1", "");
    let said = machine.run("--set validate.library_path=/opt/nvidia validate --json -");
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let found = &test(&report, "driver")["findings"][0];
    assert!(
        found["message"].as_str().unwrap().starts_with("/opt/nvidia/libcuda.so.1 does not lead to a file"),
        "{found}"
    );
}
