//! How process 1 starts each helper, and the DHCP client: program, words, deadline.

use super::request::{Helper, MachineEnd, MarkPlace, Partition, ResetMethod, WatchdogEnd};
use super::validator::{PublishRequest, publish_words};
use crate::child::ChildSpec;
use crate::config::types::{CardSelector, DeviceSpec, Driver, Network, Report, Watchdog};
use crate::disk::eligibility::AllowedDisks;
use crate::driver::start::inputs::DriverSettings;
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
/// Maximum time for the children that keep marks.
const MARK: Duration = Duration::from_secs(15);

fn helper(request: &Helper, deadline: Duration) -> ChildSpec {
    let words = request.words();
    ChildSpec::new(OURSELVES, &[&words[0], &words[1]], deadline)
}

fn partition(place: &DeviceSpec, report: &Report) -> Partition {
    let disks = if report.any_disk {
        AllowedDisks::Any
    } else {
        AllowedDisks::RemovableOrBoot
    };
    Partition {
        place: place.text(),
        disks,
    }
}

/// Copies the data partition's config.toml to [`paths::PARTITION_CONFIG`] and the files of its config.d for
/// this node to [`paths::PARTITION_CONFIG_D`], with their signatures if `signed`; prints their names.
#[must_use]
pub fn fetch_config(
    place: &DeviceSpec,
    report: &Report,
    wait: Duration,
    signed: bool,
) -> ChildSpec {
    let request = Helper::FetchConfig {
        partition: partition(place, report),
        wait_s: wait.as_secs(),
        signed,
    };
    helper(&request, DISK + wait)
}

/// Keeps a report on the data partition and sends it to the configured URL.
#[must_use]
pub fn publish_on(
    place: &DeviceSpec,
    config: &Network,
    report: &Report,
    what: &PublishRequest<'_>,
) -> ChildSpec {
    let words = publish_words(config, report, what);
    helper(
        &Helper::PublishOn {
            partition: partition(place, report),
            words,
        },
        DISK + report.timeout_s,
    )
}

/// Stores last words in the firmware.
#[must_use]
pub fn keep_fault(lines: &[String]) -> ChildSpec {
    helper(&Helper::KeepFault(lines.to_vec()), Duration::from_secs(10))
}

/// Prints the records of earlier boots in the firmware's store.
#[must_use]
pub fn show_last_boot() -> ChildSpec {
    helper(
        &Helper::LastBoot(paths::LAST_BOOT.to_owned()),
        Duration::from_secs(20),
    )
}

/// Prints whether the firmware verifies the programs that it starts.
#[must_use]
pub fn secure_boot() -> ChildSpec {
    helper(&Helper::SecureBoot, Duration::from_secs(10))
}

/// Prints this node's identity.
#[must_use]
pub fn identify() -> ChildSpec {
    helper(&Helper::Identify, Duration::from_secs(30))
}

/// Mounts the file systems that show the firmware's data.
#[must_use]
pub fn mount_firmware() -> ChildSpec {
    helper(&Helper::MountFirmware, Duration::from_secs(20))
}

/// Finds the init of a new root, or checks that it has `program`, and writes its nccl.conf.
#[must_use]
pub fn prepare_root(program: Option<&str>, variables: &[Variable]) -> ChildSpec {
    let (new_root, program) = (paths::NEW_ROOT.to_owned(), program.map(str::to_owned));
    helper(
        &Helper::PrepareRoot {
            new_root,
            program,
            variables: environment::lines(variables),
        },
        DISK,
    )
}

/// Restarts or powers off the machine; the child ends only if that failed.
#[must_use]
pub fn end_machine(restart: bool) -> ChildSpec {
    let how = if restart {
        MachineEnd::Restart
    } else {
        MachineEnd::PowerOff
    };
    // It ends with the machine, so nothing remains to remove its group.
    ChildSpec {
        leaves_daemons: true,
        ..helper(&Helper::End(how), Duration::from_secs(30))
    }
}

/// Mounts a new root.
#[must_use]
pub fn mount_root(text: &str) -> ChildSpec {
    let request = Helper::MountRoot {
        root: text.to_owned(),
        target: paths::NEW_ROOT.to_owned(),
    };
    helper(&request, DISK + Duration::from_secs(10))
}

/// Mounts a new root from an image file.
#[must_use]
pub fn mount_image(file: &str) -> ChildSpec {
    helper(
        &Helper::MountImage {
            file: file.to_owned(),
            target: paths::NEW_ROOT.to_owned(),
        },
        DISK,
    )
}

/// Frees the firmware's framebuffers.
#[must_use]
pub fn release_screen() -> ChildSpec {
    helper(&Helper::ReleaseScreen, Duration::from_secs(10))
}

/// Writes all caches out and unmounts the writable file systems on disks.
#[must_use]
pub fn unmount_all() -> ChildSpec {
    helper(&Helper::Unmount, DISK)
}

/// Starts the driver if `load`, writes its report, and sends the open GPUs over its standard input.
#[must_use]
pub fn load_driver(driver: &Driver, load: bool, deadline: Duration, socket: OwnedFd) -> ChildSpec {
    let settings = DriverSettings {
        load,
        modules: driver.modules.clone(),
        parameters: driver.parameters.clone(),
        // In whole seconds, as the setting is.
        deadline: Duration::from_secs(deadline.as_secs()),
    };
    // The fabric manager keeps running until the machine goes down.
    ChildSpec {
        input: Some(Rc::new(socket)),
        leaves_daemons: true,
        ..helper(&Helper::LoadDriver(settings), deadline)
    }
}

/// Loads the watchdog's driver, sends the open device over its standard input, and prints a description of it.
#[must_use]
pub fn arm_watchdog(config: &Watchdog, socket: OwnedFd) -> ChildSpec {
    let (hardware, software) = (config.mode.allows_hardware(), config.mode.allows_software());
    let timeout_s = u32::try_from(config.timeout_s.as_secs()).unwrap_or(u32::MAX);
    // Drivers of management controllers send many queries to the controller when they start.
    let spec = helper(
        &Helper::ArmWatchdog {
            hardware,
            software,
            timeout_s,
        },
        Duration::from_secs(30),
    );
    ChildSpec {
        input: Some(Rc::new(socket)),
        ..spec
    }
}

/// Closes the watchdog that it receives over its standard input, stopped or running.
#[must_use]
pub fn release_watchdog(end: WatchdogEnd, path: &str, socket: OwnedFd) -> ChildSpec {
    let spec = helper(
        &Helper::ReleaseWatchdog {
            end,
            path: path.to_owned(),
        },
        Duration::from_secs(10),
    );
    ChildSpec {
        input: Some(Rc::new(socket)),
        ..spec
    }
}

/// Prints the mark of an earlier boot and where marks are kept: in the firmware, else on the data partition.
#[must_use]
pub fn read_mark(report: &Report) -> ChildSpec {
    helper(&Helper::ReadMark(mark_place(report)), MARK)
}

/// Writes a mark.
#[must_use]
pub fn write_mark(report: &Report, mark: &str) -> ChildSpec {
    helper(
        &Helper::WriteMark {
            place: mark_place(report),
            mark: mark.to_owned(),
        },
        MARK,
    )
}

/// The words of a command that the validator runs, with the name of a part of its step appended: the command, which is
/// init's own program, writes the part into the mark.
#[must_use]
pub fn begin_part(report: &Report) -> Vec<String> {
    let mut words = vec!["/proc/1/exe".to_owned()];
    words.extend(Helper::BeginPart(mark_place(report)).words());
    words
}

/// Removes the mark.
#[must_use]
pub fn clear_mark(report: &Report) -> ChildSpec {
    helper(&Helper::ClearMark(mark_place(report)), MARK)
}

/// The data partition, for a machine whose firmware has no variables.
fn mark_place(report: &Report) -> MarkPlace {
    report
        .partition
        .as_ref()
        .map(|place| partition(place, report))
}

/// Waits until killed processes have ended.
#[must_use]
pub fn await_end() -> ChildSpec {
    helper(&Helper::AwaitEnd, Duration::from_secs(15))
}

/// Closes the devices that arrive through the socket.
#[must_use]
pub fn close_devices(devices: Rc<OwnedFd>) -> ChildSpec {
    ChildSpec {
        input: Some(devices),
        ..helper(&Helper::CloseDevices, Duration::from_secs(30))
    }
}

/// Removes modules of the kernel, in this order.
#[must_use]
pub fn unload_modules(modules: &[String]) -> ChildSpec {
    helper(
        &Helper::UnloadModules(modules.to_vec()),
        Duration::from_secs(60),
    )
}

/// Maximum time for all GPUs together: the kernel may wait a minute for one that does not answer.
const RESET: Duration = Duration::from_secs(180);

/// Resets each GPU.
#[must_use]
pub fn reset_gpus(method: ResetMethod) -> ChildSpec {
    helper(&Helper::ResetGpus(method), RESET)
}

/// Brings the loopback up.
#[must_use]
pub fn loopback() -> ChildSpec {
    helper(&Helper::Loopback, Duration::from_secs(5))
}

/// Loads the drivers of the network cards, waits for a carrier, and prints the interface.
#[must_use]
pub fn find_interface(config: &Network) -> ChildSpec {
    let request = Helper::FindInterface {
        card: card(&config.interface),
        timeout_s: config.timeout_s.as_secs(),
    };
    helper(&request, config.timeout_s + Duration::from_secs(5))
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
    let request = Helper::TakeLinkLocal {
        timeout_s: timeout.as_secs(),
        ports: ports.iter().map(card).collect(),
    };
    ChildSpec {
        leaves_daemons: true,
        ..helper(&request, timeout + Duration::from_secs(5))
    }
}

/// Loads the modules of RDMA cards and makes soft-RoCE devices if `is_soft`; prints the RDMA devices.
#[must_use]
pub fn start_rdma(is_soft: bool, interfaces: &[String]) -> ChildSpec {
    helper(
        &Helper::Rdma {
            soft: is_soft,
            interfaces: interfaces.to_vec(),
        },
        Duration::from_secs(30),
    )
}

/// Gives an interface an address (`ADDRESS/PREFIX`) and a default route.
#[must_use]
pub fn set_address(
    name: &str,
    address: &str,
    gateway: Option<IpAddr>,
    deadline: Duration,
) -> ChildSpec {
    helper(
        &Helper::SetAddress {
            name: name.to_owned(),
            address: address.to_owned(),
            gateway,
        },
        deadline,
    )
}

/// Requests an address by DHCP, every two seconds until the time is up; requests time servers as well if
/// `time`.
#[must_use]
pub fn ask_for_lease(name: &str, within: Duration, time: bool) -> ChildSpec {
    let tries = (within.as_secs() / 2).max(1).to_string();
    let mut args = vec![
        "udhcpc", "-i", name, "-n", "-q", "-f", "-t", &tries, "-T", "2",
    ];
    args.extend(["-s", paths::DHCP_SCRIPT]);
    args.extend(time.then_some(["-O", "ntpsrv"]).into_iter().flatten());
    ChildSpec::new(paths::BUSYBOX, &args, within + Duration::from_secs(3))
}
