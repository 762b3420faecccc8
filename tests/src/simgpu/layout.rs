//! Lays out a scenario: a folder with a driver's libraries, as for `LD_LIBRARY_PATH` (`libcuda.so.VERSION`, the link that
//! programs load, the scenario next to them, and NCCL's library), and a matching modelled machine, with as many GPUs at the
//! same addresses.

use super::scenario::Scenario;
use crate::error::{Error, Result, run};
use crate::image::workspace;
use machines::{Link, Machine};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

/// The built libraries.
#[derive(Debug, Clone)]
pub struct Libraries {
    /// The simulated libcuda.
    pub cuda: PathBuf,
    /// The simulated NVML.
    pub nvml: PathBuf,
    /// The simulated NCCL.
    pub nccl: PathBuf,
    /// The simulated libibverbs.
    pub verbs: PathBuf,
}

/// The names that programs load.
const CUDA: &str = "libcuda.so.1";
const NVML: &str = "libnvidia-ml.so.1";
const NCCL: &str = "libnccl.so.2";
const VERBS: &str = "libibverbs.so.1";
/// The simulated version of NCCL.
const NCCL_VERSION: &str = "2.29.7";
/// The simulated version of libibverbs.
const VERBS_VERSION: &str = "1.14.44";
/// The name of the scenario file that the libraries read.
const SCENARIO: &str = "simgpu.toml";

impl Libraries {
    /// Builds what is stale, once per process. `FIRSTLIGHT_SIMULATED` names a folder with libraries that were built for
    /// another processor.
    ///
    /// # Errors
    /// The compiler's output.
    pub fn built() -> Result<&'static Self> {
        static BUILT: OnceLock<Result<Libraries>> = OnceLock::new();
        let named = || env::var_os("FIRSTLIGHT_SIMULATED").map(PathBuf::from);
        once(&BUILT, || {
            Ok(Self::in_folder(&named().map_or_else(build, Ok)?))
        })
    }

    /// The libraries that the compiler left in this folder.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        let [cuda, nvml, nccl, verbs] = ["cuda", "nvml", "nccl", "verbs"]
            .map(|name| folder.join(format!("libsimgpu_{name}.so")));
        Self {
            cuda,
            nvml,
            nccl,
            verbs,
        }
    }
}

/// The shipped program, built if it is stale, once per process.
///
/// # Errors
/// The compiler's output.
pub(super) fn program() -> Result<&'static PathBuf> {
    static BUILT: OnceLock<Result<PathBuf>> = OnceLock::new();
    once(&BUILT, || Ok(build()?.join("firstlight")))
}

fn once<T>(
    cell: &'static OnceLock<Result<T>>,
    make: impl FnOnce() -> Result<T>,
) -> Result<&'static T> {
    let made = cell.get_or_init(make);
    made.as_ref().map_err(|e| Error::Program {
        program: "cargo build".into(),
        why: e.to_string(),
    })
}

/// Builds program and libraries, and returns their folder. The test is in the selection because it brings the features that all
/// tests are built with: another selection would be a separate build.
fn build() -> Result<PathBuf> {
    let target = target();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--locked", "--quiet", "--target-dir"])
        .arg(&target);
    // Cargo's description of a test's package would run the build script of ring again, and compile half of all crates again.
    let package = |name: &OsString| {
        let name = name.to_string_lossy();
        ["CARGO_PKG_", "CARGO_MANIFEST_", "OUT_DIR"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    for name in env::vars_os().map(|(name, _)| name).filter(package) {
        cargo.env_remove(name);
    }
    run(cargo.args(SELECTION.split(' ')).current_dir(workspace()))?;
    Ok(target.join("debug"))
}

/// The same as in the recipe `just simulated`.
const SELECTION: &str = "--lib --bin firstlight --test driver";

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
/// What cannot be written, or a function that should be omitted but does not exist.
pub fn lay_out(scenario: &Scenario, libraries: &Libraries, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
    let path = dir.join(SCENARIO);
    fs::write(&path, scenario.text()).map_err(Error::file("write", path))?;
    let driver = scenario.version();
    let all = [
        (CUDA, "cu", driver, &libraries.cuda),
        (NVML, "nvml", driver, &libraries.nvml),
        (NCCL, "nccl", NCCL_VERSION, &libraries.nccl),
        (VERBS, "ibv", VERBS_VERSION, &libraries.verbs),
    ];
    for (name, prefix, version, from) in all {
        // Without simulated cards, the real library stays visible.
        if name == VERBS && !scenario.has_cards() {
            continue;
        }
        if scenario.without().iter().any(|n| n == name) {
            continue;
        }
        let mut bytes = fs::read(from).map_err(Error::file("read", from))?;
        for symbol in scenario
            .without_symbols()
            .iter()
            .filter(|s| s.starts_with(prefix))
        {
            hide_symbol(&mut bytes, symbol)?;
        }
        // `libcuda.so.` and the complete version.
        let (stem, _) = name.rsplit_once('.').unwrap_or((name, ""));
        let file = format!("{stem}.{version}");
        let (path, link) = (dir.join(&file), dir.join(name));
        fs::write(&path, bytes).map_err(Error::file("write", path))?;
        symlink(&file, &link).map_err(Error::file("link", link))?;
    }
    Ok(())
}

/// Adds the simulated libibverbs for a machine without cards, so that no real card is found.
///
/// # Errors
/// What cannot be written.
pub(super) fn hide_host_cards(
    scenario: &Scenario,
    libraries: &Libraries,
    dir: &Path,
) -> Result<()> {
    let path = dir.join(VERBS);
    if !scenario.has_cards() {
        fs::copy(&libraries.verbs, &path).map_err(Error::file("write", path))?;
    }
    Ok(())
}

/// Renames a function in a library's symbol names, so that no program finds it.
fn hide_symbol(library: &mut [u8], symbol: &str) -> Result<()> {
    let name: Vec<u8> = [0].into_iter().chain(symbol.bytes()).chain([0]).collect();
    let mut found = 0;
    for at in 0..library.len().saturating_sub(name.len()) {
        if library[at..].starts_with(&name) {
            library[at + 1] = b'_';
            found += 1;
        }
    }
    let why = || format!("has no name {symbol}");
    if found > 0 {
        Ok(())
    } else {
        Err(Error::Archive {
            what: "simulated library",
            why: why(),
        })
    }
}

/// Writes what the kernel shows of a scenario's machine into `to`, which must not exist yet.
///
/// # Errors
/// What cannot be written.
pub fn root(scenario: &Scenario, to: &Path) -> Result<()> {
    let found = scenario.addresses();
    // A machine with an additional GPU that is dead or has no driver does not match.
    let all = |machine: &Machine| {
        machine
            .functions
            .iter()
            .filter(|f| f.ids.0 == 0x10de && f.ids.2 >> 16 == 3)
            .count()
    };
    let fits = |machine: &Machine| gpus(machine) == found && all(machine) == found.len();
    let named = machines::ALL.iter().map(|m| m()).find(fits);
    let on_bus_0 = found.iter().all(|bdf| bdf.starts_with("0000:00:"));
    let other = || {
        if on_bus_0 {
            machines::vm_with_h200s(&found)
        } else {
            machines::epyc_with_gpus(&found)
        }
    };
    let own = scenario.own_machine().cloned();
    let machine = own.unwrap_or_else(|| {
        let mut machine = named.unwrap_or_else(other);
        set_link_speeds(&mut machine, scenario, &found);
        machine
    });
    machine.tree().write(to).map_err(Error::file("write", to))?;
    write_distances(&machine, scenario, to)?;
    log(scenario, &to.join("dev/kmsg"))?;
    // The machine's name appears in every form of a report, even the shortest.
    let name = to.join("proc/sys/kernel/hostname");
    fs::write(&name, "Simulated\n").map_err(Error::file("write", name))?;
    found.iter().try_for_each(|bdf| {
        mark_as_simulated(&to.join(format!("proc/driver/nvidia/gpus/{bdf}/information")))
    })
}

/// Adds the scenario's lines to the kernel's log.
fn log(scenario: &Scenario, file: &Path) -> Result<()> {
    let mut text = fs::read_to_string(file).map_err(Error::file("read", file))?;
    for line in scenario.logged() {
        let n = text.lines().count();
        text.push_str(&format!("4,{n},{n}000000,-;{line}\n"));
    }
    fs::write(file, text).map_err(Error::file("write", file))
}

/// Writes the distances of the GPUs' NUMA nodes as two EPYC with four nodes each have them: 10 within a node, 12 within a
/// socket, 32 between sockets.
fn write_distances(machine: &Machine, scenario: &Scenario, to: &Path) -> Result<()> {
    let gpus = machine
        .functions
        .iter()
        .filter(|f| f.driver == Some("nvidia"));
    let sockets = gpus
        .enumerate()
        .filter_map(|(n, f)| Some((usize::try_from(f.numa).ok()?, scenario.socket(n))));
    let sockets: BTreeMap<usize, usize> = sockets.collect();
    let last = sockets.keys().copied().max();
    for node in last.map_or(0..0, |last| 0..last + 1) {
        let distance = |other: usize| match (sockets.get(&node), sockets.get(&other)) {
            _ if node == other => "10",
            (Some(a), Some(b)) if a == b => "12",
            _ => "32",
        };
        let line = (0..=last.unwrap_or_default())
            .map(distance)
            .collect::<Vec<_>>()
            .join(" ");
        let folder = to.join(format!("sys/devices/system/node/node{node}"));
        fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        let file = folder.join("distance");
        fs::write(&file, line + "\n").map_err(Error::file("write", file))?;
    }
    Ok(())
}

/// Sets the links of the GPUs and of the ports above them to the scenario's, as under load and as they really are, whatever
/// NVML reports.
fn set_link_speeds(machine: &mut Machine, scenario: &Scenario, gpus: &[String]) {
    let Some((speed, width)) = scenario.pcie() else {
        return;
    };
    for function in machine
        .functions
        .iter_mut()
        .filter(|f| f.driver == Some("nvidia") || f.driver == Some("pcieport"))
    {
        let Some(link) = function.link.as_mut() else {
            continue;
        };
        *link = Link::full(speed, width);
        let narrow = gpus
            .iter()
            .position(|bdf| *bdf == function.bdf)
            .and_then(|gpu| scenario.narrowed(gpu));
        if let Some((speed, width)) = narrow {
            (link.speed, link.width) = (speed.unwrap_or(link.speed), width.unwrap_or(link.width));
        }
    }
}

/// Lets the driver name its GPUs as the simulated libraries do, so that no report looks like a real one. A GPU without the
/// driver has no such file.
fn mark_as_simulated(information: &Path) -> Result<()> {
    let Ok(text) = fs::read_to_string(information) else {
        return Ok(());
    };
    let text = text.replacen("Model: \t\t NVIDIA", "Model: \t\t Simulated NVIDIA", 1);
    fs::write(information, text).map_err(Error::file("write", information))
}

/// The addresses of `gpus` GPUs: those of the modelled machine with eight, or a separate bus for each.
pub(super) fn addresses(gpus: usize) -> Vec<String> {
    if gpus == 8 {
        return self::gpus(&machines::ALL[0]());
    }
    (0..gpus)
        .map(|n| format!("0000:{:02x}:00.0", 4 * n + 1))
        .collect()
}

fn gpus(machine: &Machine) -> Vec<String> {
    machine
        .functions
        .iter()
        .filter(|f| f.driver == Some("nvidia"))
        .map(|f| f.bdf.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_symbol_is_hidden() {
        let mut library = b"\0cuInit\0cuInitOther\0".to_vec();
        hide_symbol(&mut library, "cuInit").unwrap();
        assert_eq!(library, b"\0_uInit\0cuInitOther\0");
        assert!(hide_symbol(&mut library, "cuInit").is_err());
    }

    #[test]
    fn the_machine_has_the_scenarios_gpus() {
        for (name, count) in [
            ("healthy", 1),
            ("healthy", 2),
            ("healthy", 8),
            ("healthy", 64),
            ("nvlink4", 4),
        ] {
            let scenario = Scenario::named(name).unwrap();
            let scenario = if scenario.count() == count {
                scenario
            } else {
                scenario.gpus(count)
            };
            assert_eq!(scenario.addresses().len(), count);
            let dir = tempfile::tempdir().unwrap();
            let to = dir.path().join("root");
            root(&scenario, &to).unwrap();
            for bdf in scenario.addresses() {
                assert!(to.join("sys/bus/pci/devices").join(&bdf).exists(), "{bdf}");
            }
            let functions = fs::read_dir(to.join("sys/bus/pci/devices"))
                .unwrap()
                .flatten();
            let display = |f: &fs::DirEntry| {
                fs::read_to_string(f.path().join("class"))
                    .unwrap()
                    .starts_with("0x03")
            };
            assert_eq!(functions.filter(display).count(), count, "{name}");
            assert_eq!(
                fs::read_to_string(to.join("proc/sys/kernel/hostname")).unwrap(),
                "Simulated\n"
            );
        }
    }
}
