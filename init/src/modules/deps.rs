//! Module dependencies: computes the load order of files from `modules.dep`.

use std::collections::BTreeMap;
use thiserror::Error;

/// The content of `modules.dep`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ModuleDeps(BTreeMap<String, Vec<String>>);

/// A module that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("module {0} is not in modules.dep and not built into the kernel")]
pub struct MissingModule(pub String);

/// A module's name from its file name or any spelling: `-` and `_` are equal.
#[must_use]
pub fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.split(".ko").next().unwrap_or(file);
    stem.replace('-', "_")
}

impl ModuleDeps {
    /// Parses `path: dependency dependency ..` lines; lines without a colon are ignored.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let pairs = lines.map(|(path, needs)| {
            let files = std::iter::once(path).chain(needs.split_whitespace());
            (
                module_name(path.trim()),
                files.map(|file| file.trim().to_owned()).collect(),
            )
        });
        Self(pairs.collect())
    }

    /// The files to load for `modules`, in order, each once. A file's line in modules.dep lists all its
    /// dependencies, the most basic last. A module in `builtin` needs no file.
    ///
    /// # Errors
    /// The first module that was not found.
    pub fn order(
        &self,
        modules: &[String],
        builtin: &[String],
    ) -> Result<Vec<String>, MissingModule> {
        let mut files: Vec<String> = Vec::new();
        for module in modules {
            let name = module_name(module);
            let needed = match self.0.get(&name) {
                Some(needed) => needed.as_slice(),
                None if builtin.contains(&name) => &[],
                None => return Err(MissingModule(module.clone())),
            };
            for file in needed.iter().rev().filter(|file| !file.is_empty()) {
                if !files.contains(file) {
                    files.push(file.clone());
                }
            }
        }
        Ok(files)
    }
}

/// The names in `modules.builtin`.
#[must_use]
pub fn builtin(text: &str) -> Vec<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(module_name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/a.ko.zst: kernel/b.ko.zst kernel/c-d.ko.zst\nkernel/b.ko.zst: kernel/c-d.ko.zst\n\
                       kernel/c-d.ko.zst:\nextra/nvidia-uvm.ko: extra/nvidia.ko\nextra/nvidia.ko:\n";

    fn order(names: &[&str]) -> Result<Vec<String>, MissingModule> {
        let names: Vec<_> = names.iter().map(|n| (*n).to_owned()).collect();
        ModuleDeps::parse(DEP).order(&names, &builtin("kernel/x-y.ko\n"))
    }

    #[test]
    fn dependencies_come_first_and_once() {
        assert_eq!(
            order(&["a"]).unwrap(),
            ["kernel/c-d.ko.zst", "kernel/b.ko.zst", "kernel/a.ko.zst"]
        );
        assert_eq!(
            order(&["nvidia", "nvidia-uvm"]).unwrap(),
            ["extra/nvidia.ko", "extra/nvidia-uvm.ko"]
        );
    }

    #[test]
    fn dashes_and_underscores_are_the_same() {
        assert_eq!(order(&["nvidia_uvm"]), order(&["nvidia-uvm"]));
    }

    #[test]
    fn a_built_in_module_needs_no_file_and_an_unknown_one_is_named() {
        assert_eq!(order(&["x_y"]).unwrap(), [""; 0]);
        assert_eq!(
            order(&["a", "nvidai"]),
            Err(MissingModule("nvidai".to_owned()))
        );
    }
}
