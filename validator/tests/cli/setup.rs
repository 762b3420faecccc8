//! `firstlight setup` on modelled machines: what it prints, what it writes below the root alone, and its exit statuses.

use super::machine::{Machine, Run, firstlight, run_of};
use std::fs;

/// Two RTX 4090 with Ubuntu, whose IOMMU translates.
fn translating() -> Machine {
    let machine = Machine::modelled("iommu-translated");
    for folder in ["etc/default", "proc/sys/kernel", "var/lib/dbus"] {
        fs::create_dir_all(machine.at(folder)).unwrap();
    }
    machine.write("etc/os-release", "ID=ubuntu\nID_LIKE=debian\n");
    machine.write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n");
    machine.write(
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu\n",
    );
    for bdf in ["0000:01:00.0", "0000:02:00.0"] {
        // RTX 6000 Ada: its own peer-to-peer, so that the word is all that is missing.
        let folder = fs::canonicalize(machine.at(&format!("sys/bus/pci/devices/{bdf}"))).unwrap();
        fs::write(folder.join("device"), "0x26b1\n").unwrap();
        let mut config = fs::read(folder.join("config")).unwrap();
        config[2..4].copy_from_slice(&[0xb1, 0x26]);
        fs::write(folder.join("config"), config).unwrap();
        let information = machine.at(&format!("proc/driver/nvidia/gpus/{bdf}/information"));
        fs::write(information, "Model: \t\t NVIDIA RTX 6000 Ada Generation\n").unwrap();
    }
    machine
}

fn run(machine: &Machine, words: &str) -> Run {
    machine.run(&format!("setup {words}"))
}

#[test]
fn a_plan_names_each_step_and_writes_nothing() {
    let machine = translating();
    let plan = run(&machine, "--plan");
    assert_eq!(plan.status, 0, "{}", plan.err);
    for line in [
        "ubuntu: 2 x NVIDIA RTX 6000 Ada Generation; driver 550.163.01 (open); IOMMU: translates",
        " 1  [setup --apply] add `iommu=pt` to the kernel's command line",
        "        +GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX iommu=pt\"",
        "        run: update-grub",
        " 2  [you] install firstlight's package and enable its unit",
    ] {
        assert!(plan.out.contains(line), "{line}\n{}", plan.out);
    }
    assert!(
        !machine.at("etc/default/grub.d").exists() && !machine.at("var/lib/firstlight").exists()
    );
    let json: serde_json::Value = serde_json::from_str(&run(&machine, "--json -").out).unwrap();
    assert_eq!(json["schema"], "firstlight.setup-plan/1");
    assert_eq!(
        (&json["steps"][0]["kind"], &json["steps"][0]["by"]),
        (&"words".into(), &"apply".into())
    );
    assert_eq!(json["machine"]["iommu"], "translated");
}

#[test]
fn steps_are_taken_checked_and_taken_back_below_the_root() {
    let machine = translating();
    assert_eq!(run(&machine, "--check").out, "nothing was set up here\n");
    let applied = run(&machine, "--apply --yes");
    assert_eq!(applied.status, 0, "{}", applied.err);
    assert!(
        applied
            .out
            .contains("not run, because the machine is a folder: update-grub"),
        "{}",
        applied.out
    );
    let drop_in = machine.at("etc/default/grub.d/zz-firstlight.cfg");
    assert!(fs::read_to_string(&drop_in).unwrap().contains("iommu=pt"));
    let check = run(&machine, "--check");
    assert_eq!(check.status, 2);
    assert!(
        check
            .out
            .starts_with("the kernel's command line has no iommu=pt"),
        "{}",
        check.out
    );
    machine.write("proc/cmdline", "quiet iommu=pt\n");
    assert_eq!(run(&machine, "--check").status, 0);
    let undone = run(&machine, "--undo --yes");
    assert_eq!(undone.status, 0, "{}", undone.err);
    assert!(!drop_in.exists() && !machine.at("var/lib/firstlight").exists());
    assert!(
        run(&machine, "--undo --yes")
            .out
            .starts_with("nothing was set up here")
    );
}

#[test]
fn a_refused_plan_is_2_with_its_reasons_and_changes_nothing() {
    let machine = Machine::modelled("nouveau");
    let refused = run(&machine, "--apply --yes");
    assert_eq!(refused.status, 2, "{}", refused.out);
    assert!(
        refused
            .err
            .contains("setup: refused: nouveau is loaded for these GPUs"),
        "{}",
        refused.err
    );
    assert!(!machine.at("var/lib/firstlight").exists());
}

#[test]
fn wrong_use_of_setup_is_64_with_one_line() {
    let machine = translating();
    for (words, line) in [
        ("--apply --undo", "cannot be used with"),
        ("--apply --json -", "cannot be used with"),
        ("--plan --yes", "cannot be used with"),
        ("--undo --iommu off", "cannot be used with"),
        ("--iommu on", "pt, off"),
        (
            "--families ada",
            "setup: --families ada: allowed: ampere-geforce",
        ),
        ("--apply", "standard input is no terminal"),
    ] {
        let wrong = run(&machine, words);
        assert_eq!(
            (wrong.status, wrong.err.lines().count()),
            (64, 1),
            "{words}: {}",
            wrong.err
        );
        assert!(wrong.err.contains(line), "{words}: {}", wrong.err);
    }
    let missing = run_of(firstlight("--root /nowhere setup").output().unwrap());
    assert_eq!(missing.status, 64, "{}", missing.err);
}

#[test]
fn another_version_of_the_source_is_2_with_both_versions() {
    let machine = translating();
    let source = machine.at("source");
    for folder in ["kernel-open", "src/nvidia/interface"] {
        fs::create_dir_all(source.join(folder)).unwrap();
    }
    fs::write(source.join("version.mk"), "NVIDIA_VERSION = 580.95.05\n").unwrap();
    fs::write(source.join("kernel-open/Makefile"), "").unwrap();
    fs::write(source.join("src/nvidia/interface/nvrm_registry.h"), "").unwrap();
    let wrong = run(&machine, &format!("--modules {}", source.display()));
    assert_eq!(wrong.status, 2);
    assert!(
        wrong
            .err
            .contains("it is 580.95.05, and the loaded driver is 550.163.01"),
        "{}",
        wrong.err
    );
}
