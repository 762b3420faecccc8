//! What does the shipped image do in QEMU? Each module asks one question. Needs image and media (`./run boots` builds
//! them): `cargo test -p firstlight-tests --test boots NAME -- --test-threads=2`. Two machines run at a time at most.

mod acs;
mod broken_validator;
mod clock;
mod config_typo;
mod ctrl_alt_del;
mod driver;
mod entries;
mod fakepci_acs;
mod fakepci_broken;
mod fakepci_domains;
mod fakepci_rebar;
mod fakepci_rebar_left;
mod full_run;
mod golden;
mod handoff_exec;
mod handoff_switch_root;
mod iommu_stays_off;
mod last_boot;
mod lockdown;
mod media;
mod network;
mod policy;
mod publish;
mod pxe_serve;
mod run;
mod secure_boot;
mod simgpu;
mod workload_exit;
