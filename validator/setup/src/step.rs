//! The steps of a plan as data: what is missing, what has to be done about it on this machine, and who does it.

use crate::state::Source;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Paths below the root.
pub mod paths {
    /// The options of NVIDIA's module, and the commands that load the edited modules.
    pub const MODPROBE: &str = "etc/modprobe.d/firstlight.conf";
    /// Words for GRUB, on distributions whose GRUB reads this folder. It is the last one there by its name.
    pub const GRUB_DROP_IN: &str = "etc/default/grub.d/zz-firstlight.cfg";
    /// GRUB's settings.
    pub const GRUB: &str = "etc/default/grub";
    /// The kernel's words for systemd-boot, unified kernel images and Proxmox VE.
    pub const CMDLINE: &str = "etc/kernel/cmdline";
    /// The configuration of extlinux.
    pub const EXTLINUX: &str = "boot/extlinux/extlinux.conf";
    /// The script that loads the edited modules.
    pub const LOADER: &str = "usr/lib/firstlight/load-nvidia";
    /// Folders of systemd-boot's entries.
    pub const ENTRIES: [&str; 3] = [
        "boot/loader/entries",
        "efi/loader/entries",
        "boot/efi/loader/entries",
    ];
    /// Files of which a plan needs to know the text.
    pub const WRITTEN: [&str; 6] = [MODPROBE, GRUB_DROP_IN, GRUB, CMDLINE, EXTLINUX, LOADER];
    /// What was done, for `undo`.
    pub const JOURNAL: &str = "var/lib/firstlight/setup.json";
    /// The package's unit that corrects the fabric at boot.
    pub const UNIT: &str = "firstlight-fabric.service";
    /// The package's unit that says after each boot whether what was set up is in force.
    pub const CHECK_UNIT: &str = "firstlight-setup.service";
    /// The name of the edited modules in DKMS.
    pub const DKMS: &str = "firstlight-nvidia";
    /// The parameter by which a loaded nvidia.ko shows the level of our edits.
    pub const PARAMETER: &str = "firstlight_patch";
}

/// What a step is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Settings of the firmware.
    Firmware,
    /// The board's VBIOS.
    Vbios,
    /// A screen at a GPU.
    Display,
    /// The driver's package.
    Driver,
    /// Edited modules.
    Modules,
    /// Registry keys of the driver.
    Keys,
    /// Words of the kernel's command line.
    Words,
    /// BAR1 and ACS at each boot.
    Fabric,
    /// The fabric manager of NVSwitches.
    FabricManager,
    /// A restart.
    Reboot,
    /// The proof that it works.
    Proof,
}

/// Who takes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// `setup --apply`.
    Apply,
    /// A person.
    Person,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What it is about.
    pub kind: Kind,
    /// Who takes it.
    pub by: By,
    /// What is missing and what to do, in one line.
    pub what: String,
    /// The literal actions; none if a person takes it.
    pub actions: Vec<Action>,
}

/// One literal action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "action")]
pub enum Action {
    /// A file is written.
    Write(Change),
    /// A program is run.
    Run(Call),
    /// The driver's source is copied and edited.
    Source(Edited),
    /// The module that was built must be an edited one of this version.
    Built {
        /// The version.
        version: String,
        /// The kernel's release.
        release: String,
    },
}

/// A file's text before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its path below the root.
    pub path: String,
    /// Its text before; `null` if it does not exist.
    pub before: Option<String>,
    /// Its text after.
    pub after: String,
}

/// A program with its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its name and its words.
    pub words: Vec<String>,
    /// What takes it back; empty if nothing has to.
    #[serde(default)]
    pub back: Vec<String>,
    /// Whether it writes files from others, and so runs again after those were taken back.
    #[serde(default)]
    pub generator: bool,
    /// When it is killed, in seconds.
    pub seconds: u64,
}

impl Call {
    /// A program that writes files from others.
    #[must_use]
    pub fn generator(line: &str) -> Self {
        Self {
            words: split(line),
            back: Vec::new(),
            generator: true,
            seconds: 900,
        }
    }

    /// A program that another call takes back.
    #[must_use]
    pub fn with_back(words: Vec<String>, back: Vec<String>, seconds: u64) -> Self {
        Self {
            words,
            back,
            generator: false,
            seconds,
        }
    }

    /// The line that a shell would get.
    #[must_use]
    pub fn line(&self) -> String {
        line(&self.words)
    }
}

/// The words of a line without quotes.
#[must_use]
pub fn split(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// The line that a shell would get for these words.
#[must_use]
pub fn line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    let one = |word: &String| {
        if word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{word}'")
        }
    };
    words.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// The edited copy of the driver's source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edited {
    /// The source.
    pub from: Source,
    /// The folder of the copy below the root.
    pub to: String,
    /// The families whose chips are bound.
    pub families: Vec<String>,
    /// The level of the edits.
    pub level: String,
}

/// A plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Why this machine needs nothing, or what it has already, one line each.
    pub notes: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Why `--apply` does nothing, one line each.
    pub refused: Vec<String>,
    /// What is in force once all steps were taken.
    pub expected: Expected,
}

/// What is in force after the steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The version of the driver that it was set up for; `null` if nothing of the driver was.
    pub version: Option<String>,
    /// The level of the edits; `null` if the modules are not edited.
    pub level: Option<String>,
    /// The registry keys by GPU.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
    /// The words of the kernel's command line.
    #[serde(default)]
    pub words: Vec<String>,
}

impl Plan {
    /// Whether there is a step that `--apply` takes.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.steps.iter().any(|step| step.by == By::Apply)
    }
}
