//! Whether the kernel was started with the parameters that the configuration requires. They keep translation
//! and ACS off when a driver binds or a device is reset later. firstlight's own kernel has them built in, so a
//! missing one is a fault there; for any other kernel they are only counted, and the tests `iommu` and `acs`
//! judge their effect. Words that no kernel knows are named in both cases, because who wrote them relies on them.

mod known;
mod lockdown;
mod no_effect;

use crate::config::{IommuPolicy, Level};
use crate::suite::context::unreadable;
use crate::suite::{FILE_DEADLINE, Group, Test, TestContext};
use known::on_or_off;
use lockdown::lockdown_ignored;
use machine::host::cmdline::{self, Word};
use machine::host::cpu;
use no_effect::Kernel;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use std::fmt;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::CMDLINE,
    title: "Kernel command line",
    proves: "firstlight's own kernel was started with the parameters that keep the IOMMU and ACS as configured",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let line = cmdline::read(&context.root).map_err(|e| unreadable("proc/cmdline", &e))?;
    let lockdown = context
        .fabric
        .as_ref()
        .map(|fabric| fabric.lockdown.as_deref());
    // If the fabric cannot be read, lockdown does not matter.
    let ignored = lockdown.ok().and_then(|mode| lockdown_ignored(&line, mode));
    let policy = context.config.fabric.iommu.unwrap_or(IommuPolicy::Off);
    let is_own = context.identity.is_own();
    let judgement = if is_own {
        judge(policy, &line)
    } else {
        judge_foreign_kernel(policy, &line)
    };
    let kernel = Kernel {
        release: context.identity.kernel.as_deref(),
        arm64: cpu::is_arm64(&context.root),
        log: context.log.as_deref().unwrap_or_default(),
        lost: context.log_lost > 0,
    };
    Ok(judgement
        .with(no_effect::findings(&line, &kernel))
        .with(ignored.into_iter().collect()))
}

/// A required kernel parameter: `key=..,value,..` must be present.
struct BootParameter {
    key: &'static str,
    value: &'static str,
    /// The severity if it is missing.
    severity: Severity,
    /// Later words that set the same thing otherwise: a key, and the beginning of an item of its value.
    rivals: &'static [(&'static str, &'static str)],
    /// Words that win in any order.
    stronger: &'static [(&'static str, &'static str)],
    /// Another parameter with the same effect.
    equivalent: Option<&'static BootParameter>,
}

/// Keeps peer traffic direct after every reset, when the kernel re-applies its ACS policy.
const ACS: BootParameter = BootParameter::of(
    "pci",
    "config_acs=0000000@pci:0:0",
    Severity::Fail,
    &[("pci", "config_acs=")],
);
/// Links keep their full speed when idle.
const ASPM: BootParameter = BootParameter::of(
    "pcie_aspm.policy",
    "performance",
    Severity::Warn,
    &[
        ("pcie_aspm.policy", "default"),
        ("pcie_aspm.policy", "power"),
    ],
);
/// No later word revokes `iommu=off` or `amd_iommu=off`: the kernel only ever sets these two switches
/// (arch/x86/kernel/pci-dma.c, drivers/iommu/amd/init.c), and `iommu=off` wins over `intel_iommu=on`.
const OFF: &[BootParameter] = &[
    BootParameter::of("iommu", "off", Severity::Fail, &[]),
    // Without it, devices that can address only 4 GiB of memory (old USB controllers) fail.
    BootParameter::of("iommu", "soft", Severity::Warn, &[]),
    BootParameter::of(
        "intel_iommu",
        "off",
        Severity::Fail,
        &[("intel_iommu", "on")],
    ),
    BootParameter::of("amd_iommu", "off", Severity::Fail, &[]),
    ACS,
    ASPM,
];
/// `iommu=pt`, `iommu=nopt` and `iommu.passthrough=` are one setting: the last of them on the line is in force.
/// `iommu=pt` is specific to x86; `iommu.passthrough=1` exists on all architectures and is the only one on arm64.
const PT: &[BootParameter] = &[
    BootParameter {
        equivalent: Some(&PASS_THROUGH),
        stronger: &[("iommu", "off")],
        ..BootParameter::of(
            "iommu",
            "pt",
            Severity::Fail,
            &[("iommu", "nopt"), ("iommu.passthrough", "0")],
        )
    },
    ACS,
    ASPM,
];
const PASS_THROUGH: BootParameter =
    BootParameter::of("iommu.passthrough", "1", Severity::Fail, &[]);

const fn required(policy: IommuPolicy) -> Option<&'static [BootParameter]> {
    match policy {
        IommuPolicy::Off => Some(OFF),
        IommuPolicy::Pt => Some(PT),
        IommuPolicy::Firmware => None,
    }
}

fn nothing_required() -> Judgement {
    Judgement::not_applicable("fabric.iommu = \"firmware\" requires no parameters")
}

/// For a kernel that is not firstlight's: its parameters are only counted. A missing one is no finding, because the words of
/// firstlight's kernel are not right for every machine.
fn judge_foreign_kernel(policy: IommuPolicy, line: &str) -> Judgement {
    let Some(required) = required(policy) else {
        return nothing_required();
    };
    let words = cmdline::words(line);
    let there = required
        .iter()
        .filter(|n| n.position(&words).is_some())
        .count();
    let summary = format!(
        "{there} of {} of firstlight's own words; the tests iommu and acs judge their effect",
        required.len()
    );
    Judgement::of(summary, Vec::new())
        .without_checking(&[Code::CmdlineMissing, Code::CmdlineOverridden])
}

/// The required parameters must be present; a later rival is reported only, because `iommu` and `acs` see
/// what is in force.
fn judge(policy: IommuPolicy, line: &str) -> Judgement {
    let Some(required) = required(policy) else {
        return nothing_required();
    };
    let words = cmdline::words(line);
    let (there, lacking): (Vec<_>, Vec<_>) =
        required.iter().partition(|n| n.position(&words).is_some());
    let of = |severity| {
        lacking
            .iter()
            .filter(move |n| n.severity == severity)
            .map(|n| n.to_string())
    };
    let missing = [Severity::Fail, Severity::Warn]
        .into_iter()
        .filter_map(|severity| missing(severity, &of(severity).collect::<Vec<_>>()));
    let overridden = there.iter().filter_map(|n| overridden_by(n, &words));
    let findings: Vec<_> = missing
        .chain(overridden)
        .map(|f| f.seen(format!("/proc/cmdline: {line}")))
        .collect();
    let summary = match lacking.first() {
        Some(first) => {
            format!(
                "{} of {} required parameters; {first} is missing",
                there.len(),
                required.len()
            )
        }
        None => format!("{} of {} required parameters", there.len(), required.len()),
    };
    Judgement::of(summary, findings)
}

fn missing(severity: Severity, words: &[String]) -> Option<Finding> {
    let list = (!words.is_empty()).then(|| words.join(" "))?;
    let message = format!("the kernel command line lacks {list}");
    Some(
        Code::CmdlineMissing
            .finding(severity, Subject::part("kernel"), message)
            .values(serde_json::Value::Null, list, None),
    )
}

/// The word that keeps a parameter from being in force, although it is on the line.
fn overridden_by(parameter: &BootParameter, words: &[Word]) -> Option<Finding> {
    let (last, written) = parameter.last(words)?;
    let all = || {
        words.iter().enumerate().flat_map(|(at, word)| {
            word.items()
                .enumerate()
                .map(move |(n, i)| ((at, n), word, i))
        })
    };
    let one_of = |list: &[(&str, &str)], word: &Word, item: &str| {
        list.iter()
            .any(|(key, begin)| word.has_key(key) && sets(key, item, begin))
    };
    let stronger = all().find(|(_, word, item)| one_of(parameter.stronger, word, item));
    let later = all().find(|(at, word, item)| {
        *at > last && *item != parameter.value && one_of(parameter.rivals, word, item)
    });
    let (how, (_, word, _)) = match (stronger, later) {
        (Some(stronger), _) => ("has no force beside", stronger),
        (None, Some(later)) => ("is followed by", later),
        (None, None) => return None,
    };
    let rival = format!("{}={}", word.key, word.value.as_deref().unwrap_or_default());
    let finding = Code::CmdlineOverridden.finding(
        Severity::Info,
        Subject::kernel_word(&written),
        format!("{written} {how} {rival}"),
    );
    Some(finding.values(rival, written, None))
}

/// Whether an item of a value sets what `begin` stands for: the kernel compares beginnings, except for switches.
fn sets(key: &str, item: &str, begin: &str) -> bool {
    if key == PASS_THROUGH.key {
        on_or_off(item) == on_or_off(begin)
    } else {
        item.starts_with(begin)
    }
}

impl BootParameter {
    const fn of(
        key: &'static str,
        value: &'static str,
        severity: Severity,
        rivals: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self {
            key,
            value,
            severity,
            rivals,
            stronger: &[],
            equivalent: None,
        }
    }

    /// The position of this parameter or of one with the same effect.
    fn position(&self, words: &[Word]) -> Option<(usize, usize)> {
        self.last(words).map(|(at, _)| at)
    }

    /// The last place where it is set: the word, the item in it, and how it is written there.
    fn last(&self, words: &[Word]) -> Option<((usize, usize), String)> {
        let own = words.iter().enumerate().rev().find_map(|(at, word)| {
            let same = |item: &str| {
                item == self.value
                    || self.key == PASS_THROUGH.key && sets(self.key, item, self.value)
            };
            let item = word
                .has_key(self.key)
                .then(|| word.items().collect::<Vec<_>>().into_iter().rposition(same))??;
            Some(((at, item), self.to_string()))
        });
        own.into_iter()
            .chain(self.equivalent.and_then(|other| other.last(words)))
            .max()
    }
}

impl fmt::Display for BootParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests;
