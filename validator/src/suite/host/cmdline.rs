//! Whether the kernel was started with the parameters that the configuration requires. They keep translation
//! and ACS off when a driver binds or a device is reset later. firstlight's own kernel has them built in, so a
//! missing one is a fault there; for any other kernel they are only reported, and the tests `iommu` and `acs`
//! judge their effect.

use crate::config::{IommuPolicy, Level};
use crate::machine::host::cmdline;
use crate::machine::host::cmdline::Word;
use crate::machine::host::cmdline::words;
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::suite::machine::unreadable;
use crate::suite::{FILE_DEADLINE, Group, Test};
use std::fmt;

pub(in crate::suite) const TEST: Test = Test {
    id: "cmdline",
    title: "Kernel command line",
    proves: "firstlight's own kernel was started with the parameters that keep the IOMMU and ACS as configured",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run: |machine| {
        let line = cmdline::read(&machine.root).map_err(|e| unreadable("proc/cmdline", &e))?;
        let lockdown = machine.fabric.as_ref().map(|fabric| fabric.lockdown.as_deref());
        // If the fabric cannot be read, lockdown does not matter.
        let ignored = lockdown.ok().and_then(|mode| lockdown_ignored(&line, mode));
        let policy = machine.config.fabric.iommu.unwrap_or(IommuPolicy::Off);
        let is_own = machine.identity.is_own();
        let judgement = if is_own { judge(policy, &line) } else { judge_foreign_kernel(policy, &line) };
        Ok(judgement.with(ignored.into_iter().collect()))
    },
};

/// A required kernel parameter: `key=..,value,..` must be present.
struct BootParameter {
    key: &'static str,
    value: &'static str,
    /// The severity if it is missing.
    severity: Severity,
    /// A later parameter with the same key revokes it if one of its items begins with one of these.
    overrides: &'static [&'static str],
    /// Another parameter with the same effect.
    equivalent: Option<&'static BootParameter>,
}

/// Keeps peer traffic direct after every reset, when the kernel re-applies its ACS policy.
const ACS: BootParameter = BootParameter::of("pci", "config_acs=0000000@pci:0:0", Severity::Fail, &["config_acs="]);
/// Links keep their full speed when idle.
const ASPM: BootParameter = BootParameter::of("pcie_aspm.policy", "performance", Severity::Warn, &["default", "power"]);
const OFF: &[BootParameter] = &[
    BootParameter::of("iommu", "off", Severity::Fail, &["on", "force", "pt", "nopt"]),
    // Without it, devices that can address only 4 GiB of memory (old USB controllers) fail.
    BootParameter::of("iommu", "soft", Severity::Warn, &[]),
    BootParameter::of("intel_iommu", "off", Severity::Fail, &["on"]),
    BootParameter::of("amd_iommu", "off", Severity::Fail, &["on", "force"]),
    ACS,
    ASPM,
];
/// `iommu=pt` is specific to x86; `iommu.passthrough=1` exists on all architectures and is the only one on arm64.
const PT: &[BootParameter] = &[
    BootParameter {
        equivalent: Some(&PASS_THROUGH),
        ..BootParameter::of("iommu", "pt", Severity::Fail, &["nopt", "off"])
    },
    ACS,
    ASPM,
];
const PASS_THROUGH: BootParameter = BootParameter::of("iommu.passthrough", "1", Severity::Fail, &["0"]);

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

/// For a kernel that is not firstlight's: its parameters are only reported.
fn judge_foreign_kernel(policy: IommuPolicy, line: &str) -> Judgement {
    let Some(required) = required(policy) else { return nothing_required() };
    let words = cmdline::words(line);
    let lacking = required.iter().filter(|n| n.position(&words).is_none());
    let lacking: Vec<_> = lacking.map(BootParameter::to_string).collect();
    let summary = format!(
        "not firstlight's kernel: {} of {} of its parameters; the tests iommu and acs judge their effect",
        required.len() - lacking.len(),
        required.len()
    );
    let missing = missing(Severity::Info, &lacking).map(|f| f.seen(format!("/proc/cmdline: {line}")));
    Judgement::of(summary, missing.into_iter().collect())
        .without_checking(&[Code::CmdlineMissing, Code::CmdlineOverridden])
}

/// The required parameters must be present; a later rival is reported only, because `iommu` and `acs` see
/// what is in force.
fn judge(policy: IommuPolicy, line: &str) -> Judgement {
    let Some(required) = required(policy) else { return nothing_required() };
    let words = cmdline::words(line);
    let (there, lacking): (Vec<_>, Vec<_>) = required.iter().partition(|n| n.position(&words).is_some());
    let of = |severity| lacking.iter().filter(move |n| n.severity == severity).map(|n| n.to_string());
    let missing = [Severity::Fail, Severity::Warn]
        .into_iter()
        .filter_map(|severity| missing(severity, &of(severity).collect::<Vec<_>>()));
    let overridden = there.iter().flat_map(|n| [Some(*n), n.equivalent]).flatten();
    let overridden = overridden.filter_map(|n| overridden_by(n, &words));
    let findings: Vec<_> = missing.chain(overridden).map(|f| f.seen(format!("/proc/cmdline: {line}"))).collect();
    let summary = match lacking.first() {
        Some(first) => {
            format!("{} of {} required parameters; {first} is missing", there.len(), required.len())
        }
        None => format!("{} of {} required parameters", there.len(), required.len()),
    };
    Judgement::of(summary, findings)
}

fn missing(severity: Severity, words: &[String]) -> Option<Finding> {
    let list = (!words.is_empty()).then(|| words.join(" "))?;
    let message = format!("the kernel command line lacks {list}");
    Some(Code::CmdlineMissing.finding(severity, "kernel", message).values(serde_json::Value::Null, list, None))
}

fn overridden_by(parameter: &BootParameter, words: &[Word]) -> Option<Finding> {
    let mut later = words.iter().skip(parameter.own_position(words)?).filter(|w| w.key == parameter.key);
    let overrides =
        |item: &str| parameter.overrides.iter().any(|begin| item.starts_with(begin) && item != parameter.value);
    let rival = later.find(|w| w.items().any(overrides))?;
    let rival = format!("{}={}", rival.key, rival.value.as_deref().unwrap_or_default());
    let message = format!("{parameter} is followed by {rival}");
    let finding = Code::CmdlineOverridden.finding(Severity::Info, parameter, message);
    Some(finding.values(rival, parameter.to_string(), None))
}

impl BootParameter {
    const fn of(
        key: &'static str,
        value: &'static str,
        severity: Severity,
        overrides: &'static [&'static str],
    ) -> Self {
        Self { key, value, severity, overrides, equivalent: None }
    }

    /// The position of this parameter or of one with the same effect.
    fn position(&self, words: &[Word]) -> Option<usize> {
        self.own_position(words).or_else(|| self.equivalent?.own_position(words))
    }

    fn own_position(&self, words: &[Word]) -> Option<usize> {
        words.iter().position(|w| w.key == self.key && w.items().any(|i| i == self.value))
    }
}

impl fmt::Display for BootParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// The kernel's modes, from the weakest to the strongest. The mode can only be raised.
const MODES: [&str; 3] = ["none", "integrity", "confidentiality"];

fn strength(mode: &str) -> Option<usize> {
    MODES.iter().position(|m| *m == mode)
}

/// `lockdown=` asks the kernel to protect itself from root. A kernel that is built without it silently ignores the
/// parameter, and the user relies on a protection that does not exist.
///
/// Returns the finding that the command line requests more lockdown than is in force: `held` is the mode that the
/// kernel shows.
fn lockdown_ignored(line: &str, held: Option<&str>) -> Option<Finding> {
    let asked = words(line).into_iter().filter(|w| w.key == "lockdown").filter_map(|w| w.value);
    let asked = asked.filter(|mode| strength(mode).is_some()).max_by_key(|mode| strength(mode))?;
    if strength(&asked) <= held.map_or(Some(0), strength) {
        return None;
    }
    let shown = held.map_or("this kernel has no lockdown".to_owned(), |mode| format!("its mode is {mode}"));
    let message = format!("lockdown={asked} is ignored: {shown}");
    let seen = held.map_or("missing".to_owned(), str::to_owned);
    Some(
        Code::LockdownIgnored
            .finding(Severity::Warn, "kernel", message)
            .values(held, asked.as_str(), None)
            .seen(format!("/sys/kernel/security/lockdown: {seen}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    const BUILT_IN: &str = "iommu=off,soft intel_iommu=off amd_iommu=off \
        pci=config_acs=0000000@pci:0:0 pcie_aspm.policy=performance console=ttyS0";

    #[test]
    fn the_built_in_line_passes_and_each_missing_parameter_does_not() {
        assert_eq!(judge(IommuPolicy::Off, BUILT_IN), Judgement::of("6 of 6 required parameters", vec![]));
        for word in ["intel_iommu=off", "amd_iommu=off", "config_acs=0000000@pci:0:0", "off,"] {
            let said = judge(IommuPolicy::Off, &BUILT_IN.replacen(word, "", 1));
            assert_eq!(said.outcome(), Outcome::Fail, "{word}");
        }
        for word in [",soft", "pcie_aspm.policy=performance"] {
            let said = judge(IommuPolicy::Off, &BUILT_IN.replace(word, ""));
            assert_eq!(said.outcome(), Outcome::Warn, "{word}");
        }
    }

    #[test]
    fn missing_parameters_are_reported_together() {
        let said = judge(IommuPolicy::Off, "quiet iommu=off");
        assert_eq!(said.summary, "1 of 6 required parameters; iommu=soft is missing");
        assert_eq!(said.findings.len(), 2);
        let message = "the kernel command line lacks intel_iommu=off amd_iommu=off pci=config_acs=0000000@pci:0:0";
        assert_eq!(said.findings[0].message, message);
        assert_eq!(said.findings[0].evidence, ["/proc/cmdline: quiet iommu=off"]);
    }

    #[test]
    fn a_later_rival_is_reported_and_judged_by_its_effect() {
        let line = format!("{BUILT_IN} iommu=on intel_iommu=on pci=config_acs=1111111@pci:0:0");
        let said = judge(IommuPolicy::Off, &line);
        assert_eq!(said.outcome(), Outcome::Pass);
        assert_eq!(said.findings.len(), 3);
        assert_eq!(said.findings[0].message, "iommu=off is followed by iommu=on");
        assert_eq!(judge(IommuPolicy::Off, &format!("iommu=on {BUILT_IN}")).findings, []);
    }

    #[test]
    fn pass_through_needs_its_own_parameters() {
        let line = "iommu=pt pci=config_acs=0000000@pci:0:0 pcie_aspm.policy=performance";
        assert_eq!(judge(IommuPolicy::Pt, line).outcome(), Outcome::Pass);
        assert_eq!(judge(IommuPolicy::Pt, BUILT_IN).outcome(), Outcome::Fail);
        let arm64 = line.replace("iommu=pt", "iommu.passthrough=1");
        assert_eq!(judge(IommuPolicy::Pt, &arm64), Judgement::of("3 of 3 required parameters", vec![]), "{arm64}");
        assert_eq!(
            judge(IommuPolicy::Pt, &arm64.replace("=1", "=0")).summary,
            "2 of 3 required parameters; iommu=pt is missing"
        );
        let later = judge(IommuPolicy::Pt, &format!("{arm64} iommu.passthrough=0"));
        assert_eq!(later.findings[0].message, "iommu.passthrough=1 is followed by iommu.passthrough=0");
    }

    #[test]
    fn another_kernels_parameters_are_reported_and_not_judged() {
        let said = judge_foreign_kernel(IommuPolicy::Off, "quiet iommu=pt amd_iommu=on");
        assert_eq!((said.outcome(), said.findings.len()), (Outcome::Pass, 1));
        assert_eq!(said.findings[0].severity, Severity::Info);
        assert_eq!(said.unchecked, [Code::CmdlineMissing, Code::CmdlineOverridden]);
        assert_eq!(
            said.summary,
            "not firstlight's kernel: 0 of 6 of its parameters; the tests iommu and acs judge their effect"
        );
        assert_eq!(judge_foreign_kernel(IommuPolicy::Off, BUILT_IN).findings, []);
    }

    #[test]
    fn the_firmwares_choice_requires_nothing() {
        assert_eq!(judge(IommuPolicy::Firmware, "").outcome(), Outcome::NotApplicable);
        assert_eq!(judge_foreign_kernel(IommuPolicy::Firmware, "").outcome(), Outcome::NotApplicable);
    }

    #[test]
    fn a_parameter_that_the_kernel_ignores_is_reported() {
        let found = lockdown_ignored("quiet lockdown=integrity", None).unwrap();
        assert_eq!(found.message, "lockdown=integrity is ignored: this kernel has no lockdown");
        assert_eq!(found.evidence, ["/sys/kernel/security/lockdown: missing"]);
        assert!(found.is(Code::LockdownIgnored) && found.severity == Severity::Warn);
    }

    #[test]
    fn less_lockdown_than_requested_is_reported_and_as_much_or_more_is_not() {
        for (line, held, reported) in [
            ("", None, false),
            ("lockdown=nonsense", None, false),
            ("lockdown=none", None, false),
            ("lockdown=integrity", Some("none"), true),
            ("lockdown=confidentiality", Some("integrity"), true),
            ("lockdown=confidentiality lockdown=integrity", Some("integrity"), true),
            ("lockdown=integrity", Some("integrity"), false),
            ("lockdown=integrity", Some("confidentiality"), false),
            ("quiet -- lockdown=integrity", None, false),
        ] {
            assert_eq!(lockdown_ignored(line, held).is_some(), reported, "{line} {held:?}");
        }
    }
}
