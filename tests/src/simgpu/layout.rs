//! Lays a scenario out as a folder with a driver's libraries, as `LD_LIBRARY_PATH` names it:
//! `libcuda.so.VERSION`, the link that programs ask for, and the scenario beside them; with NCCL's library.

use super::scenario::Scenario;
use crate::error::{Error, Result};
use crate::image::workspace;
use crate::program::run;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

/// The libraries, as they were built.
#[derive(Debug, Clone)]
pub struct Libraries {
    /// The simulated libcuda.
    pub cuda: PathBuf,
    /// The simulated NVML.
    pub nvml: PathBuf,
    /// The simulated NCCL.
    pub nccl: PathBuf,
}

/// The names that programs load, and which library each is.
const CUDA: &str = "libcuda.so.1";
const NVML: &str = "libnvidia-ml.so.1";
const NCCL: &str = "libnccl.so.2";
/// The version of NCCL that is simulated.
const NCCL_VERSION: &str = "2.29.7";
/// Where the libraries look for their scenario.
const SCENARIO: &str = "simgpu.toml";

impl Libraries {
    /// Builds what is stale, once for each process.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn built() -> Result<&'static Self> {
        static BUILT: OnceLock<Result<Libraries>> = OnceLock::new();
        once(&BUILT, || Ok(Self::in_folder(&build(&["--lib"])?)))
    }

    /// Those that the compiler left in this folder.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        let [cuda, nvml, nccl] =
            ["cuda", "nvml", "nccl"].map(|name| folder.join(format!("libsimgpu_{name}.so")));
        Self { cuda, nvml, nccl }
    }
}

/// The program that ships, built where it is stale, once for each process.
///
/// # Errors
/// The compiler's words.
pub(super) fn program() -> Result<&'static PathBuf> {
    static BUILT: OnceLock<Result<PathBuf>> = OnceLock::new();
    once(&BUILT, || Ok(build(&["--bin", "firstlight"])?.join("firstlight")))
}

fn once<T>(cell: &'static OnceLock<Result<T>>, make: impl FnOnce() -> Result<T>) -> Result<&'static T> {
    let made = cell.get_or_init(make);
    made.as_ref().map_err(|e| Error::Program { program: "cargo build".into(), why: e.to_string() })
}

/// Builds these of the workspace, and returns the folder that they come to. No package is named, here as in all recipes:
/// the selection of packages decides the features of what they share, and each selection would build its own.
fn build(what: &[&str]) -> Result<PathBuf> {
    let target = target();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--quiet", "--target-dir"]).arg(&target);
    run(cargo.args(what).current_dir(workspace()))?;
    Ok(target.join("release"))
}

/// The folder that this program was built in: `TARGET/debug/deps/NAME`, or without `deps`.
fn target() -> PathBuf {
    let own = env::current_exe().unwrap_or_default();
    let profile = own.ancestors().skip(1).find(|p| !p.ends_with("deps"));
    let target = profile.and_then(Path::parent);
    target.map_or_else(|| workspace().join("target"), Path::to_owned)
}

/// Lays a scenario out in `dir`.
///
/// # Errors
/// What cannot be written, or a function that is to be left out and is not there.
pub fn lay_out(scenario: &Scenario, libraries: &Libraries, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
    let path = dir.join(SCENARIO);
    fs::write(&path, scenario.text()).map_err(Error::file("write", path))?;
    let driver = scenario.version();
    let all = [
        (CUDA, "cu", driver, &libraries.cuda),
        (NVML, "nvml", driver, &libraries.nvml),
        (NCCL, "nccl", NCCL_VERSION, &libraries.nccl),
    ];
    for (name, prefix, version, from) in all {
        if scenario.without().iter().any(|n| n == name) {
            continue;
        }
        let mut bytes = fs::read(from).map_err(Error::file("read", from))?;
        for symbol in scenario.without_symbols().iter().filter(|s| s.starts_with(prefix)) {
            forget(&mut bytes, symbol)?;
        }
        // `libcuda.so.` and the whole version.
        let (stem, _) = name.rsplit_once('.').unwrap_or((name, ""));
        let file = format!("{stem}.{version}");
        let (path, link) = (dir.join(&file), dir.join(name));
        fs::write(&path, bytes).map_err(Error::file("write", path))?;
        symlink(&file, &link).map_err(Error::file("link", link))?;
    }
    Ok(())
}

/// Gives a function another name in a library's table of names, so that nobody finds it.
fn forget(library: &mut [u8], symbol: &str) -> Result<()> {
    let name: Vec<u8> = [0].into_iter().chain(symbol.bytes()).chain([0]).collect();
    let mut found = 0;
    for at in 0..library.len().saturating_sub(name.len()) {
        if library[at..].starts_with(&name) {
            library[at + 1] = b'_';
            found += 1;
        }
    }
    let why = || format!("has no name {symbol}");
    if found > 0 { Ok(()) } else { Err(Error::Archive { what: "simulated library", why: why() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_name_is_forgotten() {
        let mut library = b"\0cuInit\0cuInitOther\0".to_vec();
        forget(&mut library, "cuInit").unwrap();
        assert_eq!(library, b"\0_uInit\0cuInitOther\0");
        assert!(forget(&mut library, "cuInit").is_err());
    }
}
