//! Hand-over by switch-root: another root becomes `/` and its init process 1. Everything that can be
//! checked is checked before the point of no return.

use crate::child::{ENVIRONMENT, End, no_lines, on_output};
use crate::config::types::{Config, Network, RootSource};
use crate::console::kernel_log::{self, Shown};
use crate::environment::Variable;
use crate::fault::Fault;
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::stages::{network, watchdog};
use crate::sys::process::unblock_signals;
use crate::sys::{descriptors, files, mount};
use log::info;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::exec::open;
use super::fetch_root::fetch_root;

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
            // The new init gets the GPUs open. One that closes descriptors that it did not open (as systemd
            // does) releases them, and its own persistence daemon takes over.
            m.held.iter().for_each(descriptors::keep_across_exec);
            let why = commit(&words, variables);
            // Only a kernel without this system call refuses.
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
    if done.end != End::Exited(helper::FINE) {
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
    let settle = helper::settle_root(exec.first().map_or("", String::as_str), variables);
    let done = m.run(&settle, &mut on_output(&mut said), |_| true)?;
    warnings.iter().for_each(|why| info!("warning: the new root's {why}"));
    match program {
        Some(program) if done.end == End::Exited(helper::FINE) => {
            Ok(if exec.is_empty() { vec![program] } else { exec.to_vec() })
        }
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
    for at in helper::MOVED {
        let to = new_root.join(at.trim_start_matches('/'));
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
    if let Ok(console) = open(paths::CONSOLE)
        && let (Ok(output), Ok(errors)) = (console.try_clone(), console.try_clone())
    {
        command.stdin(console).stdout(output).stderr(errors);
    }
    unblock_signals(&mut command);
    format!("{program}: {}", command.exec())
}
