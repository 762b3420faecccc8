//! Kernel modules: which files in which order (`deps`), for which devices (`alias`), and loading
//! them. Loading runs in a child: a driver's start can hang.

pub mod alias;
pub mod deps;

use crate::sys::machine;
use deps::{Deps, name_of};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The modules of the running kernel.
#[derive(Debug)]
pub struct Tree {
    dir: PathBuf,
    deps: Deps,
    builtin: Vec<String>,
}

impl Tree {
    /// Reads the folder of a kernel's modules.
    ///
    /// # Errors
    /// A line naming the file that cannot be read.
    pub fn open(dir: &Path) -> Result<Self, String> {
        let file = dir.join("modules.dep");
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        // Kernels without anything built in have no such file; then everything must be a module.
        let builtin = fs::read_to_string(dir.join("modules.builtin")).unwrap_or_else(|_| String::new());
        Ok(Self { dir: dir.to_owned(), deps: Deps::parse(&text), builtin: deps::builtin(&builtin) })
    }

    /// The running kernel's folder.
    #[must_use]
    pub fn of_this_kernel() -> PathBuf {
        Path::new("/lib/modules").join(machine::kernel_release())
    }

    /// Loads modules with all they need, saying each one's name to `loaded`.
    ///
    /// # Errors
    /// A line naming the module and what went wrong; nothing is tried after it.
    pub fn load(
        &self,
        modules: &[String],
        parameters: &BTreeMap<String, String>,
        loaded: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let files = self.deps.order(modules, &self.builtin).map_err(|e| e.to_string())?;
        let used = |module: &&String| files.iter().any(|file| name_of(file) == name_of(module));
        if let Some(unused) = parameters.keys().find(|module| !used(module)) {
            return Err(format!("driver.parameters: {unused} is not among the modules that are loaded"));
        }
        for file in files {
            let name = name_of(&file);
            let words = parameters.iter().find(|(module, _)| name_of(module) == name).map_or("", |(_, v)| v);
            self.load_file(&file, words).map_err(|e| format!("{name}: {e}"))?;
            loaded(&name);
        }
        Ok(())
    }

    fn load_file(&self, file: &str, parameters: &str) -> std::io::Result<()> {
        let compressed = !file.ends_with(".ko");
        let file = File::open(self.dir.join(file))?;
        match machine::load_module(&file, parameters, compressed) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_module_is_named_and_nothing_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("modules.dep"), "kernel/a.ko:\n").unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        let mut loaded = Vec::new();
        let result =
            tree.load(&["a".into(), "nvidia".into()], &BTreeMap::new(), &mut |m| loaded.push(m.to_owned()));
        assert_eq!(result.unwrap_err(), "module nvidia is not in modules.dep and not built into the kernel");
        assert_eq!(loaded, [""; 0]);
    }

    #[test]
    fn a_file_that_modules_dep_names_and_that_is_gone_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("modules.dep"), "kernel/a.ko:\n").unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        let error = tree.load(&["a".into()], &BTreeMap::new(), &mut |_| {}).unwrap_err();
        assert!(error.starts_with("a: No such file"), "{error}");
    }

    #[test]
    fn a_kernel_without_modules_dep_is_named() {
        let error = Tree::open(Path::new("/none")).unwrap_err();
        assert!(error.starts_with("/none/modules.dep: "), "{error}");
    }
}
