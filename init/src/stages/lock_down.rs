//! What the kernel may still do: settings of the kernel (sysctl) that hold for the whole boot, and the stage `lock down`, which
//! takes away before the hand-over what the workload does not need.

use crate::config::types::{Action, Workload, WorkloadMode};
use crate::sys::kernel::{command_line, in_initial_namespace};
use log::info;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Settings for the whole boot (Documentation/admin-guide/sysctl). docs/decisions/image.md has the reasons.
const ALWAYS: &[(&str, &str)] = &[
    ("fs.protected_fifos", "2"),
    ("fs.protected_hardlinks", "1"),
    ("fs.protected_regular", "2"),
    ("fs.protected_symlinks", "1"),
    ("kernel.kptr_restrict", "1"),
    ("kernel.yama.ptrace_scope", "0"),
    ("net.core.bpf_jit_harden", "2"),
    ("net.ipv4.conf.all.accept_redirects", "0"),
    ("net.ipv4.conf.default.accept_redirects", "0"),
    ("net.ipv6.conf.all.accept_redirects", "0"),
    ("net.ipv6.conf.default.accept_redirects", "0"),
    ("vm.mmap_rnd_bits", "32"),
];

/// No module can be loaded until the next boot.
const MODULES: &str = "kernel.modules_disabled";
/// No other kernel can be loaded until the next boot.
const KEXEC: &str = "kernel.kexec_load_disabled";
/// How many user namespaces there may be.
const NAMESPACES: &str = "user.max_user_namespaces";

/// Applies the settings for the whole boot, but not those that a kernel word (`sysctl.NAME=`) sets. A kernel without one of them
/// has nothing to restrict there. In a process id namespace they are another system's.
pub fn harden() {
    if !in_initial_namespace() {
        return;
    }
    let words = command_line();
    for (name, value) in ALWAYS.iter().filter(|(name, _)| !is_named(&words, name)) {
        if let Err(e) = set(Path::new("/proc/sys"), name, value) {
            info!("warning: {name} = {value}: {e}");
        }
    }
}

/// Whether a kernel word sets it; the kernel takes dots and slashes.
fn is_named(words: &str, name: &str) -> bool {
    let named = words
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("sysctl.")?.split_once('='));
    named
        .into_iter()
        .any(|(named, _)| named.replace('/', ".") == name)
}

fn set(folder: &Path, name: &str, value: &str) -> io::Result<()> {
    match fs::write(folder.join(name.replace('.', "/")), value) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        written => written,
    }
}

/// The result of the stage.
#[derive(Debug, PartialEq, Eq)]
pub enum LockResult {
    /// The machine is not handed over.
    NoWorkload,
    /// What was taken away, and what the kernel refused.
    Done {
        /// Whether no module and no other kernel can be loaded until the next boot.
        modules: bool,
        /// Whether no user namespace can be made.
        namespaces: bool,
        /// The settings that the kernel refused, and why.
        refused: Vec<String>,
    },
}

impl fmt::Display for LockResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Done {
            modules,
            namespaces,
            refused,
        } = self
        else {
            return f.write_str("nothing: no workload follows");
        };
        f.write_str(match modules {
            true => "no more modules can be loaded",
            false => "workload.lock_modules = false: modules may be loaded",
        })?;
        if *namespaces {
            f.write_str(", no user namespaces")?;
        }
        if refused.is_empty() {
            Ok(())
        } else {
            write!(f, "; warning: refused: {}", refused.join(", "))
        }
    }
}

/// Takes away what the configuration says.
#[must_use]
pub fn lock(action: Action, workload: &Workload) -> LockResult {
    lock_at(
        Path::new("/proc/sys"),
        in_initial_namespace(),
        action,
        workload,
    )
}

fn lock_at(
    folder: &Path,
    is_whole_machine: bool,
    action: Action,
    workload: &Workload,
) -> LockResult {
    let handed_over = matches!(action, Action::Workload | Action::WorkloadWithoutP2p);
    if !handed_over || workload.handover == WorkloadMode::None {
        return LockResult::NoWorkload;
    }
    let modules = workload.lock_modules;
    // In a process id namespace, the limit would be that of the user namespace that it shares with its host.
    let namespaces = !workload.user_namespaces && is_whole_machine;
    let wanted = [
        (modules, MODULES, "1"),
        (modules, KEXEC, "1"),
        (namespaces, NAMESPACES, "0"),
    ];
    let refused = wanted
        .into_iter()
        .filter(|(is_wanted, ..)| *is_wanted)
        .filter_map(|(_, name, value)| {
            let e = set(folder, name, value).err()?;
            Some(format!("{name}: {e}"))
        });
    LockResult::Done {
        modules,
        namespaces,
        refused: refused.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::files;

    #[test]
    fn a_kernel_word_wins_over_the_settings_of_the_boot() {
        let words = "quiet sysctl.kernel.kptr_restrict=0 sysctl.net/core/bpf_jit_harden=1 sysctl.x";
        let named = |name| is_named(words, name);
        assert_eq!(
            [
                named("kernel.kptr_restrict"),
                named("net.core.bpf_jit_harden"),
                named("vm.mmap_rnd_bits")
            ],
            [true, true, false]
        );
    }

    #[test]
    fn what_the_workload_does_not_need_is_taken_away() {
        let all = [
            ("kernel/modules_disabled", "0"),
            ("kernel/kexec_load_disabled", "0"),
            ("user/max_user_namespaces", "9"),
        ];
        let exec = WorkloadMode::Exec(vec!["/x".to_owned()]);
        for (lock_modules, user_namespaces, values, line) in [
            (
                true,
                false,
                ["1", "1", "0"],
                "no more modules can be loaded, no user namespaces",
            ),
            (true, true, ["1", "1", "9"], "no more modules can be loaded"),
            (
                false,
                true,
                ["0", "0", "9"],
                "workload.lock_modules = false: modules may be loaded",
            ),
        ] {
            let dir = files(&all);
            let workload = Workload {
                handover: exec.clone(),
                lock_modules,
                user_namespaces,
                ..Workload::default()
            };
            let result = lock_at(dir.path(), true, Action::Workload, &workload);
            assert_eq!(result.to_string(), line);
            assert_eq!(
                all.map(|(file, _)| fs::read_to_string(dir.path().join(file)).unwrap()),
                values
            );
            assert_eq!(
                lock_at(dir.path(), true, Action::Hold, &workload),
                LockResult::NoWorkload
            );
        }
    }

    #[test]
    fn what_the_kernel_refuses_is_a_warning_and_what_it_lacks_is_none() {
        let dir = files(&[("kernel/modules_disabled/x", "")]);
        let handover = WorkloadMode::Exec(vec!["/x".to_owned()]);
        let workload = Workload {
            handover,
            lock_modules: true,
            user_namespaces: true,
            ..Workload::default()
        };
        let result = lock_at(dir.path(), true, Action::Workload, &workload).to_string();
        let line = "no more modules can be loaded; warning: refused: kernel.modules_disabled: Is a directory (os error 21)";
        assert_eq!(result, line);
    }
}
