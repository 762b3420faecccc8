//! A modelled machine that fits a scenario: as many GPUs at the same addresses.

use super::scenario::Scenario;
use crate::error::{Error, Result};
use machines::{Link, Machine};
use std::fs;
use std::path::Path;

/// Writes what the kernel shows of a scenario's machine into `to`, which must not exist yet.
///
/// # Errors
/// What cannot be written.
pub fn root(scenario: &Scenario, to: &Path) -> Result<()> {
    let found = scenario.addresses();
    // A machine with one more GPU, which is dead or not driven, is another one.
    let all = |machine: &Machine| {
        machine.functions.iter().filter(|f| f.ids.0 == 0x10de && f.ids.2 >> 16 == 3).count()
    };
    let fits = |machine: &Machine| gpus(machine) == found && all(machine) == found.len();
    let named = machines::ALL.iter().map(|m| m()).find(fits);
    let on_bus_0 = found.iter().all(|bdf| bdf.starts_with("0000:00:"));
    let other = || if on_bus_0 { machines::h200s(&found) } else { machines::many(&found) };
    let own = scenario.machine_of_its_own().cloned();
    let machine = own.unwrap_or_else(|| {
        let mut machine = named.unwrap_or_else(other);
        relink(&mut machine, scenario, &found);
        machine
    });
    machine.tree().write(to).map_err(Error::file("write", to))?;
    // The machine's name stands in every form of a report, the shortest too.
    let name = to.join("proc/sys/kernel/hostname");
    fs::write(&name, "Simulated\n").map_err(Error::file("write", name))?;
    found
        .iter()
        .try_for_each(|bdf| call_simulated(&to.join(format!("proc/driver/nvidia/gpus/{bdf}/information"))))
}

/// The kernel shows the GPUs' links as the scenario has them, and those of the ports above: as under load,
/// and truly, whatever NVML says.
fn relink(machine: &mut Machine, scenario: &Scenario, gpus: &[String]) {
    let Some((speed, width)) = scenario.pcie() else { return };
    for function in
        machine.functions.iter_mut().filter(|f| f.driver == Some("nvidia") || f.driver == Some("pcieport"))
    {
        let Some(link) = function.link.as_mut() else { continue };
        *link = Link::full(speed, width);
        let narrow = gpus.iter().position(|bdf| *bdf == function.bdf).and_then(|gpu| scenario.narrowed(gpu));
        if let Some((speed, width)) = narrow {
            (link.speed, link.width) = (speed.unwrap_or(link.speed), width.unwrap_or(link.width));
        }
    }
}

/// The driver names its GPUs as the simulated libraries do, so that no report reads like a real one.
/// One that the driver does not drive has no such file.
fn call_simulated(information: &Path) -> Result<()> {
    let Ok(text) = fs::read_to_string(information) else { return Ok(()) };
    let text = text.replacen("Model: \t\t NVIDIA", "Model: \t\t Simulated NVIDIA", 1);
    fs::write(information, text).map_err(Error::file("write", information))
}

/// The addresses of `gpus` GPUs: those of the modelled machine with eight, or a bus of its own each.
pub(super) fn addresses(gpus: usize) -> Vec<String> {
    if gpus == 8 {
        return self::gpus(&machines::ALL[0]());
    }
    (0..gpus).map(|n| format!("0000:{:02x}:00.0", 4 * n + 1)).collect()
}

fn gpus(machine: &Machine) -> Vec<String> {
    machine.functions.iter().filter(|f| f.driver == Some("nvidia")).map(|f| f.bdf.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_the_scenarios_gpus() {
        for (name, count) in [("healthy", 1), ("healthy", 2), ("healthy", 8), ("healthy", 64), ("nvlink4", 4)]
        {
            let scenario = Scenario::named(name).unwrap();
            let scenario = if scenario.count() == count { scenario } else { scenario.gpus(count) };
            assert_eq!(scenario.addresses().len(), count);
            let dir = tempfile::tempdir().unwrap();
            let to = dir.path().join("root");
            root(&scenario, &to).unwrap();
            for bdf in scenario.addresses() {
                assert!(to.join("sys/bus/pci/devices").join(&bdf).exists(), "{bdf}");
            }
            let functions = fs::read_dir(to.join("sys/bus/pci/devices")).unwrap().flatten();
            let display =
                |f: &fs::DirEntry| fs::read_to_string(f.path().join("class")).unwrap().starts_with("0x03");
            assert_eq!(functions.filter(display).count(), count, "{name}");
            assert_eq!(fs::read_to_string(to.join("proc/sys/kernel/hostname")).unwrap(), "Simulated\n");
        }
    }
}
