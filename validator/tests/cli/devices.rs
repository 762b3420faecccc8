//! The tests of NVIDIA's driver and of network cards on machines with one defect: eight GPUs, a server with RoCE, a
//! switch with InfiniBand, and machines without the driver.

use super::machine::{Machine, codes, test};
use serde_json::{Value, json};
use std::fs;

fn report(machine: &Machine) -> Value {
    let run = machine.run("validate --json -");
    serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {}{}", run.out, run.err))
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

/// Changes the machine as if the module had never been loaded.
fn unload(machine: &Machine) {
    for gone in ["sys/module/nvidia", "sys/module/nvidia_uvm", "proc/driver"] {
        fs::remove_dir_all(machine.at(gone)).unwrap();
    }
    for gpu in fs::read_dir(machine.at("sys/bus/pci/drivers/nvidia"))
        .unwrap()
        .map(Result::unwrap)
    {
        let bound = machine
            .at("sys/bus/pci/devices")
            .join(gpu.file_name())
            .join("driver");
        fs::remove_file(bound).unwrap();
    }
}

fn noted(code: &str, severity: &str) -> Value {
    json!([{ "code": code, "severity": severity, "subject": "nvidia", "message": "said by init", "evidence": [] }])
}

/// The affected test, the defect, the test's outcome, and the code of its finding.
type Spoilt = (&'static str, fn(&Machine), &'static str, &'static str);

#[test]
fn each_single_spoilt_thing_costs_the_pass() {
    let spoilt: [Spoilt; 27] = [
        (
            "driver",
            |m| m.write("sys/module/nvidia/version", "550.1\n"),
            "fail",
            "DRIVER-MISMATCH",
        ),
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
        (
            "driver",
            |m| m.write("proc/sys/kernel/osrelease", "6.1.0\n"),
            "fail",
            "DRIVER-VERMAGIC",
        ),
        (
            "driver",
            |m| account(m, "/findings", noted("GPU-VBIOS", "fail")),
            "fail",
            "GPU-VBIOS",
        ),
        (
            "driver",
            |m| account(m, "/findings", noted("DRIVER-TIMEOUT", "error")),
            "error",
            "DRIVER-TIMEOUT",
        ),
        (
            "driver",
            |m| account(m, "/findings", noted("NVSWITCH-NO-MANAGER", "warn")),
            "warn",
            "NVSWITCH-NO-MANAGER",
        ),
        (
            "driver",
            |m| account(m, "/findings", noted("NVLINK5-NO-NVLSM", "fail")),
            "fail",
            "NVLINK5-NO-NVLSM",
        ),
        (
            "driver",
            |m| account(m, "/findings", noted("CC-UNSUPPORTED", "fail")),
            "fail",
            "CC-UNSUPPORTED",
        ),
        (
            "driver",
            |m| account(m, "/findings", noted("NO-SUCH-CODE", "info")),
            "error",
            "SYS-UNREADABLE",
        ),
        (
            "driver",
            |m| m.write("run/firstlight/driver.json", "{"),
            "error",
            "SYS-UNREADABLE",
        ),
        (
            "driver",
            |m| account(m, "/schema", json!("firstlight.driver/2")),
            "error",
            "SYS-UNREADABLE",
        ),
        (
            "driver",
            |m| log(m, "NVRM: API mismatch: the client has the version 1"),
            "warn",
            "DRIVER-MISMATCH",
        ),
        (
            "driver-params",
            |m| m.write("proc/driver/nvidia/params", "RegistryDwords: \"\"\n"),
            "fail",
            "DRIVER-PARAMETERS",
        ),
        (
            "patch",
            |m| account(m, "/modules/0/patch", Value::Null),
            "fail",
            "PATCH-MISSING",
        ),
        (
            "patch",
            |m| m.write("sys/module/nvidia/srcversion", "X\n"),
            "fail",
            "PATCH-MISSING",
        ),
        (
            "patch",
            |m| log(m, "NVRM: nvAssertFailed: x @ field_desc.h:273"),
            "fail",
            "PATCH-NOT-EFFECTIVE",
        ),
        (
            "patch",
            |m| fs::remove_file(m.at("dev/kmsg")).unwrap(),
            "error",
            "KMSG-UNREADABLE",
        ),
        (
            "nodes",
            |m| fs::remove_file(m.at("dev/nvidia7")).unwrap(),
            "fail",
            "NODES-MISSING",
        ),
        (
            "nodes",
            |m| m.write("dev/nvidia-uvm", "c 511 0\n"),
            "fail",
            "NODES-MISSING",
        ),
        (
            "nodes",
            |m| fs::remove_file(m.at("proc/devices")).unwrap(),
            "error",
            "SYS-UNREADABLE",
        ),
        (
            "bar1-static",
            |m| fs::remove_file(m.at("dev/kmsg")).unwrap(),
            "error",
            "KMSG-UNREADABLE",
        ),
        (
            "bar1-static",
            |m| m.write("dev/kmsg", "4,0,0,-;Linux version\n"),
            "fail",
            "BAR1-NOT-STATIC",
        ),
        (
            "xid",
            |m| m.write("dev/kmsg", ""),
            "error",
            "KMSG-UNREADABLE",
        ),
        (
            "xid",
            |m| {
                log(
                    m,
                    "NVRM: GPU0 confComputeConstructEngine_IMPL: CPU does not support confidential compute.",
                );
            },
            "fail",
            "CC-UNSUPPORTED",
        ),
        (
            "xid",
            |m| {
                log(
                    m,
                    "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
                );
            },
            "fail",
            "GPU-XID",
        ),
    ];
    for (id, spoil, outcome, code) in spoilt {
        let machine = Machine::modelled("epyc-8x4090");
        spoil(&machine);
        let report = report(&machine);
        assert_eq!(
            test(&report, id)["outcome"],
            outcome,
            "{id} {code}: {}",
            test(&report, id)
        );
        assert!(
            codes(&report, id).contains(&code.to_owned()),
            "{code}: {}",
            test(&report, id)
        );
    }
}

#[test]
fn gpus_whose_driver_is_not_loaded_fail_unless_the_configuration_says_so() {
    let machine = Machine::modelled("epyc-8x4090");
    unload(&machine);
    let outcome = |machine: &Machine| {
        let report = report(machine);
        let outcomes = ["driver", "driver-params", "patch", "nodes", "bar1-static"];
        outcomes
            .map(|id| test(&report, id)["outcome"].as_str().unwrap().to_owned())
            .join(" ")
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
    let text =
        fs::read_to_string(Machine::modelled("epyc-8x4090").at("run/firstlight/driver.json"))
            .unwrap();
    machine.write("run/firstlight/driver.json", &text);
    account(&machine, "/modules/0/outcome", json!("failed"));
    account(&machine, "/modules/0/error", json!("ENODEV"));
    account(&machine, "/findings", noted("DRIVER-NO-GPU", "info"));
    let report = machine.report("");
    assert_eq!(report["verdict"], "PASS");
    let driver = test(&report, "driver");
    assert_eq!(
        driver["summary"],
        "no NVIDIA GPU; loading nvidia failed with ENODEV"
    );
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
    assert_eq!(
        summary("bar1"),
        "one GPU, and no network card that exchanges data with it"
    );
    for id in ["driver-params", "patch", "bar1-static"] {
        assert_eq!(test(&report, id)["outcome"], "not-applicable", "{id}");
    }
}

#[test]
fn a_library_path_of_the_configuration_is_read_below_the_root() {
    let machine = Machine::modelled("driver-mismatch");
    machine.write("opt/nvidia/libcuda.so.1", "");
    let run = machine.run("--set validate.library_path=/opt/nvidia validate --json -");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    let found = &test(&report, "driver")["findings"][0];
    assert!(
        found["message"]
            .as_str()
            .unwrap()
            .starts_with("/opt/nvidia/libcuda.so.1 does not lead to a file"),
        "{found}"
    );
}

/// The first RoCE port of the server.
const PORT: &str = "sys/class/infiniband/mlx5_0/ports/1";

fn nics(machine: &Machine) -> Value {
    let run = machine.run("validate --json -");
    let report: Value =
        serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {}", run.err));
    test(&report, "nics").clone()
}

fn column(nics: &Value, table: usize, heading: &str) -> Vec<Value> {
    let table = &nics["tables"][table];
    let columns = table["columns"].as_array().unwrap();
    let at = columns
        .iter()
        .position(|c| c["heading"] == heading)
        .unwrap();
    table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[at].clone())
        .collect()
}

#[test]
fn the_servers_ports_are_shown_as_ibdev2netdev_shows_them() {
    let nics = nics(&Machine::modelled("epyc-8x4090"));
    assert_eq!(nics["outcome"], "pass");
    assert_eq!(
        column(&nics, 0, "line"),
        [
            "mlx5_0 port 1 ==> ens1f0np0 (Up)",
            "mlx5_1 port 1 ==> ens1f1np1 (Down)",
            "mlx5_2 port 1 ==> ens2f0np0 (Up)",
            "mlx5_3 port 1 ==> ens2f1np1 (Down)"
        ]
    );
    assert_eq!(
        nics["summary"],
        "2 of 4 ports ACTIVE: mlx5_0 100 Gb/s, mlx5_2 100 Gb/s; GPUs to their nearest card: 1 PHB, 7 SYS"
    );
    let null = Value::Null;
    assert_eq!(
        column(&nics, 1, "RoCE v2 IPv4 GID index"),
        [json!(3), null.clone(), json!(5), null]
    );
    assert_eq!(column(&nics, 1, "RoCE v2 IPv4 address")[2], "10.0.1.1");
    assert_eq!(column(&nics, 2, "nearest")[6], "PHB");
    assert_eq!(
        column(&nics, 2, "nearest cards")[6],
        "mlx5_0 mlx5_1 mlx5_2 mlx5_3"
    );
}

#[test]
fn infiniband_has_its_interface_too_and_a_switch_is_near() {
    let nics = nics(&Machine::modelled("switch-acs"));
    assert_eq!(
        (&nics["outcome"], &column(&nics, 0, "line")[0]),
        (&"pass".into(), &"mlx5_0 port 1 ==> ib0 (Up)".into())
    );
    assert_eq!(column(&nics, 2, "nearest"), ["PIX", "PIX", "PXB"]);
}

#[test]
fn a_narrow_port_and_one_without_a_subnet_manager_degrade_the_machine() {
    let machine = Machine::modelled("ib-no-manager");
    let run = machine.run("validate --scope fabric --json -");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (run.status, &report["verdict"]),
        (3, &"DEGRADED".into()),
        "{}",
        run.err
    );
    assert_eq!(codes(&report, "nics"), ["NIC-NARROW", "NIC-PORT"]);
    assert_eq!(
        test(&report, "nics")["findings"][1]["subject"],
        "mlx5_1 port 1"
    );
    assert_eq!(report["workload_env"]["NCCL_IB_HCA"], "=mlx5_0:1");
}

#[test]
fn a_function_that_leads_to_nvswitches_is_no_card() {
    let machine = Machine::modelled("ib-no-manager");
    let lines = |machine: &Machine| column(&nics(machine), 0, "line").len();
    let all = lines(&machine);
    for (name, vpd) in [
        ("mlx5_1", "MLX:MN=MLNX:SMDL=SW_MNG:MODL=C7010Z"),
        ("mlx5_0", "MLX:MN=MLNX:MODL=C7010Z"),
    ] {
        machine.write(
            &format!("sys/class/infiniband/{name}/device/class"),
            "0x020700\n",
        );
        machine.write(&format!("sys/class/infiniband/{name}/device/vpd"), vpd);
    }
    assert_eq!(lines(&machine), all - 1);
    let found = nics(&machine)["findings"].to_string();
    assert!(
        found.contains("mlx5_0") && !found.contains("mlx5_1"),
        "{found}"
    );
    machine.write(
        "sys/class/infiniband/mlx5_0/device/vpd",
        "MLX:MN=MLNX:SMDL=SW_MNG:MODL=C7010Z",
    );
    let run = machine.run("validate --scope fabric --json -");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["workload_env"]["NCCL_IB_HCA"], Value::Null);
}

#[test]
fn each_single_spoilt_port_costs_the_pass() {
    type Spoil = fn(&Machine);
    let spoilt: [(Spoil, &str, &str); 4] = [
        (
            |m| m.write(&format!("{PORT}/state"), "2: INIT\n"),
            "warn",
            "NIC-PORT",
        ),
        (
            |m| m.write(&format!("{PORT}/state"), "fine\n"),
            "error",
            "SYS-UNREADABLE",
        ),
        (
            |m| fs::remove_file(m.at(&format!("{PORT}/rate"))).unwrap(),
            "error",
            "SYS-UNREADABLE",
        ),
        (
            |m| fs::remove_dir_all(m.at(PORT).parent().unwrap()).unwrap(),
            "error",
            "SYS-UNREADABLE",
        ),
    ];
    for (spoil, outcome, code) in spoilt {
        let machine = Machine::modelled("epyc-8x4090");
        spoil(&machine);
        let nics = nics(&machine);
        assert_eq!(nics["outcome"], outcome, "{nics}");
        let found = nics["findings"].as_array().unwrap();
        assert!(found.iter().any(|f| f["code"] == code), "{code}: {nics}");
    }
}

#[test]
fn an_address_that_goes_away_is_told_and_the_port_stays_in_use() {
    let machine = Machine::modelled("epyc-8x4090");
    let empty = "0000:0000:0000:0000:0000:0000:0000:0000\n";
    for slot in [2, 3] {
        machine.write(&format!("{PORT}/gids/{slot}"), empty);
    }
    let nics = nics(&machine);
    assert_eq!(
        (&nics["outcome"], &nics["findings"][0]["code"]),
        (&"pass".into(), &"NIC-NO-GID".into())
    );
}

#[test]
fn without_an_rdma_device_there_is_nothing_to_look_at() {
    let nics = nics(&Machine::modelled("narrow-link"));
    assert_eq!(nics["outcome"], "not-applicable");
    assert_eq!(nics["summary"], "no RDMA device; network functions: 1");
}
