//! firstlight's process 1 as a library: everything except the order of the boot, which is in `main.rs`. It
//! knows Linux and nothing of CUDA or PCI registers.

pub mod child;
pub mod config;
pub mod console;
pub mod disk;
pub mod driver;
pub mod environment;
pub mod fault;
pub mod file_io;
pub mod handoff;
pub mod helper;
mod image_id;
pub mod link_local;
pub mod machine;
pub mod modules;
pub mod paths;
pub mod stages;
pub mod sys;
pub mod verdict;

/// Folders with sample files, for unit tests.
#[cfg(test)]
mod sample {
    use std::fs;
    use tempfile::TempDir;

    /// Makes a folder with these files: path, content.
    pub(crate) fn files(files: &[(&str, &str)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }
}
