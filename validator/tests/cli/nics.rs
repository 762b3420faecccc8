//! Network cards of modelled machines: a server with RoCE, a switch with InfiniBand, and cards on which
//! something is wrong.

use super::machine::{Machine, codes, test};
use serde_json::{Value, json};
use std::fs;

/// The first RoCE port of the server.
const PORT: &str = "sys/class/infiniband/mlx5_0/ports/1";

fn nics(machine: &Machine) -> Value {
    let said = machine.run("validate --json -");
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {}", said.err));
    test(&report, "nics").clone()
}

fn column(nics: &Value, table: usize, heading: &str) -> Vec<Value> {
    let table = &nics["tables"][table];
    let columns = table["columns"].as_array().unwrap();
    let at = columns.iter().position(|c| c["heading"] == heading).unwrap();
    table["rows"].as_array().unwrap().iter().map(|row| row[at].clone()).collect()
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
    assert_eq!(column(&nics, 1, "RoCE v2 IPv4 GID index"), [json!(3), null.clone(), json!(5), null]);
    assert_eq!(column(&nics, 1, "RoCE v2 IPv4 address")[2], "10.0.1.1");
    assert_eq!(column(&nics, 2, "nearest")[6], "PHB");
    assert_eq!(column(&nics, 2, "nearest cards")[6], "mlx5_0 mlx5_1 mlx5_2 mlx5_3");
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
    let said = machine.run("validate --scope fabric --json -");
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.status, &report["verdict"]), (3, &"DEGRADED".into()), "{}", said.err);
    assert_eq!(codes(&report, "nics"), ["NIC-NARROW", "NIC-PORT"]);
    assert_eq!(test(&report, "nics")["findings"][1]["subject"], "mlx5_1 port 1");
    assert_eq!(report["workload_env"]["NCCL_IB_HCA"], "=mlx5_0:1");
}

#[test]
fn each_single_spoilt_thing_costs_the_pass() {
    type Spoil = fn(&Machine);
    let spoilt: [(Spoil, &str, &str); 4] = [
        (|m| m.write(&format!("{PORT}/state"), "2: INIT\n"), "warn", "NIC-PORT"),
        (|m| m.write(&format!("{PORT}/state"), "fine\n"), "error", "SYS-UNREADABLE"),
        (|m| fs::remove_file(m.at(&format!("{PORT}/rate"))).unwrap(), "error", "SYS-UNREADABLE"),
        (|m| fs::remove_dir_all(m.at(PORT).parent().unwrap()).unwrap(), "error", "SYS-UNREADABLE"),
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
    assert_eq!((&nics["outcome"], &nics["findings"][0]["code"]), (&"pass".into(), &"NIC-NO-GID".into()));
}

#[test]
fn without_an_rdma_device_there_is_nothing_to_look_at() {
    let nics = nics(&Machine::modelled("narrow-link"));
    assert_eq!(nics["outcome"], "not-applicable");
    assert_eq!(nics["summary"], "no RDMA device; network functions: 1");
}
