//! Whether an arm64 kernel lets devices share the page tables of programs (shared virtual addressing). NVIDIA's driver needs
//! it for GPUs that are integrated or have their own link to the processor. Read from the kernel's configuration, or else
//! from its list of symbols.

use super::cpu;
use crate::root::Root;
use flate2::read::GzDecoder;
use std::io::Read;

/// The option, and the function that exists only with it.
pub const OPTION: &str = "CONFIG_ARM_SMMU_V3_SVA";
const SYMBOL: &str = "iommu_sva_bind_device";
const SYMBOLS: &str = "proc/kallsyms";
const COMPRESSED: &str = "proc/config.gz";
/// No configuration is larger.
const MOST: u64 = 4 << 20;

/// The evidence that the running kernel, of this release, lacks it; `None` if it has it, if that is unknown, or on another
/// architecture.
#[must_use]
pub fn lacking(root: &Root, release: Option<&str>) -> Option<String> {
    if !cpu::is_arm64(root) {
        return None;
    }
    let configuration = configuration(root, release);
    if configuration.as_ref().is_some_and(|(_, text)| is_set(text)) {
        return None;
    }
    let symbols = root.text(SYMBOLS).ok().filter(|text| !text.is_empty());
    if symbols.as_deref().is_some_and(has_symbol) {
        return None;
    }
    match (configuration, symbols) {
        (Some((file, _)), _) => Some(format!("/{file}: {OPTION} is not set")),
        (None, Some(_)) => Some(format!("/{SYMBOLS}: there is no {SYMBOL}")),
        (None, None) => None,
    }
}

/// The kernel's configuration, and the file that has it.
fn configuration(root: &Root, release: Option<&str>) -> Option<(String, String)> {
    let of_release = release.into_iter().flat_map(|release| {
        [
            format!("boot/config-{release}"),
            format!("lib/modules/{release}/config"),
            format!("usr/lib/modules/{release}/config"),
        ]
    });
    let mut plain = of_release.filter_map(|file| Some((root.text(&file).ok()?, file)));
    let inflated = || {
        Some((
            inflate(&root.read(COMPRESSED).ok()?)?,
            COMPRESSED.to_owned(),
        ))
    };
    let (text, file) = plain.next().or_else(inflated)?;
    text.contains("CONFIG_").then_some((file, text))
}

fn inflate(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(bytes)
        .take(MOST)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

fn is_set(configuration: &str) -> bool {
    configuration
        .lines()
        .any(|line| line.trim().strip_prefix(OPTION) == Some("=y"))
}

/// `ffffffc008000000 T iommu_attach_device`, with `[module]` behind the symbols of modules.
fn has_symbol(symbols: &str) -> bool {
    symbols
        .lines()
        .any(|line| line.split_whitespace().nth(2) == Some(SYMBOL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs;
    use std::io::Write;

    const WITH: &str = "CONFIG_ARM_SMMU_V3=y\nCONFIG_ARM_SMMU_V3_SVA=y";
    const WITHOUT: &str = "CONFIG_ARM_SMMU_V3=y\n# CONFIG_ARM_SMMU_V3_SVA is not set";
    const ARM: (&str, &str) = ("proc/cpuinfo", "processor : 0\nCPU implementer : 0x41");
    const NO_SYMBOL: (&str, &str) = (
        "proc/kallsyms",
        "ff00 T iommu_attach_device\nff01 t os_iommu_sva_bind_device [nvidia]",
    );
    const A_SYMBOL: (&str, &str) = (
        "proc/kallsyms",
        "ff00 T iommu_attach_device\nff02 T iommu_sva_bind_device",
    );

    fn lacks(files: &[(&str, &str)]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if file.ends_with(".gz") {
                let mut out = GzEncoder::new(Vec::new(), Compression::fast());
                out.write_all(text.as_bytes()).unwrap();
                fs::write(path, out.finish().unwrap()).unwrap();
            } else {
                fs::write(path, text).unwrap();
            }
        }
        lacking(&Root::new(dir.path()), Some("6.12.9"))
    }

    #[test]
    fn each_place_of_the_configuration_shows_a_kernel_without_it() {
        for file in [
            "boot/config-6.12.9",
            "lib/modules/6.12.9/config",
            "usr/lib/modules/6.12.9/config",
            "proc/config.gz",
        ] {
            let evidence = format!("/{file}: CONFIG_ARM_SMMU_V3_SVA is not set");
            assert_eq!(lacks(&[ARM, (file, WITHOUT)]), Some(evidence));
            assert_eq!(lacks(&[ARM, (file, WITH)]), None, "{file}");
            assert_eq!(lacks(&[ARM, (file, WITH), NO_SYMBOL]), None, "{file}");
            assert_eq!(
                lacks(&[ARM, (file, WITHOUT), A_SYMBOL]),
                None,
                "{file}: the running kernel has it"
            );
        }
        assert_eq!(
            lacks(&[ARM, ("boot/config-6.12.8", WITHOUT)]),
            None,
            "of another kernel"
        );
        assert!(
            lacks(&[
                ARM,
                (
                    "boot/config-6.12.9",
                    "CONFIG_ARM_SMMU_V3_SVA=yes\nCONFIG_X=y"
                )
            ])
            .is_some()
        );
    }

    #[test]
    fn without_a_configuration_the_symbols_decide() {
        let evidence = "/proc/kallsyms: there is no iommu_sva_bind_device".to_owned();
        assert_eq!(lacks(&[ARM, NO_SYMBOL]), Some(evidence));
        assert_eq!(
            (
                lacks(&[ARM, A_SYMBOL]),
                lacks(&[ARM]),
                lacks(&[ARM, ("proc/kallsyms", "")])
            ),
            (None, None, None)
        );
    }

    #[test]
    fn another_architecture_does_not_need_it() {
        let x86 = ("proc/cpuinfo", "vendor_id : GenuineIntel");
        assert_eq!(
            lacks(&[x86, ("boot/config-6.12.9", WITHOUT), NO_SYMBOL]),
            None
        );
        assert_eq!(lacks(&[("boot/config-6.12.9", WITHOUT), NO_SYMBOL]), None);
    }
}
