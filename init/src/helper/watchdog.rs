//! The children that touch a watchdog device: one loads its driver, opens it and sets its timeout, one gives it up, one
//! pets it. A driver's start can hang, and so can a device that queries a management controller. The open device is sent to
//! process 1 over the child's standard input, a socket, before it is queried: if a hung child held the only descriptor,
//! killing that child would close the device, and it would reset the machine.

use super::request::WatchdogEnd;
use super::{ABSENT, SUCCESS, say};
use crate::modules::{ModuleTree, alias, insert};
use crate::sys::devices::open_device;
use crate::sys::{descriptors, kernel, watchdog};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The word for a device that is petted by one quick write.
pub const DIRECT: &str = "direct";
/// The word for a device whose driver waits for a management controller.
pub const SLOW: &str = "slow";
/// The word for a device whose reset can be relied on: the kernel's timer, and what a hypervisor offers.
pub const RELIABLE: &str = "reliable";
/// The word for a device of which only a reset would show that it resets the machine.
pub const UNPROVEN: &str = "unproven";
/// Printed when nothing shows whether the device runs.
pub const UNCHECKED: &str = "unchecked";

/// Drivers of chipsets' own watchdogs, and those whose start makes the devices for them.
const CHIPSETS: &[&str] = &["lpc_ich", "i2c_i801", "sp5100_tco", "i6300esb", "iTCO_wdt"];
/// The driver of the watchdog that hypervisors offer, and the beginning of its device's `identity`.
const OFFERED: (&[&str], &str) = (&["i6300esb"], "i6300ESB");
/// Drivers of management controllers, which have a watchdog.
const CONTROLLERS: &[&str] = &["ipmi_si", "ipmi_ssif"];
/// The devices of the kernel's watchdog core.
const CLASS: &str = "/sys/class/watchdog";
/// `identity` of softdog.
const SOFTWARE: &str = "Software Watchdog";
/// The one name of a device that is not of the kernel's watchdog core: IPMI's.
const LEGACY: &str = "/dev/watchdog";
/// How long ipmi_watchdog may take to find its controller.
const CONTROLLER: Duration = Duration::from_secs(5);
/// Less is not enough for process 1: `watchdog.timeout_s` has the reason.
const LEAST: u32 = 10;

/// Finds the devices that `hardware` and `software` allow, opens them, sends each to process 1, sets its timeout, and prints one
/// line for it: path, how to pet it, seconds, whether its reset can be relied on, name.
pub(super) fn arm(hardware: bool, software: bool, timeout_s: u32) -> Result<i32, String> {
    let mut reasons = Vec::new();
    let found = if kernel::in_initial_namespace() {
        let drivers = Drivers::of_this_kernel(&mut reasons);
        drivers.load_core(&mut reasons);
        let is_guest = is_guest(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
        open_all(&drivers, (hardware, software), is_guest, &mut reasons)
    } else {
        reasons
            .push("a watchdog outlives a process id namespace, so none is used in one".to_owned());
        Vec::new()
    };
    if found.is_empty() {
        let _no_reader = writeln!(io::stderr(), "{}", reasons.join("; "));
        return Ok(ABSENT);
    }
    for (n, device) in (1..).zip(found) {
        // The kernel's own timer comes later, so that it acts only where the machine's device does not.
        arm_one(device, timeout_s.saturating_mul(n))?;
    }
    Ok(SUCCESS)
}

/// Whether a hypervisor runs this machine: CPUID leaf 1, ECX bit 31, as the kernel shows it.
fn is_guest(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The devices to use, the most trusted first. A chipset's watchdog can be wired so that it counts and resets nothing: a strap of
/// the board, which is QEMU's default as well. So the kernel's timer runs beside it, and a guest uses what its hypervisor offers
/// for this, then the timer.
fn open_all(
    drivers: &Drivers,
    (hardware, software): (bool, bool),
    is_guest: bool,
    reasons: &mut Vec<String>,
) -> Vec<OpenDevice> {
    let offered = if hardware && is_guest {
        open_offered(drivers, reasons)
    } else {
        None
    };
    if offered.is_some() {
        return offered.into_iter().collect();
    }
    let timer = |reasons: &mut Vec<String>| {
        if software {
            open_software(drivers, reasons)
        } else {
            None
        }
    };
    let machine = |reasons: &mut Vec<String>| {
        if hardware {
            open_hardware(drivers, reasons)
        } else {
            None
        }
    };
    match is_guest {
        true => timer(reasons)
            .or_else(|| machine(reasons))
            .into_iter()
            .collect(),
        false => machine(reasons).into_iter().chain(timer(reasons)).collect(),
    }
}

/// Sends an open device to process 1, sets its timeout, and prints its line.
fn arm_one((path, how, trust, device): OpenDevice, timeout_s: u32) -> Result<(), String> {
    descriptors::send(io::stdin().as_fd(), device.as_fd()).map_err(|e| format!("{path}: {e}"))?;
    let asked = |what: &str, e: io::Error| format!("{path}: {what}: {e}");
    let name = watchdog::identity(device.as_fd()).map_err(|e| asked("its name", e))?;
    let seconds = match watchdog::set_timeout(device.as_fd(), timeout_s) {
        Ok(seconds) => seconds,
        // Such a driver keeps its own timeout, and process 1 reports it.
        Err(_) => watchdog::timeout(device.as_fd()).map_err(|e| asked("its timeout", e))?,
    };
    if seconds < LEAST {
        return Err(format!(
            "{path}: measures at most {seconds} s; at least {LEAST} s are needed"
        ));
    }
    say(&format!(
        "{path} {how} {seconds} {trust} {}",
        String::from_utf8_lossy(&name)
    ));
    Ok(())
}

/// Path, how it is petted, whether its reset can be relied on.
type OpenDevice = (String, &'static str, &'static str, File);

/// The watchdog that hypervisors offer.
fn open_offered(drivers: &Drivers, reasons: &mut Vec<String>) -> Option<OpenDevice> {
    drivers.load_for_devices(OFFERED.0, reasons);
    open_core_device(
        |identity| identity.starts_with(OFFERED.1),
        RELIABLE,
        reasons,
    )
}

/// The machine's own watchdog: of its chipset, else of its management controller.
fn open_hardware(drivers: &Drivers, reasons: &mut Vec<String>) -> Option<OpenDevice> {
    // The first pass may make the device that the second one loads a driver for.
    let _loaded = [0, 1].map(|_| drivers.load_for_devices(CHIPSETS, reasons));
    let own = open_core_device(|identity| identity != SOFTWARE, UNPROVEN, reasons);
    if own.is_some() {
        return own;
    }
    if drivers.load_for_devices(CONTROLLERS, reasons) {
        drivers.load("ipmi_watchdog", reasons);
        // If the watchdog core had a device, /dev/watchdog would be a second name of that device.
        let until = Instant::now() + CONTROLLER;
        while device_names(Path::new(CLASS)).is_empty() && Instant::now() < until {
            if Path::new(LEGACY).exists() {
                return open(LEGACY, SLOW, UNPROVEN, reasons);
            }
            sleep(Duration::from_millis(50));
        }
    }
    reasons.push("no watchdog of the machine's own".to_owned());
    None
}

/// The kernel's software watchdog.
fn open_software(drivers: &Drivers, reasons: &mut Vec<String>) -> Option<OpenDevice> {
    drivers.load("softdog", reasons);
    let open = open_core_device(|identity| identity == SOFTWARE, RELIABLE, reasons);
    if open.is_none() {
        reasons.push("no software watchdog".to_owned());
    }
    open
}

/// The first device of the kernel's watchdog core that has such a name and can be opened.
fn open_core_device(
    fits: impl Fn(&str) -> bool,
    trust: &'static str,
    reasons: &mut Vec<String>,
) -> Option<OpenDevice> {
    let seen = device_names(Path::new(CLASS))
        .into_iter()
        .filter(|(_, identity)| fits(identity));
    seen.filter_map(|(name, _)| open(&format!("/dev/{name}"), DIRECT, trust, reasons))
        .next()
}

fn open(
    path: &str,
    how: &'static str,
    trust: &'static str,
    reasons: &mut Vec<String>,
) -> Option<OpenDevice> {
    let opened = open_device(Path::new(path));
    opened
        .map(|file| (path.to_owned(), how, trust, file))
        .map_err(|e| reasons.push(format!("{path}: {e}")))
        .ok()
}

/// The devices of the kernel's watchdog core with their names, in the order in which they were found.
fn device_names(class: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let named = |name: String| {
        let number: u32 = name.strip_prefix("watchdog")?.parse().ok()?;
        let identity = fs::read_to_string(class.join(&name).join("identity")).ok()?;
        Some((number, (name, identity.trim().to_owned())))
    };
    let mut found: Vec<_> = entries
        .filter_map(|entry| named(entry.file_name().into_string().ok()?))
        .collect();
    found.sort();
    found.into_iter().map(|(_, named)| named).collect()
}

/// The running kernel's modules, and the lines of modules.alias about watchdogs and their controllers.
struct Drivers {
    tree: Option<ModuleTree>,
    aliases: String,
}

impl Drivers {
    /// Those of the running kernel. Without them, built-in drivers may still be used.
    fn of_this_kernel(reasons: &mut Vec<String>) -> Self {
        let folder = ModuleTree::running_kernel_dir();
        let tree = ModuleTree::open(&folder)
            .map_err(|why| reasons.push(why))
            .ok();
        let all = fs::read_to_string(folder.join("modules.alias")).unwrap_or_default();
        Self {
            tree,
            aliases: relevant_aliases(&all),
        }
    }

    /// Loads the core so that a device keeps counting during a shutdown: it then also resets a machine that hangs in a reboot.
    fn load_core(&self, reasons: &mut Vec<String>) {
        // If the module's file is missing, either the core is built in, or loading a driver reports what is missing.
        let files = self
            .tree
            .as_ref()
            .and_then(|tree| tree.files("watchdog").ok())
            .unwrap_or_default();
        match files
            .iter()
            .try_for_each(|file| insert(file, "stop_on_reboot=0"))
        {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                reasons.push(format!("watchdog: {e}"));
            }
            Ok(()) | Err(_) => {}
        }
    }

    fn load(&self, module: &str, reasons: &mut Vec<String>) {
        let why = self.tree.as_ref().and_then(|tree| tree.load(module).err());
        // Each pass gives the same reason.
        reasons.extend(
            why.filter(|why| !reasons.contains(why))
                .into_iter()
                .collect::<Vec<_>>(),
        );
    }

    /// Loads those of `drivers` that have a device in this machine; returns whether there is one.
    fn load_for_devices(&self, drivers: &[&str], reasons: &mut Vec<String>) -> bool {
        let wanted = matching_drivers(&self.aliases, drivers, &modaliases(Path::new("/sys")));
        wanted.iter().for_each(|driver| self.load(driver, reasons));
        !wanted.is_empty()
    }
}

/// The lines of modules.alias about the drivers that may be loaded here: a few of many thousands.
fn relevant_aliases(aliases: &str) -> String {
    let known = |module: &str| CHIPSETS.contains(&module) || CONTROLLERS.contains(&module);
    let ours = |line: &&str| line.split_whitespace().last().is_some_and(known);
    aliases
        .lines()
        .filter(ours)
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Those of `drivers` that claim one of the devices, each once.
fn matching_drivers(aliases: &str, drivers: &[&str], devices: &[String]) -> Vec<String> {
    let mut found: Vec<_> = devices
        .iter()
        .flat_map(|device| alias::modules_for(aliases, device))
        .collect();
    found.retain(|module| drivers.contains(&module.as_str()));
    found.sort();
    found.dedup();
    found
}

/// The modaliases of the devices on the buses to which watchdogs and their controllers are attached.
fn modaliases(sys: &Path) -> Vec<String> {
    ["pci", "platform"]
        .into_iter()
        .flat_map(|bus| alias::devices(sys, bus))
        .collect()
}

/// Takes the device from standard input and closes it, stopped or running; then checks that it is.
pub(super) fn release(end: WatchdogEnd, path: &str) -> Result<i32, String> {
    let (last, wanted): (&[u8], _) = match end {
        WatchdogEnd::Disarm => (b"V", "inactive"),
        WatchdogEnd::Keep => (&[0], "active"),
    };
    let device = descriptors::receive_all(io::stdin().as_fd())
        .pop()
        .ok_or("no open device came")?;
    File::from(device)
        .write_all(last)
        .map_err(|e| format!("{path}: {e}"))?;
    let name = path.rsplit('/').next().unwrap_or(path);
    match fs::read_to_string(format!("{CLASS}/{name}/state")) {
        Ok(state) if state.trim() == wanted => {}
        Ok(state) => return Err(format!("{path} is {}, expected {wanted}", state.trim())),
        // The driver of IPMI has no such file.
        Err(_) => say(UNCHECKED),
    }
    Ok(SUCCESS)
}

/// Pets the device that is standard input, once.
pub(super) fn pet() -> Result<i32, String> {
    let device = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|e| e.to_string())?;
    File::from(device)
        .write_all(&[0])
        .map_err(|e| e.to_string())?;
    Ok(SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::files;

    #[test]
    fn only_our_drivers_are_loaded_and_only_for_devices_of_this_machine() {
        let aliases = "alias pci:v00008086d00002918sv*sd*bc*sc*i* lpc_ich\nalias pci:v00008086d* snd_hda\n\
                       alias pci:v00008086d000025ABsv*sd*bc*sc*i* i6300esb\nalias platform:iTCO_wdt iTCO_wdt\n";
        let sys = files(&[
            (
                "bus/pci/devices/0000:00:1f.0/modalias",
                "pci:v00008086d00002918sv0sd0bc06sc01i00\n",
            ),
            (
                "bus/pci/devices/0000:01:1f.0/modalias",
                "pci:v00008086d00002918sv0sd0bc06sc01i00\n",
            ),
            (
                "bus/platform/devices/iTCO_wdt.1.auto/modalias",
                "platform:iTCO_wdt\n",
            ),
            (
                "bus/usb/devices/x/modalias",
                "pci:v00008086d000025ABsv0sd0bc0sc0i0\n",
            ),
        ]);
        let devices = modaliases(sys.path());
        let aliases = relevant_aliases(aliases);
        assert_eq!(aliases.lines().count(), 3);
        assert_eq!(
            matching_drivers(&aliases, CHIPSETS, &devices),
            ["iTCO_wdt", "lpc_ich"]
        );
        assert_eq!(matching_drivers(&aliases, CONTROLLERS, &devices), [""; 0]);
    }

    #[test]
    fn a_guest_is_known_by_the_processors_flag() {
        let cpuinfo = |flags: &str| {
            format!("processor\t: 0\nflags\t\t: fpu {flags} sse2\nbugs\t\t: hypervisor\n")
        };
        assert!(is_guest(&cpuinfo("hypervisor")));
        assert!(!is_guest(&cpuinfo("hypervisors")));
        assert!(!is_guest("Features\t: fp asimd\n"));
    }

    #[test]
    fn devices_come_in_the_order_of_their_numbers_and_what_has_no_name_is_none() {
        let class = files(&[
            ("watchdog10/identity", "iTCO_wdt\n"),
            ("watchdog2/identity", "Software Watchdog\n"),
            ("watchdog/identity", "x\n"),
            ("watchdog3/state", "inactive\n"),
        ]);
        let named = |name: &str, identity: &str| (name.to_owned(), identity.to_owned());
        let in_order = [
            named("watchdog2", SOFTWARE),
            named("watchdog10", "iTCO_wdt"),
        ];
        assert_eq!(device_names(class.path()), in_order);
        assert_eq!(device_names(Path::new("/none")), []);
    }
}
