//! The stage `mounts`: mounts the kernel's own file systems from one table. The first mandatory mount that
//! fails stops the boot with its own error. Existing mounts are kept.

use crate::child::{End, on_output};
use crate::fault::Fault;
use crate::helper;
use crate::image_id;
use crate::machine::Machine;
use crate::paths;
use crate::sys::mount::{self, Flags};
use crate::sys::{descriptors, kernel, process};
use log::info;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Whether the boot needs the mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requirement {
    /// The boot stops without it.
    Required,
    /// Only foreign kernels have it; its absence is not reported.
    Optional,
}

/// One mount: file system, folder, flags, data, need.
struct Mount(&'static str, &'static str, Flags, &'static str, Requirement);

const SAFE: Flags = Flags::NOSUID.union(Flags::NODEV).union(Flags::NOEXEC);

const TABLE: &[Mount] = &[
    Mount("proc", "/proc", SAFE, "", Requirement::Required),
    Mount("sysfs", "/sys", SAFE, "", Requirement::Required),
    Mount(
        "devtmpfs",
        "/dev",
        Flags::NOSUID,
        "mode=0755",
        Requirement::Required,
    ),
    Mount(
        "devpts",
        "/dev/pts",
        Flags::NOSUID.union(Flags::NOEXEC),
        "mode=0620,gid=5,ptmxmode=0666",
        Requirement::Required,
    ),
    // NCCL's shared buffers of all processes are in it; the size is a limit and reserves no memory.
    Mount(
        "tmpfs",
        "/dev/shm",
        Flags::NOSUID.union(Flags::NODEV),
        "mode=1777,size=50%",
        Requirement::Required,
    ),
    Mount(
        "tmpfs",
        "/run",
        Flags::NOSUID.union(Flags::NODEV),
        "mode=0755",
        Requirement::Required,
    ),
    Mount(
        "tmpfs",
        "/tmp",
        Flags::NOSUID.union(Flags::NODEV),
        "mode=1777",
        Requirement::Required,
    ),
    Mount("cgroup2", "/sys/fs/cgroup", SAFE, "", Requirement::Required),
    // Not in our kernel: a foreign kernel that is locked down shows its mode there.
    Mount(
        "securityfs",
        "/sys/kernel/security",
        SAFE,
        "",
        Requirement::Optional,
    ),
];

/// Links that shells and programs expect, which devtmpfs does not have.
const LINKS: &[(&str, &str)] = &[
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// How many file systems were mounted, and the names of those that could not be.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MountCounts {
    mounted: usize,
    kept: usize,
    absent: Vec<String>,
}

impl fmt::Display for MountCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mounted", self.mounted)?;
        if self.kept > 0 {
            write!(f, ", {} were already", self.kept)?;
        }
        if !self.absent.is_empty() {
            write!(f, ", no {}", self.absent.join(" "))?;
        }
        Ok(())
    }
}

/// Mounts everything, then opens the consoles and the boot log, which need it.
///
/// # Errors
/// [`Fault::Mount`] for the first mandatory one that fails. The consoles are opened even then.
pub fn prepare(m: &mut Machine) -> Result<MountCounts, Fault> {
    descriptors::fill_standard_descriptors();
    let mounted = mount_all();
    m.console.open();
    info!(
        "firstlight-init {}   {}",
        env!("CARGO_PKG_VERSION"),
        image_id::stated(Path::new(paths::IMAGE))
    );
    let mut mounted = mounted?;
    for (target, link) in LINKS {
        let _there = symlink(target, link);
    }
    // The folder exists already when init is process 1 of a namespace; opening the log reports any other error.
    let _there = fs::create_dir(paths::RUN);
    if let Err(e) = m.console.log_to_file(Path::new(paths::BOOT_LOG)) {
        info!("warning: {}: {e}", paths::BOOT_LOG);
    }
    // Refused in a process id namespace, which has no keyboard.
    let _in_namespace = kernel::catch_ctrl_alt_del();
    for (limit, e) in process::raise_limits() {
        info!("warning: the limit of {limit} stays: {e}");
    }
    mount_firmware(m, &mut mounted)?;
    Ok(mounted)
}

fn mount_all() -> Result<MountCounts, Fault> {
    let mut done = MountCounts::default();
    for Mount(what, at, flags, data, need) in TABLE {
        match mount(what, at, *flags, data, *need) {
            Ok(true) => done.mounted += 1,
            Ok(false) => done.kept += 1,
            Err(e) if *need == Requirement::Optional && e.kind() == io::ErrorKind::NotFound => {}
            Err(_) if *need == Requirement::Optional => done.absent.push((*what).to_owned()),
            Err(source) => return Err(Fault::Mount { what, at, source }),
        }
    }
    Ok(done)
}

/// False when something was already mounted there.
fn mount(what: &str, at: &str, flags: Flags, data: &str, need: Requirement) -> io::Result<bool> {
    let at = Path::new(at);
    match mount::mount_once(what, at, flags, data) {
        // Its parent folder is mounted earlier in the table.
        Err(e) if e.kind() == io::ErrorKind::NotFound && need == Requirement::Required => {
            fs::create_dir(at)?;
            mount::mount_once(what, at, flags, data)
        }
        other => other,
    }
}

/// Has a child mount the file systems that show the firmware's data.
fn mount_firmware(m: &Machine, done: &mut MountCounts) -> Result<(), Fault> {
    let mut said = |line: &str| match line.split_once(' ') {
        Some((_, helper::MOUNTED)) => done.mounted += 1,
        Some((_, helper::KEPT)) => done.kept += 1,
        Some((name, _)) => done.absent.push(name.to_owned()),
        None => {}
    };
    let ended = m.run(&helper::mount_firmware(), &mut on_output(&mut said), |_| {
        true
    })?;
    if ended.end != End::Exited(helper::SUCCESS) {
        info!(
            "warning: the file systems of the firmware: {}",
            ended.reason()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_mounted_before_folders_in_it() {
        for (n, Mount(_, at, ..)) in TABLE.iter().enumerate() {
            let later = TABLE.iter().skip(n + 1);
            assert_eq!(
                later
                    .filter(|m| at.starts_with(&format!("{}/", m.1)))
                    .count(),
                0,
                "{at}"
            );
        }
    }

    #[test]
    fn the_line_names_absent_file_systems() {
        let done = MountCounts {
            mounted: 8,
            kept: 1,
            absent: vec!["pstore".into(), "efivarfs".into()],
        };
        assert_eq!(
            done.to_string(),
            "8 mounted, 1 were already, no pstore efivarfs"
        );
    }
}
