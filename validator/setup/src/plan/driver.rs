//! Whether the loaded driver can do what the boards need, and if not, which one can and how it is installed here. Pure.

use super::{Needs, apply, modules, name, person};
use crate::keys::{Families, LAST_BEFORE_TURING, Need, numbers};
use crate::state::State;
use crate::step::{Kind, Plan};
use outcome::platform::{Distribution, System};
use std::collections::BTreeSet;

/// Whether the loaded driver fits; the steps and refusals if it does not.
pub(super) fn fits(state: &State, needs: &Needs<'_>, families: &Families, plan: &mut Plan) -> bool {
    let driver = &state.driver;
    foreign(state, plan);
    let from = needs.iter().filter_map(|(_, need)| match need {
        Need::Version { from } | Need::Asked { from, .. } => Some(from.as_str()),
        _ => None,
    });
    let from = from.max_by_key(|from| numbers(from));
    let branch = from.unwrap_or_else(|| crate::keys::Edits::from());
    let wrong = match &driver.loaded {
        None => Some("NVIDIA's driver is not loaded".to_owned()),
        Some(loaded) if !loaded.open => Some(format!(
            "the closed flavour of driver {} is loaded",
            loaded.version
        )),
        Some(loaded) => from
            .filter(|from| numbers(&loaded.version) < numbers(from))
            .map(|from| {
                format!(
                    "driver {} cannot connect these boards; {from} and newer can",
                    loaded.version
                )
            }),
    };
    asked(needs, plan);
    let Some(wrong) = wrong else {
        // Other drivers are refused; what the loaded one lacks is said all the same.
        several(state, plan);
        return true;
    };
    person(
        plan,
        Kind::Driver,
        format!(
            "install the open driver {branch} or newer: {}; {wrong}",
            package(state, branch)
        ),
    );
    plan.refused.push(format!(
        "{wrong}: install {branch} or newer first ({})",
        package(state, branch)
    ));
    later(needs, families, branch, plan);
    false
}

/// Another driver for these GPUs, such as nouveau, is refused.
fn foreign(state: &State, plan: &mut Plan) {
    if let Some(foreign) = state.driver.foreign.first() {
        let blacklist = state
            .host
            .system
            .add_words(&[&format!("module_blacklist={foreign}")]);
        plan.refused
            .push(format!("{foreign} is loaded for these GPUs: {blacklist}"));
    }
}

/// For boards that the driver connects by itself.
pub(super) fn any(state: &State, needs: &Needs<'_>, plan: &mut Plan) {
    foreign(state, plan);
    let only_closed = needs.iter().any(|(_, need)| *need == Need::Closed);
    if state.driver.loaded.is_none() && !only_closed {
        let what =
            "install NVIDIA's driver, which is not loaded: it connects these boards by itself";
        person(plan, Kind::Driver, what.to_owned());
    }
}

/// Boards that only the closed flavour runs, which connects them by itself. `open`: whether other boards need the open one.
pub(super) fn closed(state: &State, needs: &Needs<'_>, open: bool, plan: &mut Plan) {
    let boards = needs.iter().filter(|(_, need)| *need == Need::Closed);
    let boards: Vec<_> = boards.map(|(gpu, _)| name(gpu)).collect();
    let (Some(first), more) = (boards.first(), boards.len().saturating_sub(1)) else {
        return;
    };
    let boards = match more {
        0 => first.clone(),
        more => format!("{first} and {more} more"),
    };
    if open {
        plan.notes.push(format!(
            "{boards}: NVIDIA's open modules, which other boards here need, cannot run boards older than Turing"
        ));
        return;
    }
    let wrong = match &state.driver.loaded {
        None => "NVIDIA's driver is not loaded".to_owned(),
        Some(loaded) if loaded.open => {
            format!("the open flavour of driver {} is loaded", loaded.version)
        }
        Some(loaded) if numbers(&loaded.version).first() > Some(&LAST_BEFORE_TURING) => {
            format!("driver {} is loaded", loaded.version)
        }
        Some(_) => {
            plan.notes.push(format!(
                "{boards}: the closed driver connects such boards by itself: no key and no edit is needed"
            ));
            return;
        }
    };
    person(
        plan,
        Kind::Driver,
        format!(
            "install the closed driver, branch {LAST_BEFORE_TURING} or older, which connects boards older than Turing by itself; NVIDIA's open modules and later branches cannot run them: {boards}; {wrong}"
        ),
    );
}

/// What follows with a driver that is not there yet.
fn later(needs: &Needs<'_>, families: &Families, branch: &str, plan: &mut Plan) {
    let Some(version) = families.newest(branch) else {
        return;
    };
    let again = "`firstlight setup --plan` shows the step when the new driver is loaded";
    // Only where it is named, and then it is a need of its own.
    let named = |need: &Need| !matches!(need, Need::Asked { .. });
    let with: Vec<_> = needs
        .iter()
        .filter(|(_, need)| named(need))
        .map(|(gpu, _)| *gpu)
        .collect();
    let asked: Vec<String> = families.optional().map(str::to_owned).collect();
    let need = |gpu: &crate::state::Gpu| families.need(gpu.device, gpu.geforce, version, &asked);
    if with
        .iter()
        .any(|gpu| matches!(need(gpu), Need::Edits { .. }))
    {
        apply(
            plan,
            Kind::Modules,
            format!("then edit the modules, {}: {again}", modules::UNPROVEN),
            Vec::new(),
        );
    }
    let words = with
        .iter()
        .filter_map(|gpu| families.words(gpu.device, version, &asked, None).ok());
    let words: BTreeSet<_> = words.filter(|words| !words.is_empty()).collect();
    if !words.is_empty() {
        let words = words.into_iter().collect::<Vec<_>>().join(" or ");
        apply(
            plan,
            Kind::Keys,
            format!("then set the registry keys, with {version}: {words}; {again}"),
            Vec::new(),
        );
    }
}

/// Boards whose modules are edited only where that is asked for.
fn asked(needs: &Needs<'_>, plan: &mut Plan) {
    let found = needs.iter().find_map(|(_, need)| match need {
        Need::Asked {
            family,
            boards,
            from,
        } => Some((family, boards, from)),
        _ => None,
    });
    if let Some((family, boards, from)) = found {
        plan.notes.push(format!(
            "{boards}: peer-to-peer over PCIe needs driver {from} or newer with edited modules, only where you ask for it by --families {family}: others saw wrong sums of programs that use a peer's memory directly (an NVLink bridge needs nothing)"
        ));
    }
}

/// Two drivers: which of them is loaded is decided elsewhere.
fn several(state: &State, plan: &mut Plan) {
    let driver = &state.driver;
    let versions: BTreeSet<_> = driver.dkms.iter().map(|(_, version)| version).collect();
    let both = if driver.files.len() > 1 {
        driver.files.join(" and ")
    } else if versions.len() > 1 {
        driver
            .dkms
            .iter()
            .map(|(name, version)| format!("{name}/{version}"))
            .collect::<Vec<_>>()
            .join(" and ")
    } else {
        return;
    };
    plan.refused
        .push(format!("two drivers are installed, {both}: remove one"));
}

/// The command that installs the open flavour.
fn package(state: &State, branch: &str) -> String {
    let branch = branch.split('.').next().unwrap_or(branch);
    let nvidias = "from NVIDIA's repository for this distribution";
    let distribution = match state.host.system {
        System::Installed(distribution, _) => distribution,
        _ => Distribution::Unknown,
    };
    match (state.distribution.as_str(), distribution) {
        ("ubuntu", _) => format!("`apt install nvidia-driver-{branch}-open`"),
        (_, Distribution::Debian) => format!("{nvidias}, `apt install nvidia-open`"),
        (_, Distribution::Fedora) => format!("{nvidias}, `dnf install nvidia-open`"),
        (_, Distribution::Suse) => format!("{nvidias}, `zypper install nvidia-open`"),
        (_, Distribution::Arch) => "`pacman -S nvidia-open-dkms`".to_owned(),
        (_, Distribution::NixOs) => "hardware.nvidia.open = true in the configuration".to_owned(),
        _ => "the open flavour of NVIDIA's driver".to_owned(),
    }
}
