//! Finds the file of each module: in the driver image, after the modules that it needs there, else among
//! the running kernel's modules by modules.dep.

use super::modinfo::Modinfo;
use super::report::{Module, Outcome};
use crate::modules::ModuleTree;
use crate::modules::deps::module_name;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A module to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleCandidate {
    /// Its name as configured, or from its file.
    pub name: String,
    /// Its file; `None` when it is built into the kernel.
    pub file: Option<PathBuf>,
    /// Whether it is from the driver image.
    pub of_image: bool,
    /// Its modinfo: `None` when the file is compressed, because only the kernel decompresses it.
    pub info: Option<Result<Modinfo, String>>,
    /// Why it was not found.
    pub absent: Option<String>,
}

impl ModuleCandidate {
    fn of(name: &str, file: PathBuf, of_image: bool) -> Self {
        let plain = file.extension().is_some_and(|extension| extension == "ko");
        let info = match File::open(&file) {
            Ok(_) if !plain => None,
            Ok(_) => Some(Modinfo::of(&file)),
            Err(e) => Some(Err(e.to_string())),
        };
        Self {
            name: name.to_owned(),
            file: Some(file),
            of_image,
            info,
            absent: None,
        }
    }

    /// A value of its modinfo.
    #[must_use]
    pub fn modinfo_value(&self, key: &str) -> Option<&str> {
        self.info.as_ref()?.as_ref().ok()?.get(key)
    }

    /// Its entry in the report before it is loaded.
    #[must_use]
    pub fn report_entry(&self, parameters: String) -> Module {
        let says = |key: &str| self.modinfo_value(key).map(str::to_owned);
        Module {
            name: self.name.clone(),
            file: self
                .file
                .as_ref()
                .map_or_else(String::new, |file| file.display().to_string()),
            version: says("version"),
            vermagic: says("vermagic"),
            patch: says("firstlight.patch"),
            srcversion: says("srcversion"),
            parameters,
            outcome: Outcome::NotTried,
            errno: None,
            error: None,
        }
    }
}

/// The folders that are searched for modules.
#[derive(Debug)]
pub struct ModuleFolders<'a> {
    /// The image's folder of modules, when there is an image.
    pub image: Option<&'a Path>,
    /// The running kernel's folder of modules.
    pub kernel: &'a Path,
}

/// The files to load for `wanted`, in order, each once, and an entry for each module that was not found.
#[must_use]
pub fn find_candidates(folders: &ModuleFolders<'_>, wanted: &[String]) -> Vec<ModuleCandidate> {
    let mut found = Vec::new();
    let in_image = folders.image.map_or_else(Vec::new, listed);
    for name in wanted {
        let mut visiting = Vec::new();
        if !of_image(&in_image, name, &mut visiting, &mut found)
            && let Err(why) = of_kernel(folders.kernel, name, &mut found)
        {
            let there = folders.image.map_or_else(
                || "no driver image".to_owned(),
                |image| format!("not in {}", image.display()),
            );
            let absent = Some(format!("{there}; {why}"));
            let name = name.clone();
            found.push(ModuleCandidate {
                name,
                file: None,
                of_image: false,
                info: None,
                absent,
            });
        }
    }
    found
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "ko"))
        .collect()
}

fn is_listed(found: &[ModuleCandidate], name: &str) -> bool {
    found
        .iter()
        .any(|candidate| module_name(&candidate.name) == module_name(name))
}

/// Adds the module from the image, after the modules that it needs there. False when it is not in the
/// image.
fn of_image(
    image: &[PathBuf],
    name: &str,
    visiting: &mut Vec<String>,
    found: &mut Vec<ModuleCandidate>,
) -> bool {
    let wanted = module_name(name);
    let Some(file) = image
        .iter()
        .find(|file| module_name(&file.to_string_lossy()) == wanted)
    else {
        return false;
    };
    if is_listed(found, name) || visiting.contains(&wanted) {
        return true;
    }
    visiting.push(wanted);
    let candidate = ModuleCandidate::of(name, file.clone(), true);
    if let Some(Ok(info)) = &candidate.info {
        for needed in info.depends() {
            // A module that is not in the image is in the kernel; otherwise the kernel reports what is missing.
            let _in_the_kernel = of_image(image, needed, visiting, found);
        }
    }
    found.push(candidate);
    true
}

fn of_kernel(folder: &Path, name: &str, found: &mut Vec<ModuleCandidate>) -> Result<(), String> {
    let files = ModuleTree::open(folder)?.files(name)?;
    if files.is_empty() && !is_listed(found, name) {
        found.push(ModuleCandidate {
            name: name.to_owned(),
            file: None,
            of_image: false,
            info: None,
            absent: None,
        });
    }
    for file in files {
        let own = module_name(&file.to_string_lossy());
        if !is_listed(found, &own) {
            let called = if own == module_name(name) { name } else { &own };
            found.push(ModuleCandidate::of(called, file, false));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::files;
    use contract::elf::sample;

    fn module(texts: &str) -> Vec<u8> {
        sample(".modinfo", texts.as_bytes())
    }

    fn names(found: &[ModuleCandidate]) -> Vec<(&str, bool)> {
        found
            .iter()
            .map(|c| (c.name.as_str(), c.of_image))
            .collect()
    }

    #[test]
    fn the_image_comes_first_and_what_a_module_needs_before_it() {
        let dir = files(&[(
            "k/modules.dep",
            "a/nvidia.ko:\na/extra.ko.zst: a/base.ko.zst\na/base.ko.zst:\n",
        )]);
        let image = dir.path().join("modules");
        fs::create_dir(&image).unwrap();
        fs::write(image.join("nvidia.ko"), module("version=1\0depends=\0")).unwrap();
        fs::write(
            image.join("nvidia-uvm.ko"),
            module("version=1\0depends=nvidia,drm\0"),
        )
        .unwrap();
        let kernel = dir.path().join("k");
        let folders = ModuleFolders {
            image: Some(&image),
            kernel: &kernel,
        };
        let wanted = ["nvidia-uvm", "nvidia", "extra", "none"].map(str::to_owned);
        fs::create_dir(kernel.join("a")).unwrap();
        fs::write(kernel.join("a/extra.ko.zst"), "").unwrap();
        let found = find_candidates(&folders, &wanted);
        let all = [
            ("nvidia", true),
            ("nvidia-uvm", true),
            ("base", false),
            ("extra", false),
            ("none", false),
        ];
        assert_eq!(names(&found), all);
        assert_eq!(
            (found[1].modinfo_value("version"), &found[3].info),
            (Some("1"), &None)
        );
        assert!(
            found[2]
                .info
                .as_ref()
                .unwrap()
                .as_ref()
                .unwrap_err()
                .starts_with("No such file")
        );
        let why = found[4].absent.as_deref().unwrap();
        assert!(
            why.ends_with(
                "/modules; module none is not in modules.dep and not built into the kernel"
            ),
            "{why}"
        );
    }

    #[test]
    fn two_modules_that_need_each_other_end() {
        let dir = tempfile::tempdir().unwrap();
        for (name, other) in [("a", "b"), ("b", "a")] {
            let text = format!("depends={other}\0");
            fs::write(dir.path().join(format!("{name}.ko")), module(&text)).unwrap();
        }
        let folders = ModuleFolders {
            image: Some(dir.path()),
            kernel: Path::new("/none"),
        };
        assert_eq!(
            names(&find_candidates(&folders, &["a".into()])),
            [("b", true), ("a", true)]
        );
    }

    #[test]
    fn without_an_image_the_kernels_modules_count_also_the_built_in_ones() {
        let dir = files(&[
            ("modules.dep", "a/x.ko:\n"),
            ("modules.builtin", "kernel/y.ko\n"),
            ("a/x.ko", "text"),
        ]);
        let folders = ModuleFolders {
            image: None,
            kernel: dir.path(),
        };
        let found = find_candidates(&folders, &["x".into(), "y".into(), "z".into()]);
        assert_eq!(names(&found), [("x", false), ("y", false), ("z", false)]);
        assert_eq!(
            (found[1].file.as_deref(), found[1].absent.as_deref()),
            (None, None)
        );
        assert!(
            found[2]
                .absent
                .as_deref()
                .unwrap()
                .starts_with("no driver image; ")
        );
        assert_eq!(
            found[0].info,
            Some(Err("is not a 64-bit ELF file".to_owned()))
        );
    }
}
