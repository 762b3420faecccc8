//! How process 1 starts each helper, and the DHCP client: program, words, deadline.

use super::validator::{PublishRequest, publish_words};
use super::{POWER_OFF, RESTART, gpus};
use crate::child::ChildSpec;
use crate::config::types::{CardSelector, DeviceSpec, Driver, Network, Report, Watchdog};
use crate::environment::{self, Variable};
use crate::paths;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// This program, under whatever name it was installed.
const OURSELVES: &str = "/proc/self/exe";
/// Maximum time for operations on a disk.
const DISK: Duration = Duration::from_secs(30);

fn helper(name: &str, args: &[&str], deadline: Duration) -> ChildSpec {
    let mut all = vec!["helper", name];
    all.extend(args);
    ChildSpec::new(OURSELVES, &all, deadline)
}

/// The word for: the data partition may be on any disk.
pub(super) const ANY_DISK: &str = "any-disk";
/// The word for: it may only be on a removable disk or the boot disk.
pub(super) const REMOVABLE_OR_BOOT: &str = "removable-or-boot-disk";
/// The word for files that need signatures.
pub(super) const SIGNED: &str = "signed";
/// The word for files that need none.
pub(super) const UNSIGNED: &str = "unsigned";

/// Maximum time for the children that keep marks.
const MARK: Duration = Duration::from_secs(15);

const fn disks(report: &Report) -> &'static str {
    if report.any_disk { ANY_DISK } else { REMOVABLE_OR_BOOT }
}

/// Copies the data partition's config.toml to [`paths::PARTITION_CONFIG`] and the files of its config.d for
/// this node to [`paths::PARTITION_CONFIG_D`], with their signatures if `signed`; prints their names.
#[must_use]
pub fn fetch_config(place: &DeviceSpec, report: &Report, wait: Duration, signed: bool) -> ChildSpec {
    let (place, wait_s) = (place.text(), wait.as_secs().to_string());
    let words = [place.as_str(), disks(report), &wait_s, if signed { SIGNED } else { UNSIGNED }];
    helper("fetch-config", &words, DISK + wait)
}

/// Keeps a report on the data partition and sends it to the configured URL.
#[must_use]
pub fn publish_on(place: &DeviceSpec, config: &Network, report: &Report, what: &PublishRequest<'_>) -> ChildSpec {
    let (place, words) = (place.text(), publish_words(config, report, what));
    let mut all = vec![place.as_str(), disks(report)];
    all.extend(words.iter().map(String::as_str));
    helper("publish-on", &all, DISK + report.timeout_s)
}

/// Stores last words in the firmware.
#[must_use]
pub fn keep_fault(lines: &[String]) -> ChildSpec {
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    helper("keep-fault", &lines, Duration::from_secs(10))
}

/// Prints the records of earlier boots in the firmware's store.
#[must_use]
pub fn show_last_boot() -> ChildSpec {
    helper("last-boot", &[paths::LAST_BOOT], Duration::from_secs(20))
}

/// Prints whether the firmware verifies the programs that it starts.
#[must_use]
pub fn secure_boot() -> ChildSpec {
    helper("secure-boot", &[], Duration::from_secs(10))
}

/// Prints this node's identity.
#[must_use]
pub fn identify() -> ChildSpec {
    helper("identify", &[], Duration::from_secs(30))
}

/// Mounts the file systems that show the firmware's data.
#[must_use]
pub fn mount_firmware() -> ChildSpec {
    helper("mount-firmware", &[], Duration::from_secs(20))
}

/// Finds the init of a new root, or checks that it has `program`, and writes its nccl.conf.
#[must_use]
pub fn prepare_root(program: &str, variables: &[Variable]) -> ChildSpec {
    helper("settle-root", &[paths::NEW_ROOT, program, &environment::lines(variables)], DISK)
}

/// Restarts or powers off the machine; the child ends only if that failed.
#[must_use]
pub fn end_machine(restart: bool) -> ChildSpec {
    let how = if restart { RESTART } else { POWER_OFF };
    // It ends with the machine, so nothing remains to remove its group.
    ChildSpec { leaves_daemons: true, ..helper("end", &[how], Duration::from_secs(30)) }
}

/// Mounts a new root.
#[must_use]
pub fn mount_root(text: &str) -> ChildSpec {
    helper("mount-root", &[text, paths::NEW_ROOT], DISK + Duration::from_secs(10))
}

/// Mounts a new root from an image file.
#[must_use]
pub fn mount_image(file: &str) -> ChildSpec {
    helper("mount-image", &[file, paths::NEW_ROOT], DISK)
}

/// Frees the firmware's framebuffers.
#[must_use]
pub fn release_screen() -> ChildSpec {
    helper("release-screen", &[], Duration::from_secs(10))
}

/// Writes all caches out and unmounts the writable file systems on disks.
#[must_use]
pub fn unmount_all() -> ChildSpec {
    helper("unmount", &[], DISK)
}

/// Starts the driver if `load`, writes its report, and sends the open GPUs over its standard input.
#[must_use]
pub fn load_driver(driver: &Driver, load: bool, deadline: Duration, socket: OwnedFd) -> ChildSpec {
    let mut args = vec![load.to_string(), deadline.as_secs().to_string()];
    args.extend(driver.modules.iter().cloned());
    args.extend(driver.parameters.iter().map(|(module, words)| format!("{module}={words}")));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // The fabric manager keeps running until the machine goes down.
    ChildSpec { input: Some(Rc::new(socket)), leaves_daemons: true, ..helper("load-driver", &args, deadline) }
}

/// Loads the watchdog's driver, sends the open device over its standard input, and prints a description of it.
#[must_use]
pub fn arm_watchdog(config: &Watchdog, socket: OwnedFd) -> ChildSpec {
    let mode = config.mode;
    let words = [mode.allows_hardware().to_string(), mode.allows_software().to_string()];
    let seconds = config.timeout_s.as_secs().to_string();
    // Drivers of management controllers send many queries to the controller when they start.
    let deadline = Duration::from_secs(30);
    let spec = helper("arm-watchdog", &[&words[0], &words[1], &seconds], deadline);
    ChildSpec { input: Some(Rc::new(socket)), ..spec }
}

/// Closes the watchdog that it receives over its standard input, stopped or running.
#[must_use]
pub fn release_watchdog(how: &str, path: &str, socket: OwnedFd) -> ChildSpec {
    let spec = helper("release-watchdog", &[how, path], Duration::from_secs(10));
    ChildSpec { input: Some(Rc::new(socket)), ..spec }
}

/// Prints the mark of an earlier boot and where marks are kept: in the firmware, else on the data partition.
#[must_use]
pub fn read_mark(report: &Report) -> ChildSpec {
    helper("read-mark", &[&partition(report), disks(report)], MARK)
}

/// Writes a mark.
#[must_use]
pub fn write_mark(report: &Report, mark: &str) -> ChildSpec {
    helper("write-mark", &[&partition(report), disks(report), mark], MARK)
}

/// The words of a command that the validator runs, with the name of a part of its step appended: the command, which is
/// init's own program, writes the part into the mark.
#[must_use]
pub fn begin_part(report: &Report) -> Vec<String> {
    ["/proc/1/exe", "helper", "begin-part", &partition(report), disks(report)].map(str::to_owned).to_vec()
}

/// Removes the mark.
#[must_use]
pub fn clear_mark(report: &Report) -> ChildSpec {
    helper("clear-mark", &[&partition(report), disks(report)], MARK)
}

/// The data partition, for a machine whose firmware has no variables; empty when there is none.
fn partition(report: &Report) -> String {
    report.partition.as_ref().map_or_else(String::new, DeviceSpec::text)
}

/// Waits until killed processes have ended.
#[must_use]
pub fn await_end() -> ChildSpec {
    helper("await-end", &[], Duration::from_secs(15))
}

/// Closes the devices that arrive through the socket.
#[must_use]
pub fn close_devices(devices: Rc<OwnedFd>) -> ChildSpec {
    ChildSpec { input: Some(devices), ..helper("close-devices", &[], Duration::from_secs(30)) }
}

/// Removes modules of the kernel, in this order.
#[must_use]
pub fn unload_modules(modules: &[String]) -> ChildSpec {
    let modules: Vec<_> = modules.iter().map(String::as_str).collect();
    helper("unload-modules", &modules, Duration::from_secs(60))
}

/// Maximum time for all GPUs together: the kernel may wait a minute for one that does not answer.
const RESET: Duration = Duration::from_secs(180);

/// Resets each GPU by itself.
#[must_use]
pub fn reset_functions() -> ChildSpec {
    helper("reset-gpus", &[gpus::FUNCTION], RESET)
}

/// Resets the link above each GPU.
#[must_use]
pub fn reset_buses() -> ChildSpec {
    helper("reset-gpus", &[gpus::BUS], RESET)
}

/// Brings the loopback up.
#[must_use]
pub fn loopback() -> ChildSpec {
    helper("loopback", &[], Duration::from_secs(5))
}

/// Loads the drivers of the network cards, waits for a carrier, and prints the interface.
#[must_use]
pub fn find_interface(config: &Network) -> ChildSpec {
    let timeout_s = config.timeout_s.as_secs().to_string();
    let card = card(&config.interface);
    helper("find-interface", &[&card, &timeout_s], config.timeout_s + Duration::from_secs(5))
}

fn card(card: &CardSelector) -> String {
    match card {
        CardSelector::Any => String::new(),
        CardSelector::Name(name) => name.clone(),
        CardSelector::Mac(mac) | CardSelector::BootedFrom(mac) => mac.to_string(),
    }
}

/// Gives these ports link-local addresses, or all cards with a carrier, and leaves a child that keeps them.
#[must_use]
pub fn take_link_local(ports: &[CardSelector], timeout: Duration) -> ChildSpec {
    let words: Vec<_> = [timeout.as_secs().to_string()].into_iter().chain(ports.iter().map(card)).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let deadline = timeout + Duration::from_secs(5);
    ChildSpec { leaves_daemons: true, ..helper("take-link-local", &words, deadline) }
}

/// Loads the modules of RDMA cards and makes soft-RoCE devices if `is_soft`; prints the RDMA devices.
#[must_use]
pub fn start_rdma(is_soft: bool, interfaces: &[String]) -> ChildSpec {
    let words: Vec<_> =
        [if is_soft { "true" } else { "false" }].into_iter().chain(interfaces.iter().map(String::as_str)).collect();
    helper("rdma", &words, Duration::from_secs(30))
}

/// Gives an interface an address (`ADDRESS/PREFIX`) and a default route.
#[must_use]
pub fn set_address(name: &str, address: &str, gateway: Option<IpAddr>, deadline: Duration) -> ChildSpec {
    let gateway = gateway.map_or_else(String::new, |gateway| gateway.to_string());
    helper("set-address", &[name, address, &gateway], deadline)
}

/// Requests an address by DHCP, every two seconds until the time is up; requests time servers as well if
/// `time`.
#[must_use]
pub fn ask_for_lease(name: &str, within: Duration, time: bool) -> ChildSpec {
    let tries = (within.as_secs() / 2).max(1).to_string();
    let mut args = vec!["udhcpc", "-i", name, "-n", "-q", "-f", "-t", &tries, "-T", "2"];
    args.extend(["-s", paths::DHCP_SCRIPT]);
    args.extend(time.then_some(["-O", "ntpsrv"]).into_iter().flatten());
    ChildSpec::new(paths::BUSYBOX, &args, within + Duration::from_secs(3))
}
