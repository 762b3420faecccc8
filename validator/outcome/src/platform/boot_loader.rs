//! How the kernel's command line is changed on an installed system: one table for remedies and for commands that do it.

use super::Distribution;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What keeps the kernel's command line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BootLoader {
    /// GRUB with /etc/default/grub, as on Debian, Ubuntu and Arch.
    Grub,
    /// Boot Loader Specification entries that `grubby` changes, as on Fedora and RHEL.
    Grubby,
    /// systemd-boot or a unified kernel image, with /etc/kernel/cmdline.
    KernelCmdline,
    /// systemd-boot with entries that are written by hand, as on Arch.
    LoaderEntries,
    /// kernelstub, as on Pop!_OS.
    Kernelstub,
    /// rpm-ostree, as on Fedora Silverblue, CoreOS and Bazzite.
    RpmOstree,
    /// proxmox-boot-tool, with /etc/kernel/cmdline.
    Proxmox,
    /// The configuration of NixOS.
    #[serde(rename = "nixos")]
    NixOs,
    /// extlinux, as on Jetson.
    Extlinux,
    /// Not recognized.
    #[default]
    Unknown,
}

/// How one boot loader's words are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Edit a file, then run a command that puts it into effect.
    Edit {
        /// The file.
        file: &'static str,
        /// The variable or line in it to which words are added, and those from which they are removed.
        place: (&'static str, &'static str),
        /// The command; `None` if the next boot reads the file itself.
        then: Option<&'static str>,
    },
    /// Run a command with one option for each word, or with one option that has all words in quotes.
    Run {
        /// The command.
        command: &'static str,
        /// The option that adds.
        add: &'static str,
        /// The option that removes.
        remove: &'static str,
        /// Whether one option has all words, in quotes.
        together: bool,
    },
    /// The way is not known.
    Unknown,
}

const CMDLINE: &str = "/etc/kernel/cmdline";
const LINE: (&str, &str) = ("the line", "the line");

impl BootLoader {
    /// The way to change words on this distribution: the table.
    #[must_use]
    pub const fn method(self, distribution: Distribution) -> Method {
        match self {
            Self::Grub => Method::Edit {
                file: "/etc/default/grub",
                place: (
                    "GRUB_CMDLINE_LINUX",
                    "GRUB_CMDLINE_LINUX and GRUB_CMDLINE_LINUX_DEFAULT",
                ),
                then: Some(match distribution {
                    Distribution::Debian => "update-grub",
                    Distribution::Fedora | Distribution::Suse => {
                        "grub2-mkconfig -o /boot/grub2/grub.cfg"
                    }
                    _ => "grub-mkconfig -o /boot/grub/grub.cfg",
                }),
            },
            Self::Grubby => {
                let command = "grubby --update-kernel=ALL";
                Method::Run {
                    command,
                    add: "--args=",
                    remove: "--remove-args=",
                    together: true,
                }
            }
            Self::KernelCmdline => Method::Edit {
                file: CMDLINE,
                place: LINE,
                then: Some(match distribution {
                    // Its hook for initramfs updates installs each kernel again; `kernel-install add-all` is not in
                    // systemd before 255.
                    Distribution::Debian => "update-initramfs -u -k all",
                    Distribution::Arch => "mkinitcpio -P",
                    Distribution::Suse => "sdbootutil update-all-entries",
                    _ => "kernel-install add-all",
                }),
            },
            Self::LoaderEntries => {
                let place = (
                    "the line `options` of each file",
                    "the line `options` of each file",
                );
                Method::Edit {
                    file: "/boot/loader/entries (or loader/entries on the EFI partition)",
                    place,
                    then: None,
                }
            }
            Self::Kernelstub => Method::Run {
                command: "kernelstub",
                add: "--add-options=",
                remove: "--delete-options=",
                together: true,
            },
            Self::RpmOstree => Method::Run {
                command: "rpm-ostree kargs",
                add: "--append-if-missing=",
                remove: "--delete-if-present=",
                together: false,
            },
            Self::Proxmox => Method::Edit {
                file: CMDLINE,
                place: LINE,
                then: Some("proxmox-boot-tool refresh"),
            },
            Self::NixOs => {
                let place = ("boot.kernelParams", "boot.kernelParams");
                Method::Edit {
                    file: "/etc/nixos/configuration.nix",
                    place,
                    then: Some("nixos-rebuild boot"),
                }
            }
            Self::Extlinux => {
                let place = ("the line APPEND", "the line APPEND");
                Method::Edit {
                    file: "/boot/extlinux/extlinux.conf",
                    place,
                    then: None,
                }
            }
            Self::Unknown => Method::Unknown,
        }
    }

    /// The instruction that adds these words to the kernel's command line.
    #[must_use]
    pub fn add_words(self, distribution: Distribution, words: &[&str]) -> String {
        let words: Vec<_> = words.iter().map(|word| in_quotes(word)).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let told = instruction(self.method(distribution), Change::Add, &words);
        if self == Self::Grub && words.iter().any(|word| word.contains('"')) {
            return format!(
                "{told} (with these quotes, and the variable's value in single ones: GRUB ends a line at a semicolon)"
            );
        }
        told
    }

    /// The instruction that removes these words from it.
    #[must_use]
    pub fn remove_words(self, distribution: Distribution, words: &[&str]) -> String {
        instruction(self.method(distribution), Change::Remove, words)
    }
}

/// A word with a semicolon has its value in quotes, which the kernel takes off: without them GRUB ends the line there.
fn in_quotes(word: &str) -> String {
    match word
        .split_once('=')
        .filter(|_| word.contains(';') && !word.contains('"'))
    {
        Some((key, value)) => format!("{key}=\"{value}\""),
        None => word.to_owned(),
    }
}

/// Words for a shell.
fn for_shell(words: &str) -> String {
    if words.contains('"') {
        format!("'{words}'")
    } else {
        format!("\"{words}\"")
    }
}

/// The instruction that puts one word in the place of others.
pub(super) fn replacement(method: Method, old: &str, new: &str) -> String {
    match method {
        Method::Edit { file, place, then } => {
            let then = then.map_or_else(
                || " and reboot".to_owned(),
                |then| format!(", run `{then}` and reboot"),
            );
            format!("replace `{old}` by `{new}` in {} in {file}{then}", place.1)
        }
        Method::Run {
            command,
            add,
            remove,
            together,
        } => {
            let quote = if together { "\"" } else { "" };
            let removed: Vec<_> = match together {
                true => vec![format!("{remove}\"{old}\"")],
                false => old
                    .split_whitespace()
                    .map(|word| format!("{remove}{word}"))
                    .collect(),
            };
            format!(
                "run `{command} {} {add}{quote}{new}{quote}` and reboot",
                removed.join(" ")
            )
        }
        Method::Unknown => format!(
            "replace `{old}` by `{new}` in the kernel's command line and reboot (it is usually in /etc/default/grub, in \
             /etc/kernel/cmdline, or in the files of /boot/loader/entries)"
        ),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Add,
    Remove,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Add { "add" } else { "remove" })
    }
}

fn instruction(method: Method, change: Change, words: &[&str]) -> String {
    let all = words.join(" ");
    let preposition = if change == Change::Add { "to" } else { "from" };
    match method {
        Method::Edit { file, place, then } => {
            let place = if change == Change::Add {
                place.0
            } else {
                place.1
            };
            let then = then.map_or_else(
                || " and reboot".to_owned(),
                |then| format!(", run `{then}` and reboot"),
            );
            format!("{change} `{all}` {preposition} {place} in {file}{then}")
        }
        Method::Run {
            command,
            add,
            remove,
            together,
        } => {
            let option = if change == Change::Add { add } else { remove };
            let options: Vec<_> = match together {
                true => vec![format!("{option}{}", for_shell(&all))],
                false => words
                    .iter()
                    .map(|word| {
                        if word.contains('"') {
                            format!("{option}'{word}'")
                        } else {
                            format!("{option}{word}")
                        }
                    })
                    .collect(),
            };
            format!("run `{command} {}` and reboot", options.join(" "))
        }
        Method::Unknown => format!(
            "{change} `{all}` {preposition} the kernel's command line and reboot (it is usually in /etc/default/grub, \
             in /etc/kernel/cmdline, or in the files of /boot/loader/entries)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::BootLoader::*;
    use super::*;

    #[track_caller]
    fn says(loader: BootLoader, distribution: Distribution, add: &str, remove: &str) {
        assert_eq!(loader.add_words(distribution, &["iommu=pt"]), add);
        assert_eq!(loader.remove_words(distribution, &["iommu=pt"]), remove);
    }

    #[test]
    fn a_semicolon_is_in_quotes() {
        let word = ["pci=config_acs=0000000@0000:00:01.1;0000000@0000:00:03.1"];
        let grub = Grub.add_words(Distribution::Debian, &word);
        assert!(
            grub.contains("`pci=\"config_acs=0000000@0000:00:01.1;0000000@0000:00:03.1\"`"),
            "{grub}"
        );
        assert!(grub.ends_with("GRUB ends a line at a semicolon)"), "{grub}");
        let grubby = Grubby.add_words(Distribution::Fedora, &word);
        assert!(
            grubby
                .contains("--args='pci=\"config_acs=0000000@0000:00:01.1;0000000@0000:00:03.1\"'"),
            "{grubby}"
        );
        let tree = RpmOstree.add_words(Distribution::Fedora, &word);
        assert!(
            tree.contains("--append-if-missing='pci=\"config_acs="),
            "{tree}"
        );
    }

    #[test]
    fn grub_is_edited_and_its_menu_is_written_as_the_distribution_does_it() {
        for (distribution, command) in [
            (Distribution::Debian, "update-grub"),
            (
                Distribution::Fedora,
                "grub2-mkconfig -o /boot/grub2/grub.cfg",
            ),
            (Distribution::Suse, "grub2-mkconfig -o /boot/grub2/grub.cfg"),
            (Distribution::Arch, "grub-mkconfig -o /boot/grub/grub.cfg"),
            (Distribution::Other, "grub-mkconfig -o /boot/grub/grub.cfg"),
        ] {
            says(
                Grub,
                distribution,
                &format!(
                    "add `iommu=pt` to GRUB_CMDLINE_LINUX in /etc/default/grub, run `{command}` and reboot"
                ),
                &format!(
                    "remove `iommu=pt` from GRUB_CMDLINE_LINUX and GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, \
                     run `{command}` and reboot"
                ),
            );
        }
    }

    #[test]
    fn the_line_in_etc_kernel_is_edited_and_put_into_effect_as_the_distribution_does_it() {
        for (loader, distribution, command) in [
            (
                KernelCmdline,
                Distribution::Debian,
                "update-initramfs -u -k all",
            ),
            (KernelCmdline, Distribution::Arch, "mkinitcpio -P"),
            (
                KernelCmdline,
                Distribution::Suse,
                "sdbootutil update-all-entries",
            ),
            (
                KernelCmdline,
                Distribution::Fedora,
                "kernel-install add-all",
            ),
            (Proxmox, Distribution::Debian, "proxmox-boot-tool refresh"),
        ] {
            says(
                loader,
                distribution,
                &format!(
                    "add `iommu=pt` to the line in /etc/kernel/cmdline, run `{command}` and reboot"
                ),
                &format!(
                    "remove `iommu=pt` from the line in /etc/kernel/cmdline, run `{command}` and reboot"
                ),
            );
        }
    }

    #[test]
    fn commands_change_the_words_themselves() {
        says(
            Grubby,
            Distribution::Fedora,
            "run `grubby --update-kernel=ALL --args=\"iommu=pt\"` and reboot",
            "run `grubby --update-kernel=ALL --remove-args=\"iommu=pt\"` and reboot",
        );
        says(
            RpmOstree,
            Distribution::Fedora,
            "run `rpm-ostree kargs --append-if-missing=iommu=pt` and reboot",
            "run `rpm-ostree kargs --delete-if-present=iommu=pt` and reboot",
        );
        says(
            Kernelstub,
            Distribution::Debian,
            "run `kernelstub --add-options=\"iommu=pt\"` and reboot",
            "run `kernelstub --delete-options=\"iommu=pt\"` and reboot",
        );
        let two = ["iommu=pt", "pci=realloc"];
        assert_eq!(
            Grubby.add_words(Distribution::Fedora, &two),
            "run `grubby --update-kernel=ALL --args=\"iommu=pt pci=realloc\"` and reboot"
        );
        assert_eq!(
            RpmOstree.add_words(Distribution::Fedora, &two),
            "run `rpm-ostree kargs --append-if-missing=iommu=pt --append-if-missing=pci=realloc` and reboot"
        );
    }

    #[test]
    fn a_word_takes_the_place_of_another_in_one_step() {
        let of = |loader: BootLoader| {
            replacement(
                loader.method(Distribution::Fedora),
                "iommu=nopt",
                "iommu=pt",
            )
        };
        assert_eq!(
            of(Grubby),
            "run `grubby --update-kernel=ALL --remove-args=\"iommu=nopt\" --args=\"iommu=pt\"` and reboot"
        );
        assert_eq!(
            of(RpmOstree),
            "run `rpm-ostree kargs --delete-if-present=iommu=nopt --append-if-missing=iommu=pt` and reboot"
        );
        assert!(
            of(Grub).starts_with("replace `iommu=nopt` by `iommu=pt` in GRUB_CMDLINE_LINUX and")
        );
        assert!(
            of(Unknown)
                .starts_with("replace `iommu=nopt` by `iommu=pt` in the kernel's command line")
        );
    }

    #[test]
    fn files_that_the_next_boot_reads_need_no_command() {
        says(
            LoaderEntries,
            Distribution::Arch,
            "add `iommu=pt` to the line `options` of each file in /boot/loader/entries (or loader/entries on the EFI \
             partition) and reboot",
            "remove `iommu=pt` from the line `options` of each file in /boot/loader/entries (or loader/entries on the \
             EFI partition) and reboot",
        );
        says(
            Extlinux,
            Distribution::Debian,
            "add `iommu=pt` to the line APPEND in /boot/extlinux/extlinux.conf and reboot",
            "remove `iommu=pt` from the line APPEND in /boot/extlinux/extlinux.conf and reboot",
        );
        says(
            NixOs,
            Distribution::NixOs,
            "add `iommu=pt` to boot.kernelParams in /etc/nixos/configuration.nix, run `nixos-rebuild boot` and reboot",
            "remove `iommu=pt` from boot.kernelParams in /etc/nixos/configuration.nix, run `nixos-rebuild boot` and \
             reboot",
        );
    }

    #[test]
    fn an_unknown_boot_loader_gets_the_word_and_the_usual_places() {
        says(
            Unknown,
            Distribution::Unknown,
            "add `iommu=pt` to the kernel's command line and reboot (it is usually in /etc/default/grub, in \
             /etc/kernel/cmdline, or in the files of /boot/loader/entries)",
            "remove `iommu=pt` from the kernel's command line and reboot (it is usually in /etc/default/grub, in \
             /etc/kernel/cmdline, or in the files of /boot/loader/entries)",
        );
    }
}
