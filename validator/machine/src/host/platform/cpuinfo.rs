//! What the first processor of /proc/cpuinfo shows. Pure.

/// The first processor; `None` for each line that is not there, which depends on the architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CpuInfo {
    /// `GenuineIntel`; x86 only.
    pub(super) vendor_id: Option<String>,
    /// The names of its features; x86 only.
    pub(super) flags: Option<Vec<String>>,
    /// `0x41`; arm64 only.
    pub(super) implementer: Option<u32>,
    /// `0xd4f`; arm64 only.
    pub(super) part: Option<u32>,
    /// A processor of POWER, RISC-V or s390.
    pub(super) other: bool,
}

impl CpuInfo {
    pub(super) fn of(text: &str) -> Self {
        let first = text
            .split("\n\n")
            .find(|block| !block.trim().is_empty())
            .unwrap_or_default();
        let pairs: Vec<(&str, &str)> = first
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(k, v)| (k.trim(), v.trim()))
            .collect();
        let value = |name: &str| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        let number =
            |name: &str| u32::from_str_radix(value(name)?.trim_start_matches("0x"), 16).ok();
        Self {
            vendor_id: value("vendor_id")
                .filter(|id| !id.contains('/'))
                .map(str::to_owned),
            flags: value("flags")
                .map(|flags| flags.split_whitespace().map(str::to_owned).collect()),
            implementer: number("CPU implementer"),
            part: number("CPU part"),
            other: ["isa", "cpu", "platform"]
                .iter()
                .any(|name| value(name).is_some())
                || value("vendor_id").is_some_and(|id| id.contains('/')),
        }
    }

    /// Whether these are the lines of x86.
    pub(super) const fn is_x86(&self) -> bool {
        !self.other && (self.vendor_id.is_some() || self.flags.is_some())
    }

    /// Whether the processor says that it runs below a hypervisor; `None` if it does not say, as on arm64.
    pub(super) fn hypervisor(&self) -> Option<bool> {
        self.flags
            .as_ref()
            .map(|flags| flags.iter().any(|flag| flag == "hypervisor"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_each_architecture_are_told_apart() {
        let x86 = CpuInfo::of(
            "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\n",
        );
        assert_eq!(
            (x86.vendor_id.as_deref(), x86.hypervisor()),
            (Some("GenuineIntel"), Some(true))
        );
        assert!(x86.is_x86());
        assert_eq!(
            CpuInfo::of("vendor_id: x\nflags: fpu hypervisors\n").hypervisor(),
            Some(false)
        );
        let arm = CpuInfo::of("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
        assert_eq!(
            (arm.implementer, arm.part, arm.hypervisor()),
            (Some(0x41), Some(0xd4f), None)
        );
        assert!(!arm.is_x86());
        for other in [
            "processor: 0\nisa: rv64imafdc\n",
            "cpu: POWER9\n",
            "vendor_id : IBM/S390\n",
        ] {
            let other = CpuInfo::of(other);
            assert!(other.other && !other.is_x86());
        }
        assert_eq!(CpuInfo::of(""), CpuInfo::default());
    }
}
