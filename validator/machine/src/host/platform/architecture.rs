//! The architecture and the maker of the processor.

use super::cpuinfo::CpuInfo;
use super::dmi::Dmi;
use crate::host::identity::Identity;
use crate::host::madt::Madt;
use crate::root::Root;
use outcome::platform::{Architecture, Vendor};

/// Programs that every system has one of.
const PROGRAMS: &[&str] = &[
    "bin/sh",
    "usr/bin/sh",
    "sbin/init",
    "bin/busybox",
    "usr/bin/env",
    "usr/bin/true",
];
/// The processor part of Grace and of two clouds' own processors: Neoverse V2.
const NEOVERSE_V2: u32 = 0xd4f;
/// The implementers Arm and NVIDIA.
const ARM: u32 = 0x41;
const NVIDIA: u32 = 0x4e;

/// What shows it.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The architecture of this program, where it examines the machine that it runs on.
    live: Option<Architecture>,
    /// The ELF machine of a program.
    elf: Option<u16>,
    cpuinfo: CpuInfo,
    /// Names in /sys/class/iommu.
    iommus: Vec<String>,
    /// Names of ACPI tables.
    tables: Vec<String>,
    madt: Option<Madt>,
    /// The kernel's release.
    release: String,
}

impl Evidence {
    pub(super) fn read(
        root: &Root,
        identity: &Identity,
        cpuinfo: &CpuInfo,
        madt: Option<Madt>,
    ) -> Self {
        let names = |folder: &str| {
            let names = root.names(folder).unwrap_or_default();
            names
                .iter()
                .map(|name| name.to_string_lossy().into_owned())
                .collect()
        };
        Self {
            live: root
                .is_live()
                .then_some(architecture_of(std::env::consts::ARCH)),
            elf: PROGRAMS
                .iter()
                .find_map(|path| elf_machine(&root.read(path).ok()?)),
            cpuinfo: cpuinfo.clone(),
            iommus: names("sys/class/iommu"),
            tables: names("sys/firmware/acpi/tables"),
            madt,
            release: identity.kernel.clone().unwrap_or_default(),
        }
    }

    /// The architecture, by the surest evidence.
    pub(super) fn architecture(&self) -> Architecture {
        let by = |x86: bool, arm: bool| match (x86, arm) {
            (true, false) => Some(Architecture::X86),
            (false, true) => Some(Architecture::Arm64),
            _ => None,
        };
        let other = self.cpuinfo.other.then_some(Architecture::Other);
        let release = |names: &[&str]| {
            let mut parts = self
                .release
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            parts.any(|part| names.contains(&part))
        };
        let sources = [
            self.live,
            self.elf.and_then(of_elf),
            other,
            by(self.cpuinfo.is_x86(), self.cpuinfo.implementer.is_some()),
            self.madt
                .and_then(|madt| by(madt.largest_apic_id.is_some(), madt.arm)),
            by(self.has_vt_d() || self.has_amd_vi(), self.has_smmu()),
            by(
                release(&["amd64", "x86_64"]),
                release(&["arm64", "aarch64"]),
            ),
        ];
        sources.into_iter().flatten().next().unwrap_or_default()
    }

    /// The maker: Grace is Arm's Neoverse V2 on a board of NVIDIA's.
    pub(super) fn vendor(
        &self,
        architecture: Architecture,
        dmi: &Dmi,
        has_own_link: bool,
    ) -> Vendor {
        match architecture {
            Architecture::X86 => match self.cpuinfo.vendor_id.as_deref() {
                Some("GenuineIntel") => Vendor::Intel,
                Some("AuthenticAMD" | "HygonGenuine") => Vendor::Amd,
                Some(_) => Vendor::Other,
                None if self.has_vt_d() && !self.has_amd_vi() => Vendor::Intel,
                None if self.has_amd_vi() && !self.has_vt_d() => Vendor::Amd,
                None => Vendor::Unknown,
            },
            Architecture::Arm64 => match (self.cpuinfo.implementer, self.cpuinfo.part) {
                (Some(NVIDIA), _) => Vendor::Grace,
                (Some(ARM) | None, Some(NEOVERSE_V2) | None) if has_own_link || dmi.is_grace() => {
                    Vendor::Grace
                }
                (Some(ARM), Some(NEOVERSE_V2)) if dmi.is_nvidia() => Vendor::Grace,
                (Some(_), _) => Vendor::Other,
                (None, _) => Vendor::Unknown,
            },
            Architecture::Other => Vendor::Other,
            Architecture::Unknown => Vendor::Unknown,
        }
    }

    fn iommu(&self, beginning: &str) -> bool {
        self.iommus.iter().any(|name| name.starts_with(beginning))
    }

    fn table(&self, table: &str) -> bool {
        self.tables
            .iter()
            .any(|name| name.trim_end_matches(|c: char| c.is_ascii_digit()) == table)
    }

    fn has_vt_d(&self) -> bool {
        self.iommu("dmar") || self.table("DMAR")
    }

    fn has_amd_vi(&self) -> bool {
        self.iommu("ivhd") || self.table("IVRS")
    }

    fn has_smmu(&self) -> bool {
        self.iommu("smmu3.") || self.iommu("arm-smmu") || self.table("IORT") || self.table("GTDT")
    }
}

fn architecture_of(name: &str) -> Architecture {
    match name {
        "x86_64" | "x86" => Architecture::X86,
        "aarch64" => Architecture::Arm64,
        _ => Architecture::Other,
    }
}

/// `e_machine` of an ELF file.
fn elf_machine(bytes: &[u8]) -> Option<u16> {
    let little = bytes.get(..4)? == b"\x7fELF" && bytes.get(5)? == &1;
    bytes
        .get(18..20)
        .filter(|_| little)?
        .try_into()
        .ok()
        .map(u16::from_le_bytes)
}

/// Programs of 32 bits also run on a kernel of 64 bits; those of arm do not show which kernel it is.
const fn of_elf(machine: u16) -> Option<Architecture> {
    match machine {
        3 | 62 => Some(Architecture::X86),
        183 => Some(Architecture::Arm64),
        40 => None,
        _ => Some(Architecture::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn dmi(vendor: &str, product: &str) -> Dmi {
        let pair = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
        Dmi::of(&BTreeMap::from([
            pair("sys_vendor", vendor),
            pair("product_name", product),
        ]))
    }

    fn of(change: impl Fn(&mut Evidence)) -> (Architecture, Vendor) {
        let mut evidence = Evidence::default();
        change(&mut evidence);
        let architecture = evidence.architecture();
        (
            architecture,
            evidence.vendor(architecture, &dmi("", ""), false),
        )
    }

    #[test]
    fn each_source_is_enough() {
        use Architecture::{Arm64, Other, Unknown, X86};
        let elf = |machine| move |e: &mut Evidence| e.elf = Some(machine);
        assert_eq!(
            [of(elf(62)).0, of(elf(183)).0, of(elf(243)).0, of(elf(40)).0],
            [X86, Arm64, Other, Unknown]
        );
        let cpu = |text: &'static str| move |e: &mut Evidence| e.cpuinfo = CpuInfo::of(text);
        assert_eq!(
            of(cpu("vendor_id: GenuineIntel\nflags: fpu\n")),
            (X86, Vendor::Intel)
        );
        assert_eq!(of(cpu("vendor_id: AuthenticAMD\n")), (X86, Vendor::Amd));
        assert_eq!(of(cpu("vendor_id: HygonGenuine\n")), (X86, Vendor::Amd));
        assert_eq!(of(cpu("vendor_id: CentaurHauls\n")), (X86, Vendor::Other));
        assert_eq!(
            of(cpu("CPU implementer: 0x41\nCPU part: 0xd85\n")),
            (Arm64, Vendor::Other)
        );
        assert_eq!(of(cpu("isa: rv64\n")), (Other, Vendor::Other));
        let iommu = |name: &'static str| move |e: &mut Evidence| e.iommus = vec![name.to_owned()];
        assert_eq!(of(iommu("dmar0")), (X86, Vendor::Intel));
        assert_eq!(of(iommu("ivhd3")), (X86, Vendor::Amd));
        assert_eq!(
            of(iommu("smmu3.0x000000002b400000")),
            (Arm64, Vendor::Unknown)
        );
        let table = |name: &'static str| move |e: &mut Evidence| e.tables = vec![name.to_owned()];
        assert_eq!(of(table("DMAR")), (X86, Vendor::Intel));
        assert_eq!(of(table("IVRS")), (X86, Vendor::Amd));
        assert_eq!(of(table("IORT")), (Arm64, Vendor::Unknown));
        let madt = |arm, id| {
            move |e: &mut Evidence| {
                e.madt = Some(Madt {
                    enabled: 1,
                    largest_apic_id: id,
                    arm,
                });
            }
        };
        assert_eq!(
            [
                of(madt(true, None)).0,
                of(madt(false, Some(3))).0,
                of(madt(false, None)).0
            ],
            [Arm64, X86, Unknown]
        );
        let release = |text: &'static str| move |e: &mut Evidence| e.release = text.to_owned();
        assert_eq!(of(release("6.12.9-arm64")).0, Arm64);
        assert_eq!(of(release("6.14.0-63.fc42.x86_64")).0, X86);
        assert_eq!(
            [of(release("6.8.0-90-generic")).0, of(|_| ()).0],
            [Unknown; 2]
        );
    }

    #[test]
    fn evidence_that_contradicts_itself_is_none() {
        let both = |e: &mut Evidence| e.iommus = vec!["dmar0".to_owned(), "smmu3.0x1".to_owned()];
        assert_eq!(of(both).0, Architecture::Unknown);
        let both = |e: &mut Evidence| {
            e.elf = Some(62);
            e.iommus = vec!["dmar0".to_owned(), "ivhd0".to_owned()];
        };
        assert_eq!(of(both), (Architecture::X86, Vendor::Unknown));
    }

    #[test]
    fn grace_is_neoverse_v2_on_a_board_of_nvidias() {
        let vendor = |implementer, part, dmi: &Dmi, own_link| {
            let cpuinfo = CpuInfo {
                implementer,
                part,
                ..CpuInfo::default()
            };
            Evidence {
                cpuinfo,
                ..Evidence::default()
            }
            .vendor(Architecture::Arm64, dmi, own_link)
        };
        let (arm, v2) = (Some(ARM), Some(NEOVERSE_V2));
        assert_eq!(
            vendor(arm, v2, &dmi("NVIDIA", "P3880"), false),
            Vendor::Grace
        );
        assert_eq!(
            vendor(arm, v2, &dmi("Supermicro", "ARS-111GL-NHR GH200"), false),
            Vendor::Grace
        );
        assert_eq!(
            vendor(arm, v2, &dmi("Supermicro", "ARS-111GL-NHR"), true),
            Vendor::Grace
        );
        assert_eq!(vendor(None, None, &dmi("", ""), true), Vendor::Grace);
        assert_eq!(
            vendor(arm, v2, &dmi("Amazon EC2", "r8g.metal-24xl"), false),
            Vendor::Other
        );
        assert_eq!(
            vendor(arm, Some(0xd85), &dmi("NVIDIA", "NVIDIA_DGX_Spark"), false),
            Vendor::Other
        );
    }

    #[test]
    fn an_elf_file_names_its_machine() {
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(18, 0);
        file.extend([62, 0]);
        assert_eq!(elf_machine(&file), Some(62));
        file[5] = 2;
        assert_eq!(
            (
                elf_machine(&file),
                elf_machine(b"#!/bin/sh"),
                elf_machine(b"\x7fELF")
            ),
            (None, None, None)
        );
    }
}
