//! The plan of a machine, as data: the steps in order, and what is refused and why. Demands nothing that the machine does not
//! need. Pure; `apply` carries it out.

mod driver;
mod kernel_words;
mod modules;
#[cfg(test)]
mod tests;

use crate::keys::{Families, Need};
use crate::options::{IommuChoice, Options};
use crate::state::{Gpu, Registers, State};
use crate::step::{Action, By, Call, Kind, Plan, Step, paths, split};
use machine::host::iommu::IommuMode;
use machine::host::nvidia::board_kind::is_all_by_nvlink;
use machine::host::nvidia::chip;
use outcome::finding::{Code, FindingEntry, Severity, Subject, guest_setting};
use outcome::platform::{Architecture, BootLoader, Environment, PassThrough, System};
use outcome::text::size;

pub(crate) use modules::{PLACE, dkms_conf, place};

/// What the driver puts before its map of the memory in BAR1 at most, bytes: the map begins at a multiple of this.
const BEFORE_MAP: u64 = 512 << 20;
/// Room in /boot beside a new first file system, bytes.
const SPARE: u64 = 16 << 20;
/// The word of a command that makes first file systems.
const INITRAMFS: [&str; 3] = ["update-initramfs", "dracut", "mkinitcpio"];

/// The GPUs, and what each needs.
type Needs<'a> = Vec<(&'a Gpu, Need)>;

/// The plan.
///
/// # Errors
/// One line: what decides is unknown.
pub fn plan(state: &State, options: &Options, families: &Families) -> Result<Plan, String> {
    let mut plan = Plan::default();
    if let Some(why) = not_here(state) {
        plan.refused.push(why);
        return Ok(plan);
    }
    if state.gpus.len() < 2 {
        let are = if state.gpus.is_empty() {
            "no GPU"
        } else {
            "one GPU"
        };
        plan.notes.push(format!(
            "this system uses {are} on a card of its own, so nothing has to be connected"
        ));
        return Ok(plan);
    }
    if state.switches.there {
        fabric_manager(state, &mut plan);
        return Ok(plan);
    }
    if let Environment::Guest(_) = state.host.environment {
        guest(state, &mut plan);
        return Ok(plan);
    }
    if let Some(why) = state.gpus.iter().find_map(|gpu| unread(state, gpu)) {
        return Err(why);
    }
    let version = state
        .driver
        .loaded
        .as_ref()
        .map_or("", |loaded| loaded.version.as_str());
    let need = |gpu: &Gpu| families.need(gpu.device, gpu.geforce, version, &options.families);
    let needs: Needs<'_> = state.gpus.iter().map(|gpu| (gpu, need(gpu))).collect();
    plan.notes
        .extend(needs.iter().filter_map(|(gpu, need)| hopeless(gpu, need)));
    let (peers, alone) = peers(&needs);
    plan.notes.extend(alone.into_iter().map(|gpu| {
        format!(
            "{}: no other GPU here is one that the driver could connect with it (NVIDIA's libcuda gives no peer access between two generations)",
            name(gpu)
        )
    }));
    if peers.is_empty() {
        plan.notes.push(
            "so there are no two GPUs here that the driver could connect over PCIe".to_owned(),
        );
        return Ok(plan);
    }
    let through_bar1 = |need: &Need| {
        matches!(
            need,
            Need::Keys | Need::Edits { .. } | Need::Version { .. } | Need::Asked { .. }
        )
    };
    let with_bar1: Vec<&Gpu> = peers
        .iter()
        .filter(|(_, need)| through_bar1(need))
        .map(|(gpu, _)| *gpu)
        .collect();
    firmware(&with_bar1, &mut plan);
    if !with_bar1.is_empty() && driver::fits(state, &peers, families, &mut plan) {
        modules::add(state, options, &peers, families, &mut plan)?;
    }
    if with_bar1.is_empty() {
        driver::any(state, &peers, &mut plan);
    }
    driver::closed(state, &peers, !with_bar1.is_empty(), &mut plan);
    iommu(state, options, &mut plan)?;
    fabric(&with_bar1, state, &mut plan);
    boot_space(state, &mut plan);
    if state.set_up && plan.has_work() {
        plan.refused.push(
            "it was set up before and is not in force: reboot; if `firstlight setup --check` still fails then, run `firstlight setup --undo` first"
                .to_owned(),
        );
    }
    if plan.steps.is_empty() {
        let asked = |(_, need): &(&Gpu, Need)| matches!(need, Need::Asked { .. });
        if plan.refused.is_empty() && !peers.iter().any(asked) {
            let whose = if peers.len() < needs.len() {
                " for the other GPUs"
            } else {
                ""
            };
            plan.notes.push(format!(
                "nothing is missing{whose}; `firstlight p2p` shows whether data arrives"
            ));
        }
    } else {
        person(&mut plan, Kind::Reboot, "reboot".to_owned());
        let proof = "`sudo firstlight setup --check` shows what is in force, and `sudo firstlight p2p` whether data arrives";
        person(&mut plan, Kind::Proof, proof.to_owned());
    }
    Ok(plan)
}

/// The GPUs that the driver could connect with another one, with their needs, and those that are left alone.
fn peers<'a>(needs: &Needs<'a>) -> (Needs<'a>, Vec<&'a Gpu>) {
    let able: Vec<_> = needs
        .iter()
        .filter(|(_, need)| !matches!(need, Need::Never | Need::Unknown))
        .collect();
    let has_peer = |(gpu, need): &(&Gpu, Need)| {
        able.iter().any(|(other, others)| {
            let older = |need: &Need| *need == Need::Closed;
            other.bdf != gpu.bdf
                && older(need) == older(others)
                && chip::of_two_generations(chip::of(gpu.device), chip::of(other.device)).is_none()
        })
    };
    let (peers, alone): (Vec<_>, Vec<_>) = able.iter().copied().partition(|one| has_peer(one));
    (
        peers.into_iter().cloned().collect(),
        alone.into_iter().map(|(gpu, _)| *gpu).collect(),
    )
}

/// A step that a person takes.
fn person(plan: &mut Plan, kind: Kind, what: String) {
    plan.steps.push(Step {
        kind,
        by: By::Person,
        what,
        actions: Vec::new(),
    });
}

/// A step that `--apply` takes.
fn apply(plan: &mut Plan, kind: Kind, what: String, actions: Vec<Action>) {
    plan.steps.push(Step {
        kind,
        by: By::Apply,
        what,
        actions,
    });
}

/// The remedy of a finding on this machine.
fn remedy(state: &State, code: Code) -> String {
    FindingEntry::of(
        &code.finding(Severity::Fail, Subject::Machine, String::new()),
        &state.host,
    )
    .remedy
    .to_string()
}

/// Why nothing can be set up on this kind of machine.
fn not_here(state: &State) -> Option<String> {
    if state.host.container {
        return Some(
            "these are the files of a container: run it on the container's host".to_owned(),
        );
    }
    if state.host.is_wsl() {
        return Some(
            "WSL2 has no PCI function of a GPU: there is nothing to set up in it".to_owned(),
        );
    }
    (state.host.system == System::Appliance).then(|| {
        "this is firstlight's own image, which prepares the machine at each boot; its settings are in docs/settings.md"
            .to_owned()
    })
}

/// Why nothing can be said about a GPU, from how far its registers could be read; `None` if they could.
fn unread(state: &State, gpu: &Gpu) -> Option<String> {
    let bdf = gpu.bdf;
    match &gpu.registers {
        Registers::Read => None,
        Registers::Gone => Some(format!(
            "the GPU at {bdf} does not answer: all its registers read as ones; {}",
            remedy(state, Code::GpuGone)
        )),
        Registers::Short { bytes } => Some(format!(
            "the kernel showed {bytes} bytes of the configuration space of the GPU at {bdf}, as it does to users other than root: run it as root"
        )),
        Registers::Hidden { fault } => Some(format!(
            "a fault in the configuration space of the GPU at {bdf} hides the sizes of its BAR1: {fault}"
        )),
    }
}

/// A board that nothing here would connect.
fn hopeless(gpu: &Gpu, need: &Need) -> Option<String> {
    let name = name(gpu);
    Some(match need {
        Need::Never => {
            format!(
                "{name}: no driver is known that gives it peer-to-peer over PCIe; an NVLink bridge does"
            )
        }
        Need::Unknown => format!(
            "{name} (10de:{:04x}) is in no family that firstlight knows",
            gpu.device
        ),
        _ => return None,
    })
}

fn name(gpu: &Gpu) -> String {
    format!(
        "{} at {}",
        gpu.model.as_deref().unwrap_or("the GPU"),
        gpu.bdf
    )
}

/// GPUs behind NVSwitches have peer-to-peer by themselves.
fn fabric_manager(state: &State, plan: &mut Plan) {
    let switches = state.switches;
    plan.notes
        .push("NVSwitches connect the GPUs: no key, no word and no edit is needed".to_owned());
    if switches.nvlink5 && !switches.nvlsm {
        person(
            plan,
            Kind::FabricManager,
            remedy(state, Code::Nvlink5NoNvlsm),
        );
    } else if !switches.fabric_manager {
        let version = state
            .driver
            .loaded
            .as_ref()
            .map_or("the driver's version", |loaded| loaded.version.as_str());
        let start = "run `systemctl enable --now nvidia-fabricmanager`";
        person(
            plan,
            Kind::FabricManager,
            format!("install nvidia-fabricmanager of {version}, and {start}"),
        );
    }
}

/// In a virtual machine the host decides: about NVLinks by its fabric manager, and about PCIe by the hypervisor.
fn guest(state: &State, plan: &mut Plan) {
    let by_nvlink = |gpu: &&Gpu| is_all_by_nvlink(Some(gpu.device), gpu.model.as_deref());
    let linked = state.gpus.iter().filter(by_nvlink).count();
    if linked > 0 {
        let host = if state.host.is_rented() {
            "the provider's host"
        } else {
            "the host"
        };
        plan.notes.push(format!(
            "NVLinks connect SXM boards, and their NVSwitches belong to {host}: no key, no word and no edit is needed here; if `firstlight p2p` shows no access, the fabric manager of {host} has not activated a partition with these GPUs"
        ));
    }
    if state.gpus.len().saturating_sub(linked) > 1
        && let Some(setting) = guest_setting(&state.host)
    {
        plan.refused.push(format!(
            "this is a virtual machine, and its hypervisor approves peer-to-peer: {setting}"
        ));
    }
}

/// BAR1 must cover the GPU's memory.
fn firmware(gpus: &[&Gpu], plan: &mut Plan) {
    let small = |gpu: &&Gpu| matches!((gpu.bar1_bytes, gpu.memory_bytes), (Some(bar1), Some(memory)) if bar1 < memory);
    let reaches = |gpu: &&Gpu| gpu.largest_bar1_bytes >= gpu.memory_bytes;
    let shown = |gpu: &Gpu| {
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), size);
        format!(
            "{} has {} for {}",
            name(gpu),
            bytes(gpu.bar1_bytes),
            bytes(gpu.memory_bytes)
        )
    };
    let (settings, vbios): (Vec<&Gpu>, Vec<&Gpu>) =
        gpus.iter().copied().filter(small).partition(reaches);
    if let Some(first) = settings.first() {
        let more = if settings.len() > 1 {
            format!(" and {} more", settings.len() - 1)
        } else {
            String::new()
        };
        let what = format!(
            "switch on Above 4G Decoding and Resizable BAR in the firmware setup: BAR1 must cover the memory, and {}{more}",
            shown(first)
        );
        person(plan, Kind::Firmware, what);
    }
    if let Some(first) = vbios.first() {
        let offers = first.largest_bar1_bytes.map_or_else(
            || "no other size".to_owned(),
            |b| format!("{} at most", size(b)),
        );
        let what = format!(
            "update the VBIOS of {} of the boards: BAR1 must cover the memory, {}, and its VBIOS offers {offers}; then switch on Above 4G Decoding and Resizable BAR in the firmware setup",
            vbios.len(),
            shown(first)
        );
        person(plan, Kind::Vbios, what);
    }
    let tight = |gpu: &&&Gpu| {
        let room = gpu
            .largest_bar1_bytes
            .or(gpu.bar1_bytes)
            .zip(gpu.memory_bytes);
        gpu.boot_display
            && room.is_some_and(|(bar1, memory)| bar1 < memory.saturating_add(BEFORE_MAP))
    };
    if let Some(gpu) = gpus.iter().find(tight) {
        let what = format!(
            "connect the screen to another display adapter, and make that the first one in the firmware setup: the console on {} leaves too little of BAR1 for its memory",
            name(gpu)
        );
        person(plan, Kind::Display, what);
    }
}

/// The IOMMU must not translate for the GPUs.
fn iommu(state: &State, options: &Options, plan: &mut Plan) -> Result<(), String> {
    let host = &state.host;
    let off = options.iommu == IommuChoice::Off;
    match state.iommu {
        IommuMode::Off => return Ok(()),
        IommuMode::Identity if !off => return Ok(()),
        IommuMode::Unknown => {
            return Err(
                "what the IOMMU does cannot be read (see `firstlight fabric show`)".to_owned(),
            );
        }
        IommuMode::Identity | IommuMode::Translated => {}
    }
    if off {
        let why = if host.processors.need_iommu() {
            Some("this machine's processors cannot all be used without it")
        } else if !host.passed.is_empty() || host.gpus.iter().any(|gpu| gpu.passed_by.is_some()) {
            Some("a virtual machine uses a device of this system")
        } else if host.architecture == Architecture::Arm64 {
            Some("arm64 has no word for it")
        } else {
            None
        };
        if let Some(why) = why {
            plan.refused.push(format!(
                "--iommu off: {why}; the default, pt, is right here"
            ));
            return Ok(());
        }
        // `soft` keeps bounce buffers, without which devices of 32 bits fail on machines with more than 4 GiB.
        words(
            state,
            &["iommu=off,soft"],
            "the IOMMU is switched off, as asked",
            plan,
        );
        return Ok(());
    }
    match host.pass_through() {
        PassThrough::Asked(word) => person(
            plan,
            Kind::Words,
            format!(
                "`{word}` is there already, and the kernel translates for a group all the same; `dmesg` says why (iommu)"
            ),
        ),
        PassThrough::Refused(old, earlier) => {
            let step = if earlier {
                host.system.remove_words(&old)
            } else {
                host.system.replace_words(&old, pass_through_word(state))
            };
            person(
                plan,
                Kind::Words,
                format!("the kernel's command line asks for translation: {step}"),
            );
        }
        PassThrough::Unsaid => {
            let what = "the IOMMU translates for the GPUs; with this word it stays on and passes their addresses through";
            words(state, &[pass_through_word(state)], what, plan);
        }
    }
    Ok(())
}

const fn pass_through_word(state: &State) -> &'static str {
    match state.host.architecture {
        Architecture::Arm64 => "iommu.passthrough=1",
        _ => "iommu=pt",
    }
}

/// Words are added to the kernel's command line.
fn words(state: &State, words: &[&str], why: &str, plan: &mut Plan) {
    let literal = state.host.system.add_words(words);
    match kernel_words::actions(state, words) {
        Ok(actions) => {
            let what = format!(
                "add `{}` to the kernel's command line: {why}",
                words.join(" ")
            );
            apply(plan, Kind::Words, what, actions);
            plan.expected
                .words
                .extend(words.iter().map(|word| (*word).to_owned()));
        }
        Err(refused) => {
            person(plan, Kind::Words, format!("{literal}: {why}"));
            plan.refused.push(refused);
        }
    }
}

/// BAR1 and ACS at each boot.
fn fabric(gpus: &[&Gpu], state: &State, plan: &mut Plan) {
    let smaller = |gpu: &&&Gpu| gpu.largest_bar1_bytes > gpu.bar1_bytes;
    let small = gpus.iter().filter(smaller).count();
    if state.ports == 0 && small == 0 {
        return;
    }
    if state.host.lockdown.is_some() && state.ports > 0 {
        person(plan, Kind::Fabric, remedy(state, Code::AcsRedirect));
        return;
    }
    let what = "`firstlight fabric fix` at each boot before the driver is loaded, which enlarges BAR1 and keeps ports from redirecting";
    let unit = paths::UNIT;
    if state.unit.enabled {
        plan.notes.push(format!("{unit} is enabled: {what}"));
    } else if state.unit.installed {
        let call = |word: &str| split(&format!("systemctl {word} {unit}"));
        let call = Call::with_back(call("enable"), call("disable"), 60);
        apply(
            plan,
            Kind::Fabric,
            format!("enable {unit}: {what}"),
            vec![Action::Run(call)],
        );
    } else {
        person(
            plan,
            Kind::Fabric,
            format!("install firstlight's package and enable its unit {unit}: {what}"),
        );
    }
}

/// A first file system that does not fit breaks the next boot.
fn boot_space(state: &State, plan: &mut Plan) {
    let makes = |action: &Action| match action {
        Action::Run(call) => call
            .words
            .first()
            .is_some_and(|name| INITRAMFS.contains(&name.as_str())),
        _ => false,
    };
    let makes = plan.steps.iter().any(|step| step.actions.iter().any(makes));
    let needed = state.boot.largest_initrd_bytes.saturating_add(SPARE);
    if let Some(free) = state.boot.free_bytes.filter(|free| makes && *free < needed) {
        plan.refused.push(format!(
            "/boot has {} MiB free, and a new initramfs needs {}: remove old kernels",
            free >> 20,
            needed >> 20
        ));
    }
    let writes = |path: &str| {
        plan.steps
            .iter()
            .flat_map(|step| &step.actions)
            .any(|action| match action {
                Action::Write(change) => {
                    format!("/{}", change.path).starts_with(&format!("{path}/"))
                }
                Action::Source(edited) => {
                    format!("/{}", edited.to).starts_with(&format!("{path}/"))
                }
                _ => false,
            })
    };
    let image = matches!(
        state.host.system,
        System::Installed(_, BootLoader::RpmOstree)
    );
    let locked: Vec<_> = state
        .boot
        .read_only
        .iter()
        .filter(|path| writes(path))
        .cloned()
        .collect();
    if !locked.is_empty() {
        plan.refused.push(format!(
            "{} cannot be written: the system is immutable",
            locked.join(" ")
        ));
    } else if image && writes("/usr") {
        plan.refused.push(
            "/usr is the image of an immutable system: edited modules cannot be installed there"
                .to_owned(),
        );
    }
}
