//! Hand-over by switch-root: another root becomes `/` and its init process 1. Everything that can be
//! checked is checked before the point of no return.

use super::exec::open;
use super::set_workload_environment;
use crate::child::{End, no_lines, on_output};
use crate::config::remote::RemoteSource;
use crate::config::types::{Config, Network, RootSource};
use crate::console::kernel_log::{self, InitLines};
use crate::environment::Variable;
use crate::fault::Fault;
use crate::machine::Machine;
use crate::stages::{network, watchdog};
use crate::sys::mount::{self, Flags};
use crate::sys::process::unblock_signals;
use crate::sys::{descriptors, files};
use crate::{helper, paths};
use log::info;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

/// Switches the root; returns only the fault that prevented it.
pub(super) fn switch(
    m: &mut Machine,
    root: &RootSource,
    exec: &[String],
    config: &Config,
    variables: &[Variable],
) -> Fault {
    let prepared = prepare(m, root, exec, &config.network, variables);
    match prepared.and_then(|words| watchdog::hand_over(m, config).map(|()| words)) {
        Ok(words) => {
            info!("switch    {} becomes process 1 of {root}", words.join(" "));
            network::end_keeper(m);
            m.console.drain(crate::child::GRACE);
            // The new init inherits the open GPUs. An init that closes descriptors that it did not open (as systemd
            // does) releases them, and the new root's persistence daemon takes over.
            m.held_devices
                .iter()
                .for_each(descriptors::keep_across_exec);
            let why = commit(&words, variables);
            // Fails only on a kernel without this system call.
            let _deaf = m.children.signals.block_again();
            Fault::HandOff(format!("workload.root {root}: {why}"))
        }
        Err(fault) => fault,
    }
}

/// The steps that can be undone: fetches the root if it is on a server, mounts it, finds its init, writes
/// nccl.conf.
fn prepare(
    m: &mut Machine,
    root: &RootSource,
    exec: &[String],
    network: &Network,
    variables: &[Variable],
) -> Result<Vec<String>, Fault> {
    let failed = |why: String| Fault::HandOff(format!("workload.root {root}: {why}"));
    let mount = match root {
        RootSource::Disk { .. } => helper::mount_root(&root.to_string()),
        RootSource::Remote(remote) => {
            fetch_root(m, remote, network)?.map_err(failed)?;
            helper::mount_image(paths::FETCHED_ROOT)
        }
    };
    let done = m.run(&mount, &mut no_lines, |_| true)?;
    if done.end != End::Exited(helper::SUCCESS) {
        return Err(failed(done.reason()));
    }
    let (mut program, mut warnings) = (None, Vec::new());
    let mut said = |line: &str| {
        if let Some(path) = line.strip_prefix(helper::PROGRAM) {
            program = Some(path.to_owned());
        } else if let Some(why) = line.strip_prefix(helper::WARNING) {
            warnings.push(why.to_owned());
        }
    };
    let spec = helper::prepare_root(exec.first().map(String::as_str), variables);
    let done = m.run(&spec, &mut on_output(&mut said), |_| true)?;
    warnings
        .iter()
        .for_each(|why| info!("warning: the new root's {why}"));
    match program {
        Some(program) if done.end == End::Exited(helper::SUCCESS) => Ok(if exec.is_empty() {
            vec![program]
        } else {
            exec.to_vec()
        }),
        _ => Err(failed(done.reason())),
    }
}

/// Moves to the new root and starts its init; returns only the step that failed.
fn commit(words: &[String], variables: &[Variable]) -> String {
    match move_over() {
        Ok(()) => start(words, variables),
        Err(why) => why,
    }
}

/// Moves the mounts, makes the new root `/`, and frees the memory of the old one.
fn move_over() -> Result<(), String> {
    let step = |what: &str, result: io::Result<()>| result.map_err(|e| format!("{what}: {e}"));
    let new_root = Path::new(paths::NEW_ROOT);
    let old_root = files::open_folder(Path::new("/")).map_err(|e| format!("/: {e}"))?;
    for at in helper::MOVED_MOUNTS {
        let to = new_root.join(at.trim_start_matches('/'));
        step(at, mount::move_mount(Path::new(at), &to))?;
    }
    step("the new root", std::env::set_current_dir(new_root))?;
    step(
        "moving it to /",
        mount::move_mount(new_root, Path::new("/")),
    )?;
    step("chroot", mount::enter_root_here())?;
    kernel_log::show(InitLines::Shown);
    files::empty_memory_root(&old_root);
    Ok(())
}

/// Replaces this process by the new init.
fn start(words: &[String], variables: &[Variable]) -> String {
    let Some((program, args)) = words.split_first() else {
        return "nothing to start".to_owned();
    };
    let mut command = Command::new(program);
    set_workload_environment(command.args(args), variables);
    if let Ok(console) = open(paths::CONSOLE)
        && let (Ok(output), Ok(errors)) = (console.try_clone(), console.try_clone())
    {
        command.stdin(console).stdout(output).stderr(errors);
    }
    unblock_signals(&mut command);
    format!("{program}: {}", command.exec())
}

// Fetches a root from a server into memory, where it is mounted like an image on a disk. A child fetches
// it; afterwards the file either has the right checksum or does not exist.

/// Fetches it to [`paths::FETCHED_ROOT`].
///
/// # Errors
/// An interruption; the inner result is the cause in one line.
pub(super) fn fetch_root(
    m: &mut Machine,
    remote: &RemoteSource,
    config: &Network,
) -> Result<Result<(), String>, Fault> {
    if let Err(why) = network::connect_once(m, config)? {
        return Ok(Err(format!("no network: {why}")));
    }
    let mib = match mount_fetch_memory() {
        Ok(mib) => mib,
        Err(why) => return Ok(Err(why)),
    };
    info!(
        "root      fetches {}, at most {mib} MiB: half of the free memory",
        remote.url
    );
    let mut line = on_output(|line| info!("root      {line}"));
    let done = m.run(&helper::fetch_root(remote, mib, config), &mut line, |_| {
        true
    })?;
    if done.end != End::Exited(helper::SUCCESS) {
        return Ok(Err(
            done.reason_after(&format!("firstlight: {}: ", remote.url))
        ));
    }
    info!("root      fetched in {} s", done.took.as_secs());
    Ok(Ok(()))
}

/// Mounts a file system in memory for the file and returns its size in MiB.
fn mount_fetch_memory() -> Result<u64, String> {
    let meminfo = fs::read_to_string("/proc/meminfo").map_err(|e| format!("/proc/meminfo: {e}"))?;
    let mib =
        half_of_free_memory(&meminfo).ok_or("/proc/meminfo: no MemAvailable of 2 MiB and more")?;
    let at = Path::new(paths::FETCHED_ROOT)
        .parent()
        .unwrap_or(Path::new(paths::RUN));
    let made = || {
        fs::create_dir_all(at)?;
        mount::mount(
            "tmpfs",
            at,
            "tmpfs",
            Flags::NOSUID | Flags::NODEV,
            &format!("mode=0700,size={mib}m"),
        )
    };
    made().map_err(|e| format!("tmpfs on {}: {e}", at.display()))?;
    Ok(mib)
}

/// Half of the free memory in MiB: the other half is for the programs that run from it.
fn half_of_free_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 2 / 1024).filter(|mib| *mib > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_free_memory_is_for_the_file() {
        assert_eq!(
            half_of_free_memory("MemTotal: 9000000 kB\nMemAvailable:    614400 kB\n"),
            Some(300)
        );
        assert_eq!(half_of_free_memory("MemTotal: 9000000 kB\n"), None);
        assert_eq!(half_of_free_memory("MemAvailable: 1000 kB\n"), None);
    }
}
