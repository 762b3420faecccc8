//! Does the check of the kernel's configuration notice what kconfig dropped?

use harness::workspace;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn check(resolved: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("resolved.config");
    fs::write(&file, resolved).unwrap();
    let folder = workspace().join("kernel-config");
    let mut fragments: Vec<PathBuf> =
        fs::read_dir(folder.join("fragments")).unwrap().map(|entry| entry.unwrap().path()).collect();
    fragments.sort();
    fragments.push(folder.join("flavours/off.config"));
    Command::new(folder.join("check.sh")).arg(&file).args(&fragments).output().unwrap()
}

fn resolved() -> String {
    fs::read_to_string(workspace().join("kernel-config/resolved.config")).unwrap()
}

#[test]
fn every_requested_option_survived() {
    let output = check(&resolved());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_option_that_was_dropped_changed_or_came_back_is_named() {
    let lines = [
        ("CONFIG_PCI_P2PDMA=y\n", "", "pci.config:", "CONFIG_PCI_P2PDMA: asked for y, resolved to not set"),
        ("CONFIG_NR_CPUS=512\n", "CONFIG_NR_CPUS=64\n", "platform.config:", "asked for 512, resolved to 64"),
        (
            "# CONFIG_HOTPLUG_PCI is not set\n",
            "CONFIG_HOTPLUG_PCI=y\n",
            "pci.config:",
            "CONFIG_HOTPLUG_PCI: asked for not set, resolved to y",
        ),
        ("iommu=off,soft", "iommu=on", "off.config:", "CONFIG_CMDLINE: asked for \"iommu=off,soft"),
    ];
    for (was, becomes, file, said) in lines {
        assert!(resolved().contains(was), "{was}");
        let output = check(&resolved().replace(was, becomes));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(file) && errors.contains(said), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn a_file_that_is_no_configuration_is_refused() {
    assert_eq!(check("nothing\n").status.code(), Some(1));
}
