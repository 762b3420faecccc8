use super::super::model::Kind;
use super::super::sample::{bdf, device, fabric, gpu, two_gpus, with_acs};
use super::*;

/// A GPU below a switch that is below another one, beside a second GPU.
fn nested() -> Vec<Device> {
    vec![
        device("0000:00:01.0", Kind::RootPort, None),
        device("0000:01:00.0", Kind::Upstream, Some("0000:00:01.0")),
        device("0000:02:00.0", Kind::Downstream, Some("0000:01:00.0")),
        device("0000:02:01.0", Kind::Downstream, Some("0000:01:00.0")),
        gpu("0000:03:00.0", "0000:02:00.0"),
        device("0000:04:00.0", Kind::Upstream, Some("0000:02:01.0")),
        device("0000:05:00.0", Kind::Downstream, Some("0000:04:00.0")),
        gpu("0000:06:00.0", "0000:05:00.0"),
    ]
}

fn ports(fabric: &Fabric) -> Vec<String> {
    Turns::of(fabric).ports().iter().map(ToString::to_string).collect()
}

#[test]
fn a_path_turns_at_two_ports_and_only_climbs_past_the_others() {
    assert_eq!(ports(&fabric(nested())), ["0000:02:00.0", "0000:02:01.0"]);
    assert_eq!(ports(&fabric(two_gpus())), ["0000:00:01.0", "0000:00:02.0"], "in the root complex");
    let mut devices = nested();
    let root = device("0000:00:02.0", Kind::RootPort, None);
    devices.extend([root, gpu("0000:07:00.0", "0000:00:02.0")]);
    let all = ["0000:00:01.0", "0000:00:02.0", "0000:02:00.0", "0000:02:01.0"];
    assert_eq!(ports(&fabric(devices)), all, "a third GPU, elsewhere");
}

#[test]
fn a_function_on_the_root_bus_makes_the_other_ends_port_turn() {
    let mut devices = two_gpus();
    devices[3].parent = None;
    assert_eq!(ports(&fabric(devices)), ["0000:00:01.0"]);
}

#[test]
fn what_a_virtual_machine_has_makes_nothing_turn() {
    let mut fabric = fabric(two_gpus());
    fabric.devices[3].driver = Some("vfio-pci".into());
    assert_eq!(ports(&fabric).len(), 2, "without an IOMMU group nothing is given away");
    fabric.iommu.groups = 4;
    assert!(ports(&fabric).is_empty());
}

/// What the first of two root ports does with these bits, with port numbers 1 and 2.
fn effect(ctrl: u16, egress: Option<&[u8]>, change: impl Fn(&mut Fabric)) -> Effect {
    let mut devices = two_gpus();
    devices[0] = with_acs(devices[0].clone(), ctrl);
    devices[0].acs.as_mut().unwrap().egress = egress.map(<[u8]>::to_vec);
    devices[0].routing.port_number = Some(1);
    devices[1].routing.port_number = Some(2);
    let mut fabric = fabric(devices);
    change(&mut fabric);
    let acs = fabric.devices[0].acs.clone().unwrap();
    Turns::of(&fabric).effect(bdf("0000:00:01.0"), &acs)
}

#[test]
fn bits_that_only_check_let_everything_pass() {
    assert_eq!(effect(0x53, None, |_| ()), Effect::Direct);
    assert_eq!(effect(0x04, None, |_| ()), Effect::Redirects);
    assert_eq!(effect(0x08, None, |_| ()), Effect::Redirects);
}

/// E, R and the vector's bit, as the specification's table has them.
#[test]
fn egress_control_decides_by_the_port_that_is_left_by() {
    for (ctrl, egress, expected) in [
        (0x20, Some(&[][..]), Effect::Direct),
        (0x24, Some(&[][..]), Effect::Direct),
        (0x24, Some(&[1, 7][..]), Effect::Direct),
        (0x20, Some(&[2][..]), Effect::Redirects),
        (0x24, Some(&[2][..]), Effect::Redirects),
        (0x28, Some(&[][..]), Effect::Redirects),
        (0x20, None, Effect::Redirects),
    ] {
        assert_eq!(effect(ctrl, egress, |_| ()), expected, "{ctrl:#x} {egress:?}");
    }
    let unnumbered = |fabric: &mut Fabric| fabric.devices[1].routing.port_number = None;
    assert_eq!(effect(0x20, Some(&[7]), unnumbered), Effect::Redirects, "which bit is its own is not known");
    assert_eq!(effect(0x20, Some(&[]), unnumbered), Effect::Direct);
}

#[test]
fn translated_requests_pass_where_every_sender_can_translate() {
    let with = |mode, ats| {
        move |fabric: &mut Fabric| {
            fabric.iommu.mode = mode;
            fabric.devices[2].routing.ats = ats;
        }
    };
    assert_eq!(effect(0x44, None, with(IommuMode::Translated, true)), Effect::TranslatedPass);
    assert_eq!(effect(0x44, None, with(IommuMode::Translated, false)), Effect::Redirects);
    assert_eq!(effect(0x44, None, with(IommuMode::Off, true)), Effect::Redirects, "who should translate?");
    assert_eq!(effect(0x04, None, with(IommuMode::Translated, true)), Effect::Redirects);
    assert_eq!(effect(0x4c, None, with(IommuMode::Translated, true)), Effect::Redirects, "completions");
}

#[test]
fn an_older_chipset_isolates_its_ports_from_each_other_only() {
    let isolates = |first, second| {
        let mut devices = two_gpus();
        (devices[0].routing.pch, devices[1].routing.pch) = (first, second);
        let fabric = fabric(devices);
        Turns::of(&fabric).isolates(&fabric.devices[0])
    };
    assert!(isolates(Some(Pch::Isolated), Some(Pch::Open)));
    assert!(!isolates(Some(Pch::Open), Some(Pch::Open)));
    assert!(!isolates(Some(Pch::Isolated), None), "to a port of the processor traffic climbs anyway");
}
