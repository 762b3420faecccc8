//! Whether a framebuffer is on a GPU. The firmware's framebuffer can break writes through BAR1 in one
//! direction; the integrity test decides by measurement, so this test only warns and names the pairs.

use crate::suite::context::unreadable;
use crate::suite::{FILE_DEADLINE, Group, Test, TestContext};
use machine::host::framebuffer;
use machine::host::framebuffer::Framebuffer;
use machine::pcie::model::{Device, Fabric};
use outcome::Judgement;
use outcome::finding::{Code, DisplayKind, Finding, Reason, Severity};
use outcome::platform::Peers;
use outcome::test;
use report::Level;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::DISPLAY,
    title: "Display on a GPU",
    proves: "no framebuffer is on an NVIDIA GPU",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: false,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let fabric = context.fabric()?;
    let screens =
        framebuffer::read(&context.root).map_err(|e| unreadable("sys/class/graphics", &e))?;
    Ok(judge(fabric, &context.host.peers, &screens))
}

fn judge(fabric: &Fabric, peers: &Peers, screens: &[Framebuffer]) -> Judgement {
    if fabric.gpus.is_empty() {
        return Judgement::not_applicable("no NVIDIA GPU");
    }
    let has_peer = |gpu: &&Device| peers.has_gpu(gpu.bdf, &fabric.gpus);
    let devices = || {
        fabric
            .devices
            .iter()
            .filter(|d| fabric.gpus.contains(&d.bdf))
            .filter(has_peer)
    };
    if devices().next().is_none() {
        return Judgement::not_applicable("no GPU exchanges data with another one");
    }
    let findings: Vec<_> = devices()
        .filter_map(|gpu| Some(finding(fabric, peers, gpu, framebuffer::on(gpu, screens)?)))
        .collect();
    let summary = match (findings.first(), devices().find(|d| d.boot_vga)) {
        (Some(first), _) => first.message.to_string(),
        (None, Some(gpu)) => format!("{} is the boot display; no framebuffer is on it", gpu.bdf),
        (None, None) => "no framebuffer on a GPU".to_owned(),
    };
    Judgement::of(summary, findings)
}

fn finding(fabric: &Fabric, peers: &Peers, gpu: &Device, screen: &Framebuffer) -> Finding {
    let bdf = gpu.bdf;
    let others = fabric.gpus.iter().filter(|other| peers.are(**other, bdf));
    let pairs: Vec<_> = others.map(|other| format!("{other} -> {bdf}")).collect();
    let shown_by = screen
        .shown_by
        .as_ref()
        .map_or_else(String::new, |by| format!(" ({by})"));
    let message = format!(
        "framebuffer {}{shown_by} is on {bdf}; it may break {}",
        screen.name,
        pairs.join(", ")
    );
    let finding = Code::DisplayOnGpu
        .finding(Severity::Warn, bdf, message)
        .values(screen.name.as_str(), serde_json::Value::Null, None)
        .seen(format!(
            "/sys/class/graphics/{}: {}",
            screen.name, screen.device
        ));
    match kind(gpu, screen) {
        Some(kind) => finding.because(Reason::DisplayKind(kind)),
        None => finding,
    }
}

/// Whose display it is, by its name, else by its folder; `None` for efifb, vesafb and unknown ones, which the row of the
/// code is about.
fn kind(gpu: &Device, screen: &Framebuffer) -> Option<DisplayKind> {
    let below = |device: &str| {
        screen
            .device
            .split('/')
            .any(|part| part.starts_with(device))
    };
    match screen.shown_by.as_deref() {
        Some(by) if by.starts_with("nvidia") => Some(DisplayKind::Driver),
        Some(by)
            if ["simple", "efidrm", "vesadrm"]
                .iter()
                .any(|name| by.starts_with(name)) =>
        {
            Some(DisplayKind::FirmwareDrm)
        }
        Some(_) => None,
        None if below("simple-framebuffer") => Some(DisplayKind::FirmwareDrm),
        None if below("efi-framebuffer") || below("vesa-framebuffer") => None,
        None if below("drm") && gpu.driver.as_deref() == Some("nvidia") => {
            Some(DisplayKind::Driver)
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use outcome::Outcome;

    fn with_boot_display() -> Fabric {
        let mut fabric = fixture::machine(3);
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, gpu).boot_vga = true;
        fabric
    }

    fn screen(device: &str) -> [Framebuffer; 1] {
        [Framebuffer {
            name: "fb0".into(),
            device: device.into(),
            shown_by: None,
        }]
    }

    fn judge(fabric: &Fabric, screens: &[Framebuffer]) -> Judgement {
        super::judge(fabric, &fabric.peers, screens)
    }

    #[test]
    fn a_framebuffer_below_a_gpu_warns_and_names_the_pairs() {
        let fabric = with_boot_display();
        let below = format!(
            "../../devices/pci0000:00/{}/simple-framebuffer.0/graphics/fb0",
            fabric.gpus[0]
        );
        for device in [
            below.as_str(),
            "../../devices/platform/simple-framebuffer.0/graphics/fb0",
        ] {
            let said = judge(&fabric, &screen(device));
            assert!(
                said.outcome() == Outcome::Warn && said.findings[0].is(Code::DisplayOnGpu),
                "{device}"
            );
            let pair = format!("{} -> {}", fabric.gpus[2], fabric.gpus[0]);
            assert!(
                said.findings[0].message.contains(&pair),
                "{}",
                said.findings[0].message
            );
        }
    }

    #[test]
    fn a_released_boot_display_passes() {
        assert_eq!(judge(&with_boot_display(), &[]).outcome(), Outcome::Pass);
    }

    #[test]
    fn a_framebuffer_elsewhere_passes() {
        let elsewhere = screen("../../devices/pci0000:00/0000:00:7f.0/drm/card0/graphics/fb0");
        assert_eq!(
            judge(&with_boot_display(), &elsewhere).outcome(),
            Outcome::Pass
        );
        let firmware = screen("../../devices/platform/efi-framebuffer.0/graphics/fb0");
        assert_eq!(
            judge(&fixture::machine(2), &firmware).outcome(),
            Outcome::Pass
        );
    }

    #[test]
    fn a_display_is_harmless_where_no_gpu_has_a_peer() {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, gpu).boot_vga = true;
        let on_gpu = screen(&format!(
            "../../devices/pci0000:00/{gpu}/drm/card0/graphics/fb0"
        ));
        let said = judge(&fabric, &on_gpu);
        assert_eq!(
            (said.outcome(), said.findings.len()),
            (Outcome::NotApplicable, 0),
            "{said:?}"
        );
    }

    #[test]
    fn the_remedy_names_the_word_that_this_kind_of_display_obeys() {
        let mut fabric = with_boot_display();
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, gpu).driver = Some("nvidia".into());
        let (drm, simple) = (
            "drm/card0/graphics/fb0",
            "simple-framebuffer.0/graphics/fb0",
        );
        for (name, below, word) in [
            (Some("nvidia-drmdrmfb"), drm, "nvidia_drm.fbdev=0"),
            (None, drm, "nvidia_drm.fbdev=0"),
            (
                Some("simpledrmdrmfb"),
                "simple-framebuffer.0/drm/card0/graphics/fb0",
                "initcall_blacklist=sysfb_init",
            ),
            (None, simple, "initcall_blacklist=sysfb_init"),
            (
                Some("EFI VGA"),
                "efi-framebuffer.0/graphics/fb0",
                "video=efifb:off",
            ),
            (None, "efi-framebuffer.0/graphics/fb0", "video=efifb:off"),
        ] {
            let [mut fb] = screen(&format!("../../devices/pci0000:00/{gpu}/{below}"));
            fb.shown_by = name.map(str::to_owned);
            let said = judge(&fabric, &[fb]);
            let remedy = said.findings[0].shown_remedy();
            assert!(
                said.outcome() == Outcome::Warn && remedy.contains(word),
                "{name:?} {below}: {remedy}"
            );
        }
    }

    #[test]
    fn no_gpu_is_not_applicable() {
        assert_eq!(
            judge(&fixture::machine(0), &[]).outcome(),
            Outcome::NotApplicable
        );
    }
}
