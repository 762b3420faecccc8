//! Hand-over by switch-root: another root becomes `/` and its init process 1. Everything that can be
//! checked is checked before the point of no return.

use crate::child::{ENVIRONMENT, End, no_lines};
use crate::config::types::{Network, RootSource};
use crate::console::kernel_log::{self, Shown};
use crate::environment::{self, P2P_OFF, Variable};
use crate::fault::Fault;
use crate::file_io::write_durably;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::sys::process::unblock_signals;
use crate::sys::{descriptors, files, mount};
use log::info;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::exec::console_device;
use super::fetch_root::fetch_root;

/// Mounts that are moved to the new root.
const MOVED: [&str; 4] = ["/dev", "/proc", "/sys", "/run"];

/// Programs that are tried as init, in this order.
const INITS: [&str; 3] = ["/sbin/init", "/usr/lib/systemd/systemd", "/init"];

/// Switches the root; returns only the fault that prevented it.
pub(super) fn switch(
    m: &mut Machine,
    root: &RootSource,
    exec: &[String],
    network: &Network,
    variables: &[Variable],
) -> Fault {
    match prepare(m, root, exec, network, variables) {
        Ok(words) => {
            info!("switch    {} becomes process 1 of {root}", words.join(" "));
            m.console.drain(crate::child::GRACE);
            // The new init gets the GPUs open. One that closes descriptors that it did not open (as systemd
            // does) releases them, and its own persistence daemon takes over.
            m.held.iter().for_each(descriptors::keep_across_exec);
            Fault::HandOff(format!("workload.root {root}: {}", commit(&words, variables)))
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
    if done.end != End::Exited(helper::FINE) {
        return Err(failed(done.reason()));
    }
    let new_root = Path::new(paths::NEW_ROOT);
    let words = if exec.is_empty() {
        let found = INITS.iter().find(|init| files::is_program_in(new_root, init));
        vec![
            found
                .map(|init| (*init).to_owned())
                .ok_or_else(|| failed(format!("has none of {}", INITS.join(", "))))?,
        ]
    } else {
        exec.to_vec()
    };
    let program = words.first().map_or("", String::as_str);
    if !files::is_program_in(new_root, program) {
        return Err(failed(format!("has no program {program}")));
    }
    if let Err(e) = write_nccl_conf(new_root, variables) {
        if variables.iter().any(|v| v.name == P2P_OFF) {
            return Err(failed(format!("{}: {e}", paths::NCCL_CONF)));
        }
        info!("warning: {} of the new root: {e}", paths::NCCL_CONF);
    }
    Ok(words)
}

fn write_nccl_conf(new_root: &Path, variables: &[Variable]) -> io::Result<()> {
    let path = new_root.join(paths::NCCL_CONF.trim_start_matches('/'));
    let old = match fs::read_to_string(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    if !environment::concerns_nccl(&old, variables) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(new_root))?;
    write_durably(&path, environment::nccl_conf(&old, variables).as_bytes())
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
    for at in MOVED {
        let to = new_root.join(at.trim_start_matches('/'));
        step(at, fs::create_dir_all(&to))?;
        step(at, mount::move_mount(Path::new(at), &to))?;
    }
    step("the new root", std::env::set_current_dir(new_root))?;
    step("moving it to /", mount::move_mount(new_root, Path::new("/")))?;
    step("chroot", mount::enter_root_here())?;
    kernel_log::show(Shown::OursToo);
    files::empty_memory_root(&old_root);
    Ok(())
}

/// Replaces this process by the new init.
fn start(words: &[String], variables: &[Variable]) -> String {
    let Some((program, args)) = words.split_first() else { return "nothing to start".to_owned() };
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(ENVIRONMENT).envs(variables.iter().map(|v| (&v.name, &v.value)));
    if let Ok(console) = console_device()
        && let (Ok(output), Ok(errors)) = (console.try_clone(), console.try_clone())
    {
        command.stdin(console).stdout(output).stderr(errors);
    }
    unblock_signals(&mut command);
    format!("{program}: {}", command.exec())
}
