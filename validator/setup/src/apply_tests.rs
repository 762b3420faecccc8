//! Steps taken and taken back in folders, with a runner that records.

use crate::apply::apply;
use crate::check::check;
use crate::fixture::{Model, Person, Recorder, changed, everything};
use crate::journal::Journal;
use crate::keys::{Edits, Families};
use crate::options::Options;
use crate::plan;
use crate::read;
use crate::step::Plan;
use crate::undo::undo;
use machine::root::Root;
use std::fs;

const RTX_4090: (u16, &str) = (0x2684, "NVIDIA GeForce RTX 4090");
const RTX_5090: (u16, &str) = (0x2b85, "NVIDIA GeForce RTX 5090");

fn planned(root: &Root) -> Plan {
    let options = Options::default();
    plan::plan(
        &read::read(root, &options).unwrap(),
        &options,
        &Families::own().unwrap(),
    )
    .unwrap()
}

#[test]
fn what_was_applied_is_undone_byte_for_byte_on_every_layout() {
    let layouts: [fn(Model) -> Model; 6] = [
        Model::ubuntu,
        Model::fedora,
        Model::arch,
        |model| model.fedora().with("run/ostree-booted", ""),
        |model| {
            model
                .debian()
                .with("etc/kernel/cmdline", "ro quiet")
                .with("etc/kernel/proxmox-boot-uuids", "")
        },
        |model| {
            let model = model
                .with("etc/os-release", "ID=arch\n")
                .with("efi/loader/loader.conf", "");
            model.with("efi/loader/entries/a.conf", "linux /v\noptions ro\n")
        },
    ];
    for (nth, layout) in layouts.into_iter().enumerate() {
        let (dir, root) = layout(
            Model::new(4, RTX_5090, "580.95.05")
                .packaged()
                .translating(),
        )
        .laid_out();
        let before = everything(dir.path());
        let plan = planned(&root);
        let (mut runner, mut person) = (Recorder::default(), Person::who_says(true));
        let applied = apply(&root, &plan, &mut runner, &mut person).unwrap();
        assert!(applied.steps >= 2 && !applied.stopped, "{nth}: {applied:?}");
        assert_ne!(changed(&everything(dir.path()), &before), [""; 0], "{nth}");
        assert!(
            person
                .heard
                .contains("+options nvidia NVreg_RegistryDwords=ForceP2P=17"),
            "{}",
            person.heard
        );
        let generators = |ran: &[String]| {
            ran.iter()
                .filter(|line| {
                    !line.contains("grubby")
                        && !line.contains("rpm-ostree")
                        && !line.contains("systemctl")
                })
                .cloned()
                .collect::<Vec<_>>()
        };
        let first = generators(&runner.ran);
        runner.ran.clear();
        let undone = undo(&root, &mut runner, &mut person).unwrap().unwrap();
        assert_eq!(undone.left, [""; 0], "{nth}");
        assert_eq!(changed(&everything(dir.path()), &before), [""; 0], "{nth}");
        assert_eq!(
            generators(&runner.ran),
            first,
            "{nth}: the same generators run again"
        );
        assert_eq!(undo(&root, &mut runner, &mut person).unwrap(), None);
    }
}

#[test]
fn the_boot_loaders_own_program_removes_the_words_that_it_added() {
    let (_dir, root) = Model::new(2, RTX_5090, "580.95.05")
        .fedora()
        .translating()
        .laid_out();
    let (mut runner, mut person) = (Recorder::default(), Person::who_says(true));
    apply(&root, &planned(&root), &mut runner, &mut person).unwrap();
    undo(&root, &mut runner, &mut person).unwrap();
    assert_eq!(
        runner.ran,
        [
            "dracut -f",
            "grubby --update-kernel=ALL --args=iommu=pt",
            "grubby --update-kernel=ALL --remove-args=iommu=pt",
            "dracut -f",
        ]
    );
}

#[test]
fn a_file_that_changed_since_is_shown_and_left_alone() {
    let (dir, root) = Model::new(2, RTX_5090, "580.95.05")
        .arch()
        .translating()
        .laid_out();
    let before = everything(dir.path());
    let (mut runner, mut person) = (Recorder::default(), Person::who_says(true));
    apply(&root, &planned(&root), &mut runner, &mut person).unwrap();
    let grub = dir.path().join("etc/default/grub");
    let text = fs::read_to_string(&grub).unwrap();
    fs::write(&grub, format!("{text}GRUB_TIMEOUT=1\n")).unwrap();
    person.heard.clear();
    let undone = undo(&root, &mut runner, &mut person).unwrap().unwrap();
    assert_eq!(
        undone.left,
        ["/etc/default/grub has changed since, and is left alone"]
    );
    assert!(person.heard.contains("+GRUB_TIMEOUT=1"), "{}", person.heard);
    assert!(
        fs::read_to_string(&grub)
            .unwrap()
            .ends_with("GRUB_TIMEOUT=1\n")
    );
    assert!(
        !dir.path().join("etc/modprobe.d").exists(),
        "a file that was not changed is gone"
    );
    // Once the user has put it right, the rest is taken back.
    fs::write(&grub, text).unwrap();
    assert_eq!(
        undo(&root, &mut runner, &mut person).unwrap().unwrap().left,
        [""; 0]
    );
    assert_eq!(changed(&everything(dir.path()), &before), [""; 0]);
}

#[test]
fn a_failed_step_ends_the_run_and_the_way_back_is_whole() {
    for failing in ["dracut", "grubby"] {
        let (dir, root) = Model::new(2, RTX_5090, "580.95.05")
            .fedora()
            .translating()
            .laid_out();
        let before = everything(dir.path());
        let mut runner = Recorder {
            fails_at: Some(failing),
            ..Recorder::default()
        };
        let mut person = Person::who_says(true);
        let why = apply(&root, &planned(&root), &mut runner, &mut person)
            .unwrap_err()
            .0;
        assert!(
            why.contains(
                "ended with exit status: 1; nothing more was done, and `firstlight setup --undo`"
            ),
            "{why}"
        );
        assert!(runner.ran.last().unwrap().starts_with(failing));
        let undone = undo(&root, &mut Recorder::default(), &mut person)
            .unwrap()
            .unwrap();
        assert_eq!(undone.left, [""; 0]);
        assert_eq!(
            changed(&everything(dir.path()), &before),
            [""; 0],
            "{failing}"
        );
    }
}

#[test]
fn nothing_is_written_without_a_yes_or_over_a_file_that_changed_under_the_plan() {
    let (dir, root) = Model::new(2, RTX_5090, "580.95.05").ubuntu().laid_out();
    let before = everything(dir.path());
    let plan = planned(&root);
    let applied = apply(
        &root,
        &plan,
        &mut Recorder::default(),
        &mut Person::who_says(false),
    )
    .unwrap();
    assert!(applied.stopped && applied.steps == 0);
    assert_eq!(changed(&everything(dir.path()), &before), [""; 0]);
    fs::create_dir_all(dir.path().join("etc/modprobe.d")).unwrap();
    fs::write(dir.path().join("etc/modprobe.d/firstlight.conf"), "mine\n").unwrap();
    let why = apply(
        &root,
        &plan,
        &mut Recorder::default(),
        &mut Person::who_says(true),
    )
    .unwrap_err()
    .0;
    assert!(
        why.starts_with("/etc/modprobe.d/firstlight.conf: has changed since the plan was made"),
        "{why}"
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("etc/modprobe.d/firstlight.conf")).unwrap(),
        "mine\n"
    );
}

#[test]
fn the_source_is_copied_without_old_objects_and_removed_only_if_nobody_touched_it() {
    let (dir, root) = Model::new(2, RTX_4090, "580.95.05")
        .ubuntu()
        .buildable()
        .laid_out();
    let before = everything(dir.path());
    let (mut runner, mut person) = (Recorder::default(), Person::who_says(true));
    apply(&root, &planned(&root), &mut runner, &mut person).unwrap();
    let copy = dir.path().join("usr/src/firstlight-nvidia-580.95.05");
    assert!(copy.join("version.mk").exists() && copy.join("firstlight/bar1/edits.toml").exists());
    assert!(!copy.join("kernel-open/left.o").exists());
    assert!(
        fs::read_to_string(copy.join("dkms.conf"))
            .unwrap()
            .contains("PACKAGE_NAME=\"firstlight-nvidia\"")
    );
    assert!(
        runner.ran[0].starts_with("python3 -B ")
            && runner.ran[0].ends_with(&format!("bar1 {} ada", Edits::level()))
    );
    assert!(
        dir.path()
            .join("usr/src/nvidia-580.95.05/kernel-open/left.o")
            .exists(),
        "the package's folder is untouched"
    );
    fs::write(copy.join("version.mk"), "mine\n").unwrap();
    let undone = undo(&root, &mut runner, &mut person).unwrap().unwrap();
    assert_eq!(
        undone.left,
        [
            "/usr/src/firstlight-nvidia-580.95.05/version.mk has changed since; the folder is left alone"
        ]
    );
    fs::write(copy.join("version.mk"), "NVIDIA_VERSION = 580.95.05\n").unwrap();
    assert_eq!(
        undo(&root, &mut runner, &mut person).unwrap().unwrap().left,
        [""; 0]
    );
    assert_eq!(changed(&everything(dir.path()), &before), [""; 0]);
    assert!(
        runner
            .ran
            .contains(&"dkms remove -m firstlight-nvidia -v 580.95.05 --all".to_owned())
    );
}

#[test]
fn the_check_believes_the_loaded_module_and_the_kernels_line() {
    let (dir, root) = Model::new(2, RTX_4090, "580.95.05")
        .ubuntu()
        .buildable()
        .translating()
        .laid_out();
    assert_eq!(check(&root).unwrap(), None);
    let plan = planned(&root);
    apply(
        &root,
        &plan,
        &mut Recorder::default(),
        &mut Person::who_says(true),
    )
    .unwrap();
    let put = |path: &str, text: &str| {
        fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
        fs::write(dir.path().join(path), text).unwrap();
    };
    let lines = || check(&root).unwrap().unwrap();
    let before = lines();
    assert!(!before.in_force);
    assert!(
        before.lines[0]
            .starts_with("P2P is off: the installed module of driver 580.95.05 is loaded"),
        "{before:?}"
    );
    assert!(before.lines[1].starts_with("the kernel's command line has no iommu=pt"));
    put("proc/cmdline", "ro iommu=pt\n");
    put(
        "sys/module/nvidia/parameters/firstlight_patch",
        &format!("{}\n", Edits::level()),
    );
    assert!(
        lines().lines[0].contains("has the registry keys ''"),
        "{:?}",
        lines()
    );
    put(
        "proc/driver/nvidia/params",
        "RegistryDwords: \"ForceP2P=17;RMPcieP2PType=1;RMForceStaticBar1=1\"\n",
    );
    assert!(lines().in_force, "{:?}", lines());
    // An update of the driver: the script loads the installed modules then.
    fs::remove_file(
        dir.path()
            .join("sys/module/nvidia/parameters/firstlight_patch"),
    )
    .unwrap();
    put("sys/module/nvidia/version", "590.48.01\n");
    put(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  R\n",
    );
    assert!(lines().lines[0].starts_with(
        "P2P is off since driver 590.48.01: the edited modules are those of 580.95.05"
    ));
}

#[test]
fn a_journal_that_is_none_is_an_error_and_nothing_is_undone() {
    let (_dir, root) = Root::written(&[("var/lib/firstlight/setup.json", "{}")]);
    assert!(
        Journal::read(&root)
            .unwrap_err()
            .0
            .starts_with("/var/lib/firstlight/setup.json: ")
    );
    assert!(undo(&root, &mut Recorder::default(), &mut Person::who_says(true)).is_err());
}
