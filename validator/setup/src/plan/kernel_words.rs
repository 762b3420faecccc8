//! How words come into the kernel's command line here: an own file where the distribution reads one, a marked line or the
//! words themselves where it does not, or the boot loader's own program. What to run then, and for whom, is the table of
//! `outcome/platform/boot_loader.rs`. Pure.

use crate::state::State;
use crate::step::{Action, Call, Change, paths, split};
use outcome::platform::{BootLoader, Distribution, Method, System};

/// The end of a line that setup added to a file of shell variables.
pub(super) const MARK: &str = "# firstlight setup";

/// The actions.
///
/// # Errors
/// One line: the boot loader is not known, or its file is not as expected; with the words.
pub(super) fn actions(state: &State, words: &[&str]) -> Result<Vec<Action>, String> {
    let System::Installed(distribution, loader) = state.host.system else {
        return Err(unknown(words));
    };
    let joined = words.join(" ");
    let changes = match loader {
        // Debian's GRUB reads this folder; upstream's does not.
        BootLoader::Grub if distribution == Distribution::Debian => vec![own_file(state, &joined)],
        BootLoader::Grub => vec![marked_line(state, &joined)?],
        BootLoader::KernelCmdline | BootLoader::Proxmox => vec![one_line(state, &joined)?],
        BootLoader::LoaderEntries => entries(state, &joined)?,
        BootLoader::Extlinux => vec![keyed(state, paths::EXTLINUX, ("APPEND", true), &joined)?],
        BootLoader::Grubby | BootLoader::Kernelstub | BootLoader::RpmOstree => Vec::new(),
        BootLoader::NixOs => {
            return Err(format!(
                "the configuration of NixOS makes the kernel's command line: {}",
                { state.host.system.add_words(words) }
            ));
        }
        BootLoader::Unknown => return Err(unknown(words)),
    };
    let mut actions: Vec<_> = changes.into_iter().map(Action::Write).collect();
    match loader.method(distribution) {
        Method::Edit { then, .. } => actions.extend(then.map(Call::generator).map(Action::Run)),
        Method::Run {
            command,
            add,
            remove,
            together,
        } => {
            let with = |option: &str| {
                let mut all = split(command);
                if together {
                    all.push(format!("{option}{joined}"));
                } else {
                    all.extend(words.iter().map(|word| format!("{option}{word}")));
                }
                all
            };
            actions.push(Action::Run(Call::with_back(with(add), with(remove), 900)));
        }
        Method::Unknown => return Err(unknown(words)),
    }
    Ok(actions)
}

fn unknown(words: &[&str]) -> String {
    format!(
        "the boot loader is not known: add `{}` to the kernel's command line yourself",
        words.join(" ")
    )
}

fn change(state: &State, path: &str, after: String) -> Change {
    Change {
        path: path.to_owned(),
        before: state.files.get(path).cloned(),
        after,
    }
}

/// A file of our own. The words come after those that other files set.
fn own_file(state: &State, words: &str) -> Change {
    let text = format!(
        "# Written by `firstlight setup`; `firstlight setup --undo` removes it.\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {words}\"\n"
    );
    change(state, paths::GRUB_DROP_IN, text)
}

/// A file's text, or a line that it is missing.
fn text_of<'a>(state: &'a State, path: &str) -> Result<&'a str, String> {
    state
        .files
        .get(path)
        .map(String::as_str)
        .ok_or_else(|| format!("/{path} is missing"))
}

/// A line at the end of GRUB's settings, which a shell reads.
fn marked_line(state: &State, words: &str) -> Result<Change, String> {
    let before = text_of(state, paths::GRUB)?;
    let end = if before.is_empty() || before.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let line = format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {words}\" {MARK}\n");
    Ok(change(state, paths::GRUB, format!("{before}{end}{line}")))
}

/// The words at the end of the first line that is not empty.
fn one_line(state: &State, words: &str) -> Result<Change, String> {
    let before = text_of(state, paths::CMDLINE)?;
    let after = appended(before, words, false, |line| {
        !line.trim().is_empty() && !line.starts_with('#')
    });
    let after = after.ok_or_else(|| format!("/{} has no line", paths::CMDLINE))?;
    Ok(change(state, paths::CMDLINE, after))
}

/// The words at the end of the first line that begins with a key, or of each.
fn keyed(
    state: &State,
    path: &str,
    (key, each): (&str, bool),
    words: &str,
) -> Result<Change, String> {
    let before = text_of(state, path)?;
    let is_it = |line: &str| {
        line.split_whitespace()
            .next()
            .is_some_and(|first| first.eq_ignore_ascii_case(key))
    };
    let after =
        appended(before, words, each, is_it).ok_or_else(|| format!("/{path} has no line {key}"))?;
    Ok(change(state, path, after))
}

/// Each entry of systemd-boot that starts a kernel of this system.
fn entries(state: &State, words: &str) -> Result<Vec<Change>, String> {
    let of = |path: &&String| {
        paths::ENTRIES
            .iter()
            .any(|folder| path.starts_with(&format!("{folder}/")))
    };
    let linux = |path: &&String| {
        state.files.get(*path).is_some_and(|text| {
            text.lines()
                .any(|line| line.trim_start().starts_with("linux"))
        })
    };
    let all: Vec<_> = state.files.keys().filter(of).filter(linux).collect();
    if all.is_empty() {
        return Err("systemd-boot has no entry with a kernel that can be read".to_owned());
    }
    all.into_iter()
        .map(|path| keyed(state, path, ("options", false), words))
        .collect()
}

/// The text with words added to the first line that `is_it`, or to `each`; `None` if there is no such line.
fn appended(text: &str, words: &str, each: bool, is_it: impl Fn(&str) -> bool) -> Option<String> {
    let mut found = false;
    let lines = text.split_inclusive('\n').map(|line| {
        let (body, end) = line
            .strip_suffix('\n')
            .map_or((line, ""), |body| (body, "\n"));
        if !is_it(body) || (found && !each) {
            return line.to_owned();
        }
        found = true;
        format!("{} {words}{end}", body.trim_end())
    });
    let text: String = lines.collect();
    found.then_some(text)
}
