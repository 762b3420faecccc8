use crate::fixture::{KEYS, Model, kinds, what};
use crate::options::{IommuChoice, Options};
use crate::state::Registers;
use crate::step::{Action, Kind, Plan};

const RTX_4090: (u16, &str) = (0x2684, "NVIDIA GeForce RTX 4090");
const RTX_5090: (u16, &str) = (0x2b85, "NVIDIA GeForce RTX 5090");
const RTX_3090: (u16, &str) = (0x2204, "NVIDIA GeForce RTX 3090");
const H100: (u16, &str) = (0x2330, "NVIDIA H100 80GB HBM3");

#[track_caller]
fn refused(plan: &Plan, beginning: &str) {
    assert!(
        plan.refused
            .iter()
            .any(|line| line.contains(beginning) && !line.contains('\n')),
        "{:#?}",
        plan.refused
    );
}

/// The lines of the programs that the plan runs.
fn lines(plan: &Plan) -> Vec<String> {
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    actions
        .filter_map(|action| {
            if let Action::Run(call) = action {
                Some(call.line())
            } else {
                None
            }
        })
        .collect()
}

/// The text of the file that the plan writes.
#[track_caller]
fn written(plan: &Plan, path: &str) -> String {
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    let mut texts = actions.filter_map(|action| match action {
        Action::Write(change) if change.path == path => Some(change.after.clone()),
        _ => None,
    });
    texts.next().unwrap_or_else(|| panic!("{plan:#?}"))
}

#[test]
fn two_rtx_4090_with_560_closed_get_the_open_580_then_edits_and_keys() {
    let plan = Model::new(2, RTX_4090, "560.35.03")
        .ubuntu()
        .closed()
        .planned();
    assert_eq!(kinds(&plan), "driver modules! keys! reboot proof");
    assert!(
        what(&plan, Kind::Driver).starts_with(
            "install the open driver 580 or newer: `apt install nvidia-driver-580-open`"
        )
    );
    refused(
        &plan,
        "the closed flavour of driver 560.35.03 is loaded: install 580 or newer first",
    );
    assert!(what(&plan, Kind::Keys).contains("ForceP2P=17;RMForceStaticBar1=1;RMPcieP2PType=1"));
    assert!(plan.steps.iter().all(|step| step.actions.is_empty()));
}

#[test]
fn two_rtx_4090_with_580_open_get_edits_and_keys() {
    let plan = Model::new(2, RTX_4090, "580.95.05")
        .ubuntu()
        .buildable()
        .planned();
    assert_eq!(
        (kinds(&plan).as_str(), plan.refused.len()),
        ("modules! keys! reboot proof", 0),
        "{plan:#?}"
    );
    assert!(what(&plan, Kind::Modules).ends_with("from the driver's source, unproven on a board"));
    assert_eq!(
        lines(&plan),
        [
            "dkms add -m firstlight-nvidia -v 580.95.05",
            "dkms build -m firstlight-nvidia -v 580.95.05 -k 6.12.0",
            "dkms install -m firstlight-nvidia -v 580.95.05 -k 6.12.0",
            "update-initramfs -u",
        ]
    );
    // Modules without the edits must never get the keys: they would report peers that get no data.
    let conf = written(&plan, "etc/modprobe.d/firstlight.conf");
    assert!(
        !conf.contains("NVreg")
            && conf.contains("install nvidia-uvm { test -e /usr/lib/firstlight/load-nvidia")
    );
    let script = written(&plan, "usr/lib/firstlight/load-nvidia");
    assert!(
        script.contains(&format!("--ignore-install nvidia '{KEYS}'")),
        "{script}"
    );
    assert!(script.contains("= 580.95.05 ]"), "{script}");
}

#[test]
fn four_rtx_5090_with_580_open_get_keys_alone() {
    let plan = Model::new(4, RTX_5090, "580.95.05").fedora().planned();
    assert_eq!(
        (kinds(&plan).as_str(), plan.refused.len()),
        ("keys! reboot proof", 0),
        "{plan:#?}"
    );
    let conf = written(&plan, "etc/modprobe.d/firstlight.conf");
    assert!(
        conf.ends_with(&format!("options nvidia {KEYS}\n")),
        "{conf}"
    );
    assert_eq!(lines(&plan), ["dracut -f"]);
}

#[test]
fn two_rtx_3090_with_550_need_580_and_the_bar1_of_a_newer_vbios() {
    let mut model = Model::new(2, RTX_3090, "550.163.01").debian();
    (model.plan.bar1_mib, model.plan.rebar) = (256, false);
    let plan = model.planned();
    assert_eq!(kinds(&plan), "vbios driver reboot proof", "{plan:#?}");
    assert!(what(&plan, Kind::Vbios).contains("its VBIOS offers no other size"));
    assert!(
        what(&plan, Kind::Driver)
            .ends_with("driver 550.163.01 cannot connect these boards; 580 and newer can")
    );
    assert!(
        plan.notes[0].contains("only where you ask for it by --families ampere-geforce"),
        "{:?}",
        plan.notes
    );
    let options = Options {
        families: vec!["ampere-geforce".to_owned()],
        ..Options::default()
    };
    let plan = model.planned_with(&options);
    assert_eq!(
        kinds(&plan),
        "vbios driver modules! keys! reboot proof",
        "{plan:#?}"
    );
}

#[test]
fn a_board_alone_in_its_generation_is_not_set_up() {
    let (options, families) = (Options::default(), crate::keys::Families::own().unwrap());
    let with_4090 = |gpus| {
        let mut state = Model::new(gpus, RTX_5090, "580.95.05")
            .ubuntu()
            .state(&options);
        state.gpus[0].device = RTX_4090.0;
        state.gpus[0].model = Some(RTX_4090.1.to_owned());
        super::plan(&state, &options, &families).unwrap()
    };
    let two = with_4090(2);
    assert_eq!((two.steps.len(), two.refused.len()), (0, 0), "{two:#?}");
    assert!(two.notes[0].contains("no peer access between two generations"));
    assert!(two.notes[2].starts_with("so there are no two GPUs here"));
    // Keys without edits would make the RTX 4090 report peers that get no data.
    let three = with_4090(3);
    assert_eq!(kinds(&three), "keys! reboot proof", "{three:#?}");
    let conf = written(&three, "etc/modprobe.d/firstlight.conf");
    assert!(
        conf.contains("NVreg_RegistryDwordsPerDevice=pci="),
        "{conf}"
    );
    assert_eq!(three.expected.keys.len(), 2);
}

#[test]
fn a_board_that_is_left_alone_is_not_one_of_those_for_which_nothing_is_missing() {
    let (options, families) = (Options::default(), crate::keys::Families::own().unwrap());
    let ada = (0x26b1, "NVIDIA RTX 6000 Ada Generation");
    let mut state = Model::new(3, ada, "580.95.05").ubuntu().state(&options);
    state.gpus[0].device = 0x1c81;
    let plan = super::plan(&state, &options, &families).unwrap();
    assert!(
        plan.notes
            .iter()
            .any(|note| note.starts_with("nothing is missing for the other GPUs")),
        "{plan:#?}"
    );
}

/// Adds NVSwitches, as in an HGX.
fn with_switches(model: Model) -> Model {
    let config = |class: [u8; 3]| {
        [
            &[0xde, 0x10, 0xa3, 0x22, 0, 0, 0, 0, 0xa1][..],
            &class,
            &[0; 52],
        ]
        .concat()
    };
    let folder = "sys/bus/pci/devices/0000:f0:00.0";
    ["vendor 0x10de", "device 0x22a3", "class 0x068000"]
        .iter()
        .filter_map(|line| line.split_once(' '))
        .fold(model, |model, (name, text)| {
            model.with(&format!("{folder}/{name}"), &format!("{text}\n"))
        })
        .with(&format!("{folder}/resource"), "0x0 0x0 0x0\n")
        .with_bytes(&format!("{folder}/config"), &config([0, 0x80, 0x06]))
}

#[test]
fn eight_h100_behind_nvswitches_need_nothing_but_the_fabric_manager() {
    let rocky = |model: Model| {
        model.with(
            "etc/os-release",
            "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\n",
        )
    };
    let model = with_switches(rocky(Model::new(8, H100, "580.95.05"))).translating();
    let plan = model.planned();
    assert_eq!(
        (kinds(&plan).as_str(), plan.refused.len()),
        ("fabric-manager", 0),
        "{plan:#?}"
    );
    assert!(what(&plan, Kind::FabricManager).contains("install nvidia-fabricmanager of 580.95.05"));
    let plan = model.with("proc/4242/comm", "nv-fabricmanage\n").planned();
    assert_eq!(
        (plan.steps.len(), plan.refused.len(), plan.notes.len()),
        (0, 0, 1)
    );
}

/// The same in a virtual machine of QEMU.
fn in_qemu(mut model: Model) -> Model {
    model.plan.layout = machines::built::Layout::Guest;
    model
        .with(
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor\n",
        )
        .with("sys/class/dmi/id/sys_vendor", "QEMU\n")
}

#[test]
fn a_guest_gets_the_words_for_its_host() {
    let plan = in_qemu(Model::new(2, RTX_4090, "580.95.05").ubuntu()).planned();
    assert_eq!(plan.steps, []);
    assert_eq!(
        plan.refused,
        [
            "this is a virtual machine, and its hypervisor approves peer-to-peer: on the host, give these GPUs the same `x-nv-gpudirect-clique` (QEMU's option of vfio-pci)"
        ]
    );
}

#[test]
fn sxm_boards_of_a_guest_need_the_partition_of_the_hosts_fabric_manager_and_no_clique() {
    let plan = in_qemu(Model::new(2, H100, "580.95.05").ubuntu()).planned();
    assert_eq!((plan.steps.len(), plan.refused.len()), (0, 0), "{plan:#?}");
    assert!(
        plan.notes[0].contains("the fabric manager of the host has not activated a partition"),
        "{:?}",
        plan.notes
    );
    let pcie = (0x2331, "NVIDIA H100 PCIe");
    refused(
        &in_qemu(Model::new(2, pcie, "580.95.05").ubuntu()).planned(),
        "x-nv-gpudirect-clique",
    );
}

#[test]
fn a_laptop_with_one_gpu_needs_nothing() {
    let plan = Model::new(
        1,
        (0x2757, "NVIDIA GeForce RTX 4090 Laptop GPU"),
        "560.35.03",
    )
    .ubuntu()
    .closed()
    .planned();
    assert_eq!((plan.steps.len(), plan.refused.len()), (0, 0));
    assert!(
        plan.notes[0].starts_with("this system uses one GPU"),
        "{:?}",
        plan.notes
    );
}

#[test]
fn more_than_255_processors_keep_their_iommu() {
    let many = |model: Model| {
        ["possible", "present", "online"]
            .iter()
            .fold(model, |model, name| {
                model.with(&format!("sys/devices/system/cpu/{name}"), "0-383\n")
            })
    };
    let model = many(Model::new(2, RTX_5090, "580.95.05").ubuntu().translating());
    let off = Options {
        iommu: IommuChoice::Off,
        ..Options::default()
    };
    refused(
        &model.planned_with(&off),
        "processors cannot all be used without it; the default, pt, is right here",
    );
    let words = |plan: &Plan| what(plan, Kind::Words);
    assert!(words(&model.planned()).starts_with("add `iommu=pt` "));
    let few = Model::new(2, RTX_5090, "580.95.05").ubuntu().translating();
    assert!(
        words(&few.planned()).starts_with("add `iommu=pt` "),
        "the default is the same on a small machine"
    );
    assert!(words(&few.planned_with(&off)).starts_with("add `iommu=off,soft` "));
}

#[test]
fn boards_with_their_own_peer_to_peer_need_no_driver_of_ours_and_no_key() {
    let plan = Model::new(2, (0x26b1, "NVIDIA RTX 6000 Ada Generation"), "550.163.01")
        .ubuntu()
        .planned();
    assert_eq!((plan.steps.len(), plan.refused.len()), (0, 0), "{plan:#?}");
    let plan = Model::new(2, (0x1e07, "NVIDIA GeForce RTX 2080 Ti"), "580.95.05")
        .ubuntu()
        .planned();
    assert_eq!(plan.steps, []);
    assert!(
        plan.notes[0].contains("no driver is known"),
        "{:?}",
        plan.notes
    );
}

#[test]
fn boards_older_than_turing_need_the_closed_driver_and_no_iommu_that_translates() {
    let boards = |driver: &str| {
        Model::new(2, (0x1b06, "NVIDIA GeForce GTX 1080 Ti"), driver)
            .ubuntu()
            .translating()
    };
    let plan = boards("580.95.05").closed().planned();
    assert_eq!(kinds(&plan), "words! reboot proof", "{plan:#?}");
    assert!(
        plan.notes[0].contains("the closed driver connects such boards by itself"),
        "{:?}",
        plan.notes
    );
    assert!(what(&plan, Kind::Words).starts_with("add `iommu=pt` "));
    let open = boards("580.95.05").planned();
    assert_eq!(kinds(&open), "driver words! reboot proof", "{open:#?}");
    assert!(what(&open, Kind::Driver).ends_with("the open flavour of driver 580.95.05 is loaded"));
    let newer = boards("590.48.01").closed().planned();
    assert!(
        what(&newer, Kind::Driver).starts_with("install the closed driver, branch 580 or older")
    );
}

#[test]
fn small_bars_that_can_grow_are_a_setting_of_the_firmware_and_the_units_work() {
    let (options, families) = (Options::default(), crate::keys::Families::own().unwrap());
    let mut state = Model::new(2, RTX_5090, "580.95.05")
        .ubuntu()
        .packaged()
        .state(&options);
    state
        .gpus
        .iter_mut()
        .for_each(|gpu| gpu.bar1_bytes = Some(256 << 20));
    let plan = super::plan(&state, &options, &families).unwrap();
    assert_eq!(
        kinds(&plan),
        "firmware keys! fabric! reboot proof",
        "{plan:#?}"
    );
    assert!(lines(&plan).contains(&"systemctl enable firstlight-fabric.service".to_owned()));
    assert!(lines(&plan).contains(&"systemctl enable firstlight-setup.service".to_owned()));
}

#[test]
fn words_go_where_the_boot_loader_reads_them() {
    let of = |model: Model| model.translating().planned();
    let base = || Model::new(2, (0x26b1, "NVIDIA RTX 6000 Ada Generation"), "550.163.01");
    let plan = of(base().ubuntu());
    let text = written(&plan, "etc/default/grub.d/zz-firstlight.cfg");
    assert!(
        text.ends_with("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX iommu=pt\"\n"),
        "{text}"
    );
    assert_eq!(lines(&plan), ["update-grub"]);
    let plan = of(base().arch());
    assert_eq!(
        written(&plan, "etc/default/grub"),
        "GRUB_CMDLINE_LINUX=\"quiet\"\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX iommu=pt\" # firstlight setup\n"
    );
    assert_eq!(lines(&plan), ["grub-mkconfig -o /boot/grub/grub.cfg"]);
    assert_eq!(
        lines(&of(base().fedora())),
        ["grubby --update-kernel=ALL --args=iommu=pt"]
    );
    let ostree = base().fedora().with("run/ostree-booted", "");
    assert_eq!(
        lines(&of(ostree)),
        ["rpm-ostree kargs --append-if-missing=iommu=pt"]
    );
    let line = |model: Model| model.with("etc/kernel/cmdline", "root=/dev/sda2 ro\n");
    let plan = of(line(
        base()
            .with("etc/os-release", "ID=debian\n")
            .with("boot/loader/loader.conf", ""),
    ));
    assert_eq!(
        written(&plan, "etc/kernel/cmdline"),
        "root=/dev/sda2 ro iommu=pt\n"
    );
    assert_eq!(lines(&plan), ["update-initramfs -u -k all"]);
    let plan = of(line(base().with("etc/os-release", "ID=debian\n"))
        .with("etc/kernel/proxmox-boot-uuids", ""));
    assert_eq!(lines(&plan), ["proxmox-boot-tool refresh"]);
    let entry = "title Arch\nlinux /vmlinuz\noptions root=/dev/sda2 ro\noptions quiet\n";
    let arch = base()
        .with("etc/os-release", "ID=arch\n")
        .with("boot/loader/loader.conf", "");
    let plan = of(arch.with("boot/loader/entries/arch.conf", entry));
    let expected =
        "title Arch\nlinux /vmlinuz\noptions root=/dev/sda2 ro iommu=pt\noptions quiet\n";
    assert_eq!(
        (
            written(&plan, "boot/loader/entries/arch.conf").as_str(),
            lines(&plan).len()
        ),
        (expected, 0)
    );
    let unknown = of(base().with("etc/os-release", "ID=void\n"));
    refused(
        &unknown,
        "the boot loader is not known: add `iommu=pt` to the kernel's command line yourself",
    );
    let nixos = of(base()
        .with("etc/os-release", "ID=nixos\n")
        .with("etc/NIXOS", ""));
    refused(&nixos, "boot.kernelParams in /etc/nixos/configuration.nix");
}

#[test]
fn words_that_contradict_are_a_persons_and_a_word_that_is_there_is_not_added_again() {
    let mut model = Model::new(2, RTX_5090, "580.95.05").ubuntu().translating();
    model.plan.cmdline = "ro iommu=nopt".to_owned();
    assert!(what(&model.planned(), Kind::Words).contains("replace `iommu=nopt` by `iommu=pt`"));
    model.plan.cmdline = "ro iommu=pt".to_owned();
    let plan = model.planned();
    assert!(
        what(&plan, Kind::Words).starts_with("`iommu=pt` is there already"),
        "{plan:#?}"
    );
    assert!(!lines(&plan).contains(&"update-grub".to_owned()));
}

/// Whether the plan says that nothing is missing.
fn nothing_missing(plan: &Plan) -> bool {
    plan.notes
        .iter()
        .any(|note| note.starts_with("nothing is missing"))
}

#[test]
fn nothing_is_missing_only_if_nothing_is_refused_and_no_need_is_left() {
    let ada = Model::new(2, (0x26b1, "NVIDIA RTX 6000 Ada Generation"), "550.163.01").ubuntu();
    assert!(nothing_missing(&ada.planned()));
    let asked = Model::new(2, RTX_3090, "580.95.05").ubuntu().planned();
    assert_eq!((asked.steps.len(), asked.refused.len()), (0, 0));
    assert!(!nothing_missing(&asked), "{:?}", asked.notes);
    let unread = Model::new(2, RTX_5090, "699.10").ubuntu().planned();
    assert!(!nothing_missing(&unread), "{:?}", unread.notes);
    let both = Model::new(2, RTX_5090, "580.95.05")
        .ubuntu()
        .with("sys/module/nouveau/initstate", "live\n")
        .planned();
    assert_eq!(kinds(&both), "keys! reboot proof", "{both:#?}");
    let (options, families) = (Options::default(), crate::keys::Families::own().unwrap());
    let mut state = ada.state(&options);
    state.driver.loaded = None;
    let plan = super::plan(&state, &options, &families).unwrap();
    assert_eq!(kinds(&plan), "driver reboot proof", "{plan:#?}");
}

#[test]
fn what_is_in_force_is_not_demanded_again() {
    let params = format!("RegistryDwords: \"{}\"\n", KEYS.split_once('=').unwrap().1);
    let plan = Model::new(4, RTX_5090, "580.95.05")
        .fedora()
        .with("proc/driver/nvidia/params", &params)
        .planned();
    assert_eq!((plan.steps.len(), plan.refused.len()), (0, 0), "{plan:#?}");
    let ada = || {
        Model::new(2, RTX_4090, "580.95.05")
            .ubuntu()
            .with("proc/driver/nvidia/params", &params)
    };
    let plan = ada()
        .with(
            "sys/module/nvidia/parameters/firstlight_patch",
            &format!("{}\n", crate::keys::Edits::level()),
        )
        .planned();
    assert_eq!((plan.steps.len(), plan.refused.len()), (0, 0), "{plan:#?}");
    let plan = ada().buildable().planned();
    assert_eq!(
        kinds(&plan),
        "modules! keys! reboot proof",
        "keys without edits are not enough: {plan:#?}"
    );
}

#[test]
fn each_reason_against_edited_modules_is_one_line() {
    let base = || Model::new(2, RTX_4090, "580.95.05").ubuntu();
    let plan = base().planned();
    refused(
        &plan,
        "the whole source of driver 580.95.05 is not here (no package with it is installed): fetch tag 580.95.05",
    );
    refused(
        &plan,
        "the headers of kernel 6.12.0 are not installed: `apt install linux-headers-6.12.0`",
    );
    refused(
        &plan,
        "missing for the build: dkms, make, gcc, python3 (3.11 or newer)",
    );
    let prebuilt = base().with(
        "lib/modules/6.12.0/modules.dep",
        "kernel/nvidia-580-open/nvidia.ko.zst:\n",
    );
    refused(
        &prebuilt.planned(),
        "/lib/modules/6.12.0/kernel/nvidia-580-open/nvidia.ko.zst was installed without its source",
    );
    let partial = base().with("usr/src/nvidia-580.95.05/nvidia/nv.c", "");
    refused(
        &partial.planned(),
        "/usr/src/nvidia-580.95.05 has the kernel's part alone",
    );
    let both = base().buildable().with(
        "lib/modules/6.12.0/modules.dep",
        "updates/dkms/nvidia.ko:\nkernel/n/nvidia.ko:\n",
    );
    refused(&both.planned(), "two drivers are installed");
    let both = base()
        .buildable()
        .with("var/lib/dkms/nvidia/580.95.05/x", "")
        .with("var/lib/dkms/nvidia/575.64/x", "");
    refused(
        &both.planned(),
        "two drivers are installed, nvidia/575.64 and nvidia/580.95.05: remove one",
    );
    let storage = base()
        .buildable()
        .with("var/lib/dkms/nvidia/580.95.05/x", "")
        .with("var/lib/dkms/nvidia-fs/2.28.4/x", "");
    assert_eq!(storage.planned().refused, [""; 0]);
    let away = base().buildable().with(
        "etc/modprobe.d/nvidia.conf",
        "# x\ninstall nvidia modprobe -i nvidia-current\n",
    );
    refused(
        &away.planned(),
        "/etc/modprobe.d/nvidia.conf gives the module's name away",
    );
    let keys = base().buildable().with(
        "etc/modprobe.d/p2p.conf",
        "options nvidia NVreg_RegistryDwords=ForceP2P=17\n",
    );
    refused(
        &keys.planned(),
        "/etc/modprobe.d/p2p.conf sets registry keys already",
    );
    let ostree = base().buildable().with("run/ostree-booted", "");
    refused(
        &ostree.planned(),
        "/usr is the image of an immutable system",
    );
    let nouveau = base()
        .buildable()
        .with("sys/module/nouveau/initstate", "live\n");
    refused(
        &nouveau.planned(),
        "nouveau is loaded for these GPUs: add `module_blacklist=nouveau`",
    );
}

#[test]
fn words_behind_two_dashes_are_modprobes_too() {
    let mut model = Model::new(2, RTX_5090, "580.95.05").ubuntu();
    model.plan.cmdline = "ro -- nvidia.NVreg_RegistryDwords=ForceP2P=0".to_owned();
    refused(&model.planned(), "/proc/cmdline sets registry keys already");
}

#[test]
fn secure_boot_needs_an_enrolled_key_for_edited_modules_and_none_for_keys() {
    let on = |model: Model| {
        let variable = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
        model.with_bytes(variable, &[6, 0, 0, 0, 1])
    };
    let base = || on(Model::new(2, RTX_4090, "580.95.05").ubuntu().buildable());
    refused(
        &base().planned(),
        "Secure Boot is on, and there is no key to sign modules with",
    );
    let signed = || base().with_bytes("var/lib/dkms/mok.pub", b"DER of a certificate");
    refused(
        &signed().planned(),
        "is not enrolled: `mokutil --import /var/lib/dkms/mok.pub`",
    );
    let list = "sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23";
    assert_eq!(
        signed()
            .with_bytes(list, b"head DER of a certificate tail")
            .planned()
            .refused,
        [""; 0]
    );
    assert_eq!(
        on(Model::new(2, RTX_5090, "580.95.05").ubuntu())
            .planned()
            .refused,
        [""; 0]
    );
}

#[test]
fn a_full_boot_partition_and_a_read_only_root_are_refused() {
    let options = Options::default();
    let families = crate::keys::Families::own().unwrap();
    let mut state = Model::new(2, RTX_5090, "580.95.05")
        .ubuntu()
        .state(&options);
    state.boot.free_bytes = Some(60 << 20);
    state.boot.largest_initrd_bytes = 70 << 20;
    refused(
        &super::plan(&state, &options, &families).unwrap(),
        "/boot has 60 MiB free, and a new initramfs needs 86",
    );
    state.boot.free_bytes = Some(100 << 20);
    assert_eq!(
        super::plan(&state, &options, &families).unwrap().refused,
        [""; 0]
    );
    state.boot.read_only = vec!["/etc".to_owned()];
    refused(
        &super::plan(&state, &options, &families).unwrap(),
        "/etc cannot be written: the system is immutable",
    );
}

#[test]
fn a_gpu_that_is_gone_one_that_is_hidden_and_one_that_needs_root_are_told_apart() {
    let (options, families) = (Options::default(), crate::keys::Families::own().unwrap());
    let mut state = Model::new(2, RTX_5090, "580.95.05")
        .ubuntu()
        .state(&options);
    assert_eq!(state.gpus[1].registers, Registers::Read);
    let mut why = |registers| {
        state.gpus[1].registers = registers;
        super::plan(&state, &options, &families).unwrap_err()
    };
    let gone = why(Registers::Gone);
    assert!(
        gone.contains("does not answer: all its registers read as ones; reboot the machine"),
        "{gone}"
    );
    assert!(!gone.contains("root"), "{gone}");
    assert!(why(Registers::Short { bytes: 64 }).ends_with("run it as root"));
    let fault = "a loop at 0x100".to_owned();
    assert!(why(Registers::Hidden { fault }).ends_with("of its BAR1: a loop at 0x100"));
}

#[test]
fn what_was_set_up_and_is_not_in_force_is_not_set_up_a_second_time() {
    let (options, families) = (Options::default(), crate::keys::Families::own().unwrap());
    let mut state = Model::new(2, RTX_5090, "580.95.05")
        .ubuntu()
        .state(&options);
    assert!(!state.set_up);
    state.set_up = true;
    refused(
        &super::plan(&state, &options, &families).unwrap(),
        "it was set up before and is not in force",
    );
}

#[test]
fn the_appliance_and_containers_are_refused() {
    let base = || Model::new(2, RTX_4090, "580.95.05").ubuntu();
    let own = base().with("proc/sys/kernel/osrelease", "6.12.107-firstlight\n");
    refused(&own.planned(), "this is firstlight's own image");
    refused(
        &base().with(".dockerenv", "").planned(),
        "run it on the container's host",
    );
}

#[test]
fn a_driver_that_was_never_looked_at_needs_its_own_header() {
    let plan = Model::new(2, RTX_5090, "699.10").ubuntu().planned();
    refused(
        &plan,
        "driver 699.10 is newer than what firstlight has looked at",
    );
    assert_eq!(kinds(&plan), "keys! reboot proof", "{plan:#?}");
    let ada = Model::new(2, RTX_4090, "699.10").ubuntu().planned();
    assert_eq!(kinds(&ada), "modules! keys! reboot proof", "{ada:#?}");
    let plan = Model::new(2, RTX_5090, "699.10")
        .ubuntu()
        .buildable()
        .planned();
    assert_eq!(
        (kinds(&plan).as_str(), plan.refused.len()),
        ("keys! reboot proof", 0),
        "{plan:#?}"
    );
}
