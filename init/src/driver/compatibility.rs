//! Checks that the parts of the driver belong together and to the running kernel: one version of module,
//! userspace and firmware, this kernel's vermagic, the expected patch level. Pure; parts that do not match
//! are not loaded.

use super::candidate::ModuleCandidate;
use super::description::Description;
use super::report::{Code, Finding};

/// The module that states the patch level.
const PATCHED_MODULE: &str = "nvidia";

/// The content of the driver image, by file names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageContent {
    /// Names in `lib/`.
    pub libraries: Vec<String>,
    /// Names in `firmware/nvidia/`.
    pub firmware: Vec<String>,
}

/// All mismatches, and whether a module may be loaded in spite of them.
#[must_use]
pub fn check(
    description: Option<&Description>,
    parts: &ImageContent,
    modules: &[ModuleCandidate],
    release: &str,
) -> (Vec<Finding>, bool) {
    let mut findings = Vec::new();
    for module in modules {
        if let Some(Err(why)) = &module.info {
            let message = format!("{}: {why}", module.report_entry(String::new()).file);
            findings.push(Finding::fail(Code::DriverMissing, &module.name, message));
        } else {
            findings.extend(vermagic(module, release));
        }
    }
    if let Some(description) = description {
        let of_image = modules
            .iter()
            .filter(|m| m.of_image && matches!(m.info, Some(Ok(_))));
        for module in of_image {
            findings.extend(version(module, &description.version));
            findings.extend(patch(module, &description.patch));
        }
    }
    let may_load = findings.is_empty();
    if let Some(description) = description {
        let others = userspace(parts, &description.version);
        let mismatch = others
            .iter()
            .any(|finding| finding.code == Code::DriverMismatch);
        findings.extend(others);
        return (findings, may_load && !mismatch);
    }
    (findings, may_load)
}

fn vermagic(module: &ModuleCandidate, release: &str) -> Option<Finding> {
    module.info.as_ref()?;
    let vermagic = module.modinfo_value("vermagic").unwrap_or("");
    let built_for = vermagic.split_whitespace().next().unwrap_or("no kernel");
    let message = format!(
        "{} is built for {built_for}, this kernel is {release}",
        module.name
    );
    (built_for != release).then(|| Finding::fail(Code::DriverVermagic, &module.name, message))
}

fn version(module: &ModuleCandidate, wanted: &str) -> Option<Finding> {
    let version = module
        .modinfo_value("version")
        .unwrap_or("without a version");
    let message = format!(
        "module {} is {version}, the driver image is {wanted}",
        module.name
    );
    (version != wanted).then(|| Finding::fail(Code::DriverMismatch, &module.name, message))
}

fn patch(module: &ModuleCandidate, wanted: &str) -> Option<Finding> {
    let level = |text: &str| {
        if text.is_empty() {
            "no patch".to_owned()
        } else {
            format!("patch level {text}")
        }
    };
    let patch = module.modinfo_value("firstlight.patch").unwrap_or("");
    let message = format!(
        "module {} has {}, the driver image {}",
        module.name,
        level(patch),
        level(wanted)
    );
    (module.name == PATCHED_MODULE && patch != wanted)
        .then(|| Finding::fail(Code::PatchMissing, PATCHED_MODULE, message))
}

/// Checks libraries and firmware: each must be present, and only in the wanted version.
fn userspace(parts: &ImageContent, wanted: &str) -> Vec<Finding> {
    let library = |name: &str| {
        let versions = parts
            .libraries
            .iter()
            .filter_map(|file| file.strip_prefix(name)?.strip_prefix(".so."));
        // `libcuda.so.1` is the link that programs load.
        let versions = versions
            .filter(|version| *version != "1")
            .map(str::to_owned);
        judge(
            &format!("lib/{name}.so"),
            &versions.collect::<Vec<_>>(),
            wanted,
        )
    };
    let firmware = judge("firmware/nvidia", &parts.firmware, wanted);
    [library("libcuda"), library("libnvidia-ml"), firmware]
        .into_iter()
        .flatten()
        .collect()
}

fn judge(what: &str, versions: &[String], wanted: &str) -> Option<Finding> {
    if versions.is_empty() {
        let message = format!("{what}: no version is in the driver image, which is {wanted}");
        return Some(Finding::fail(Code::DriverMissing, what, message));
    }
    let other = versions.iter().find(|version| *version != wanted)?;
    let message = format!("{what} is {other}, the driver image is {wanted}");
    Some(Finding::fail(Code::DriverMismatch, what, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::description::{SAMPLE, parse};
    use crate::driver::modinfo::Modinfo;

    const RELEASE: &str = "6.12.107-firstlight";
    const GOOD: &str = "version=555.58.02\0vermagic=6.12.107-firstlight SMP preempt mod_unload \0firstlight.patch=1\0";

    fn module(name: &str, texts: &str) -> ModuleCandidate {
        let info = Some(Ok(Modinfo::parse(texts.as_bytes())));
        ModuleCandidate {
            name: name.into(),
            file: Some("/m.ko".into()),
            of_image: true,
            info,
            absent: None,
        }
    }

    fn parts(libraries: &[&str], firmware: &[&str]) -> ImageContent {
        let own = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        ImageContent {
            libraries: own(libraries),
            firmware: own(firmware),
        }
    }

    fn good_parts() -> ImageContent {
        parts(
            &[
                "libcuda.so.1",
                "libcuda.so.555.58.02",
                "libnvidia-ml.so.1",
                "libnvidia-ml.so.555.58.02",
                "libnccl.so.2",
            ],
            &["555.58.02"],
        )
    }

    fn wrong(parts: &ImageContent, modules: &[ModuleCandidate]) -> (Vec<(Code, String)>, bool) {
        let (findings, may_load) = check(Some(&parse(SAMPLE).unwrap()), parts, modules, RELEASE);
        (
            findings.into_iter().map(|f| (f.code, f.message)).collect(),
            may_load,
        )
    }

    #[test]
    fn parts_that_match_may_be_loaded() {
        let modules = [module("nvidia", GOOD), module("nvidia-uvm", GOOD)];
        assert_eq!(wrong(&good_parts(), &modules), (vec![], true));
    }

    #[test]
    fn each_part_of_another_version_is_named_with_both_sides_and_nothing_is_loaded() {
        let bad = |from: &str, to: &str| {
            wrong(&good_parts(), &[module("nvidia", &GOOD.replace(from, to))])
        };
        for ((found, may_load), code, message) in [
            (
                bad("version=555.58.02", "version=550.1"),
                Code::DriverMismatch,
                "module nvidia is 550.1, the driver image is 555.58.02",
            ),
            (
                bad("6.12.107-firstlight SMP", "6.12.107 SMP"),
                Code::DriverVermagic,
                "nvidia is built for 6.12.107, this kernel is 6.12.107-firstlight",
            ),
            (
                bad("6.12.107-firstlight SMP", "6.12.107-firstlight2 SMP"),
                Code::DriverVermagic,
                "nvidia is built for 6.12.107-firstlight2, this kernel is 6.12.107-firstlight",
            ),
            (
                bad("firstlight.patch=1", "x=1"),
                Code::PatchMissing,
                "module nvidia has no patch, the driver image patch level 1",
            ),
            (
                bad("firstlight.patch=1", "firstlight.patch=2"),
                Code::PatchMissing,
                "module nvidia has patch level 2, the driver image patch level 1",
            ),
            (
                wrong(
                    &parts(
                        &["libcuda.so.550.1", "libnvidia-ml.so.555.58.02"],
                        &["555.58.02"],
                    ),
                    &[],
                ),
                Code::DriverMismatch,
                "lib/libcuda.so is 550.1, the driver image is 555.58.02",
            ),
            (
                wrong(
                    &parts(
                        &["libcuda.so.555.58.02", "libnvidia-ml.so.555.58.02"],
                        &["550.1"],
                    ),
                    &[],
                ),
                Code::DriverMismatch,
                "firmware/nvidia is 550.1, the driver image is 555.58.02",
            ),
        ] {
            assert_eq!((found, may_load), (vec![(code, message.to_owned())], false));
        }
    }

    #[test]
    fn a_second_library_of_another_version_is_a_mismatch() {
        let mut two = good_parts();
        two.libraries.push("libcuda.so.550.1".into());
        assert_eq!(wrong(&two, &[]).0[0].0, Code::DriverMismatch);
    }

    #[test]
    fn missing_parts_are_named_and_a_module_is_tried_anyway() {
        let (found, may_load) = wrong(&parts(&["libcuda.so.1"], &[]), &[module("nvidia", GOOD)]);
        assert_eq!(
            found.iter().map(|(code, _)| *code).collect::<Vec<_>>(),
            [Code::DriverMissing; 3]
        );
        assert!(may_load);
    }

    #[test]
    fn a_module_without_readable_modinfo_is_not_loaded() {
        let mut broken = module("nvidia", GOOD);
        broken.info = Some(Err("is a damaged ELF file".into()));
        let (found, may_load) = wrong(&good_parts(), &[broken]);
        assert_eq!(
            (found[0].clone(), may_load),
            (
                (Code::DriverMissing, "/m.ko: is a damaged ELF file".into()),
                false
            )
        );
    }

    #[test]
    fn only_nvidia_itself_carries_the_patch_level() {
        let uvm = GOOD.replace("firstlight.patch=1", "x=1");
        assert_eq!(
            wrong(
                &good_parts(),
                &[module("nvidia", GOOD), module("nvidia-uvm", &uvm)]
            ),
            (vec![], true)
        );
    }

    #[test]
    fn a_compressed_module_is_left_to_the_kernel_to_check() {
        let compressed = ModuleCandidate {
            name: "x".into(),
            file: None,
            of_image: false,
            info: None,
            absent: None,
        };
        assert_eq!(
            check(None, &ImageContent::default(), &[compressed], RELEASE),
            (vec![], true)
        );
    }
}
