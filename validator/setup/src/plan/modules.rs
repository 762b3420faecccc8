//! Edited modules and registry keys for the loaded driver. The edited modules are a copy of the driver's source under a DKMS
//! name of our own, and are loaded in place of the installed ones as long as these have the same version. Pure.

use super::{Needs, apply};
use crate::keys::{Edits, Families, Need};
use crate::options::Options;
use crate::state::{Loaded, State};
use crate::step::{Action, Call, Change, Edited, Kind, Plan, paths, split};
use machine::host::nvidia::keys::{RegistryKeys, major};
use outcome::platform::{BootLoader, Distribution, System};
use std::collections::{BTreeMap, BTreeSet};

/// What is said about every step that no board has shown.
pub(super) const UNPROVEN: &str = "from the driver's source, unproven on a board";
/// The modules that the edits change. The others are the installed ones, which have the same version.
pub(crate) const MODULES: [&str; 2] = ["nvidia", "nvidia-uvm"];
/// Those of the source that are not built; nvidia-modeset would need a C++ compiler.
const NOT_BUILT: &str = "nvidia-drm nvidia-modeset nvidia-peermem";
/// The folder in which the edited modules are, laid out as a system's, by kernel.
const TREE: &str = "/usr/lib/firstlight/edited";

/// Adds the steps for the loaded driver, which fits. `needs` has the GPUs that can be connected, not all of the machine's.
pub(super) fn add(
    state: &State,
    options: &Options,
    needs: &Needs<'_>,
    families: &Families,
    plan: &mut Plan,
) -> Result<(), String> {
    let Some(loaded) = &state.driver.loaded else {
        return Ok(());
    };
    let bound = needs.iter().filter_map(|(_, need)| match need {
        Need::Edits { family } => Some(family.clone()),
        _ => None,
    });
    let bound: BTreeSet<_> = bound.collect();
    let mut keys = BTreeMap::new();
    for (gpu, need) in needs {
        if matches!(need, Need::Keys | Need::Edits { .. }) {
            let header = state.driver.header.as_deref();
            match families.words(gpu.device, &loaded.version, &options.families, header) {
                Ok(words) => keys.insert(gpu.bdf.to_string(), words),
                Err(why) => {
                    unknown(loaded, &bound, plan);
                    plan.refused.push(why);
                    return Ok(());
                }
            };
        }
    }
    if keys.is_empty() {
        return Ok(());
    }
    plan.expected.version = Some(loaded.version.clone());
    plan.expected.level = (!bound.is_empty()).then(|| Edits::level().to_owned());
    plan.expected.keys.clone_from(&keys);
    let has_edits = loaded.patch.as_deref() == Some(Edits::level());
    if has_edits && !bound.is_empty() {
        plan.notes.push(format!(
            "the loaded driver {} is edited (level {})",
            loaded.version,
            Edits::level()
        ));
    } else if !bound.is_empty() {
        edits(state, loaded, &bound, plan);
    }
    if in_force(loaded, &keys) && (has_edits || bound.is_empty()) {
        plan.notes.push(format!(
            "the registry keys are in force: {}",
            shown(&keys, state.gpus.len())
        ));
        return Ok(());
    }
    set_keys(
        state,
        loaded,
        (&keys, state.gpus.len()),
        !bound.is_empty(),
        plan,
    );
    Ok(())
}

/// The steps whose registry keys are not known, so that nothing can be done about them yet.
fn unknown(loaded: &Loaded, bound: &BTreeSet<String>, plan: &mut Plan) {
    let version = &loaded.version;
    if !bound.is_empty() && loaded.patch.as_deref() != Some(Edits::level()) {
        apply(plan, Kind::Modules, edited(version, bound), Vec::new());
    }
    let what = format!(
        "set the registry keys of driver {version}, whose numbers are not known yet ({UNPROVEN})"
    );
    apply(plan, Kind::Keys, what, Vec::new());
}

/// What the step about edited modules says.
fn edited(version: &str, families: &BTreeSet<String>) -> String {
    let families: Vec<_> = families.iter().map(String::as_str).collect();
    format!(
        "edit the modules of driver {version} for {}, in a copy with the DKMS name {}: {UNPROVEN}",
        families.join(", "),
        paths::DKMS
    )
}

/// Whether the keys in force mean the same.
fn in_force(loaded: &Loaded, keys: &BTreeMap<String, String>) -> bool {
    let version = major(&loaded.version).unwrap_or(0);
    keys.iter().all(|(bdf, words)| {
        let now = loaded.keys.get(bdf).map_or("", String::as_str);
        RegistryKeys::of(version, now) == RegistryKeys::of(version, words)
    })
}

/// The parameter that gives these GPUs their keys: one for all of the machine's GPUs if they need the same.
fn parameter(keys: &BTreeMap<String, String>, gpus: usize) -> String {
    let different: BTreeSet<_> = keys.values().collect();
    match different.first() {
        Some(words) if different.len() == 1 && keys.len() == gpus => {
            format!("NVreg_RegistryDwords={words}")
        }
        _ => {
            let each = keys.iter().map(|(bdf, words)| format!("pci={bdf};{words}"));
            format!(
                "NVreg_RegistryDwordsPerDevice={}",
                each.collect::<Vec<_>>().join(";")
            )
        }
    }
}

fn shown(keys: &BTreeMap<String, String>, gpus: usize) -> String {
    parameter(keys, gpus)
        .split_once('=')
        .map_or_else(String::new, |(_, words)| words.to_owned())
}

/// The edited modules.
fn edits(state: &State, loaded: &Loaded, families: &BTreeSet<String>, plan: &mut Plan) {
    let version = &loaded.version;
    let what = edited(version, families);
    let refused = cannot(state, loaded);
    let source = state.driver.source.clone().filter(|_| refused.is_empty());
    plan.refused.extend(refused);
    let release = state.host.kernel.release.clone().unwrap_or_default();
    let actions = source.map(|from| {
        build(
            Edited {
                from,
                to: format!("usr/src/{}-{version}", paths::DKMS),
                families: families.iter().cloned().collect(),
                level: Edits::level().to_owned(),
            },
            version,
            &release,
        )
    });
    apply(plan, Kind::Modules, what, actions.unwrap_or_default());
}

/// Why edited modules cannot be built or loaded here, one line each.
fn cannot(state: &State, loaded: &Loaded) -> Vec<String> {
    let driver = &state.driver;
    let mut refused = Vec::new();
    if let System::Installed(Distribution::NixOs, _) = state.host.system {
        refused.push(
            "NixOS builds modules from its configuration: add the edits there (boot.extraModulePackages)".to_owned(),
        );
    }
    if driver.source.is_none() {
        let version = &loaded.version;
        let here = match (driver.partial.first(), driver.files.first()) {
            (Some(folder), _) => format!("{folder} has the kernel's part alone"),
            (None, Some(file)) => format!("{file} was installed without its source"),
            (None, None) => "no package with it is installed".to_owned(),
        };
        refused.push(format!(
            "the whole source of driver {version} is not here ({here}): fetch tag {version} of github.com/NVIDIA/open-gpu-kernel-modules and name its folder by --modules"
        ));
    }
    if !state.build.headers {
        let release = state
            .host
            .kernel
            .release
            .as_deref()
            .unwrap_or("the running kernel");
        refused.push(format!(
            "the headers of kernel {release} are not installed: {}",
            headers(state, release)
        ));
    }
    if !state.build.missing.is_empty() {
        refused.push(format!(
            "missing for the build: {}",
            state.build.missing.join(", ")
        ));
    }
    let boot = &state.secure_boot;
    match (boot.on, &boot.certificate) {
        (Some(false), _) => {}
        (None, _) => refused.push("whether Secure Boot is on cannot be read: run it as root, with /sys/firmware/efi/efivars mounted".to_owned()),
        (Some(true), Some(_)) if boot.enrolled => {}
        (Some(true), Some(path)) => refused.push(format!(
            "Secure Boot is on, and the key by which DKMS signs modules is not enrolled: `mokutil --import {path}`, reboot, and confirm it there"
        )),
        (Some(true), None) => refused.push(
            "Secure Boot is on, and there is no key to sign modules with: `dkms generate_mok`, `mokutil --import /var/lib/dkms/mok.pub`, reboot, and confirm it there".to_owned(),
        ),
    }
    let renamed = driver
        .modprobe
        .iter()
        .find(|(_, line)| line.starts_with("install ") || line.starts_with("alias "));
    if let Some((file, line)) = renamed {
        refused.push(format!(
            "{file} gives the module's name away (`{line}`): edited modules would not be loaded"
        ));
    }
    refused
}

/// The command that installs the running kernel's headers.
fn headers(state: &State, release: &str) -> String {
    match state.host.system {
        System::Installed(Distribution::Debian, _) => {
            format!("`apt install linux-headers-{release}`")
        }
        System::Installed(Distribution::Fedora, _) => {
            format!("`dnf install kernel-devel-{release}`")
        }
        System::Installed(Distribution::Arch, _) => {
            "`pacman -S linux-headers`, of the kernel that runs".to_owned()
        }
        System::Installed(Distribution::Suse, _) => {
            "`zypper install kernel-default-devel`".to_owned()
        }
        _ => "install them".to_owned(),
    }
}

/// The copy, edited, built and checked, then installed.
fn build(edited: Edited, version: &str, release: &str) -> Vec<Action> {
    let of = format!("-m {} -v {version}", paths::DKMS);
    let call = |line: String, back: &str, seconds| {
        Action::Run(Call::with_back(split(&line), split(back), seconds))
    };
    vec![
        Action::Source(edited),
        call(
            format!("dkms add {of}"),
            &format!("dkms remove {of} --all"),
            300,
        ),
        call(format!("dkms build {of} -k {release}"), "", 7200),
        Action::Built {
            version: version.to_owned(),
            release: release.to_owned(),
        },
        call(format!("dkms install {of} -k {release}"), "", 600),
    ]
}

/// The keys: for modules as they are by an option, for edited ones by the script that loads them, because modules without
/// the edits would report peers that get no data.
fn set_keys(
    state: &State,
    loaded: &Loaded,
    (keys, gpus): (&BTreeMap<String, String>, usize),
    edits: bool,
    plan: &mut Plan,
) {
    let parameter = parameter(keys, gpus);
    let other = state
        .driver
        .modprobe
        .iter()
        .find(|(_, line)| line.contains("NVreg_RegistryDwords"));
    if let Some((file, line)) = other {
        plan.refused.push(format!(
            "{file} sets registry keys already (`{line}`): one of both would be ignored; remove it"
        ));
    }
    let with = if edits {
        "for the edited modules alone"
    } else {
        "for the driver as it is"
    };
    let what = format!(
        "set the registry keys of driver {}, {with}: {parameter} ({UNPROVEN})",
        loaded.version
    );
    if let System::Installed(Distribution::NixOs, _) = state.host.system {
        let line = format!("options nvidia {parameter}");
        super::person(
            plan,
            Kind::Keys,
            format!("{what}: {}", state.host.system.module_options(&line)),
        );
        return;
    }
    let change = |path: &str, after: String| {
        let before = state.files.get(path).cloned();
        Action::Write(Change {
            path: path.to_owned(),
            before,
            after,
        })
    };
    let mut actions = Vec::new();
    if edits {
        actions.push(change(paths::LOADER, loader(&loaded.version, &parameter)));
        actions.push(change(paths::MODPROBE, commands()));
    } else {
        actions.push(change(
            paths::MODPROBE,
            format!("{HEAD}options nvidia {parameter}\n"),
        ));
    }
    actions.extend(initramfs(state));
    if state.unit.check_installed && !state.unit.check_enabled {
        let call = |word: &str| split(&format!("systemctl {word} {}", paths::CHECK_UNIT));
        actions.push(Action::Run(Call::with_back(
            call("enable"),
            call("disable"),
            60,
        )));
    }
    apply(plan, Kind::Keys, what, actions);
}

/// The first line of our files.
const HEAD: &str = "# Written by `firstlight setup`; `firstlight setup --undo` removes it.\n";

/// What puts modprobe's configuration into the first file system, which may hold the driver.
fn initramfs(state: &State) -> Option<Action> {
    let System::Installed(distribution, loader) = state.host.system else {
        return None;
    };
    let line = match distribution {
        _ if loader == BootLoader::RpmOstree => return None,
        Distribution::Debian => "update-initramfs -u",
        Distribution::Fedora | Distribution::Suse => "dracut -f",
        Distribution::Arch => "mkinitcpio -P",
        Distribution::NixOs | Distribution::Other | Distribution::Unknown => return None,
    };
    Some(Action::Run(Call::generator(line)))
}

/// The commands by which modprobe loads each module. Where the script is missing, as in an initramfs, the installed modules are
/// loaded.
fn commands() -> String {
    let script = paths::LOADER;
    let line = |name: &str| {
        format!(
            "install {name} {{ test -e /{script} && sh /{script} {name} $CMDLINE_OPTS; }} || modprobe --ignore-install {name} $CMDLINE_OPTS\n"
        )
    };
    format!("{HEAD}{}", MODULES.map(line).concat())
}

/// The script that loads an edited module, if the installed ones have the version that was edited, and otherwise the installed
/// one. Only the edited nvidia.ko gets the keys.
fn loader(version: &str, parameter: &str) -> String {
    format!(
        "#!/bin/sh
{HEAD}# load-nvidia MODULE [PARAMETER..]: loads the edited module, if the installed driver still has the version that was edited;
# otherwise the installed one, which gets no registry keys: with them, modules without the edits report peers that get no data.
set -eu
module=$1
shift
edited() {{
    [ \"$(modinfo -F version nvidia 2> /dev/null)\" = {version} ] || return 1
    if [ \"$module\" = nvidia ]; then
        modprobe -d {TREE} --ignore-install nvidia '{parameter}' \"$@\"
    else
        [ -e /sys/module/nvidia/parameters/{name} ] && modprobe -d {TREE} --ignore-install \"$module\" \"$@\"
    fi
}}
edited \"$@\" || exec modprobe --ignore-install \"$module\" \"$@\"
",
        name = paths::PARAMETER,
    )
}

/// What DKMS is told about the edited copy. The built modules get other names on their way, so that DKMS neither compares them
/// with the installed ones nor replaces these.
pub(crate) fn dkms_conf(version: &str) -> String {
    let module = |(n, name): (usize, &str)| {
        format!(
            "BUILT_MODULE_NAME[{n}]=\"{name}\"\nBUILT_MODULE_LOCATION[{n}]=\"kernel-open\"\nDEST_MODULE_NAME[{n}]=\"firstlight-{name}\"\nDEST_MODULE_LOCATION[{n}]=\"/updates/dkms\"\n"
        )
    };
    let modules: String = MODULES.into_iter().enumerate().map(module).collect();
    let make = format!(
        "env -u ARCH make -j$(nproc) -C src/nvidia && ln -sf ../../src/nvidia/_out/Linux_$(uname -m)/nv-kernel.o kernel-open/nvidia/nv-kernel.o_binary && env -u ARCH make -j$(nproc) -C kernel-open KERNEL_UNAME=${{kernelver}} NV_EXCLUDE_KERNEL_MODULES='{NOT_BUILT}' modules"
    );
    format!(
        "{HEAD}PACKAGE_NAME=\"{}\"\nPACKAGE_VERSION=\"{version}\"\nMAKE[0]=\"{make}\"\nCLEAN=\"true\"\n{modules}AUTOINSTALL=\"yes\"\nNO_WEAK_MODULES=\"yes\"\nPOST_INSTALL=\"{PLACE} put ${{kernelver}}\"\nPOST_REMOVE=\"{PLACE} drop ${{kernelver}}\"\n",
        paths::DKMS
    )
}

/// The name of the script that DKMS runs after it has installed or removed the modules.
pub(crate) const PLACE: &str = "firstlight-place.sh";

/// That script.
pub(crate) fn place() -> String {
    format!(
        "#!/bin/sh
{HEAD}# firstlight-place.sh put|drop KERNEL: moves the modules that DKMS has installed for a kernel into a tree of their own, so that
# depmod and modprobe go on finding the installed ones; or removes that tree.
set -eu
from=/lib/modules/$2 to={TREE}/usr/lib/modules/$2
rm -rf \"$to\"
if [ \"$1\" = put ]; then
    mkdir -p \"$to/updates\"
    [ -e {TREE}/lib ] || ln -s usr/lib {TREE}/lib
    find \"$from/\" -name 'firstlight-nvidia*.ko*' | while read -r file; do
        name=${{file##*/}}
        mv \"$file\" \"$to/updates/${{name#firstlight-}}\"
    done
    # What the driver's modules need of the kernel's own.
    ln -s \"$from/kernel\" \"$to/kernel\"
    for list in modules.order modules.builtin modules.builtin.modinfo; do
        [ ! -e \"$from/$list\" ] || cp \"$from/$list\" \"$to/$list\"
    done
    # The label by which SELinux lets modules be loaded.
    chcon -R --reference=\"$from\" \"$to\" 2> /dev/null || true
    depmod -b {TREE} \"$2\"
else
    rmdir -p --ignore-fail-on-non-empty \"${{to%/*}}\" 2> /dev/null || true
    [ -d {TREE}/usr ] || rm -rf {TREE}
    rmdir --ignore-fail-on-non-empty /usr/lib/firstlight 2> /dev/null || true
fi
"
    )
}
