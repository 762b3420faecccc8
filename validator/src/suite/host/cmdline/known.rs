//! The values that kernels know of the words about the IOMMU and PCI. A table: of Documentation/admin-guide/
//! kernel-parameters.txt and the functions that parse the words, in Linux 4.19 to 6.17 (x86 and arm64).

/// The newest kernel of this table.
pub(super) const NEWEST: (u32, u32) = (6, 17);
/// The first kernel with `pci=config_acs=`; some distributions have it in older ones.
pub(super) const CONFIG_ACS_SINCE: (u32, u32) = (6, 11);

/// How the kernel compares a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Values {
    /// Each item between commas begins with one of these.
    Begins(&'static [&'static str]),
    /// Each item between commas is one of these; one that ends with `=` only begins with it. Those of the second list
    /// begin the item.
    Items(&'static [&'static str], &'static [&'static str]),
    /// It is a switch: `1`, `0`, `y`, `n`, `on`, `off` ..
    Switch,
    /// No kernel knows the key without the patch of this name.
    Patch(&'static str),
}

/// The keys; `iommu` is parsed on x86 only.
pub(super) const KEYS: &[(&str, Values)] = &[
    ("iommu", Values::Begins(IOMMU)),
    ("intel_iommu", Values::Begins(INTEL)),
    ("amd_iommu", Values::Begins(AMD)),
    ("iommu.passthrough", Values::Switch),
    ("iommu.strict", Values::Switch),
    ("pci", Values::Items(PCI, PCI_BEGINS)),
    ("pcie_acs_override", Values::Patch("PCIe ACS override")),
];

/// arch/x86/kernel/pci-dma.c, `iommu_setup`; the last lines arch/x86/kernel/aperture_64.c and amd_gart_64.c,
/// `gart_parse_options`, where a number is a size; `calgary` up to 5.3.
const IOMMU: &[&str] = &[
    "off",
    "force",
    "noforce",
    "biomerge",
    "panic",
    "nopanic",
    "merge",
    "nomerge",
    "forcesac",
    "allowdac",
    "nodac",
    "usedac",
    "soft",
    "pt",
    "nopt",
    "calgary", //
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "7",
    "8",
    "9",
    "fullflush",
    "nofullflush",
    "noagp",
    "noaperture",
    "allowed",
    "memaper",
    "leak",
];

/// drivers/iommu/intel/iommu.c, `intel_iommu_setup`; `ecs_off` and `pasid28` up to 4.20.
const INTEL: &[&str] = &[
    "on",
    "off",
    "igfx_off",
    "forcedac",
    "strict",
    "sp_off",
    "sm_on",
    "sm_off",
    "ecs_off",
    "pasid28",
    "tboot_noforce",
];

/// drivers/iommu/amd/init.c, `parse_amd_iommu_options`. There is no `on`: this IOMMU is on unless it is switched off.
const AMD: &[&str] = &[
    "fullflush",
    "force_enable",
    "off",
    "force_isolation",
    "pgtbl_v1",
    "pgtbl_v2",
    "irtcachedis",
    "nohugepages",
    "v2_pgsizes_only",
];

/// drivers/pci/pci.c, `pci_setup`; arch/x86/pci/common.c, `pcibios_setup`; those of other architectures by the document.
const PCI: &[&str] = &[
    "earlydump",
    "off",
    "bios",
    "nobios",
    "nosort",
    "conf1",
    "conf2",
    "noaer",
    "nodomains",
    "nommconf",
    "check_enable_amd_mmconf",
    "nomsi",
    "noioapicquirk",
    "ioapicreroute",
    "noioapicreroute",
    "biosirq",
    "rom",
    "norom",
    "nobar",
    "irqmask=",
    "pirqaddr=",
    "lastbus=",
    "assign-busses",
    "usepirqmask",
    "noacpi",
    "use_crs",
    "nocrs",
    "use_e820",
    "no_e820",
    "routeirq",
    "skip_isa_align",
    "noearly",
    "bfsort",
    "nobfsort",
    "cbiosize=",
    "cbmemsize=",
    "resource_alignment=",
    "ecrc=",
    "hpiosize=",
    "hpmmiosize=",
    "hpmmioprefsize=",
    "hpmemsize=",
    "hpbussize=",
    "realloc=",
    "big_root_window",
    "disable_acs_redir=",
    "config_acs=",
    "force_floating",
    "nomio",
    "norid",
    "firmware",
    "debug",
];
const PCI_BEGINS: &[&str] = &[
    "noats",
    "noari",
    "notph",
    "realloc",
    "pcie_bus_tune_off",
    "pcie_bus_safe",
    "pcie_bus_perf",
    "pcie_bus_peer2peer",
    "pcie_scan_all",
];

impl Values {
    /// Whether some kernel of the table knows this item of the value.
    pub(super) fn know(self, item: &str) -> bool {
        let is = |known: &&str| {
            if known.ends_with('=') {
                item.starts_with(*known)
            } else {
                item == *known
            }
        };
        match self {
            Self::Begins(known) => known.iter().any(|known| item.starts_with(known)),
            Self::Items(known, begins) => {
                known.iter().any(is) || begins.iter().any(|known| item.starts_with(known))
            }
            Self::Switch => on_or_off(item).is_some(),
            Self::Patch(_) => false,
        }
    }
}

/// The value of a switch, as lib/kstrtox.c (`kstrtobool`) reads it: by its first letters.
pub(super) fn on_or_off(value: &str) -> Option<bool> {
    let mut letters = value.chars().map(|letter| letter.to_ascii_lowercase());
    match (letters.next()?, letters.next()) {
        ('1' | 'y' | 't', _) | ('o', Some('n')) => Some(true),
        ('0' | 'n' | 'f', _) | ('o', Some('f')) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn know(key: &str, item: &str) -> bool {
        KEYS.iter()
            .find(|(known, _)| *known == key)
            .unwrap()
            .1
            .know(item)
    }

    #[test]
    fn words_of_guides_that_kernels_know_are_known() {
        for (key, items) in [
            (
                "iommu",
                "off,soft,pt,nopt,force,noforce,memaper=3,fullflush,64",
            ),
            ("intel_iommu", "on,off,igfx_off,sm_on,strict,tboot_noforce"),
            ("amd_iommu", "off,force_enable,pgtbl_v2,fullflush"),
            ("iommu.passthrough", "1,0,on,off,y,n,Y,N"),
            ("iommu.strict", "0,1"),
            (
                "pci",
                "noats,realloc,realloc=off,assign-busses,nommconf,noaer,nomsi,nocrs,pcie_bus_perf,big_root_window",
            ),
            (
                "pci",
                "config_acs=0000000@pci:0:0,disable_acs_redir=0000:00:01.1;pci:0:0,hpmmioprefsize=64G,hpbussize=0x33",
            ),
            (
                "pci",
                "resource_alignment=12@pci:8086:9c22:103c:198f,ecrc=on,pcie_bus_safe,use_crs,lastbus=255,earlydump",
            ),
        ] {
            assert!(
                items.split(',').all(|item| know(key, item)),
                "{key}: {items}"
            );
        }
    }

    #[test]
    fn words_of_guides_that_no_kernel_knows_are_not() {
        for (key, items) in [
            ("iommu", "on,none,no,disable,passthrough,enable,soFt"),
            ("intel_iommu", "pt,enable,disable,1"),
            ("amd_iommu", "pt,on,enable"),
            ("iommu.passthrough", "pt,enable,xyz"),
            (
                "pci",
                "noacs,noACS,acs=off,disable_acs,config_acs,noaspm,nomsi1",
            ),
            ("pcie_acs_override", "downstream,multifunction"),
        ] {
            assert!(
                !items.split(',').any(|item| know(key, item)),
                "{key}: {items}"
            );
        }
    }
}
