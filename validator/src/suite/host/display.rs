//! Whether a framebuffer is on a GPU. The firmware's framebuffer can break writes through BAR1 in one
//! direction; the integrity test decides by measurement, so this test only warns and names the pairs.

use crate::config::Level;
use crate::machine::host::framebuffer;
use crate::machine::host::framebuffer::Framebuffer;
use crate::machine::pcie::model::{Bdf, Fabric};
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::suite::machine::unreadable;
use crate::suite::{FILE_DEADLINE, Group, Machine, Test};

pub(in crate::suite) const TEST: Test = Test {
    id: "display",
    title: "Display on a GPU",
    proves: "no framebuffer is on an NVIDIA GPU",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: false,
    group: Group::Host,
    run,
};

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    let fabric = machine.fabric()?;
    let screens = framebuffer::read(&machine.root).map_err(|e| unreadable("sys/class/graphics", &e))?;
    Ok(judge(fabric, &screens))
}

fn judge(fabric: &Fabric, screens: &[Framebuffer]) -> Judgement {
    if fabric.gpus.is_empty() {
        return Judgement::not_applicable("no NVIDIA GPU");
    }
    let devices = || fabric.devices.iter().filter(|d| fabric.gpus.contains(&d.bdf));
    let findings: Vec<_> =
        devices().filter_map(|gpu| Some(finding(fabric, gpu.bdf, framebuffer::on(gpu, screens)?))).collect();
    let summary = match (findings.first(), devices().find(|d| d.boot_vga)) {
        (Some(first), _) => first.message.to_string(),
        (None, Some(gpu)) => format!("{} is the boot display; no framebuffer is on it", gpu.bdf),
        (None, None) => "no framebuffer on a GPU".to_owned(),
    };
    Judgement::of(summary, findings)
}

fn finding(fabric: &Fabric, gpu: Bdf, screen: &Framebuffer) -> Finding {
    let others = fabric.gpus.iter().filter(|other| **other != gpu);
    let pairs: Vec<_> = others.map(|other| format!("{other} -> {gpu}")).collect();
    let spoils = match &pairs[..] {
        [] => String::new(),
        pairs => format!("; it may break {}", pairs.join(", ")),
    };
    let message = format!("framebuffer {} is on {gpu}{spoils}", screen.name);
    Code::DisplayOnGpu
        .finding(Severity::Warn, gpu, message)
        .values(screen.name.as_str(), serde_json::Value::Null, None)
        .seen(format!("/sys/class/graphics/{}: {}", screen.name, screen.device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::suite::shared::fixture;

    fn with_boot_display() -> Fabric {
        let mut fabric = fixture::machine(3);
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, gpu).boot_vga = true;
        fabric
    }

    fn screen(device: &str) -> [Framebuffer; 1] {
        [Framebuffer { name: "fb0".into(), device: device.into() }]
    }

    #[test]
    fn a_framebuffer_below_a_gpu_warns_and_names_the_pairs() {
        let fabric = with_boot_display();
        let below = format!("../../devices/pci0000:00/{}/simple-framebuffer.0/graphics/fb0", fabric.gpus[0]);
        for device in [below.as_str(), "../../devices/platform/simple-framebuffer.0/graphics/fb0"] {
            let said = judge(&fabric, &screen(device));
            assert!(said.outcome() == Outcome::Warn && said.findings[0].is(Code::DisplayOnGpu), "{device}");
            let pair = format!("{} -> {}", fabric.gpus[2], fabric.gpus[0]);
            assert!(said.findings[0].message.contains(&pair), "{}", said.findings[0].message);
        }
    }

    #[test]
    fn a_released_boot_display_passes() {
        assert_eq!(judge(&with_boot_display(), &[]).outcome(), Outcome::Pass);
    }

    #[test]
    fn a_framebuffer_elsewhere_passes() {
        let elsewhere = screen("../../devices/pci0000:00/0000:00:7f.0/drm/card0/graphics/fb0");
        assert_eq!(judge(&with_boot_display(), &elsewhere).outcome(), Outcome::Pass);
        let firmware = screen("../../devices/platform/efi-framebuffer.0/graphics/fb0");
        assert_eq!(judge(&fixture::machine(2), &firmware).outcome(), Outcome::Pass);
    }

    #[test]
    fn no_gpu_is_not_applicable() {
        assert_eq!(judge(&fixture::machine(0), &[]).outcome(), Outcome::NotApplicable);
    }
}
