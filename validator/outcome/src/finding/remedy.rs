//! The next thing to do about a finding, on this kind of machine. A remedy is a sentence with places that depend on the
//! machine, or a function where more than a place depends on it. Nothing is advised that cannot work here. Pure.

use super::{DisplayKind, DriverRefusal, Finding, ForeignDriver, Reason};
use crate::platform::{
    Architecture, Bdf, Distribution, Environment, Host, HostGpu, HotPlugKind, Hypervisor,
    Mainboard, PassThrough, System, Vendor,
};

/// What a remedy depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) host: &'a Host,
    pub(super) finding: &'a Finding,
}

/// The remedy in the row of a code.
#[derive(Debug, Clone, Copy)]
pub(super) enum Remedy {
    /// A sentence. These places in it are filled: `{-s}` (an option of lspci), `{gpu}`, `{power}`,
    /// `{reseat}`, `{slot}`, `{firmware}`, `{on host}`.
    Words(&'static str),
    /// A function of the machine and the finding.
    For(fn(Case<'_>) -> String),
}

impl Remedy {
    pub(super) fn text(self, case: Case<'_>) -> String {
        match self {
            Self::Words(words) => case.place(words),
            Self::For(of) => of(case),
        }
    }
}

impl<'a> Case<'a> {
    /// A sentence with its places filled. On a rented machine or in WSL, where the user cannot touch the hardware, a sentence
    /// about hardware becomes one about what can be done instead.
    pub(super) fn place(self, words: &str) -> String {
        let hardware = ["{reseat}", "{slot}", "{firmware}", "{on host}"];
        if self.host.is_rented() && hardware.iter().any(|place| words.contains(place)) {
            return format!("{}; if that does not help, ask the provider", self.power());
        }
        if self.host.is_wsl() && hardware.iter().any(|place| words.contains(place)) {
            return NOT_IN_WSL.to_owned();
        }
        self.fill(words)
    }

    /// A sentence with its places filled.
    pub(super) fn fill(self, words: &str) -> String {
        let subject = &self.finding.subject;
        let at = subject
            .address()
            .map(|at| format!(" -s {at}"))
            .unwrap_or_default();
        words
            .replace("{-s}", &at)
            .replace("{gpu}", &self.gpu_for_smi())
            .replace("{power}", self.power())
            .replace("{reseat}", self.reseat())
            .replace("{slot}", self.other_slot())
            .replace("{firmware}", self.firmware())
            .replace(
                "{on host}",
                if self.host.has_own_host() {
                    "on the host of this virtual machine, "
                } else {
                    ""
                },
            )
    }

    /// How `nvidia-smi -i` names the GPU: by its address, which no selection of GPUs changes.
    fn gpu_for_smi(self) -> String {
        let number = self.finding.subject.numbers().into_iter().next();
        let at = number
            .and_then(|number| self.host.gpus.get(number.index()))
            .map(|gpu| gpu.bdf);
        match self.finding.subject.address().or(at) {
            Some(at) => at.to_string(),
            None => number.map_or_else(|| "NUMBER".to_owned(), |number| number.to_string()),
        }
    }

    fn guest(self) -> Option<Hypervisor> {
        if let Environment::Guest(hypervisor) = self.host.environment {
            Some(hypervisor)
        } else {
            None
        }
    }

    fn power(self) -> &'static str {
        match self.guest() {
            Some(Hypervisor::Wsl) => {
                "run `wsl --shutdown` in Windows; if that does not help, power the computer off and on"
            }
            Some(_) if self.host.is_rented() => {
                "stop the instance and start it again, which moves it to another machine of the provider"
            }
            Some(_) => {
                "shut the virtual machine down and start it again; if that does not help, power its host off and on"
            }
            None => "power the machine off and on",
        }
    }

    fn reseat(self) -> &'static str {
        if self.host.has_own_host() {
            "on the host of this virtual machine, reseat the card and its riser"
        } else {
            "reseat the card and its riser"
        }
    }

    fn other_slot(self) -> &'static str {
        if self.host.has_own_host() {
            "try the card in another slot of the host"
        } else {
            "try the card in another slot"
        }
    }

    fn firmware(self) -> &'static str {
        if self.host.has_own_host() {
            "in the firmware setup of the virtual machine's host"
        } else {
            "in the firmware setup"
        }
    }

    /// The system whose kernel line and modules are changed. The files of a container say nothing about it.
    const fn system(self) -> System {
        if self.host.container {
            System::Unknown
        } else {
            self.host.system
        }
    }

    /// The instruction that adds words to the kernel's command line.
    fn add_words(self, words: &[&str]) -> String {
        self.system().add_words(words)
    }

    /// The instruction that removes words from it.
    fn remove_words(self, words: &[&str]) -> String {
        self.system().remove_words(words)
    }

    /// The kernel word that switches ACS redirection off: on all ports, or on those of the finding where another device
    /// needs the ACS of its own. `None` where this kernel has no such word or the ports are unknown.
    fn acs_word(self) -> Option<String> {
        // Linux 6.11 has config_acs, 4.19 has disable_acs_redir. Older kernels ignore an unknown option.
        if !self.host.kernel.own && self.host.kernel.is_before((4, 19)) {
            return None;
        }
        let ports = if self.passes() {
            self.ports()
        } else {
            vec!["pci:0:0".to_owned()]
        };
        let one = |port: &String| {
            if self.knows_config_acs() {
                format!("0000000@{port}")
            } else {
                port.clone()
            }
        };
        let option = if self.knows_config_acs() {
            "config_acs"
        } else {
            "disable_acs_redir"
        };
        (!ports.is_empty()).then(|| {
            format!(
                "pci={option}={}",
                ports.iter().map(one).collect::<Vec<_>>().join(";")
            )
        })
    }

    /// The ports that the finding is about.
    fn ports(self) -> Vec<String> {
        let subjects = std::iter::once(&self.finding.subject).chain(&self.finding.represents);
        subjects
            .filter_map(super::Subject::address)
            .map(|at| at.to_string())
            .collect()
    }

    /// Whether a virtual machine uses a device of this system, and so needs ACS above that device.
    fn passes(self) -> bool {
        self.passed().is_some() || !self.host.passed.is_empty()
    }

    /// The word of the kernel's command line that already switches ACS off on all ports, or on those of the finding.
    fn acs_word_there(self) -> Option<&'a str> {
        let kernel = &self.host.kernel;
        let ports = self.ports();
        let covers = |item: &str| {
            let addresses = match item.split_once('=') {
                Some(("config_acs", value)) if self.knows_config_acs() => value,
                Some(("disable_acs_redir", value)) if !kernel.is_before((4, 19)) => value,
                _ => return false,
            };
            let all = |port: &str| {
                addresses.split(';').any(|one| match one.split_once('@') {
                    Some((flags, at)) => at == port && flags.starts_with("0000000"),
                    None => one == port,
                })
            };
            all("pci:0:0") || (!ports.is_empty() && ports.iter().all(|port| all(port)))
        };
        let is_it = |word: &&String| {
            word.strip_prefix("pci=")
                .is_some_and(|items| items.trim_matches('"').split(',').any(covers))
        };
        kernel.words.iter().find(is_it).map(String::as_str)
    }

    fn knows_config_acs(self) -> bool {
        self.host.kernel.own || self.host.kernel.at_least((6, 11))
    }

    /// The kernel word that leaves the IOMMU on and lets it translate nothing.
    const fn pass_through_word(self) -> &'static str {
        match self.host.architecture {
            Architecture::Arm64 => "iommu.passthrough=1",
            _ => "iommu=pt",
        }
    }

    /// The GPU that the finding is about.
    fn gpu(self) -> Option<&'a HostGpu> {
        let subject = &self.finding.subject;
        let number = subject.numbers().into_iter().next();
        self.host
            .gpus
            .iter()
            .find(|gpu| subject.is_at(gpu.bdf) || number == Some(gpu.number))
    }

    /// The Thunderbolt port above the GPU: its firmware setup does not decide about the address space behind the port.
    fn box_port(self) -> Option<Bdf> {
        self.gpu()?
            .hot_plug
            .filter(|above| above.kind == HotPlugKind::Thunderbolt)
            .map(|above| above.port)
    }

    /// Whether all GPUs are in boxes, or some.
    fn boxes(self) -> (bool, bool) {
        let is_box = |gpu: &HostGpu| {
            gpu.hot_plug
                .is_some_and(|above| above.kind == HotPlugKind::Thunderbolt)
        };
        let gpus = &self.host.gpus;
        (
            !gpus.is_empty() && gpus.iter().all(is_box),
            gpus.iter().any(is_box),
        )
    }

    /// The first GPU that is passed to a virtual machine.
    fn passed(self) -> Option<&'a HostGpu> {
        self.host.gpus.iter().find(|gpu| gpu.passed_by.is_some())
    }

    /// The size of the window for 64-bit BARs that all GPUs need, GiB: a power of two with room to align them.
    fn window_gib(self) -> u64 {
        let all: u64 = self
            .host
            .gpus
            .iter()
            .map(|gpu| {
                gpu.memory_bytes
                    .as_ref()
                    .map_or(32 << 30, |known| known.value)
            })
            .sum();
        (all >> 30).max(16).next_power_of_two().saturating_mul(2)
    }

    /// The size of BAR1 that covers the GPU's memory, GiB.
    fn bar1_gib(self) -> u64 {
        let bytes = self
            .gpu()
            .and_then(|gpu| gpu.memory_bytes.as_ref())
            .map_or(32 << 30, |known| known.value);
        (bytes.next_power_of_two() >> 30).max(1)
    }
}

/// Without translation: pass-through is right on every machine that has an IOMMU, because it loses neither processors nor
/// virtual machines, and translates nothing for the GPUs. ACS redirection stays on with it, so its word is named too.
pub(super) fn no_translation(case: Case<'_>) -> String {
    let (all, some) = case.boxes();
    let boxed = format!(
        "accept that GPUs in Thunderbolt boxes have no direct path to others{}",
        {
            if case.passes() || case.guest().is_some() || case.host.processors.need_iommu() {
                ""
            } else {
                ", or switch Kernel DMA Protection off in the firmware setup, which also gives up the protection against devices that are plugged in"
            }
        }
    );
    if all {
        return boxed;
    }
    let usual = no_translation_inside(case);
    if some {
        format!("{usual}; {boxed}")
    } else {
        usual
    }
}

/// The same for GPUs inside of the machine.
fn no_translation_inside(case: Case<'_>) -> String {
    match case.host.pass_through() {
        PassThrough::Asked(word) => return translates_all_the_same(case, word),
        PassThrough::Refused(words, earlier) => {
            return if earlier {
                case.remove_words(&words)
            } else {
                case.system()
                    .replace_words(&words, case.pass_through_word())
            };
        }
        PassThrough::Unsaid => {}
    }
    let word = case.pass_through_word();
    if let Some(gpu) = case.passed() {
        let driver = gpu.passed_by.as_deref().unwrap_or_default();
        return format!(
            "the GPU at {} belongs to a virtual machine ({driver}), which needs the IOMMU and ACS; for the GPUs that this system uses itself, {}",
            gpu.bdf,
            case.add_words(&[word])
        );
    }
    if case.host.has_own_host() {
        return format!(
            "{}; or remove the virtual IOMMU in the settings of the virtual machine on its host",
            case.add_words(&[word])
        );
    }
    if case.guest().is_some() {
        return case.add_words(&[word]);
    }
    if case.host.kernel.own {
        return "boot the image's entry for pass-through (iommu=pt) or the one without IOMMU, with no words about the IOMMU of your own".to_owned();
    }
    match case
        .acs_word()
        .filter(|_| !case.passes() && case.acs_word_there().is_none())
    {
        Some(acs) => case.add_words(&[word, &acs]),
        None => case.add_words(&[word]),
    }
}

/// The word is there and last, and the kernel translates for a group all the same.
fn translates_all_the_same(case: Case<'_>, word: &str) -> String {
    let group = "write `identity` into the file `type` of the GPU's group (/sys/kernel/iommu_groups) before a driver is bound to the GPU";
    let off = if case.passes()
        || case.guest().is_some()
        || case.host.processors.need_iommu()
        || case.host.architecture == Architecture::Arm64
    {
        ""
    } else {
        ", or switch the IOMMU off where the firmware's setup has that"
    };
    format!(
        "`{word}` is there already, so something else decides for this GPU: {group}{off}; `dmesg` says why (iommu)"
    )
}

/// Why the IOMMU translates, where the machine shows more than that it does.
pub(super) fn why_translating(case: Case<'_>) -> Option<String> {
    if case.boxes().0 {
        return Some(
            "Linux translates for devices outside of the machine, as in a Thunderbolt box, whatever its kernel words"
                .to_owned(),
        );
    }
    Some(match case.host.pass_through() {
        PassThrough::Asked(word) => format!(
            "the kernel command line has {word}, but the kernel translates for this group all the same: its type was changed, or its devices need translation"
        ),
        PassThrough::Refused(words, _) => {
            format!("the kernel command line asks for translation: {} is its last word about it", words.join(" "))
        }
        PassThrough::Unsaid if case.guest().is_some() => {
            "the virtual machine has a virtual IOMMU by its settings, and no kernel word asks for pass-through"
                .to_owned()
        }
        PassThrough::Unsaid => return None,
    })
}

/// The IOMMU is in use although the configuration, or firstlight's own kernel, wants it off.
pub(super) fn iommu_off(case: Case<'_>) -> String {
    let keep = "set fabric.iommu = \"pt\": then the IOMMU may stay and must translate nothing";
    let host = case.host;
    if host.processors.need_iommu() {
        return format!("{keep}; this machine's processors cannot all be used without it");
    }
    if case.passes() || case.guest().is_some() || host.architecture == Architecture::Arm64 {
        return keep.to_owned();
    }
    let name = match host.vendor {
        Vendor::Intel => "VT-d",
        Vendor::Amd => "AMD-Vi",
        _ => "VT-d, AMD-Vi",
    };
    format!("{keep}; or switch the IOMMU ({name}) off in the firmware setup")
}

/// Processors are missing, because without an IOMMU the kernel cannot interrupt those with large APIC ids.
pub(super) fn processors_need_iommu(case: Case<'_>) -> String {
    if case.host.is_wsl() {
        return NOT_IN_WSL.to_owned();
    }
    if case.host.is_rented() {
        return "take another type of instance, or one with fewer processors: this one has no IOMMU with interrupt remapping"
            .to_owned();
    }
    if case.guest().is_some() {
        return "on the host, give the virtual machine an IOMMU with interrupt remapping, or fewer processors"
            .to_owned();
    }
    if case.host.kernel.own {
        return "boot the image's pt flavour (iommu=pt) and set fabric.iommu = \"pt\"".to_owned();
    }
    let firmware = "switch the IOMMU and x2APIC on in the firmware setup, remove words such as iommu=off and nox2apic";
    match case.host.pass_through() {
        PassThrough::Asked(_) => format!("{firmware}, and reboot"),
        PassThrough::Refused(..) => format!("{firmware}; then see the test iommu"),
        PassThrough::Unsaid => format!(
            "{firmware}, and {}",
            case.add_words(&[case.pass_through_word()])
        ),
    }
}

/// The IOMMU blocked an access.
pub(super) fn blocked_access(case: Case<'_>) -> String {
    if let PassThrough::Asked(_) = case.host.pass_through() {
        return "the device used an address that is not mapped for it although the IOMMU passes addresses through: update its driver and its firmware; if it happened during tests of peer-to-peer, see their findings".to_owned();
    }
    format!("{}; then run the tests again", no_translation(case))
}

/// Ports redirect.
pub(super) fn acs_redirect(case: Case<'_>) -> String {
    if let Some(mode) = &case.host.lockdown {
        return match case.acs_word().filter(|_| case.acs_word_there().is_none()) {
            Some(word) => format!(
                "{}: a kernel word also works under lockdown ({mode})",
                case.add_words(&[&word])
            ),
            None => format!(
                "unlock the kernel (finding LOCKDOWN, {mode}), then run `firstlight fabric fix` after each boot"
            ),
        };
    }
    if case.host.has_own_host() {
        return "run `firstlight fabric fix` here, which clears the ports of this virtual machine; whether the ports of its host redirect is set on the host".to_owned();
    }
    if case.guest().is_some() {
        return "run `firstlight fabric fix` here, which clears the ports of this virtual machine; only the provider can clear those below it".to_owned();
    }
    let mut now = "run `firstlight fabric fix` after each boot".to_owned();
    if case.passes() {
        now.push_str(", which leaves ACS on where a virtual machine needs it");
    }
    if let Some(word) = case.acs_word_there() {
        return format!(
            "{now}: `{word}` is there already, and something switched ACS on again after it"
        );
    }
    let Some(word) = case.acs_word() else {
        let newer = if case.host.kernel.is_before((4, 19)) {
            "; Linux 4.19 and newer have a kernel word for it"
        } else {
            ""
        };
        return format!("{now}{newer}");
    };
    let keep = case.add_words(&[&word]);
    if case.host.kernel.own {
        return format!("run `firstlight fabric fix`; {keep}");
    }
    let earlier = if case.knows_config_acs() {
        ""
    } else {
        " (pci=config_acs came with Linux 6.11; some vendors' kernels have it earlier)"
    };
    format!("{now}; or, to keep it off, {keep}{earlier}")
}

/// Why ports redirect, where the kernel's line shows more.
pub(super) fn why_redirecting(case: Case<'_>) -> Option<String> {
    let word = case.acs_word_there()?;
    Some(format!(
        "something switched ACS on again after the kernel word {word}: a reset, a rescan, or a driver that bound"
    ))
}

/// ACS came back.
pub(super) fn acs_reverted(case: Case<'_>) -> String {
    let again = "run `firstlight fabric fix` again before the tests";
    if case.guest().is_some() || case.acs_word_there().is_some() {
        return again.to_owned();
    }
    match case.acs_word() {
        Some(word) => format!(
            "so that ACS stays off when the kernel restores it, {}",
            case.add_words(&[&word])
        ),
        None => again.to_owned(),
    }
}

/// A word for one port.
fn acs_quirk_word(case: Case<'_>) -> Option<String> {
    let at = case.finding.subject.address()?;
    (!case.host.kernel.is_before((4, 19)))
        .then(|| case.add_words(&[&format!("pci=disable_acs_redir={at}")]))
}

/// A chipset port that is never written.
pub(super) fn acs_quirk(case: Case<'_>) -> String {
    let slot = "move the card to a slot that is connected to the processor";
    match acs_quirk_word(case) {
        Some(add) => format!("{add}; or {slot}"),
        None => slot.to_owned(),
    }
}

/// The firmware or a bridge leaves too little address space for BAR1.
pub(super) fn no_room(case: Case<'_>) -> String {
    let (window, bar1) = (case.window_gib(), case.bar1_gib());
    if let Some(hypervisor) = case.guest() {
        return window_of_guest(case, hypervisor, window);
    }
    if let Some(port) = case.box_port() {
        let word = format!("pci=realloc,hpmmioprefsize={}G", bar1.saturating_mul(2));
        return format!(
            "the Thunderbolt port {port} above the GPU reserves too little address space: {}",
            case.add_words(&[&word])
        );
    }
    FIRMWARE_REBAR.to_owned()
}

/// A BAR that is not prefetchable has no address. It lies in the window of that kind of the bridges above (PCI-to-PCI Bridge
/// Architecture 1.2, 3.2.5.8), whose size for a hot-plug port is the kernel word hpmmiosize=; hpmmioprefsize= is about the other
/// window (Documentation/admin-guide/kernel-parameters.txt). Whether Linux or the firmware finds the better places differs:
/// realloc= lets Linux replace those of the firmware.
pub(super) fn plain_bar_unplaced(case: Case<'_>, bytes: Option<u64>) -> String {
    if case.guest().is_some() {
        return no_room(case);
    }
    let words = &case.host.kernel.words;
    let asks = |word: &&String| {
        word.strip_prefix("pci=").is_some_and(|items| {
            items
                .split(',')
                .any(|item| item == "realloc" || item == "realloc=on")
        })
    };
    let keep = match words.iter().find(asks) {
        Some(word) => case.remove_words(&[word]),
        None => case.add_words(&["pci=realloc=off"]),
    };
    if let Some(port) = case.box_port() {
        // Room for the other functions of the card besides.
        let mib = bytes
            .map_or(64, |bytes| bytes >> 20)
            .max(64)
            .next_power_of_two();
        let word = format!("pci=hpmmiosize={}M", mib.saturating_mul(2));
        return format!(
            "the Thunderbolt port {port} above the GPU has too little address space below 4 GiB: {}; if that does not help, instead {keep}",
            case.add_words(&[&word])
        );
    }
    format!(
        "{keep}, so that Linux keeps the addresses that the firmware chose; if that does not help, switch on Above 4G Decoding in the firmware setup, which leaves more room below 4 GiB"
    )
}

/// With it a bare machine's firmware makes BAR1 large at each start, before any driver and whatever the kernel can do.
const FIRMWARE_REBAR: &str = "switch on Above 4G Decoding and Resizable BAR in the firmware setup";

/// Whether the firmware setup of this machine decides about the BAR1 of the finding's GPU.
fn firmware_decides(case: Case<'_>) -> bool {
    case.guest().is_none() && case.box_port().is_none()
}

/// BAR1 does not cover the memory.
pub(super) fn small_bar1(case: Case<'_>) -> String {
    if !firmware_decides(case) {
        return no_room(case);
    }
    format!("{FIRMWARE_REBAR}, and run `firstlight fabric fix` before the driver is loaded")
}

/// The largest BAR1 that is offered does not cover the memory. A guest sees only the sizes that its hypervisor shows.
pub(super) fn vbios_limit(case: Case<'_>) -> String {
    if case.guest().is_some() {
        return small_bar1(case);
    }
    let mut text = "update the card's VBIOS to one whose Resizable BAR offers more".to_owned();
    if case.gpu().is_some_and(|gpu| gpu.geforce == Some(false)) {
        text.push_str(", or choose a larger BAR1 with NVIDIA's Display Mode Selector");
    }
    if case.host.environment == Environment::Unknown {
        text.push_str("; in a virtual machine, enlarge BAR1 on its host instead");
    }
    text
}

const NOT_IN_WSL: &str = "run firstlight on Linux itself: WSL2 shows a GPU as /dev/dxg and never as a PCI function, so nothing here can test it";

/// Why there is no GPU, where the machine shows more than that.
pub(super) fn why_no_gpu(case: Case<'_>) -> Option<String> {
    let wsl = "WSL2 shows GPUs as /dev/dxg, never as PCI functions";
    if case.host.is_wsl() {
        return Some(wsl.to_owned());
    }
    case.guest()
        .map(|_| "the virtual machine was given no GPU, or another number of them".to_owned())
}

/// A file of the system cannot be read.
pub(super) fn unreadable(case: Case<'_>) -> String {
    if case.host.container {
        return "start the container as root and privileged (`--privileged`), so that it sees the machine's /sys and /proc; or run firstlight on the container's host"
            .to_owned();
    }
    "run as root on the machine itself; for a recording, record the machine again as root"
        .to_owned()
}

/// The kernel log cannot be read.
pub(super) fn log_unreadable(case: Case<'_>) -> String {
    if case.host.container {
        return "start the container with `--device /dev/kmsg` and privileged (`--privileged`), or with the capability SYSLOG"
            .to_owned();
    }
    "run as root".to_owned()
}

/// A network card is faster than its slot.
pub(super) fn nic_slot(case: Case<'_>) -> String {
    if case.host.gpus.iter().any(|gpu| gpu.integrated) {
        return "nothing if the card is soldered, as on boards with an integrated GPU: expect no more than its link carries; see also LINK-NARROW and LINK-SLOW".to_owned();
    }
    if case.host.is_rented() {
        return "expect no more than the link carries, or take another type of instance".to_owned();
    }
    "move the card to a slot with more lanes; see also LINK-NARROW and LINK-SLOW".to_owned()
}

/// A setting of the virtual machine, on its host.
fn window_of_guest(case: Case<'_>, hypervisor: Hypervisor, gib: u64) -> String {
    if case.host.is_rented() {
        return format!(
            "take another type of instance or another image, or ask the provider: the virtual machine needs a window of at least {gib} GiB for 64-bit BARs"
        );
    }
    if case.host.is_wsl() {
        return NOT_IN_WSL.to_owned();
    }
    let board = |name: &str| format!("`-global {name}-pcihost.pci-hole64-size={gib}G`");
    let hole = match case.host.mainboard {
        Some(Mainboard::I440fx) => board("i440FX"),
        Some(Mainboard::Q35) => board("q35"),
        None => format!(
            "{} (machine type q35) or {} (machine type pc)",
            board("q35"),
            board("i440FX")
        ),
    };
    let first = "on the host, switch on Above 4G Decoding and Resizable BAR, and give the virtual machine a window of";
    match hypervisor {
        Hypervisor::Qemu | Hypervisor::CloudHypervisor => format!(
            "{first} at least {gib} GiB for 64-bit BARs: with OVMF the QEMU option `-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string={}`, with SeaBIOS {hole}",
            gib.saturating_mul(1024)
        ),
        Hypervisor::Vmware => format!(
            "{first} at least {gib} GiB: pciPassthru.use64bitMMIO = \"TRUE\" and pciPassthru.64bitMMIOSizeGB = \"{gib}\" in its VMX file"
        ),
        Hypervisor::HyperV => format!(
            "{first} at least {gib} GiB: `Set-VM NAME -GuestControlledCacheTypes $true -HighMemoryMappedIoSpace {gib}GB`"
        ),
        _ => {
            format!("{first} at least {gib} GiB for 64-bit memory of PCI devices, in its settings")
        }
    }
}

/// A setting of the firmware that only a bare machine has.
pub(super) fn rebar_in_firmware(case: Case<'_>) -> String {
    if case.guest().is_some() {
        no_room(case)
    } else {
        format!("{FIRMWARE_REBAR}, so that the firmware resizes BAR1")
    }
}

/// The GPU ignores a new size.
pub(super) fn rebar_ignored(case: Case<'_>) -> String {
    if case.guest().is_some() {
        return format!(
            "a hypervisor may not let its guest resize BAR1; {}",
            no_room(case)
        );
    }
    if case.box_port().is_some() {
        return "update the card's VBIOS".to_owned();
    }
    format!("{FIRMWARE_REBAR}, so that the firmware resizes BAR1; or update the card's VBIOS")
}

/// The kernel refused to resize.
pub(super) fn rebar_refused(case: Case<'_>) -> String {
    // resourceN_resize came with Linux 6.1 (drivers/pci/pci-sysfs.c).
    let too_old = case.host.kernel.version.is_some() && !case.host.kernel.at_least((6, 1));
    let here = if too_old {
        "boot a kernel of version 6.1 or newer, or firstlight's image: this kernel has no files to resize BARs"
    } else {
        "run as root; the message contains the kernel's error"
    };
    in_firmware_first(case, here)
}

/// On an installed system whose firmware setup decides about BAR1, that is the simple way, and comes first.
pub(super) fn in_firmware_first(case: Case<'_>, here: &str) -> String {
    match case.host.system {
        System::Installed(..) if firmware_decides(case) => {
            format!("{FIRMWARE_REBAR}, so that the firmware resizes BAR1; or {here}")
        }
        _ => here.to_owned(),
    }
}

/// The GPU has no Resizable BAR.
pub(super) fn rebar_absent(case: Case<'_>) -> String {
    if case.host.is_wsl() {
        return NOT_IN_WSL.to_owned();
    }
    if case.guest().is_some() {
        let larger = if case.host.is_rented() {
            "ask the provider"
        } else {
            "enlarge BAR1 on the host before the virtual machine starts"
        };
        return format!(
            "nothing to do if BAR1 covers the memory: QEMU and other hypervisors hide the sizes; otherwise {larger}"
        );
    }
    "update the card's VBIOS: RTX 30 cards got Resizable BAR with an update, older cards never did"
        .to_owned()
}

/// The driver at the GPU is not NVIDIA's.
pub(super) fn foreign_driver(case: Case<'_>) -> String {
    if let Some(gpu) = case.gpu().filter(|gpu| gpu.passed_by.is_some()) {
        let driver = gpu.passed_by.as_deref().unwrap_or_default();
        return format!(
            "nothing to do here if a virtual machine uses this GPU: {driver} holds it for that machine, and firstlight tests it inside; otherwise end the virtual machine and give {} back to NVIDIA's driver (remove it from the settings of {driver}, reboot)",
            gpu.bdf
        );
    }
    KEEP_AWAY.to_owned()
}

const KEEP_AWAY: &str = "keep the other driver from loading, by module_blacklist= and its name on the kernel command line";

/// The modules of the kernel's own drivers for NVIDIA's cards, with the names that they have as drivers.
const OWN_DRIVERS: [(&str, &str); 4] = [
    ("nouveau", "nouveau"),
    ("nvidiafb", "nvidiafb"),
    ("nova_core", "NovaCore"),
    ("nova_drm", "nova_drm"),
];

/// The module of the kernel's own driver of this name.
fn own_module(name: &str) -> Option<&'static str> {
    OWN_DRIVERS
        .iter()
        .find(|names| names.0 == name || names.1 == name)
        .map(|names| names.0)
}

/// Why another driver is there, where its name says more.
pub(super) fn why_foreign(name: &str) -> Option<String> {
    own_module(name).map(|module| {
        format!(
            "the kernel loaded its own driver for NVIDIA's cards, {module}, as it does where NVIDIA's is not installed or loads later"
        )
    })
}

/// What keeps a driver of this name away from the GPUs.
pub(super) fn keep_away(case: Case<'_>, other: &ForeignDriver) -> String {
    let name = other.name.as_str();
    let module = own_module(name).or_else(|| Some(name).filter(|name| is_name(name)));
    let away = module.map_or_else(
        || KEEP_AWAY.to_owned(),
        |module| case.add_words(&[&format!("module_blacklist={module}")]),
    );
    match case.host.system {
        System::Appliance if !case.host.container => away,
        _ if other.alone => {
            format!("install NVIDIA's driver if this system does not have it; then {away}")
        }
        _ => away,
    }
}

/// What makes NVIDIA's driver accept a GPU that it refused. 580 is the last branch for Maxwell, Pascal and Volta, older GPUs
/// have older ones; Blackwell and newer need the open flavour (NVIDIA's README, "Open Linux Kernel Modules").
pub(super) fn accepting_driver(case: Case<'_>, refusal: &DriverRefusal) -> String {
    let remove = "remove the GPU, which the image's driver does not support";
    let (appliance, installed) = match refusal {
        DriverRefusal::NeedsOpen => (
            "boot an image with the open flavour of the driver",
            "install the open flavour of NVIDIA's driver, which `firstlight setup` names for this system, and reboot".to_owned(),
        ),
        DriverRefusal::NoGsp => (
            remove,
            "install the closed flavour of NVIDIA's driver 580 or older, and reboot; or remove the GPU, which is the only way beside GPUs of Blackwell or newer, because these need the open flavour".to_owned(),
        ),
        DriverRefusal::NoVgpu => (
            remove,
            "install the closed flavour of NVIDIA's vGPU software, and reboot".to_owned(),
        ),
        DriverRefusal::OtherRelease => (
            "boot an image with a driver whose README lists the GPU in its appendix A",
            "install a driver whose README lists the GPU in its appendix A, newer for a new GPU and a legacy one for an old GPU, and reboot".to_owned(),
        ),
        DriverRefusal::Legacy(Some(branch)) => (
            remove,
            format!("install driver {branch}, the last for this GPU, and reboot; or remove the GPU"),
        ),
        DriverRefusal::Legacy(None) => (
            remove,
            "install the legacy driver that NVIDIA's README names for this GPU, and reboot; or remove the GPU".to_owned(),
        ),
        DriverRefusal::Held(name) => {
            let name = name.as_ref().map(ToString::to_string).unwrap_or_default();
            let module = own_module(&name).or_else(|| Some(name.as_str()).filter(|name| is_name(name)));
            let away = module.map_or_else(
                || KEEP_AWAY.to_owned(),
                |module| case.add_words(&[&format!("module_blacklist={module}")]),
            );
            return format!("load NVIDIA's module again, or reboot; if the other driver takes the GPU first again, {away}");
        }
    };
    by_system(case, appliance, &installed)
}

/// A driver that supports the GPU.
pub(super) fn supporting_driver(case: Case<'_>) -> String {
    accepting_driver(case, &DriverRefusal::OtherRelease)
}

/// HMM off, or no random placement: both are in the known issues of NVIDIA's CUDA release notes.
pub(super) fn without_hmm(case: Case<'_>) -> String {
    let word = case.add_words(&["nokaslr"]);
    match case.system() {
        System::Appliance => word,
        system => format!(
            "{}; or {word}",
            system.module_options("options nvidia_uvm uvm_disable_hmm=1")
        ),
    }
}

/// Without runtime power management the GPU never gets into the state from which it did not wake (NVIDIA's README, "PCI-Express
/// Runtime D3 Power Management"; drivers/vfio/pci/vfio_pci.c). A virtual machine's GPU is put to sleep by its host.
pub(super) fn keep_awake(case: Case<'_>, vfio: bool) -> String {
    if case.guest().is_some() {
        return super::Code::GpuGone.row().remedy.text(case);
    }
    let keep = match case.system() {
        System::Appliance => {
            "set NVreg_DynamicPowerManagement=0x00 in driver.parameters".to_owned()
        }
        system if vfio => system.module_options("options vfio-pci disable_idle_d3=1"),
        system => system.module_options("options nvidia NVreg_DynamicPowerManagement=0x00"),
    };
    format!(
        "{}; so that it does not happen again, {keep}; if it does, update the machine's firmware",
        case.power()
    )
}

/// Whether it is the name of a kernel module.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// How the hypervisor of a virtual machine comes to approve peer-to-peer over PCIe; `None` if this is none.
#[must_use]
pub fn guest_setting(host: &Host) -> Option<&'static str> {
    let Environment::Guest(hypervisor) = host.environment else {
        return None;
    };
    Some(match hypervisor {
        _ if host.is_rented() => "take a type of instance whose GPUs have it, or ask the provider",
        Hypervisor::Qemu => {
            "on the host, give these GPUs the same `x-nv-gpudirect-clique` (QEMU's option of vfio-pci)"
        }
        _ => "change its settings on the host",
    })
}

/// The driver gives no peer access.
pub(super) fn unsupported(case: Case<'_>) -> String {
    if matches!(
        case.finding.reason,
        Some(Reason::Predicted(super::Refusal::RegistryKey, _))
    ) {
        return "remove that registry key from the module's options, and load the module again"
            .to_owned();
    }
    if case.host.is_wsl() {
        return NOT_IN_WSL.to_owned();
    }
    if let Some(setting) = guest_setting(case.host) {
        return format!(
            "in a virtual machine the hypervisor approves peer-to-peer: {setting}; the status in the evidence gives the driver's reason"
        );
    }
    if case.host.system == System::Appliance {
        return "boot the image with the patched driver; the status in the evidence gives the driver's reason"
            .to_owned();
    }
    "run `firstlight setup`, which shows what this system lacks for peer-to-peer, or boot firstlight's image; the status in the evidence gives the driver's reason".to_owned()
}

/// One text for the appliance, and one for an installed system; both where it is unknown which of them runs.
fn by_system(case: Case<'_>, appliance: &str, installed: &str) -> String {
    match case.host.system {
        _ if case.host.container => installed.to_owned(),
        System::Appliance => appliance.to_owned(),
        System::Installed(..) => installed.to_owned(),
        System::Unknown => format!("on the appliance, {appliance}; on a distribution, {installed}"),
    }
}

/// A required kernel word is missing.
pub(super) fn missing_word(case: Case<'_>) -> String {
    let words: Vec<_> = case
        .finding
        .expected
        .as_str()
        .into_iter()
        .flat_map(str::split_whitespace)
        .collect();
    if case.host.kernel.own || words.is_empty() {
        return "boot firstlight's own image, which has the word".to_owned();
    }
    case.add_words(&words)
}

/// A word contradicts a required one.
pub(super) fn contradicting_word(case: Case<'_>) -> String {
    let word = case
        .finding
        .measured
        .as_str()
        .filter(|word| !word.contains(char::is_whitespace));
    let remove = word.map_or_else(
        || "remove the word from the boot entry".to_owned(),
        |word| case.remove_words(&[word]),
    );
    format!("{remove}; the tests iommu and acs report the actual state")
}

/// The kernel is locked down.
pub(super) fn lockdown(case: Case<'_>) -> String {
    let unlock = unlock(case);
    let word = case
        .acs_word()
        .filter(|_| case.guest().is_none() && case.knows_config_acs());
    match word.filter(|_| case.acs_word_there().is_none()) {
        Some(word) => {
            format!(
                "for ACS, {}, which works under lockdown; for everything else, {unlock}",
                case.add_words(&[&word])
            )
        }
        None => unlock,
    }
}

/// The kernel is no longer locked down.
fn unlock(case: Case<'_>) -> String {
    let place = if case.guest().is_some() {
        "in the settings of the virtual machine, whose own firmware has it"
    } else {
        "in the firmware setup"
    };
    format!(
        "switch Secure Boot off {place}, and remove lockdown= from the kernel command line if it is there"
    )
}

/// The kernel refused the module.
pub(super) fn module_refused(case: Case<'_>) -> String {
    let sign = match case.host.system {
        System::Installed(Distribution::Debian, _) => {
            "sign the module with a key that you enrol by `mokutil --import`"
        }
        _ => "sign the module for this kernel",
    };
    format!("{sign}; or {}", unlock(case))
}

/// A part of the driver is missing.
pub(super) fn driver_missing(case: Case<'_>) -> String {
    let install = match case.host.system {
        System::Installed(Distribution::NixOs, _) => {
            "enable hardware.nvidia in the configuration, and set validate.library_path to the folder of the driver's libraries"
        }
        _ => "install the driver, and set validate.library_path to the folder of its libraries",
    };
    by_system(case, "boot an image that contains the driver", install)
}

/// The module is for another kernel.
pub(super) fn vermagic(case: Case<'_>) -> String {
    let build = match case.host.system {
        System::Installed(Distribution::Fedora, _) => {
            "run `akmods --force` or `dkms autoinstall`, or reinstall the driver"
        }
        _ => "run `dkms autoinstall`, or reinstall the driver",
    };
    by_system(
        case,
        "boot an image whose kernel and driver come from one build",
        build,
    )
}

/// The GPU's firmware is missing.
pub(super) fn gsp_missing(case: Case<'_>) -> String {
    by_system(
        case,
        "boot an image that contains the driver",
        "install the firmware package of the driver's version",
    )
}

/// A device node is missing.
pub(super) fn nodes_missing(case: Case<'_>) -> String {
    if case.host.container {
        return "start the container with the GPUs' device nodes, as NVIDIA's container toolkit does (`--gpus all`)"
            .to_owned();
    }
    by_system(
        case,
        "report the fault with this report",
        "run `nvidia-modprobe -c 0 -u` (once per GPU) or `nvidia-smi`",
    )
}

/// The fabric manager does not run.
pub(super) fn fabric_manager(case: Case<'_>) -> String {
    if case.guest().is_some() {
        return "where the virtual machine owns the NVSwitches, run `systemctl start nvidia-fabricmanager` in it; where its host shares them, the fabric manager runs there".to_owned();
    }
    by_system(
        case,
        "build the image with the fabric manager of the driver's version",
        "run `systemctl start nvidia-fabricmanager`",
    )
}

/// A GPU is not a healthy member of the NVLink fabric.
pub(super) fn nvlink_fabric(case: Case<'_>) -> String {
    if case.guest().is_some() {
        return "read the kernel's Xid lines, and restart the virtual machine; where it owns the NVSwitches, read the fabric manager's log in it first, and run `systemctl restart nvidia-fabricmanager`".to_owned();
    }
    by_system(
        case,
        "read /run/firstlight/fabric-manager.log and the kernel's Xid and SXid lines; then power the machine off and on",
        "read the kernel's Xid and SXid lines and /var/log/fabricmanager.log; stop the programs that use the GPUs, and run `systemctl restart nvidia-fabricmanager`; if that does not help, power the machine off and on",
    )
}

/// The subnet manager of NVLink 5 does not run.
pub(super) fn nvlsm(case: Case<'_>) -> String {
    let install = "install nvlsm, nvidia-fabricmanager of the driver's version and infiniband-diags; then run `modprobe -a mlx5_ib ib_umad` and `systemctl restart nvidia-fabricmanager`, which starts both";
    if case.guest().is_some() {
        return format!(
            "where the virtual machine owns the functions that lead to the NVSwitches, {install} in it; where its host shares them, both run there"
        );
    }
    by_system(
        case,
        "build the image with nvlsm and the fabric manager of the driver's version",
        install,
    )
}

/// A display is on a GPU.
pub(super) fn display(case: Case<'_>) -> String {
    let other = "connect the screen to another display adapter";
    match case.host.system {
        System::Appliance => format!("set console.screen = \"release\", or {other}"),
        _ => {
            format!(
                "{other}; or, so that the firmware's screen is not used, {}",
                case.add_words(&["video=efifb:off"])
            )
        }
    }
}

/// A display of this kind is on a GPU.
pub(super) fn display_of(case: Case<'_>, kind: DisplayKind) -> String {
    match (kind, case.host.system) {
        (DisplayKind::FirmwareDrm, System::Appliance) => display(case),
        (DisplayKind::FirmwareDrm, _) => format!(
            "connect the screen to another display adapter; or, so that the firmware's screen is not used, {}",
            case.add_words(&["initcall_blacklist=sysfb_init"])
        ),
        (DisplayKind::Driver, System::Appliance) => case.add_words(&["nvidia_drm.fbdev=0"]),
        (DisplayKind::Driver, _) => format!(
            "{}; or {}",
            case.add_words(&["nvidia_drm.fbdev=0"]),
            case.system().module_options("options nvidia_drm fbdev=0")
        ),
    }
}

/// A kernel word limits the processors.
pub(super) fn limiting_word(case: Case<'_>, word: &str) -> String {
    format!(
        "if the limit is not intended, {}",
        case.remove_words(&[word])
    )
}

/// The GPU was in use when BAR1 was to be resized.
pub(super) fn busy(case: Case<'_>) -> String {
    if case.host.is_wsl() {
        return NOT_IN_WSL.to_owned();
    }
    let installed = in_firmware_first(
        case,
        "run `firstlight fabric fix` at boot before the driver is loaded, as the package's unit does",
    );
    by_system(
        case,
        "boot again: the image resizes BAR1 before it loads the driver",
        &installed,
    )
}

/// There is no GPU.
pub(super) fn no_gpu(case: Case<'_>) -> String {
    let none = "if the machine has none on purpose, set expect.gpus = 0";
    if case.host.is_wsl() {
        return NOT_IN_WSL.to_owned();
    }
    if case.host.is_rented() {
        return format!(
            "take a type of instance that has a GPU, or stop this one and start it again; {none}"
        );
    }
    if case.guest().is_some() {
        return format!("give the virtual machine a GPU in its settings on the host; {none}");
    }
    format!("check power and seating of the cards; {none}")
}

/// Fewer or more GPUs than expected.
pub(super) fn gpu_count(case: Case<'_>) -> String {
    let otherwise = "otherwise correct expect.gpus";
    if case.host.is_wsl() {
        return NOT_IN_WSL.to_owned();
    }
    if case.host.is_rented() {
        return format!("{}; {otherwise}", case.power());
    }
    if case.guest().is_some() {
        return format!(
            "give the virtual machine the missing GPU in its settings on the host; {otherwise}"
        );
    }
    format!("find the slot that is missing in the list of GPUs and reseat its card; {otherwise}")
}
