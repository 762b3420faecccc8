//! The findings that the fabric brings up: each code with its one cause and one remedy.

use crate::finding::{Finding, Severity};
use serde_json::Value;

/// A code that people quote and search for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Short and stable.
    pub name: &'static str,
    /// The one most likely cause.
    pub cause: &'static str,
    /// The one next thing to do.
    pub remedy: &'static str,
}

/// Every code of this part, in the order of the README.
pub const ALL: [Code; 17] = [
    ACS_REDIRECT,
    ACS_STUCK,
    ACS_REVERTED,
    ACS_REFUSED,
    ACS_QUIRK,
    ACS_UNKNOWN,
    ACS_KEPT,
    LOCKDOWN,
    NO_ECAM,
    PCI_MALFORMED,
    PCI_UNREADABLE,
    PCI_GONE,
    GPU_GONE,
    LINK_NARROW,
    LINK_SLOW,
    LINK_DISAGREES,
    IOMMU_UNKNOWN,
];

/// A port sends peer traffic up to the root complex, or blocks it.
pub const ACS_REDIRECT: Code = Code {
    name: "ACS-REDIRECT",
    cause: "firmware or the kernel turned on Access Control Services (it does so with an IOMMU)",
    remedy: "run `firstlight fabric fix`, or turn ACS off in the firmware's setup",
};
/// A port does not take the write.
pub const ACS_STUCK: Code = Code {
    name: "ACS-STUCK",
    cause: "the port's ACS control register is read-only",
    remedy: "turn ACS off in the firmware's setup, or move the GPU to a slot behind another port",
};
/// A port took the write and undid it.
pub const ACS_REVERTED: Code = Code {
    name: "ACS-REVERTED",
    cause: "something writes ACS back: the kernel after a reset, or the platform's management firmware",
    remedy: "boot with `pci=config_acs=0000000@pci:0:0`, or turn ACS off in the firmware's setup",
};
/// The kernel did not let the register be written or read.
pub const ACS_REFUSED: Code = Code {
    name: "ACS-REFUSED",
    cause: "the kernel refused access to configuration space",
    remedy: "run as root on a kernel that is not locked down",
};
/// An Intel chipset port with another register layout.
pub const ACS_QUIRK: Code = Code {
    name: "ACS-QUIRK",
    cause: "Intel 100- and 200-series chipset root ports have 32-bit ACS registers, control at +8",
    remedy: "boot with `pci=disable_acs_redir=ADDRESS`, which knows them, or move the device to a CPU slot",
};
/// Nobody can say whether ACS is off.
pub const ACS_UNKNOWN: Code = Code {
    name: "ACS-UNKNOWN",
    cause: "the port's configuration space cannot be read or is malformed",
    remedy: "read `lspci -vvv -s ADDRESS` as root; power-cycle the machine if the port does not answer",
};
/// ACS is left as it is on purpose.
pub const ACS_KEPT: Code = Code {
    name: "ACS-KEPT",
    cause: "something on this machine relies on ACS as it is set",
    remedy: "unbind vfio-pci, or set `fabric.acs = \"off\"` to accept ACS as it is",
};
/// The kernel forbids configuration writes.
pub const LOCKDOWN: Code = Code {
    name: "LOCKDOWN",
    cause: "the kernel is locked down, as it is under Secure Boot",
    remedy: "boot without Secure Boot or with `lockdown=none`",
};
/// Extended configuration space is out of reach.
pub const NO_ECAM: Code = Code {
    name: "NO-ECAM",
    cause: "the kernel has no memory-mapped configuration space (no ACPI MCFG, or `pci=nommconf`)",
    remedy: "enable MMCONFIG in the firmware's setup and remove `pci=nommconf` from the command line",
};
/// Configuration space contradicts the specification.
pub const PCI_MALFORMED: Code = Code {
    name: "PCI-MALFORMED",
    cause: "the device or its firmware is broken, or it answers only partly",
    remedy: "power-cycle the machine; if it stays, update the device's firmware",
};
/// A file of a PCI function could not be read.
pub const PCI_UNREADABLE: Code = Code {
    name: "PCI-UNREADABLE",
    cause: "not run as root, or the machine was recorded without this file",
    remedy: "run as root; record the machine again as root",
};
/// A function does not answer.
pub const PCI_GONE: Code = Code {
    name: "PCI-GONE",
    cause: "the device has fallen off the bus or lost power",
    remedy: "power-cycle the machine and look at the kernel log for AER and link-down lines",
};
/// A GPU does not answer.
pub const GPU_GONE: Code = Code {
    name: "GPU-GONE",
    cause: "the GPU has fallen off the bus: power, seating or riser",
    remedy: "power-cycle the machine; check the GPU's power cables, seating and riser",
};
/// A link has fewer lanes than both ends can use.
pub const LINK_NARROW: Code = Code {
    name: "LINK-NARROW",
    cause: "dirty or badly seated contacts, a riser, or a slot that shares its lanes",
    remedy: "reseat the card and its riser; look up in the board's manual how the slot shares lanes",
};
/// A link is slower than both ends can be.
pub const LINK_SLOW: Code = Code {
    name: "LINK-SLOW",
    cause: "an idle GPU lowers its link speed; under load it must rise",
    remedy: "look at the link under load; if it stays, check riser and the slot's speed in the firmware's setup",
};
/// sysfs and the registers tell different links.
pub const LINK_DISAGREES: Code = Code {
    name: "LINK-DISAGREES",
    cause: "the link retrained between two reads, or the recording is inconsistent",
    remedy: "read again; a link that keeps changing is a bad riser or slot",
};
/// The IOMMU's witnesses do not come to an answer.
pub const IOMMU_UNKNOWN: Code = Code {
    name: "IOMMU-UNKNOWN",
    cause: "the witnesses of the IOMMU are missing or contradict each other",
    remedy: "read /sys/class/iommu and /sys/kernel/iommu_groups; record the machine again with both",
};

impl Code {
    /// A finding with this code; what was measured is added by the `Finding`'s builders below.
    pub(crate) fn finding(
        self,
        severity: Severity,
        subject: &(impl ToString + ?Sized),
        message: impl Into<String>,
    ) -> Finding {
        Finding {
            code: self.name.to_owned(),
            severity,
            subject: subject.to_string(),
            message: message.into(),
            measured: Value::Null,
            expected: Value::Null,
            unit: None,
            evidence: Vec::new(),
            cause: self.cause.to_owned(),
            remedy: self.remedy.to_owned(),
        }
    }
}

/// What turns a finding's sentence into fields.
pub(crate) trait Evidence: Sized {
    /// Measured against expected, in `unit` where they are numbers.
    fn values(self, measured: impl Into<Value>, expected: impl Into<Value>, unit: Option<&str>) -> Self;
    /// Where it was seen.
    fn seen(self, evidence: impl Into<String>) -> Self;
    /// The code's remedy names an address: this one.
    fn at(self, address: &impl ToString) -> Self;
}

impl Evidence for Finding {
    fn values(mut self, measured: impl Into<Value>, expected: impl Into<Value>, unit: Option<&str>) -> Self {
        self.measured = measured.into();
        self.expected = expected.into();
        self.unit = unit.map(str::to_owned);
        self
    }

    fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    fn at(mut self, address: &impl ToString) -> Self {
        self.remedy = self.remedy.replace("ADDRESS", &address.to_string());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_told_apart_by_name_and_each_has_cause_and_remedy() {
        let names: BTreeSet<_> = ALL.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|c| !c.cause.is_empty() && !c.remedy.is_empty()));
    }
}
