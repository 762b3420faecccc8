//! The children of the recovery, each of which can hang: waiting for killed processes, closing GPUs, removing the driver's
//! modules, and resetting GPUs by the files that the kernel has for it.

use super::request::ResetMethod;
use super::{SUCCESS, say};
use crate::driver::hardware::Hardware;
use crate::sys::files::is_sysfs;
use crate::sys::kernel::{in_initial_namespace, remove_module};
use crate::sys::{descriptors, running};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long killed processes may take to end: the driver frees what they used.
const ENDING: Duration = Duration::from_secs(10);
/// How long a GPU may take to answer after a reset: PCIe allows a second, GPUs with firmware take longer.
const ANSWER: Duration = Duration::from_secs(10);
/// NVIDIA's vendor id, as the first bytes of a configuration space have it.
const VENDOR: [u8; 2] = [0xde, 0x10];

/// Waits until only process 1 and this process are left.
pub(super) fn await_end() -> Result<i32, String> {
    let until = Instant::now() + ENDING;
    loop {
        let left = running::others(Path::new("/proc")).map_err(|e| format!("/proc: {e}"))?;
        if left.is_empty() {
            say("only process 1 is left");
            return Ok(SUCCESS);
        }
        if Instant::now() >= until {
            let seconds = ENDING.as_secs();
            return Err(format!(
                "killed and still there after {seconds} s: {}",
                left.join(", ")
            ));
        }
        sleep(Duration::from_millis(50));
    }
}

/// Closes the devices that arrive over the standard input.
pub(super) fn close() -> i32 {
    let devices = descriptors::receive_all(std::io::stdin().as_fd());
    let n = devices.len();
    drop(devices);
    say(&format!("{n} open devices closed"));
    SUCCESS
}

/// Removes modules, in this order.
pub(super) fn unload(modules: &[String]) -> Result<i32, String> {
    if modules.is_empty() {
        say("this boot loaded no module of the driver");
        return Ok(SUCCESS);
    }
    if !in_initial_namespace() {
        return Err("in a process id namespace no module is removed".to_owned());
    }
    for module in modules {
        remove_module(module).map_err(|e| format!("{module}: {e}"))?;
    }
    say(&format!("{} removed", modules.join(", ")));
    Ok(SUCCESS)
}

/// Resets every NVIDIA GPU.
pub(super) fn reset(method: ResetMethod) -> Result<i32, String> {
    let sys = Path::new("/sys");
    if !in_initial_namespace() && is_sysfs(&sys.join("bus")) {
        return Err("in a process id namespace no GPU is reset".to_owned());
    }
    let gpus = reset_in(sys, method, ANSWER)?;
    say(&format!(
        "{} reset ({}): {}",
        gpus.len(),
        method.word(),
        gpus.join(" ")
    ));
    Ok(SUCCESS)
}

fn reset_in(sys: &Path, method: ResetMethod, answer: Duration) -> Result<Vec<String>, String> {
    let gpus = Hardware::read(sys)?.addresses();
    if gpus.is_empty() {
        return Err("there is no NVIDIA GPU on the bus".to_owned());
    }
    let bus = Bus {
        pci: sys.join("bus/pci"),
    };
    // All GPUs are checked first, so that no reset is started that cannot be finished.
    gpus.iter().try_for_each(|gpu| bus.may_reset(gpu, method))?;
    let reset = gpus
        .iter()
        .try_for_each(|gpu| bus.reset(gpu, method, answer));
    let found_again = if method == ResetMethod::Bus {
        write(&bus.pci.join("rescan"), "1")
    } else {
        Ok(())
    };
    reset.and(found_again).map(|()| gpus)
}

/// /sys/bus/pci
struct Bus {
    pci: PathBuf,
}

impl Bus {
    fn device(&self, address: &str) -> PathBuf {
        self.pci.join("devices").join(address)
    }

    /// Checks that no driver is bound to the GPU, and that the reset would reset nothing else.
    fn may_reset(&self, gpu: &str, method: ResetMethod) -> Result<(), String> {
        let at = self.device(gpu);
        if let Ok(driver) = fs::read_link(at.join("driver")) {
            let name = driver
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            return Err(format!("{gpu}: the driver {name} has it"));
        }
        let slot = slot(gpu)?;
        match self
            .functions_on_bus(gpu)?
            .into_iter()
            .find(|other| !other.starts_with(slot))
        {
            Some(other) if method == ResetMethod::Bus => {
                Err(format!("{gpu}: {other} is on the same bus"))
            }
            _ => Ok(()),
        }
    }

    /// The other functions on the GPU's bus.
    fn functions_on_bus(&self, gpu: &str) -> Result<Vec<String>, String> {
        let (folder, on) = (self.pci.join("devices"), bus_of(gpu)?);
        let failed = |e| format!("{}: {e}", folder.display());
        let mut beside = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let name = entry
                .map_err(failed)?
                .file_name()
                .to_string_lossy()
                .into_owned();
            if name != gpu && name.starts_with(on) {
                beside.push(name);
            }
        }
        Ok(beside)
    }

    fn reset(&self, gpu: &str, method: ResetMethod, answer: Duration) -> Result<(), String> {
        let (at, file) = (self.device(gpu), self.device(gpu).join("reset_method"));
        let read = || fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()));
        let before = read()?;
        let (kind, mut offered) = (method.word(), before.clone());
        if method == ResetMethod::Bus {
            // The kernel offers the reset of a bus only if no other function is on it; the rescan finds these again.
            let others = self.functions_on_bus(gpu)?;
            others
                .iter()
                .try_for_each(|other| write(&self.device(other).join("remove"), "1"))?;
            write(&file, "default")?;
            offered = format!("{} {}", offered.trim(), read()?);
        }
        if !offered.split_whitespace().any(|method| method == kind) {
            return Err(format!(
                "{gpu}: the kernel offers no reset {}, only: {}",
                kind,
                before.trim()
            ));
        }
        write(&file, kind)?;
        let done = write(&at.join("reset"), "1");
        // If the other functions are on the bus again, the kernel may refuse the methods that it offered at first.
        write(&file, before.trim()).or_else(|_| write(&file, "default"))?;
        done?;
        let until = Instant::now() + answer;
        loop {
            let config = fs::read(at.join("config")).map_err(|e| format!("{gpu}: config: {e}"))?;
            if config.starts_with(&VENDOR) {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(format!(
                    "{gpu}: does not answer {} s after its reset",
                    answer.as_secs()
                ));
            }
            sleep(Duration::from_millis(50));
        }
    }
}

/// `0000:01:` of `0000:01:00.0`.
fn bus_of(address: &str) -> Result<&str, String> {
    address
        .rfind(':')
        .and_then(|at| address.get(..=at))
        .ok_or_else(|| format!("{address}: no PCI address"))
}

/// `0000:01:00.` of `0000:01:00.0`.
fn slot(address: &str) -> Result<&str, String> {
    address
        .rfind('.')
        .and_then(|at| address.get(..=at))
        .ok_or_else(|| format!("{address}: no PCI address"))
}

/// Writes a file of the kernel; one that does not exist is not made.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let open = OpenOptions::new().write(true).truncate(true).open(path);
    open.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::files;
    use tempfile::TempDir;

    const GPU: &str = "bus/pci/devices/0000:01:00.0";

    /// A GPU with its audio function, the files that the kernel has for resets, and more.
    fn bus(methods: &str, vendor: &str, more: &[(&str, &str)]) -> TempDir {
        let gpu = |file: &str| format!("{GPU}/{file}");
        let audio = |file: &str| format!("bus/pci/devices/0000:01:00.1/{file}");
        let own = [
            (gpu("vendor"), "0x10de\n"),
            (gpu("class"), "0x030000\n"),
            (gpu("device"), "0x2684\n"),
            (gpu("reset_method"), methods),
            (gpu("reset"), ""),
            (gpu("config"), vendor),
            (audio("vendor"), "0x10de\n"),
            (audio("class"), "0x040300\n"),
            (audio("remove"), ""),
            ("bus/pci/rescan".to_owned(), ""),
        ];
        let mut all: Vec<_> = own
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        all.extend(more);
        files(&all)
    }

    fn try_reset(dir: &TempDir, kind: ResetMethod) -> Result<Vec<String>, String> {
        reset_in(dir.path(), kind, Duration::ZERO)
    }

    fn text(dir: &TempDir, path: &str) -> String {
        fs::read_to_string(dir.path().join(path)).unwrap()
    }

    #[test]
    fn a_function_is_reset_alone_and_a_bus_without_the_other_functions_of_the_card() {
        let dir = dir_with_vendor("flr bus\n", &VENDOR);
        assert_eq!(
            try_reset(&dir, ResetMethod::Function),
            Ok(vec!["0000:01:00.0".to_owned()])
        );
        let said = |dir: &TempDir| {
            ["reset", "reset_method"].map(|file| text(dir, &format!("{GPU}/{file}")))
        };
        assert_eq!(said(&dir), ["1", "flr bus"]);
        assert_eq!(text(&dir, "bus/pci/devices/0000:01:00.1/remove"), "");
        let dir = dir_with_vendor("bus\n", &VENDOR);
        assert_eq!(
            try_reset(&dir, ResetMethod::Bus),
            Ok(vec!["0000:01:00.0".to_owned()])
        );
        assert_eq!(said(&dir), ["1", "bus"]);
        assert_eq!(text(&dir, "bus/pci/devices/0000:01:00.1/remove"), "1");
        assert_eq!(text(&dir, "bus/pci/rescan"), "1");
    }

    fn dir_with_vendor(methods: &str, vendor: &[u8]) -> TempDir {
        let dir = bus(methods, "", &[]);
        fs::write(dir.path().join(GPU).join("config"), vendor).unwrap();
        dir
    }

    #[test]
    fn what_cannot_be_reset_safely_is_left_alone() {
        for (dir, kind, why) in [
            (
                bus("bus\n", "", &[]),
                ResetMethod::Function,
                "0000:01:00.0: the kernel offers no reset flr, only: bus",
            ),
            (
                bus("\n", "", &[]),
                ResetMethod::Bus,
                "0000:01:00.0: the kernel offers no reset bus, only: ",
            ),
            (
                bus(
                    "bus\n",
                    "",
                    &[
                        ("bus/pci/devices/0000:01:01.0/vendor", "0x8086\n"),
                        ("bus/pci/devices/0000:01:01.0/class", "0x020000\n"),
                    ],
                ),
                ResetMethod::Bus,
                "0000:01:00.0: 0000:01:01.0 is on the same bus",
            ),
        ] {
            assert_eq!(try_reset(&dir, kind), Err(why.to_owned()));
            assert_eq!(text(&dir, &format!("{GPU}/reset")), "");
        }
        let bound = dir_with_vendor("flr\n", &VENDOR);
        std::os::unix::fs::symlink(
            "../../drivers/nvidia",
            bound.path().join(GPU).join("driver"),
        )
        .unwrap();
        assert_eq!(
            try_reset(&bound, ResetMethod::Function),
            Err("0000:01:00.0: the driver nvidia has it".to_owned())
        );
        assert_eq!(text(&bound, &format!("{GPU}/reset")), "");
        let none = files(&[("bus/pci/devices/0000:02:00.0/vendor", "0x8086\n")]);
        assert_eq!(
            try_reset(&none, ResetMethod::Bus),
            Err("there is no NVIDIA GPU on the bus".to_owned())
        );
    }

    #[test]
    fn a_gpu_that_does_not_answer_after_its_reset_is_named() {
        let dead = dir_with_vendor("flr\n", &[0xff, 0xff]);
        let why = "0000:01:00.0: does not answer 0 s after its reset";
        assert_eq!(try_reset(&dead, ResetMethod::Function), Err(why.to_owned()));
    }
}
