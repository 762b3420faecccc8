//! Work that process 1 leaves to a child that runs the same binary, `init helper REQUEST`, because it touches
//! disks, drivers or links that can hang. `request` lists what can be asked for, `spec` and `validator` define how each
//! child is started, and `dispatch` is the child's side.

mod firmware;
mod gpus;
mod mark;
mod network;
mod new_root;
mod partition;
mod ports;
mod pstore;
mod request;
mod spec;
mod unmount;
mod validator;
mod watchdog;

use crate::console::screen;
use crate::disk::root;
use crate::driver::start::inputs::DriverSettings;
use crate::driver::start::start_here;
use crate::sys::{kernel, process};
pub use firmware::{KEPT, MOUNTED};
pub use mark::{BROKEN as INVALID_MARK, FOUND as MARK, PLACE as MARK_PLACE};
pub use new_root::{MOVED_MOUNTS, PROGRAM, WARNING};
pub use ports::{KEEPER, PORT};
pub use request::{Helper, MachineEnd, MarkPlace, Partition, PortInUse, ResetMethod, WatchdogEnd};
pub use spec::{
    arm_watchdog, ask_for_lease, await_end, begin_part, clear_mark, close_devices, end_machine,
    fetch_config, find_interface, identify, keep_fault, load_driver, loopback, mount_firmware,
    mount_image, mount_root, prepare_root, publish_on, read_mark, release_screen, release_watchdog,
    reset_gpus, secure_boot, set_address, show_last_boot, start_rdma, take_link_local,
    unload_modules, unmount_all, write_mark,
};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
pub use validator::{
    PublishRequest, ask_time, environment, fetch, fetch_root, fetch_signature, publish, validator,
};
pub use watchdog::{DIRECT, RELIABLE, SLOW, UNCHECKED, UNPROVEN};

/// Exit status: done.
pub const SUCCESS: i32 = 0;
/// Exit status: failed; standard error has the reason.
pub const FAILED: i32 = 1;
/// Exit status: the disk does not exist.
pub const ABSENT: i32 = 3;
/// Exit status: the disk has no such file.
pub const NO_FILE: i32 = 4;
/// Exit status: a signature of one of the disk's files cannot be read; standard error has the reason.
pub const NO_SIGNATURE: i32 = 5;
/// Prefix of a line about a partition that may not be used.
pub const IGNORED: &str = "ignored ";
/// Printed when the data partition has a `config.toml`.
pub const HAS_CONFIG: &str = "config.toml";

/// Does what a helper's arguments ask for; returns its exit status, or `None` when they are not those of a helper.
pub fn dispatch(args: &[String]) -> Option<i32> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = Helper::of(&words)?.and_then(|(helper, rest)| run(helper, rest));
    Some(result.unwrap_or_else(|why| {
        let _no_reader = writeln!(io::stderr(), "{why}");
        FAILED
    }))
}

fn run(helper: Helper, rest: &[&str]) -> Result<i32, String> {
    let part = match (&helper, rest) {
        (Helper::BeginPart(_), [part]) => *part,
        (_, []) => "",
        (_, more) => {
            return Err(format!(
                "{} words too many after the helper's request",
                more.len()
            ));
        }
    };
    match helper {
        Helper::FetchConfig {
            partition,
            wait_s,
            signed,
        } => partition::fetch_config(&partition, Duration::from_secs(wait_s), signed),
        Helper::PublishOn { partition, words } => partition::publish(&partition, &words),
        Helper::KeepFault(lines) => pstore::keep(&lines),
        Helper::LastBoot(to) => pstore::show(&to),
        Helper::SecureBoot => firmware::secure_boot(),
        Helper::Identify => {
            firmware::print_identity();
            Ok(SUCCESS)
        }
        Helper::MountFirmware => Ok(firmware::mount()),
        Helper::MountRoot { root, target } => new_root::mount(&root, &target),
        Helper::MountImage { file, target } => {
            to_status(root::mount_image(&file, Path::new(&target)))
        }
        Helper::PrepareRoot {
            new_root,
            program,
            variables,
        } => new_root::prepare(&new_root, program.as_deref(), &variables),
        Helper::End(how) => end(how),
        Helper::ReleaseScreen => to_status(screen::apply(&screen::plan_release(Path::new("/sys")))),
        Helper::LoadDriver(settings) => to_status(start_driver(&settings)),
        Helper::Loopback => to_status(
            network::link_up("lo")
                .map(|_| ())
                .map_err(|e| e.to_string()),
        ),
        Helper::FindInterface { card, timeout_s } => {
            to_status(network::find_interface(&card, timeout_s))
        }
        Helper::SetAddress {
            name,
            address,
            gateway,
        } => to_status(network::set_address(&name, &address, gateway)),
        Helper::TakeLinkLocal { timeout_s, ports } => ports::take_addresses(timeout_s, &ports),
        Helper::KeepLinkLocal { limit_ms, ports } => {
            ports::keep_addresses(Duration::from_millis(limit_ms), &ports)
        }
        Helper::Rdma { soft, interfaces } => to_status(network::start_rdma(soft, &interfaces)),
        Helper::ReadMark(place) => mark::read(&place),
        Helper::WriteMark { place, mark } => mark::write(&place, &mark),
        Helper::BeginPart(place) => mark::begin_part(&place, part),
        Helper::ClearMark(place) => mark::clear(&place),
        Helper::ArmWatchdog {
            hardware,
            software,
            timeout_s,
        } => watchdog::arm(hardware, software, timeout_s),
        Helper::ReleaseWatchdog { end, path } => watchdog::release(end, &path),
        Helper::PetWatchdog => watchdog::pet(),
        Helper::AwaitEnd => gpus::await_end(),
        Helper::CloseDevices => Ok(gpus::close()),
        Helper::UnloadModules(modules) => gpus::unload(&modules),
        Helper::ResetGpus(method) => gpus::reset(method),
        Helper::Unmount => unmount::all(),
    }
}

/// Restarts or powers off the machine: reboot(2) lets every driver shut its device down, and a device can hang. Returns
/// only if that failed.
fn end(how: MachineEnd) -> Result<i32, String> {
    // Typed by hand on a machine with another process 1, this must do nothing.
    if !process::is_child_of_process_one() {
        return Err("only process 1 ends the machine".to_owned());
    }
    Err(kernel::reboot_or_power_off(how == MachineEnd::Restart))
}

/// Starts the GPU driver with the functions of `driver`. Standard input is a socket to process 1, which receives the open
/// GPUs through it.
fn start_driver(settings: &DriverSettings) -> Result<(), String> {
    let socket = std::io::stdin();
    // Without a loopback the fabric manager reports what is missing.
    let mut loopback = || drop(network::link_up("lo"));
    start_here(settings, &mut say, socket.as_fd(), &mut loopback)
}

fn to_status(result: Result<(), String>) -> Result<i32, String> {
    result.map(|()| SUCCESS)
}

/// Prints a line for process 1; an error is ignored, because process 1 may have stopped reading.
fn say(line: &str) {
    let _no_reader = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_are_no_helper() {
        assert_eq!(dispatch(&[]), None);
        assert_eq!(dispatch(&["helper".into()]), None);
        assert_eq!(dispatch(&["single".into(), "\"unmount\"".into()]), None);
        for word in [
            "reboot",
            r#""reboot""#,
            r#"{"end":"halt"}"#,
            r#"{"end":"restart"}"#,
        ] {
            assert_eq!(
                dispatch(&["helper".into(), word.into()]),
                Some(FAILED),
                "{word}"
            );
        }
        assert_eq!(
            dispatch(&[
                "helper".into(),
                r#"{"read-mark":null}"#.into(),
                "more".into()
            ]),
            Some(FAILED)
        );
    }
}
