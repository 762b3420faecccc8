//! One machine with GPUs, a network card, an NVSwitch and devices that no GPU traffic passes: whose device a line is about, before the
//! tests and during one, and how much it counts.

use super::log;
use crate::host::faults::{Scene, faults};
use crate::host::nvidia::xid::TestPhase;
use crate::pcie::model::{Device, Fabric, Kind};
use crate::pcie::sample::{bdf, device, fabric, gpu};
use crate::pcie::{path, tree::Tree};
use outcome::finding::Reason;
use outcome::finding::Severity::{self, Fail, Info, Warn};
use std::collections::BTreeSet;

fn endpoint(at: &str, parent: &str, vendor: &str, class: &str) -> Device {
    Device {
        vendor: vendor.into(),
        class: class.into(),
        ..device(at, Kind::Endpoint, Some(parent))
    }
}

/// A GPU and a disk behind a switch, a GPU behind a root port, and each other device behind its own root port.
fn machine() -> Fabric {
    let devices = vec![
        device("0000:00:01.1", Kind::RootPort, None),
        device("0000:20:00.0", Kind::Upstream, Some("0000:00:01.1")),
        device("0000:21:00.0", Kind::Downstream, Some("0000:20:00.0")),
        device("0000:21:01.0", Kind::Downstream, Some("0000:20:00.0")),
        gpu("0000:41:00.0", "0000:21:00.0"),
        endpoint("0000:41:00.1", "0000:21:00.0", "0x10de", "0x040300"),
        endpoint("0000:43:00.0", "0000:21:01.0", "0x144d", "0x010802"),
        device("0000:00:03.1", Kind::RootPort, None),
        gpu("0000:61:00.0", "0000:00:03.1"),
        device("0001:00:01.0", Kind::RootPort, None),
        endpoint("0001:a1:00.0", "0001:00:01.0", "0x15b3", "0x020000"),
        device("0000:00:1c.4", Kind::RootPort, None),
        device("0000:05:00.0", Kind::Upstream, Some("0000:00:1c.4")),
        device("0000:06:01.0", Kind::Downstream, Some("0000:05:00.0")),
        endpoint("0000:07:00.0", "0000:06:01.0", "0x1b73", "0x0c0330"),
        device("0000:00:02.1", Kind::RootPort, None),
        endpoint("0000:03:00.0", "0000:00:02.1", "0x1002", "0x030000"),
        device("0000:00:04.1", Kind::RootPort, None),
        endpoint("0000:08:00.0", "0000:00:04.1", "0x8086", "0x020000"),
        device("0000:00:05.1", Kind::RootPort, None),
        endpoint("0000:c1:00.0", "0000:00:05.1", "0x10de", "0x068000"),
    ];
    let gpus = vec![bdf("0000:41:00.0"), bdf("0000:61:00.0")];
    let paths = path::all(&Tree::new(&devices), &gpus, &[]);
    Fabric {
        gpus,
        paths,
        ..fabric(devices)
    }
}

/// The findings, each as code, severity and subject.
fn said(lines: &[&str], when: TestPhase, scene: &Scene) -> Vec<(String, Severity, String)> {
    let found = faults(&log(lines), when, scene);
    found
        .into_iter()
        .map(|f| (f.code.to_string(), f.severity, f.subject.to_string()))
        .collect()
}

/// Asserts the findings of a text of one or more lines.
#[track_caller]
fn expect(text: &str, when: TestPhase, expected: &[(&str, Severity, &str)]) {
    let found = said(
        &text.split('\n').collect::<Vec<_>>(),
        when,
        &Scene::of(Some(&machine())),
    );
    let expected: Vec<_> = expected
        .iter()
        .map(|(c, s, about)| ((*c).to_owned(), *s, (*about).to_owned()))
        .collect();
    assert_eq!(found, expected, "{text}");
}

/// One finding during a test.
const DURING: &[(&str, &str, Severity, &str)] = &[
    // PCIe errors: of a GPU, a port above one, the network card, an NVSwitch.
    (
        "pcieport 0000:00:01.1: AER: Corrected error message received from 0000:41:00.0",
        "PCIE-AER",
        Warn,
        "0000:41:00.0",
    ),
    (
        "pcieport 0000:00:01.1: AER: Correctable error message received from 0000:21:00.0",
        "PCIE-AER",
        Warn,
        "0000:21:00.0",
    ),
    (
        "pcieport 0000:00:01.1: AER: Multiple Corrected error received: 0000:20:00.0",
        "PCIE-AER",
        Warn,
        "0000:20:00.0",
    ),
    (
        "pcieport 0000:00:03.1: AER: Corrected error received: id=0019",
        "PCIE-AER",
        Warn,
        "0000:00:03.1",
    ),
    (
        "pcieport 0000:00:03.1: AER: Uncorrected (Fatal) error received: id=6100",
        "PCIE-AER",
        Fail,
        "0000:61:00.0",
    ),
    (
        "pcieport 0000:00:03.1: AER: Uncorrected (Non-Fatal) error received: 0000:61:00.0",
        "PCIE-AER",
        Fail,
        "0000:61:00.0",
    ),
    (
        "nvidia 0000:41:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, id=4100(Receiver ID)",
        "PCIE-AER",
        Warn,
        "0000:41:00.0",
    ),
    (
        "nvidia 0000:41:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)",
        "PCIE-AER",
        Fail,
        "0000:41:00.0",
    ),
    (
        "snd_hda_intel 0000:41:00.1: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)",
        "PCIE-AER",
        Warn,
        "0000:41:00.0",
    ),
    (
        "mlx5_core 0001:a1:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
        "PCIE-AER",
        Warn,
        "0001:a1:00.0",
    ),
    (
        "nvidia-nvswitch 0000:c1:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
        "PCIE-AER",
        Warn,
        "0000:c1:00.0",
    ),
    (
        "pcieport 0000:21:00.0: AER: device recovery failed",
        "PCIE-AER",
        Fail,
        "0000:21:00.0",
    ),
    (
        "pcieport 0000:00:03.1: DPC: containment event, status:0x1f01 source:0x0000",
        "PCIE-AER",
        Fail,
        "0000:00:03.1",
    ),
    (
        "pcieport 0000:00:03.1: DPC: containment event, status:0x1f05, ERR_FATAL received from 0000:61:00.0",
        "PCIE-AER",
        Fail,
        "0000:00:03.1",
    ),
    (
        "pcieport 0000:00:03.1: pciehp: Slot(3): Link Down",
        "PCIE-AER",
        Fail,
        "0000:00:03.1",
    ),
    (
        "pciehp 0000:00:03.1:pcie004: Slot(3): Card not present",
        "PCIE-AER",
        Fail,
        "0000:00:03.1",
    ),
    // A device that the machine has lost, below a port of a GPU.
    (
        "pcieport 0000:00:03.1: AER: Uncorrected (Fatal) error message received from 0000:62:00.0",
        "PCIE-AER",
        Fail,
        "0000:00:03.1",
    ),
    (
        "nvidia 0000:99:00.0: AER: can't recover (no error_detected callback)",
        "PCIE-AER",
        Warn,
        "0000:99:00.0",
    ),
    // The same of others.
    (
        "pcieport 0000:06:01.0: pciehp: Slot(1): Link Down",
        "PCIE-AER",
        Info,
        "0000:06:01.0",
    ),
    (
        "pcieport 0000:06:01.0: pciehp: Slot(1): Card not present",
        "PCIE-AER",
        Info,
        "0000:06:01.0",
    ),
    (
        "nvme 0000:43:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, id=4300(Receiver ID)",
        "PCIE-AER",
        Info,
        "0000:43:00.0",
    ),
    (
        "pcieport 0000:00:01.1: AER: Corrected error message received from 0000:43:00.0",
        "PCIE-AER",
        Info,
        "0000:43:00.0",
    ),
    (
        "pcieport 0000:00:01.1: AER: Uncorrected (Fatal) error message received from 0000:43:00.0",
        "PCIE-AER",
        Info,
        "0000:43:00.0",
    ),
    (
        "pcieport 0000:21:01.0: AER: device recovery failed",
        "PCIE-AER",
        Info,
        "0000:21:01.0",
    ),
    (
        "pcieport 0000:c0:03.3: AER: Correctable error message received from 0000:c2:00.0",
        "PCIE-AER",
        Info,
        "0000:c2:00.0",
    ),
    (
        "e1000e 0000:08:00.0: AER: aer_status: 0x00004000, aer_mask: 0x00000000",
        "PCIE-AER",
        Info,
        "0000:08:00.0",
    ),
    (
        "pcieport 0000:00:1c.4: DPC: containment event, status:0x1f01 source:0x0000",
        "PCIE-AER",
        Info,
        "0000:00:1c.4",
    ),
    // Blocked requests, AMD.
    (
        "nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0025 address=0x28000000000 flags=0x0020]",
        "IOMMU-FAULT",
        Fail,
        "0000:41:00.0",
    ),
    (
        "AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x0025 address=0x2800 flags=0x0020]",
        "IOMMU-FAULT",
        Fail,
        "0000:41:00.0",
    ),
    (
        "pci 0000:00:00.2: AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:61:00.0 pasid=0x0 address=0x28 flags=0x0]",
        "IOMMU-FAULT",
        Fail,
        "0000:61:00.0",
    ),
    (
        "AMD-Vi: Event logged [INVALID_DEVICE_REQUEST device=41:00.0 pasid=0x00000 address=0xfffffffdf8000000 flags=0x0a00]",
        "IOMMU-FAULT",
        Fail,
        "0000:41:00.0",
    ),
    (
        "mlx5_core 0001:a1:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0025 address=0x28000000000 flags=0x0020]",
        "IOMMU-FAULT",
        Fail,
        "0001:a1:00.0",
    ),
    (
        "vfio-pci 0000:61:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0025 address=0x28000000000 flags=0x0020]",
        "IOMMU-FAULT",
        Fail,
        "0000:61:00.0",
    ),
    (
        "xhci_hcd 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000e address=0xfffffffdf8000000 flags=0x0]",
        "IOMMU-FAULT",
        Info,
        "0000:07:00.0",
    ),
    (
        "pci 0000:00:00.2: AMD-Vi: Event logged [IO_PAGE_FAULT device=07:00.0 domain=0x0 address=0x0 flags=0x0]",
        "IOMMU-FAULT",
        Info,
        "0000:07:00.0",
    ),
    (
        "snd_hda_intel 0000:41:00.1: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0025 address=0x0 flags=0x0020]",
        "IOMMU-FAULT",
        Info,
        "0000:41:00.1",
    ),
    (
        "pci 0000:00:00.2: AMD-Vi: Event logged [COMMAND_HARDWARE_ERROR address=0x00000001 flags=0x0a00]",
        "IOMMU-FAULT",
        Warn,
        "machine",
    ),
    // Intel.
    (
        "DMAR: [DMA Read NO_PASID] Request device [41:00.0] fault addr 0xfe000000 [fault reason 0x06] PTE Read access is not set",
        "IOMMU-FAULT",
        Fail,
        "0000:41:00.0",
    ),
    (
        "DMAR: [DMA Write NO_PASID] Request device [0x61:0x00.0] fault addr 0x0 [fault reason 0x05] PTE Write access is not set",
        "IOMMU-FAULT",
        Fail,
        "0000:61:00.0",
    ),
    (
        "DMAR:[DMA Write] Request device [61:00.0] fault addr 6e6a000",
        "IOMMU-FAULT",
        Fail,
        "0000:61:00.0",
    ),
    (
        "DMAR: [DMA Read] Request device [a1:00.0] PASID ffffffff fault addr 0 [fault reason 06] PTE Read access is not set",
        "IOMMU-FAULT",
        Fail,
        "0001:a1:00.0",
    ),
    (
        "DMAR: DRHD: handling fault status reg 2\nDMAR: [DMA Read NO_PASID] Request device [41:00.0] fault addr 0x0",
        "IOMMU-FAULT",
        Fail,
        "0000:41:00.0",
    ),
    (
        "DMAR: DRHD: handling fault status reg 3\nDMAR: [DMA Read NO_PASID] Request device [07:00.0] fault addr 0x0",
        "IOMMU-FAULT",
        Info,
        "0000:07:00.0",
    ),
    (
        "DMAR: DRHD: handling fault status reg 2",
        "IOMMU-FAULT",
        Warn,
        "machine",
    ),
    (
        "DMAR: [INTR-REMAP] Request device [41:00.0] fault index 0x1f [fault reason 0x26] Blocked an interrupt request",
        "IOMMU-FAULT",
        Warn,
        "0000:41:00.0",
    ),
    // Arm.
    (
        "arm-smmu-v3 arm-smmu-v3.3.auto: event: F_TRANSLATION client: 0000:41:00.0 sid: 0x100 ssid: 0x0 iova: 0xffe0 ipa: 0x0",
        "IOMMU-FAULT",
        Fail,
        "0000:41:00.0",
    ),
    (
        "arm-smmu-v3 arm-smmu-v3.3.auto: event: F_PERMISSION client: 0001:a1:00.0 sid: 0x100 ssid: 0x0 iova: 0xffe0 ipa: 0x0",
        "IOMMU-FAULT",
        Fail,
        "0001:a1:00.0",
    ),
    (
        "arm-smmu-v3 arm-smmu-v3.3.auto: event: F_TRANSLATION client: 0000:07:00.0 sid: 0x100 ssid: 0x0 iova: 0xffe0 ipa: 0x0",
        "IOMMU-FAULT",
        Info,
        "0000:07:00.0",
    ),
    (
        "arm-smmu-v3 arm-smmu-v3.3.auto: event: F_TRANSLATION client: 3610000.usb sid: 0xe ssid: 0x0 iova: 0x0 ipa: 0x0",
        "IOMMU-FAULT",
        Info,
        "machine",
    ),
    (
        "arm-smmu-v3 arm-smmu-v3.3.auto: event: C_BAD_STREAMID client: (unassigned sid) sid: 0x100 ssid: 0x0",
        "IOMMU-FAULT",
        Warn,
        "machine",
    ),
    (
        "arm-smmu-v3 arm-smmu-v3.16.auto: event 0x10 received:\narm-smmu-v3 arm-smmu-v3.16.auto: \t0x0000010000000010",
        "IOMMU-FAULT",
        Warn,
        "machine",
    ),
    (
        "arm-smmu 2b400000.iommu: Unhandled context fault: fsr=0x402, iova=0x23e0000100, fsynr=0x20040, cbfrsynra=0x4000, cb=0",
        "IOMMU-FAULT",
        Warn,
        "machine",
    ),
    (
        "arm-smmu 5000000.iommu: Blocked unknown Stream ID 0x429; boot with \"arm-smmu.disable_bypass=0\" to allow",
        "IOMMU-FAULT",
        Warn,
        "machine",
    ),
    (
        "arm-smmu 5000000.iommu: Unexpected global fault, this could be serious",
        "IOMMU-FAULT",
        Warn,
        "machine",
    ),
    // A lost GPU, in the words of its driver and of others.
    (
        "NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.",
        "GPU-GONE",
        Fail,
        "0000:41:00.0",
    ),
    (
        "NVRM: The NVIDIA GPU 0000:41:00.0 (PCI ID: 10de:2684)\nNVRM: installed in this system has\nNVRM: fallen off the bus and is not responding to commands.",
        "GPU-GONE",
        Fail,
        "0000:41:00.0",
    ),
    (
        "nvidia 0000:61:00.0: GPU is lost",
        "GPU-GONE",
        Fail,
        "0000:61:00.0",
    ),
    (
        "nouveau 0000:61:00.0: fifo: GPU is lost",
        "GPU-GONE",
        Fail,
        "0000:61:00.0",
    ),
    (
        "amdgpu 0000:03:00.0: amdgpu: GPU is lost",
        "GPU-GONE",
        Info,
        "0000:03:00.0",
    ),
    (
        "i915 0000:03:00.0: [drm] *ERROR* GPU has fallen off the bus",
        "GPU-GONE",
        Info,
        "0000:03:00.0",
    ),
    (
        "[drm:amdgpu_device_check] *ERROR* GPU is lost",
        "GPU-GONE",
        Info,
        "machine",
    ),
    // Others of NVIDIA's driver.
    (
        "NVRM: GPU 0000:61:00.0: RmInitAdapter failed! (0x62:0x40:2426)",
        "GPU-INIT",
        Fail,
        "0000:61:00.0",
    ),
    (
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Severity 0 Engine instance 30 Sub-engine instance 00",
        "NVSWITCH-SXID",
        Warn,
        "0000:c1:00.0",
    ),
    (
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12033, Fatal, Link 46 ingress uncorrectable error",
        "NVSWITCH-SXID",
        Fail,
        "0000:c1:00.0",
    ),
    // The firmware's records.
    (
        "{1}[Hardware Error]: event severity: recoverable\n{1}[Hardware Error]:   section_type: PCIe error\n{1}[Hardware Error]:   device_id: 0000:61:00.0",
        "PCIE-AER",
        Fail,
        "0000:61:00.0",
    ),
    (
        "{1}[Hardware Error]: event severity: corrected\n{1}[Hardware Error]:   section_type: PCIe error\n{1}[Hardware Error]:   device_id: 0000:61:00.0",
        "PCIE-AER",
        Warn,
        "0000:61:00.0",
    ),
    (
        "{7}[Hardware Error]: event severity: fatal\n{7}[Hardware Error]:   section_type: PCIe error\n{7}[Hardware Error]:   device_id: 0000:43:00.0",
        "PCIE-AER",
        Info,
        "0000:43:00.0",
    ),
    (
        "{2}[Hardware Error]: event severity: recoverable\n{2}[Hardware Error]:   section_type: memory error",
        "MACHINE-CHECK",
        Fail,
        "machine",
    ),
];

#[test]
fn a_line_counts_during_a_test_if_its_device_matters() {
    for (text, code, severity, about) in DURING {
        expect(text, TestPhase::During, &[(code, *severity, about)]);
    }
}

#[test]
fn lines_that_are_no_faults_of_any_device() {
    for text in [
        "pcieport 0000:00:03.1: DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigger+",
        "pcieport 0000:00:03.1: pciehp: Slot(3): Link Down/Up ignored (recovered by DPC)",
        "pcieport 0000:00:03.1: pciehp: Slot(3): Card present",
        "pcieport 0000:00:03.1: AER: enabled with IRQ 40",
        "AMD-Vi: Interrupt remapping enabled",
        "DMAR: IOMMU enabled",
        "arm-smmu-v3 arm-smmu-v3.3.auto: unpriv data write s1 \"Input address caused fault\" stag: 0x0",
        "arm-smmu-v3 arm-smmu-v3.3.auto: allocated 65536 entries for evtq",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Data {0x50610002, 0x00000000}",
        "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!",
    ] {
        expect(text, TestPhase::During, &[]);
        expect(text, TestPhase::Before, &[]);
    }
}

const LOADED: &str =
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build";
const FAULT: &str = "nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0025 address=0x28000000000 flags=0x0020]";

#[test]
fn before_the_tests_an_event_is_information_and_after_the_start_of_the_driver_a_warning() {
    const FATAL: &str =
        "pcieport 0000:00:03.1: AER: Uncorrected (Fatal) error message received from 0000:61:00.0";
    const FAILED: &str = "pcieport 0000:00:03.1: AER: device recovery failed";
    let (a, b, port) = ("0000:41:00.0", "0000:61:00.0", "0000:00:03.1");
    for (lines, expected) in [
        (vec![FAULT], vec![("IOMMU-FAULT", Info, a)]),
        (vec![FAULT, LOADED], vec![("IOMMU-FAULT", Info, a)]),
        (vec![LOADED, FAULT, FAULT], vec![("IOMMU-FAULT", Warn, a)]),
        // Only the loaded driver's time counts.
        (vec![LOADED, FAULT, LOADED], vec![("IOMMU-FAULT", Info, a)]),
        (
            vec!["nvidia: module loaded", FAULT],
            vec![("IOMMU-FAULT", Warn, a)],
        ),
        (
            vec![
                LOADED,
                "DMAR: [DMA Read NO_PASID] Request device [61:00.0] fault addr 0x0",
            ],
            vec![("IOMMU-FAULT", Warn, b)],
        ),
        (
            vec![LOADED, "DMAR: DRHD: handling fault status reg 2"],
            vec![],
        ),
        (
            vec![
                LOADED,
                "DMAR: [INTR-REMAP] Request device [61:00.0] fault index 0x1f",
            ],
            vec![("IOMMU-FAULT", Info, b)],
        ),
        (
            vec![
                LOADED,
                "arm-smmu-v3 arm-smmu-v3.3.auto: event: F_TRANSLATION client: 0000:61:00.0 sid: 0x100",
            ],
            vec![("IOMMU-FAULT", Warn, b)],
        ),
        (
            vec![
                LOADED,
                "arm-smmu-v3 arm-smmu-v3.16.auto: event 0x10 received:",
            ],
            vec![("IOMMU-FAULT", Info, "machine")],
        ),
        // The network card is on no path of two GPUs.
        (
            vec![
                LOADED,
                "mlx5_core 0001:a1:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x2 address=0x0 flags=0x0]",
            ],
            vec![("IOMMU-FAULT", Info, "0001:a1:00.0")],
        ),
        (vec![FATAL], vec![("PCIE-AER", Info, b)]),
        (vec![LOADED, FATAL], vec![("PCIE-AER", Warn, b)]),
        (
            vec![FATAL, FAILED],
            vec![("PCIE-AER", Info, b), ("PCIE-AER", Warn, port)],
        ),
        // A recovery that failed after an error that was not fatal: no driver was loaded that could recover.
        (vec![FAILED], vec![("PCIE-AER", Info, port)]),
        (
            vec![
                LOADED,
                "pcieport 0000:00:03.1: AER: Uncorrected (Non-Fatal) error message received from 0000:61:00.0",
            ],
            vec![("PCIE-AER", Info, b)],
        ),
        (
            vec!["pcieport 0000:00:03.1: pciehp: Slot(3): Link Down"],
            vec![("PCIE-AER", Info, port)],
        ),
        (
            vec![LOADED, "pcieport 0000:00:03.1: pciehp: Slot(3): Link Down"],
            vec![("PCIE-AER", Warn, port)],
        ),
        // Corrected errors, and other devices.
        (
            vec![
                LOADED,
                "pcieport 0000:00:03.1: AER: Corrected error message received from 0000:61:00.0",
            ],
            vec![],
        ),
        (
            vec![LOADED, "pcieport 0000:06:01.0: pciehp: Slot(1): Link Down"],
            vec![],
        ),
        (
            vec![
                LOADED,
                "xhci_hcd 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0xe address=0x0 flags=0x0]",
            ],
            vec![],
        ),
        (
            vec![
                LOADED,
                "nvme 0000:43:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",
            ],
            vec![],
        ),
        (
            vec![LOADED, "amdgpu 0000:03:00.0: amdgpu: GPU is lost"],
            vec![],
        ),
    ] {
        expect(&lines.join("\n"), TestPhase::Before, &expected);
    }
}

#[test]
fn an_earlier_event_has_its_age_and_an_unknown_fabric_gives_no_warning() {
    let scene = Scene::of(Some(&machine()));
    let found = faults(
        &log(&["Linux version 6.8", LOADED, FAULT, FAULT]),
        TestPhase::Before,
        &scene,
    );
    let [finding] = &found[..] else {
        panic!("one: {found:?}")
    };
    let begins = "2 s after the kernel started, before the tests, 2 lines of this kind: kmsg: nvidia 0000:41:00.0: AMD-Vi";
    assert!(
        finding.message.starts_with(begins) && finding.evidence.len() == 2,
        "{}",
        finding.message
    );
    let unknown = said(&[LOADED, FAULT], TestPhase::Before, &Scene::default());
    assert_eq!(
        unknown,
        [("IOMMU-FAULT".to_owned(), Info, "0000:41:00.0".to_owned())]
    );
}

#[test]
fn in_a_log_without_its_beginning_the_loaded_driver_was_there_first() {
    let loaded = Scene::of(Some(&machine())).with_driver(true, BTreeSet::new(), BTreeSet::new());
    let whole = log(&["Linux version 6.8", FAULT]);
    assert_eq!(faults(&whole, TestPhase::Before, &loaded)[0].severity, Info);
    assert_eq!(
        faults(&whole[1..], TestPhase::Before, &loaded)[0].severity,
        Warn
    );
    assert_eq!(
        faults(&whole[1..], TestPhase::Before, &Scene::of(Some(&machine())))[0].severity,
        Info
    );
}

#[test]
fn a_failed_start_is_over_if_the_gpu_was_started_later() {
    const FAILED: &str = "NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x62:0x40:2426)";
    const BOTH: &str = "NVRM: GPU 0000:41:00.0: rm_init_adapter failed, device minor number 0";
    let patched = "NVRM: bar1PeerIsPossible: BAR1 peer-to-peer of 0000:41:00.0 possible: video memory 0x5e9200000, BAR1 0x1 at 0x2";
    let display = "[drm] Initialized nvidia-drm 0.0.0 for 0000:41:00.0 on minor 1";
    let other = "[drm] Initialized nvidia-drm 0.0.0 for 0000:61:00.0 on minor 2";
    let program = "NVRM: Xid (PCI:0000:41:00): 31, pid=7, name=train, MMU Fault";
    let of = |lines: &[&str], scene: &Scene, when| {
        let found = faults(&log(lines), when, scene);
        found
            .into_iter()
            .find(|f| f.code == "GPU-INIT")
            .map(|f| (f.severity, f.message))
    };
    let scene = Scene::of(Some(&machine()));
    for (lines, severity) in [
        (vec![LOADED, FAILED], Fail),
        (vec![LOADED, FAILED, BOTH], Fail),
        (vec![LOADED, FAILED, BOTH, LOADED], Info),
        (vec![FAILED, FAILED, patched], Info),
        (vec![FAILED, display], Info),
        (vec![FAILED, program], Info),
        (vec![FAILED, other], Fail),
        (vec![FAILED, patched, FAILED], Fail),
        (vec![patched, FAILED], Fail),
        (
            vec![FAILED, "NVRM: Xid (PCI:0000:41:00): 143, GPU init failed"],
            Fail,
        ),
    ] {
        assert_eq!(
            of(&lines, &scene, TestPhase::Before).map(|(s, _)| s),
            Some(severity),
            "{lines:?}"
        );
        assert_eq!(
            of(&lines, &scene, TestPhase::During).map(|(s, _)| s),
            Some(Fail),
            "{lines:?}"
        );
    }
    let (_, message) = of(&["x", FAILED, LOADED], &scene, TestPhase::Before).unwrap();
    assert!(
        message.starts_with(
            "1 s after the kernel started, and the driver was loaded again later: kmsg: "
        ),
        "{message}"
    );
    // What the driver knows of a GPU may be older than the failure; that it runs now is not.
    let gpu = || BTreeSet::from([bdf("0000:41:00.0")]);
    let known = scene.clone().with_driver(true, gpu(), BTreeSet::new());
    let running = scene.with_driver(true, BTreeSet::new(), gpu());
    assert_eq!(
        of(&[LOADED, FAILED], &known, TestPhase::Before).unwrap().0,
        Info
    );
    assert_eq!(
        of(&[LOADED, program, FAILED], &known, TestPhase::Before)
            .unwrap()
            .0,
        Fail
    );
    assert_eq!(
        of(&[LOADED, program, FAILED], &running, TestPhase::Before)
            .unwrap()
            .0,
        Info
    );
}

#[test]
fn an_xid_that_names_an_earlier_one_has_its_weight() {
    const AFTER: &str = "NVRM: Xid (PCI:0000:4c:00): 45, pid=1000, name=python3, Ch 00000000 caused by previous Xid ";
    let mild = "NVRM: Xid (PCI:0000:4c:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x04000000)";
    let severities = |lines: &[&str], when| {
        let found = said(lines, when, &Scene::default());
        found
            .into_iter()
            .map(|(_, severity, _)| severity)
            .collect::<Vec<_>>()
    };
    let after = |number: u32| format!("{AFTER}{number}");
    for (number, severity) in [
        (149, Fail),
        (145, Fail),
        (79, Fail),
        (74, Fail),
        (31, Info),
        (63, Warn),
        (45, Info),
    ] {
        assert_eq!(
            severities(&[&after(number)], TestPhase::Before),
            [severity],
            "{number}"
        );
    }
    assert_eq!(
        severities(&[&after(145), mild], TestPhase::Before),
        [Warn, Warn]
    );
    let other_gpu = mild.replace("4c", "5d");
    assert_eq!(
        severities(&[&after(145), &other_gpu], TestPhase::Before),
        [Fail, Warn]
    );
    // One after an error and one of a program are two findings; a chain ends.
    let alone = "NVRM: Xid (PCI:0000:4c:00): 45, pid=1000, name=python3, Ch 00000001";
    assert_eq!(
        severities(&[alone, &after(149), &after(149)], TestPhase::Before),
        [Info, Fail]
    );
    let chain = "NVRM: Xid (PCI:0000:4c:00): 43, pid=1, caused by previous Xid 45";
    assert_eq!(
        severities(&[&after(43), chain], TestPhase::Before),
        [Info, Info]
    );
    let message = &faults(&log(&[&after(149)]), TestPhase::Before, &Scene::default())[0].message;
    assert_eq!(
        message,
        "Xid 45 on 0000:4c:00 (caused by an earlier Xid 149: an NVLink failed)"
    );
}

#[test]
fn each_device_has_its_own_finding_and_other_devices_share_one() {
    let of = |gpu: &str| {
        format!("pcieport 0000:00:01.1: AER: Corrected error message received from {gpu}")
    };
    let lines = [
        of("0000:41:00.0"),
        of("0000:61:00.0"),
        of("0000:43:00.0"),
        of("0000:07:00.0"),
        of("0000:41:00.0"),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let found = said(&lines, TestPhase::During, &Scene::of(Some(&machine())));
    let all: Vec<_> = found
        .iter()
        .map(|(_, severity, about)| (*severity, about.as_str()))
        .collect();
    assert_eq!(
        all,
        [
            (Warn, "0000:41:00.0"),
            (Warn, "0000:61:00.0"),
            (Info, "0000:43:00.0")
        ]
    );
    // Lines with and without the function are about one GPU.
    let lost = [
        "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
        "NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.",
    ];
    assert_eq!(
        said(&lost, TestPhase::During, &Scene::of(Some(&machine()))).len(),
        2
    );
}

#[test]
fn a_device_that_was_unplugged_has_its_own_cause_and_is_information_if_it_is_back() {
    const AWAY: &str = "pcieport 0000:00:03.1: pciehp: Slot(3): Card not present";
    const DOWN: &str = "pcieport 0000:00:03.1: pciehp: Slot(3): Link Down";
    const HERE: &str = "pcieport 0000:00:03.1: pciehp: Slot(3): Card present";
    const UP: &str = "pcieport 0000:00:03.1: pciehp: Slot(3): Link Up";
    const OTHER: &str = "pcieport 0000:00:01.1: pciehp: Slot(1): Link Up";
    const FATAL: &str =
        "pcieport 0000:00:03.1: AER: Uncorrected (Fatal) error message received from 0000:00:03.1";
    let scene = Scene::of(Some(&machine()));
    let (before, during) = (TestPhase::Before, TestPhase::During);
    for (lines, when, expected) in [
        (
            &[LOADED, AWAY][..],
            before,
            vec![(Warn, Some(Reason::Unplugged))],
        ),
        (
            &[LOADED, DOWN, AWAY],
            before,
            vec![(Warn, Some(Reason::Unplugged))],
        ),
        (
            &[LOADED, DOWN, AWAY, HERE, UP],
            before,
            vec![(Info, Some(Reason::UnpluggedOnce))],
        ),
        (
            &[LOADED, DOWN, UP],
            before,
            vec![(Info, Some(Reason::UnpluggedOnce))],
        ),
        (
            &[LOADED, DOWN, OTHER],
            before,
            vec![(Warn, Some(Reason::Unplugged))],
        ),
        (
            &[LOADED, DOWN, UP, DOWN],
            before,
            vec![(Warn, Some(Reason::Unplugged))],
        ),
        (
            &[DOWN, LOADED],
            before,
            vec![(Info, Some(Reason::UnpluggedOnce))],
        ),
        (
            &[LOADED, FATAL, DOWN, UP],
            before,
            vec![(Warn, None), (Info, Some(Reason::UnpluggedOnce))],
        ),
        (
            &[DOWN, AWAY, HERE, UP],
            during,
            vec![(Fail, Some(Reason::Unplugged))],
        ),
        (&[FATAL, DOWN], during, vec![(Fail, None)]),
    ] {
        let found = faults(&log(lines), when, &scene);
        let all: Vec<_> = found
            .iter()
            .map(|f| (f.severity, f.reason.clone()))
            .collect();
        assert_eq!(all, expected, "{lines:?}");
    }
    let found = faults(&log(&[LOADED, AWAY]), before, &scene);
    assert_eq!(
        found[0].shown_cause(),
        "the device was unplugged or lost power"
    );
    assert!(
        found[0]
            .shown_remedy()
            .starts_with("check the cable and the power"),
        "{}",
        found[0].shown_remedy()
    );
    let found = faults(&log(&[LOADED, DOWN, UP]), before, &scene);
    let begins = "1 s after the kernel started, before the tests, and the device was there again later: kmsg: ";
    assert!(found[0].message.starts_with(begins), "{}", found[0].message);
}

#[test]
fn what_is_over_needs_nothing_now() {
    const FATAL: &str =
        "pcieport 0000:00:03.1: AER: Uncorrected (Fatal) error message received from 0000:61:00.0";
    const FAILED: &str = "NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x62:0x40:2426)";
    for (lines, reason) in [
        (&[FAULT, LOADED], Some(Reason::Earlier)),
        (&[LOADED, FAULT], None),
        (&[FATAL, LOADED], Some(Reason::Earlier)),
        (&[LOADED, FATAL], None),
        (&[FAILED, LOADED], Some(Reason::Over)),
        (&[LOADED, FAILED], None),
    ] {
        let found = faults(&log(lines), TestPhase::Before, &Scene::of(Some(&machine())));
        let [finding] = &found[..] else {
            panic!("one: {found:?}")
        };
        assert_eq!(finding.reason, reason, "{lines:?}");
        assert_eq!(finding.severity == Info, reason.is_some(), "{lines:?}");
        assert_eq!(
            finding.shown_remedy().starts_with("nothing now"),
            reason.is_some(),
            "{lines:?}"
        );
        // No action is due.
        assert!(reason.is_none() || finding.recovery.is_none(), "{lines:?}");
    }
}

#[test]
fn a_gpu_that_did_not_wake_is_lost_by_its_power_management_and_not_by_its_slot() {
    use outcome::finding::Code;
    const LINES: [&str; 4] = [
        "nvidia 0000:41:00.0: can't change power state from D3cold to D0 (config space inaccessible)",
        "NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:41:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        "vfio-pci 0000:61:00.0: Unable to change power state from D3cold to D0, device inaccessible",
    ];
    let mut lost = machine();
    let is_gpu = |d: &&mut Device| ["0000:41:00.0", "0000:61:00.0"].map(bdf).contains(&d.bdf);
    for gpu in lost.devices.iter_mut().filter(is_gpu) {
        gpu.config.gone = true;
    }
    let found = faults(&log(&LINES), TestPhase::Before, &Scene::of(Some(&lost)));
    let of = |at: &str| {
        let is = |f: &&outcome::finding::Finding| f.is(Code::GpuGone) && f.subject.is_at(bdf(at));
        let all: Vec<_> = found.iter().filter(is).collect();
        let [one] = all[..] else { panic!("{found:?}") };
        (one.severity, one.reason.clone(), one.shown_remedy())
    };
    let (severity, reason, remedy) = of("0000:41:00.0");
    assert_eq!((severity, reason), (Fail, Some(Reason::NotWoken(false))));
    assert!(remedy.contains("NVreg_DynamicPowerManagement=0x00") && !remedy.contains("reseat"));
    let (severity, reason, remedy) = of("0000:61:00.0");
    assert_eq!((severity, reason), (Fail, Some(Reason::NotWoken(true))));
    assert!(remedy.contains("disable_idle_d3=1"), "{remedy}");
    // It answers now; and older kernels have other words.
    for line in [
        LINES[0],
        "nvidia 0000:41:00.0: Refused to change power state, currently in D3",
    ] {
        expect(
            line,
            TestPhase::Before,
            &[("GPU-GONE", Warn, "0000:41:00.0")],
        );
    }
    for other in [
        "snd_hda_intel 0000:41:00.1: can't change power state from D3cold to D0 (config space inaccessible)",
        "pcieport 0000:21:00.0: can't change power state from D3hot to D0 (config space inaccessible)",
        "nvidia 0000:41:00.0: Refused to change power state from D0 to D3hot",
    ] {
        expect(other, TestPhase::Before, &[]);
    }
    let nowhere = said(
        &["nvme 0000:43:00.0: Unable to change power state from D3cold to D0, device inaccessible"],
        TestPhase::Before,
        &Scene::default(),
    );
    assert_eq!(nowhere, []);
}
