//! Kernel modules: which files in which order (`deps`), for which devices (`alias`), and loading them.
//! Loading runs in a child, because a driver's start can hang.

pub mod alias;
pub mod deps;

use crate::sys::kernel;
use deps::{ModuleDeps, module_name};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The modules of the running kernel.
#[derive(Debug)]
pub struct ModuleTree {
    dir: PathBuf,
    deps: ModuleDeps,
    builtin: Vec<String>,
}

impl ModuleTree {
    /// Reads the folder of a kernel's modules.
    ///
    /// # Errors
    /// A line naming the file that cannot be read.
    pub fn open(dir: &Path) -> Result<Self, String> {
        let file = dir.join("modules.dep");
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        // A kernel without built-in modules has no such file.
        let builtin =
            fs::read_to_string(dir.join("modules.builtin")).unwrap_or_else(|_| String::new());
        Ok(Self {
            dir: dir.to_owned(),
            deps: ModuleDeps::parse(&text),
            builtin: deps::builtin(&builtin),
        })
    }

    /// The running kernel's folder.
    #[must_use]
    pub fn running_kernel_dir() -> PathBuf {
        Path::new("/lib/modules").join(kernel::kernel_release())
    }

    /// The files of a module, after its dependencies; none for one that is built in.
    ///
    /// # Errors
    /// A line that names the module that was not found.
    pub fn files(&self, module: &str) -> Result<Vec<PathBuf>, String> {
        let files = self
            .deps
            .order(&[module.to_owned()], &self.builtin)
            .map_err(|e| e.to_string())?;
        Ok(files.iter().map(|file| self.dir.join(file)).collect())
    }

    /// Loads a module and its dependencies.
    ///
    /// # Errors
    /// A line that names the module and the cause; loading stops there.
    pub fn load(&self, module: &str) -> Result<(), String> {
        for file in self.files(module)? {
            match insert(&file, "") {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(format!("{}: {e}", module_name(&file.to_string_lossy())));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Passes a module's file to the kernel, which decompresses it if necessary.
///
/// # Errors
/// As open(2) and finit_module(2).
pub fn insert(file: &Path, parameters: &str) -> io::Result<()> {
    let compressed = file.extension().is_none_or(|extension| extension != "ko");
    kernel::load_module(&File::open(file)?, parameters, compressed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_module_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("modules.dep"), "kernel/a.ko:\n").unwrap();
        let tree = ModuleTree::open(dir.path()).unwrap();
        let error = tree.load("nvidia").unwrap_err();
        assert_eq!(
            error,
            "module nvidia is not in modules.dep and not built into the kernel"
        );
        assert_eq!(tree.files("a").unwrap(), [dir.path().join("kernel/a.ko")]);
    }

    #[test]
    fn a_file_that_modules_dep_names_and_that_is_gone_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("modules.dep"), "kernel/a.ko:\n").unwrap();
        let tree = ModuleTree::open(dir.path()).unwrap();
        let error = tree.load("a").unwrap_err();
        assert!(error.starts_with("a: No such file"), "{error}");
    }

    #[test]
    fn a_kernel_without_modules_dep_is_named() {
        let error = ModuleTree::open(Path::new("/none")).unwrap_err();
        assert!(error.starts_with("/none/modules.dep: "), "{error}");
    }
}
