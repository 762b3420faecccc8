//! Work that process 1 leaves to a child that runs the same binary, `init helper NAME ..`, because it touches
//! disks, drivers or links that can hang. `spec` and `validator` define how each child is started; `dispatch` is
//! the child's side.

mod firmware;
mod gpus;
mod mark;
mod network;
mod new_root;
mod partition;
mod ports;
mod pstore;
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
pub use spec::{
    arm_watchdog, ask_for_lease, await_end, begin_part, clear_mark, close_devices, end_machine, fetch_config,
    find_interface, identify, keep_fault, load_driver, loopback, mount_firmware, mount_image, mount_root, prepare_root,
    publish_on, read_mark, release_screen, release_watchdog, reset_buses, reset_functions, secure_boot, set_address,
    show_last_boot, start_rdma, take_link_local, unload_modules, unmount_all, write_mark,
};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
pub use validator::{PublishRequest, ask_time, environment, fetch, fetch_root, fetch_signature, publish, validator};
pub use watchdog::{DIRECT, DISARM, KEEP, SLOW, UNCHECKED};

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
/// Restarts the machine.
const RESTART: &str = "restart";
/// Powers it off.
const POWER_OFF: &str = "power-off";
/// Prefix of a line about a partition that may not be used.
pub const IGNORED: &str = "ignored ";
/// Printed when the data partition has a `config.toml`.
pub const HAS_CONFIG: &str = "config.toml";

/// Runs the helper that the arguments name; returns its exit status, or `None` when they name none.
pub fn dispatch(args: &[String]) -> Option<i32> {
    let (first, rest) = args.split_first()?;
    let (name, rest) = rest.split_first()?;
    if first != "helper" {
        return None;
    }
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    let result = match (name.as_str(), words.as_slice()) {
        ("fetch-config", [place, disks, wait_s, signed]) => partition::fetch_config(place, disks, wait_s, signed),
        ("publish-on", [place, disks, words @ ..]) => partition::publish(place, disks, words),
        ("keep-fault", lines) => pstore::keep(lines),
        ("last-boot", [to]) => pstore::show(to),
        ("secure-boot", []) => firmware::secure_boot(),
        ("identify", []) => {
            firmware::print_identity();
            Ok(SUCCESS)
        }
        ("mount-firmware", []) => Ok(firmware::mount()),
        ("mount-root", [root, target]) => new_root::mount(root, target),
        ("settle-root", [new_root, program, lines]) => new_root::prepare(new_root, program, lines),
        ("end", [how]) => end(how),
        ("mount-image", [file, target]) => to_status(root::mount_image(file, Path::new(target))),
        ("release-screen", []) => to_status(screen::apply(&screen::plan_release(Path::new("/sys")))),
        ("load-driver", [load, deadline_s, words @ ..]) => to_status(start_driver(load, deadline_s, words)),
        ("find-interface", [card, timeout_s]) => to_status(network::find_interface(card, timeout_s)),
        ("loopback", []) => to_status(network::link_up("lo").map(|_| ()).map_err(|e| e.to_string())),
        ("set-address", [name, address, gateway]) => to_status(network::set_address(name, address, gateway)),
        ("take-link-local", [timeout_s, ports @ ..]) => ports::take_addresses(timeout_s, ports),
        ("keep-link-local", [limit_ms, ports @ ..]) => ports::keep_addresses(limit_ms, ports),
        ("rdma", [soft, interfaces @ ..]) => to_status(network::start_rdma(soft, interfaces)),
        ("read-mark", [place, disks]) => mark::read(place, disks),
        ("write-mark", [place, disks, text]) => mark::write(place, disks, text),
        ("begin-part", [place, disks, part]) => mark::begin_part(place, disks, part),
        ("clear-mark", [place, disks]) => mark::clear(place, disks),
        ("arm-watchdog", [hardware, software, timeout_s]) => watchdog::arm(hardware, software, timeout_s),
        ("release-watchdog", [how, path]) => watchdog::release(how, path),
        ("pet-watchdog", []) => watchdog::pet(),
        ("await-end", []) => gpus::await_end(),
        ("close-devices", []) => Ok(gpus::close()),
        ("unload-modules", modules) => gpus::unload(modules),
        ("reset-gpus", [kind]) => gpus::reset(kind),
        ("unmount", []) => unmount::all(),
        _ => Err(format!("no helper {name} of {} words", words.len())),
    };
    Some(result.unwrap_or_else(|why| {
        let _no_reader = writeln!(io::stderr(), "{why}");
        FAILED
    }))
}

/// Restarts or powers off the machine: reboot(2) lets every driver shut its device down, and a device can hang. Returns
/// only if that failed.
fn end(how: &str) -> Result<i32, String> {
    // Typed by hand on a machine with another process 1, this must do nothing.
    if !process::is_child_of_process_one() {
        return Err("only process 1 ends the machine".to_owned());
    }
    Err(match how {
        RESTART => kernel::reboot_or_power_off(true),
        POWER_OFF => kernel::reboot_or_power_off(false),
        other => format!("read {other}; allowed: {RESTART}, {POWER_OFF}"),
    })
}

/// Starts the GPU driver with the functions of `driver`. Standard input is a socket to process 1, which receives the open
/// GPUs through it. Words with `=` are parameters, the others modules.
fn start_driver(load: &str, deadline_s: &str, words: &[&str]) -> Result<(), String> {
    let modules = words.iter().filter(|word| !word.contains('=')).map(|word| (*word).to_owned()).collect();
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    let parameters: BTreeMap<_, _> = pairs.map(|(m, p)| (m.to_owned(), p.to_owned())).collect();
    let load = load.parse().map_err(|_| format!("{load}: neither true nor false"))?;
    let deadline = seconds(deadline_s)?;
    let socket = std::io::stdin();
    let wanted = DriverSettings { load, modules, parameters, deadline };
    // Without a loopback the fabric manager reports what is missing.
    let mut loopback = || drop(network::link_up("lo"));
    start_here(&wanted, &mut say, socket.as_fd(), &mut loopback)
}

fn to_status(result: Result<(), String>) -> Result<i32, String> {
    result.map(|()| SUCCESS)
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).map_err(|_| format!("{text}: not a number of seconds"))
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
        assert_eq!(dispatch(&["single".into(), "unmount".into()]), None);
        assert_eq!(dispatch(&["helper".into(), "reboot".into()]), Some(FAILED));
        assert_eq!(dispatch(&["helper".into(), "end".into(), "restart".into()]), Some(FAILED));
    }
}
