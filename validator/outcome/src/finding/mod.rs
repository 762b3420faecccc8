//! A finding: one fact about the machine that the user should know. It is typed: its code, its subject, what was measured,
//! and its reason. Its cause and its remedy are made when it is shown ([`FindingEntry`]), from the row of its code and from
//! what kind of machine this is.

mod code;
mod entry;
mod kinds;
mod reason;
mod remedy;
mod subject;
mod table;
mod words;

pub use code::{ByLoad, Code, P2pEffect, Row};
pub use contract::outcome::Severity;
pub use contract::recovery::Recovery;
pub use entry::FindingEntry;
pub use reason::{
    ConfidentialCase, DisplayKind, DriverRefusal, FaultSource, ForeignDriver, Lack, MapObstacle,
    Reason, Refusal, WrongWitness, lost_text,
};
pub use remedy::guest_setting;
pub use subject::Subject;
pub use words::Words;

use crate::platform::Host;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its code.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub subject: Subject,
    /// Subjects of findings of the same kind that it stands for.
    pub represents: Vec<Subject>,
    /// One sentence with the measured and the expected value, with units.
    pub message: Words,
    /// What was read or measured; a number if there is a unit.
    pub measured: Value,
    /// The expected value, in the same unit.
    pub expected: Value,
    /// The unit of `measured` and `expected`; `None` if they are words.
    pub unit: Option<String>,
    /// The sources: file paths with their content, register reads, kernel log lines.
    pub evidence: Vec<String>,
    /// Why it was made, where more is known than the row of its code says.
    pub reason: Option<Reason>,
    /// The next action as a word for programs, where NVIDIA's driver or its documents give one.
    pub recovery: Option<Recovery>,
    /// What a failed call of CUDA or NCCL lacked.
    pub lacks: Option<Lack>,
}

impl Code {
    /// A finding of this code, with nothing measured yet.
    pub fn finding(
        self,
        severity: Severity,
        subject: impl Into<Subject>,
        message: impl Into<Words>,
    ) -> Finding {
        Finding {
            code: self,
            severity,
            subject: subject.into(),
            represents: Vec::new(),
            message: message.into(),
            measured: Value::Null,
            expected: Value::Null,
            unit: None,
            evidence: Vec::new(),
            reason: None,
            recovery: self.row().recovery,
            lacks: None,
        }
    }
}

impl Finding {
    /// The measured and the expected value; `unit` if they are numbers.
    #[must_use]
    pub fn values(
        mut self,
        measured: impl Into<Value>,
        expected: impl Into<Value>,
        unit: Option<&str>,
    ) -> Self {
        self.measured = measured.into();
        self.expected = expected.into();
        self.unit = unit.map(str::to_owned);
        self
    }

    /// Adds a line of evidence.
    #[must_use]
    pub fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// Adds lines of evidence.
    #[must_use]
    pub fn seen_all(mut self, evidence: Vec<String>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Sets the reason.
    #[must_use]
    pub fn because(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }

    /// Sets the action.
    #[must_use]
    pub const fn recovery(mut self, action: Option<Recovery>) -> Self {
        self.recovery = action;
        self
    }

    /// Notes what the failed call lacked, by the name of its error in `texts` of CUDA or NCCL.
    #[must_use]
    pub fn lacking<'a>(mut self, texts: impl IntoIterator<Item = &'a str>) -> Self {
        self.lacks = texts.into_iter().find_map(Lack::named_in);
        self
    }

    /// True if this finding has `code`.
    #[must_use]
    pub fn is(&self, code: Code) -> bool {
        self.code == code
    }
}

/// The table of findings, as Markdown, with a newline at the end. A remedy that depends on the machine is there once for each
/// of its texts, with the kinds of machines that get it.
#[must_use]
pub fn markdown() -> String {
    let kinds = kinds::kinds();
    let mut out =
        String::from("| code | what it says | usual cause | what to do |\n|---|---|---|---|\n");
    for code in Code::ALL {
        let row = code.row();
        let remedies = remedies(*code, &kinds);
        // Writing into a String cannot fail.
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {remedies} |",
            row.code, row.means, row.cause
        );
    }
    out
}

/// The remedies of a code, each with the kinds of machines that it is for.
fn remedies(code: Code, kinds: &[(&str, Host)]) -> String {
    let mut texts: Vec<(String, Vec<&str>)> = Vec::new();
    for (kind, host) in kinds {
        let text = FindingEntry::of(&code.finding(Severity::Fail, kinds::GPU, ""), host)
            .remedy
            .to_string();
        match texts.iter_mut().find(|(other, _)| *other == text) {
            Some((_, same)) => same.push(kind),
            None => texts.push((text, vec![kind])),
        }
    }
    if let [(text, _)] = &texts[..] {
        return text.clone();
    }
    // The usual remedy comes last, for all machines that are not named.
    let usual = texts
        .iter()
        .map(|(_, kinds)| kinds.len())
        .max()
        .unwrap_or_default();
    texts.sort_by_key(|(_, kinds)| kinds.len() == usual);
    let last = texts.len().saturating_sub(1);
    let line = |(n, (text, kinds)): (usize, &(String, Vec<&str>))| {
        let named = kinds.join(", ").replace(
            "QEMU guest, VMware guest, Hyper-V guest",
            "virtual machines",
        );
        format!(
            "*{}*: {text}",
            if n == last { "other machines" } else { &named }
        )
    };
    texts
        .iter()
        .enumerate()
        .map(line)
        .collect::<Vec<_>>()
        .join("<br>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{Architecture, Environment, GpuId, Pair, System};

    #[test]
    fn the_codes_of_process_one_are_in_the_table() {
        for code in contract::outcome::code::ALL {
            assert!(Code::named(code).is_some(), "{code}");
        }
    }

    #[test]
    fn the_table_has_one_row_per_code() {
        let text = markdown();
        assert_eq!(text.lines().count(), Code::ALL.len() + 2);
        assert!(
            text.lines()
                .all(|l| l.matches(" | ").count() == 3 || l.starts_with("|---")),
            "{text}"
        );
    }

    /// All remedies: of each code and each reason, for each kind of machine and several subjects.
    fn all_remedies() -> Vec<(String, &'static str, Host, String)> {
        let subjects = [
            Subject::Machine,
            kinds::GPU.into(),
            GpuId::new(0).into(),
            Pair::of(0, 1).into(),
        ];
        let reasons = Reason::samples();
        let mut all = Vec::new();
        for (kind, host) in kinds::kinds() {
            for subject in &subjects {
                for code in Code::ALL {
                    let finding = code
                        .finding(Severity::Fail, subject, "x")
                        .values("nouveau", "a=b", None);
                    let own = (code.as_str().to_owned(), finding.clone());
                    let with = reasons.iter().map(|reason| {
                        (
                            format!("{reason:?}"),
                            finding.clone().because(reason.clone()),
                        )
                    });
                    // A reason replaces the remedy of any code, so one code shows all of them.
                    let with: Vec<_> = with.filter(|_| *code == Code::GpuXid).collect();
                    for (name, finding) in std::iter::once(own).chain(with) {
                        let remedy = FindingEntry::of(&finding, &host).remedy.to_string();
                        all.push((name, kind, host.clone(), remedy));
                    }
                }
            }
        }
        all
    }

    #[test]
    fn no_remedy_asks_for_what_a_machine_cannot_do() {
        let mut wrong = Vec::new();
        for (name, kind, host, remedy) in all_remedies() {
            let has = |words: &[&str]| words.iter().any(|word| remedy.contains(word));
            let guest = matches!(host.environment, Environment::Guest(_));
            let arm = host.architecture == Architecture::Arm64;
            let passed =
                host.gpus.iter().any(|gpu| gpu.passed_by.is_some()) || !host.passed.is_empty();
            let mut broken = |holds: bool| {
                if !holds {
                    wrong.push(format!("{name} on {kind}: {remedy}"));
                }
            };
            broken(!remedy.is_empty() && !remedy.contains(['{', '}']) && !remedy.ends_with('.'));
            // A place that the reader would have to fill.
            broken(
                !has(&["NAME", "VERSION", "-i GPU", "-s ADDRESS"])
                    || kind == "unknown machine"
                    || has(&["Set-VM NAME"]),
            );
            // iommu=off loses processors, virtual machines and the guest's own setting.
            broken(!has(&["add `iommu=off", "args=\"iommu=off"]));
            if host.processors.need_iommu() || guest || arm || passed {
                broken(!has(&["IOMMU (VT-d", "IOMMU (AMD-Vi", "IOMMU off in"]));
            }
            if arm {
                broken(!has(&[
                    "VT-d",
                    "AMD-Vi",
                    "intel_iommu",
                    "amd_iommu",
                    "iommu=pt",
                ]));
            }
            if guest {
                let firmware = remedy.match_indices("in the firmware setup");
                let mut rest =
                    firmware.map(|(at, words)| remedy.get(at + words.len()..).unwrap_or_default());
                broken(rest.all(|rest| rest.starts_with(" of the virtual machine's host")));
                broken(
                    !has(&["reseat", "riser", "slot's", "power cable", "fans"]) || has(&["host"]),
                );
            }
            if !host.kernel.own && !host.kernel.at_least((6, 11)) {
                broken(
                    !remedy
                        .split(';')
                        .any(|part| part.contains("`pci=config_acs")),
                );
            }
            if host.is_rented() || host.is_wsl() {
                broken(!has(&[
                    "on the host",
                    "on its host",
                    "Set-VM",
                    "QEMU option",
                    "VMX file",
                    "`-global",
                ]));
            }
            if host.is_rented() {
                broken(!has(&[
                    "reseat",
                    "riser",
                    "slot's",
                    "power cable",
                    "fans",
                    "in the firmware setup",
                ]));
            }
            if host.container {
                let of_machine = [
                    "/etc/default",
                    "/etc/modprobe",
                    "fabric fix",
                    "in the firmware setup",
                    "modprobe",
                    "dmesg",
                    "dkms",
                    "reboot",
                ];
                broken(!has(&of_machine) || has(&["container's host"]));
                broken(!has(&["GRUB_CMDLINE_LINUX"]));
            }
            if host.kernel.is_before((4, 19)) {
                broken(
                    !remedy.split(';').any(|part| {
                        part.contains("`pci=config_acs") || part.contains("disable_acs")
                    }),
                );
            }
            if passed {
                broken(!has(&["acs=0000000@pci:0:0", "acs_redir=pci:0:0"]));
            }
            for word in &host.kernel.words {
                broken(!has(&[&format!("add `{word}`"), &format!("add `{word} ")]));
            }
            if host.lockdown.is_some() && name.starts_with("ACS-RE") {
                broken(!has(&["fabric fix"]));
            }
            if host.gpus.iter().any(|gpu| gpu.integrated) && name == "NIC-SLOT" {
                broken(!has(&["move the card"]));
            }
            if kind == "Thunderbolt box" {
                broken(!has(&["iommu=pt", "iommu.passthrough"]) || !name.starts_with("IOMMU-T"));
            }
            if kind == "NixOS" {
                broken(!has(&["/etc/modprobe.d", "GRUB_CMDLINE"]));
            }
            if kind == "i440FX guest" {
                broken(!has(&["q35-pcihost"]));
            }
            if host.system == System::Appliance {
                broken(!has(&[
                    "/etc/default/grub",
                    "grubby",
                    "update-grub",
                    "dkms",
                    "modprobe.d",
                ]));
            }
        }
        wrong.sort();
        wrong.dedup();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn beside_a_virtual_machine_the_kernel_word_names_the_ports_of_the_finding() {
        let all = kinds::kinds();
        let host = &all
            .iter()
            .find(|(kind, _)| *kind == "network card of a virtual machine")
            .unwrap()
            .1;
        let mut finding = Code::AcsRedirect.finding(Severity::Fail, "0000:00:01.1", "x");
        finding.represents = vec!["0000:00:03.1".into()];
        let remedy = FindingEntry::of(&finding, host).remedy;
        assert!(
            remedy.contains("`pci=\"config_acs=0000000@0000:00:01.1;0000000@0000:00:03.1\"`"),
            "{remedy:?}"
        );
        let nowhere = Code::AcsRedirect.finding(Severity::Fail, Subject::Machine, "x");
        assert!(!FindingEntry::of(&nowhere, host).remedy.contains("pci="));
    }

    /// A package's unit or a newer kernel is more work than a setting, which no guest, box or appliance has here.
    #[test]
    fn on_an_installed_system_the_firmware_setup_comes_first_for_bar1() {
        let bar1 = [
            (Code::RebarBusy, None),
            (Code::RebarRefused, None),
            (Code::RebarIgnored, None),
            (Code::Bar1Small, None),
            (Code::RebarBusy, Some(Reason::NeighbourInUse("why".into()))),
        ];
        let all = kinds::kinds();
        for (kind, first) in [
            ("x86", true),
            ("kernel before 4.19", true),
            ("container", true),
            ("QEMU guest", false),
            ("EC2 instance", false),
            ("Thunderbolt box", false),
            ("WSL2", false),
        ] {
            let host = &all.iter().find(|(name, _)| *name == kind).unwrap().1;
            for (code, reason) in &bar1 {
                let mut finding = code.finding(Severity::Fail, kinds::GPU, "x");
                finding.reason.clone_from(reason);
                let remedy = FindingEntry::of(&finding, host).remedy;
                let rest = remedy
                    .strip_prefix("on the container's host: ")
                    .unwrap_or(&remedy);
                let is_first = rest.starts_with(
                    "switch on Above 4G Decoding and Resizable BAR in the firmware setup",
                );
                assert_eq!(is_first, first, "{code} on {kind}: {remedy}");
            }
        }
    }

    #[test]
    fn a_finding_survives_the_pipe() {
        let all = [
            Code::GpuXid
                .finding(Severity::Fail, Subject::Machine, "x")
                .because(Reason::Xid(FaultSource::Link, None)),
            Code::P2pUnsupported
                .finding(Severity::Fail, crate::platform::Pair::of(0, 1), "no")
                .because(Reason::Predicted(Refusal::StockDriver, "why".into())),
        ];
        for finding in all {
            let text = serde_json::to_string(&finding).unwrap();
            assert_eq!(serde_json::from_str::<Finding>(&text).unwrap(), finding);
        }
    }
}
