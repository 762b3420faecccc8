//! A folder with a few files and a driver as data, for tests.

#![expect(clippy::expect_used, reason = "for tests alone")]

use super::Nvidia;
use super::account::{self, Account};
use super::gpus::Information;
use super::library::Library;
use super::module::{LoadedModule, ModuleHash};
use contract::schema;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// The files of a machine, by path and text.
pub fn machine(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder above")).expect("folders");
        fs::write(path, text).expect("a file");
    }
    dir
}

/// A driver of that version on that many RTX 4090, as the appliance starts it.
pub fn nvidia(version: &str, gpus: u8) -> Nvidia {
    let library = |name: &str, version: &str| {
        let path = format!("/usr/lib/x86_64-linux-gnu/{name}");
        Ok(Some(Library {
            path,
            version: Some(version.to_owned()),
        }))
    };
    let gpu = |n: u8| {
        let information = Information {
            name: Some("NVIDIA GeForce RTX 4090".to_owned()),
            uuid: Some(format!("GPU-{n}")),
            vbios: Some("95.02.3c.80.b4".to_owned()),
            firmware: Some(version.to_owned()),
            minor: Some(n.into()),
        };
        (format!("0000:{:02x}:00.0", 0x10 + n), information)
    };
    Nvidia {
        account: Ok(Some(account_with("/image/version", version.into()))),
        loaded: Ok(Some(LoadedModule {
            version: version.to_owned(),
            own_version: version.to_owned(),
            open: true,
            hash: ModuleHash {
                srcversion: Some("ABC".to_owned()),
                build_id: None,
            },
        })),
        gpus: Ok((0..gpus).map(gpu).collect()),
        cuda: library("libcuda.so.1", version),
        ml: library("libnvidia-ml.so.1", version),
        nccl: library("libnccl.so.2", "2.22.3"),
        nccl_chosen: false,
        firmware: Ok(vec![version.to_owned()]),
        file: Ok(None),
    }
}

/// What init writes if everything went well, with more keys than are read.
pub fn account() -> Value {
    json!({ "schema": schema::DRIVER, "load": true,
        "image": { "version": "555.58.02", "source": "debian", "patch": "1",
                   "kernel": "6.12.107-firstlight", "nccl": "2.29.7" },
        "gpus": ["0000:10:00.0"], "families": ["ada"], "nvswitches": [],
        "modules": [ { "name": "nvidia", "file": "/run/firstlight/driver/modules/nvidia.ko",
            "version": "555.58.02", "vermagic": "6.12.107-firstlight SMP preempt mod_unload ", "patch": "1",
            "srcversion": "ABC", "parameters": "", "outcome": "loaded", "errno": null, "error": null } ],
        "parameters": [], "nodes": [], "held": ["/dev/nvidia0"], "findings": [], "seconds": 1.2 })
}

/// The same with one value changed.
pub fn account_with(pointer: &str, value: Value) -> Account {
    let mut text = account();
    *text.pointer_mut(pointer).expect("there is such a value") = value;
    account::parse(text.to_string().as_bytes()).expect("an account")
}
