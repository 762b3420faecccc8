//! Checks that the Resizable BAR pass ends with BAR1 as it reports, or with everything as it was, whatever the kernel
//! answers, and which BAR1s it enlarges.

mod grown;

use crate::modelled::{MachineCopy, ResizeFault, SimulatedKernel, bdf};
use fabric::journal::Journal;
use fabric::rebar::plan::{Plan, plan};
use fabric::rebar::{BarOutcome, Kernel, RebarChoice, ResizeReport, fix, restore};
use fabric::restore::Restored;
use machine::host::framebuffer::Framebuffer;
use machine::pcie::model::{Bdf, Fabric};
use outcome::finding::{Code, Finding, Reason, Severity};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

const GIB: u64 = 1 << 30;
const FIRMWARE: u64 = 256 << 20;
const ALONE: &str = "0000:06:00.0";
const SWITCHED: [&str; 2] = ["0000:03:00.0", "0000:04:00.0"];
const CARD: &str = "0000:05:00.0";
const JOURNAL: &str = "run/firstlight/fabric.json";

fn machine() -> MachineCopy {
    MachineCopy::of("rebar-small")
}

fn planned(copy: &MachineCopy) -> Plan {
    plan(&copy.fabric(), RebarChoice::Fix, &[])
}

#[track_caller]
fn fixed(copy: &MachineCopy, kernel: &dyn Kernel) -> ResizeReport {
    fix(
        &copy.root(),
        kernel,
        &planned(copy),
        &copy.at("run/firstlight/fabric.json"),
    )
    .unwrap()
}

fn found(findings: &[Finding], subject: &str) -> Vec<(Code, Severity)> {
    findings
        .iter()
        .filter(|f| f.subject == *subject)
        .map(|f| (f.code, f.severity))
        .collect()
}

/// BAR1 of each GPU if all three sources agree; otherwise a message.
fn sizes(fabric: &Fabric) -> BTreeMap<String, Result<u64, String>> {
    let wrong = |bdf: Bdf| {
        fabric
            .findings
            .iter()
            .find(|f| f.subject == *bdf.to_string() && f.severity >= Severity::Fail)
    };
    let gpus = fabric
        .devices
        .iter()
        .filter(|d| fabric.gpus.contains(&d.bdf));
    let size =
        |d: &machine::pcie::model::Device| match (wrong(d.bdf), d.aperture(), d.aperture_sizes()) {
            (Some(finding), _, _) => Err(finding.message.to_string()),
            (_, Some(bar), Some(rebar)) if bar.bytes == rebar.current_bytes => Ok(bar.bytes),
            (_, bar, rebar) => Err(format!("{bar:?} {rebar:?}")),
        };
    gpus.map(|d| (d.bdf.to_string(), size(d))).collect()
}

#[track_caller]
fn has(copy: &MachineCopy, gpu: &str, bytes: u64) {
    assert_eq!(sizes(&copy.fabric())[gpu], Ok(bytes), "{gpu}");
}

/// Every configuration space and `resource` of the machine.
fn files(copy: &MachineCopy) -> BTreeMap<String, (Vec<u8>, String)> {
    let read = |bdf: &str| {
        (
            fs::read(copy.file(bdf, "config")).unwrap(),
            fs::read_to_string(copy.file(bdf, "resource")).unwrap(),
        )
    };
    copy.fabric()
        .devices
        .iter()
        .map(|d| (d.bdf.to_string(), read(&d.bdf.to_string())))
        .collect()
}

fn faulty_kernel<'a>(copy: &'a MachineCopy, gpu: &str, fault: ResizeFault) -> SimulatedKernel<'a> {
    SimulatedKernel {
        faults: BTreeMap::from([(bdf(gpu), fault)]),
        ..SimulatedKernel::new(copy)
    }
}

#[test]
fn the_plan_wants_the_largest_size_and_writes_nothing() {
    let copy = machine();
    let before = files(&copy);
    let plan = planned(&copy);
    let lines: Vec<String> = plan.rebar.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [SWITCHED[0], SWITCHED[1], ALONE].map(|gpu| format!("{gpu} BAR1 256 MiB -> 32 GiB"))
    );
    let ports: Vec<_> = plan
        .rebar
        .iter()
        .map(|r| r.port.unwrap().to_string())
        .collect();
    assert_eq!(ports, ["0000:00:01.0", "0000:00:01.0", "0000:00:02.0"]);
    assert_eq!((plan.gpus, plan.full, files(&copy)), (3, 0, before));
}

#[test]
fn who_only_looks_plans_nothing() {
    let copy = machine();
    let plan = plan(&copy.fabric(), RebarChoice::Check, &[]);
    assert_eq!((plan.rebar, plan.findings, plan.gpus), (vec![], vec![], 3));
}

#[test]
fn a_large_bar1_is_left_alone_and_no_journal_is_written() {
    let copy = MachineCopy::of("epyc-8x4090");
    let kernel = SimulatedKernel::new(&copy);
    let done = fixed(&copy, &kernel);
    assert_eq!((done.full, done.gpus, done.findings.len()), (8, 8, 0));
    assert!(kernel.asked.borrow().is_empty() && !copy.at("run/firstlight/fabric.json").exists());
}

#[test]
fn a_bound_driver_a_screen_or_no_capability_keep_bar1_as_it_is() {
    let copy = machine();
    symlink(
        "../../../bus/pci/drivers/nvidia",
        copy.file(ALONE, "driver"),
    )
    .unwrap();
    let config = copy.file(SWITCHED[0], "config");
    let mut bytes = fs::read(&config).unwrap();
    // Changes the capability's id.
    let at = (0x100..4096)
        .step_by(4)
        .find(|at| bytes[*at] == 0x15 && bytes[at + 1] == 0)
        .unwrap();
    bytes[at] = 0x16;
    fs::write(&config, bytes).unwrap();
    let screen = Framebuffer {
        name: "fb0".into(),
        device: format!("../../devices/pci0000:00/{}/x/fb0", SWITCHED[1]),
        shown_by: None,
    };
    let plan = plan(&copy.fabric(), RebarChoice::Fix, &[screen]);
    assert_eq!(plan.rebar, []);
    let expected = [
        (SWITCHED[0], Code::RebarAbsent),
        (SWITCHED[1], Code::RebarBusy),
        (ALONE, Code::RebarBusy),
    ];
    for (gpu, code) in expected {
        assert_eq!(found(&plan.findings, gpu), [(code, Severity::Warn)]);
    }
}

/// As an RTX 4090 with the VBIOS of a time before Resizable BAR, and as an RTX 2080 Ti, which has no other.
#[test]
fn a_vbios_that_offers_256_mib_is_told_if_another_could_offer_more() {
    let copy = machine();
    let mut fabric = copy.fabric();
    for device in &mut fabric.devices {
        for rebar in &mut device.rebar {
            rebar.supported_bytes.retain(|bytes| *bytes <= FIRMWARE);
        }
        if device.bdf.to_string() == ALONE {
            device.device = "0x1e04".into();
        }
    }
    let plan = plan(&fabric, RebarChoice::Fix, &[]);
    assert_eq!((plan.gpus, plan.full, plan.rebar.len()), (3, 1, 0));
    for gpu in SWITCHED {
        assert_eq!(
            found(&plan.findings, gpu),
            [(Code::RebarAbsent, Severity::Warn)]
        );
    }
    assert!(
        plan.findings
            .iter()
            .all(|finding| finding.reason == Some(Reason::VbiosLimit)),
        "{:?}",
        plan.findings
    );
    assert_eq!(
        plan.findings[0].message,
        "0000:03:00.0 has BAR1 of 256 MiB, and offers no larger one"
    );
}

/// As an H200 appears in a virtual machine.
#[test]
fn a_large_bar1_without_the_capability_is_as_good_as_full() {
    let copy = MachineCopy::of("epyc-8x4090");
    let mut fabric = copy.fabric();
    for device in &mut fabric.devices {
        device.rebar.clear();
    }
    let plan = plan(&fabric, RebarChoice::Fix, &[]);
    assert_eq!((plan.gpus, plan.full, plan.rebar.len()), (8, 8, 0));
    let codes: Vec<_> = plan.findings.iter().map(|f| (f.code, f.severity)).collect();
    assert_eq!(codes, [(Code::RebarAbsent, Severity::Info); 8]);
}

#[test]
fn a_locked_down_kernel_is_left_alone() {
    let copy = machine();
    fs::write(
        copy.at("sys/kernel/security/lockdown"),
        "none [integrity] confidentiality\n",
    )
    .unwrap();
    let plan = planned(&copy);
    assert_eq!(
        (plan.rebar.len(), found(&plan.findings, "machine")),
        (0, vec![(Code::Lockdown, Severity::Warn)])
    );
}

#[test]
fn a_size_that_only_one_side_knows_is_told_and_nothing_is_tried() {
    for bytes in [FIRMWARE / 2, 32 * GIB, 64 * GIB] {
        let copy = machine();
        let kernel = SimulatedKernel::new(&copy);
        kernel.control(bdf(ALONE), bytes);
        assert_eq!(
            found(&copy.fabric().findings, ALONE),
            [(Code::RebarBroken, Severity::Fail)]
        );
        let plan = planned(&copy);
        assert_eq!(
            found(&plan.findings, ALONE),
            [(Code::RebarBroken, Severity::Fail)]
        );
        assert!(plan.rebar.iter().all(|r| r.bdf != bdf(ALONE)));
    }
}

// Restoring must give each BAR1 its old size, even after a pass that died midway.

#[track_caller]
fn put_back(copy: &MachineCopy) -> Restored {
    fabric::restore::restore(&copy.root(), &copy.at(JOURNAL)).unwrap()
}

/// A pass over everything that died at the worst moment: sizes are in the hardware, decode is off, and nothing has been
/// removed yet.
#[track_caller]
fn killed(copy: &MachineCopy) -> Vec<u8> {
    let kernel = SimulatedKernel {
        movable: false,
        dies: true,
        ..SimulatedKernel::new(copy)
    };
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fixed(copy, &kernel)));
    assert!(died.is_err());
    fs::read(copy.at(JOURNAL)).unwrap()
}

#[test]
fn a_pass_that_died_after_its_writes_is_undone_in_the_registers() {
    let copy = machine();
    let before = files(&copy);
    killed(&copy);
    let off = |bdf: &str| files(&copy)[bdf].0[4] & 2 == 0;
    let moved = [SWITCHED[0], "0000:03:00.1", SWITCHED[1], CARD];
    assert!(moved.iter().all(|bdf| off(bdf)) && files(&copy) != before);
    let restored = put_back(&copy);
    assert!(restored.is_done(), "{restored:?}");
    let lines: Vec<String> = restored.bars.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines.last().unwrap(),
        "0000:03:00.0 BAR1 the size that an unfinished pass left -> 256 MiB"
    );
    let on: Vec<String> = restored.decode.iter().map(ToString::to_string).collect();
    assert!(
        moved
            .iter()
            .all(|bdf| on.contains(&format!("{bdf} memory decode off -> on"))),
        "{on:?}"
    );
    assert_eq!(files(&copy), before);
    assert_eq!(put_back(&copy).decode, [], "there is nothing left to do");
}

#[test]
fn a_journal_without_decode_puts_the_size_back_and_says_what_it_does_not_know() {
    let copy = machine();
    let mut kept: serde_json::Value = serde_json::from_slice(&killed(&copy)).unwrap();
    kept.as_object_mut().unwrap().remove("decode").unwrap();
    fs::write(copy.at(JOURNAL), kept.to_string()).unwrap();
    let restored = put_back(&copy);
    has(&copy, SWITCHED[0], FIRMWARE);
    let lines: Vec<String> = restored.decode.iter().map(ToString::to_string).collect();
    let off = "memory decode not changed: it is off, and the journal does not say what it was";
    assert_eq!(lines, SWITCHED.map(|gpu| format!("{gpu} {off}")));
    assert!(!restored.is_done());
}

#[test]
fn registers_that_a_dead_pass_left_are_told_where_a_driver_is_bound_and_where_it_was_not_the_pass()
{
    let copy = machine();
    killed(&copy);
    symlink(
        "../../../bus/pci/drivers/nvidia",
        copy.file(SWITCHED[0], "driver"),
    )
    .unwrap();
    SimulatedKernel::new(&copy).control(bdf(SWITCHED[1]), 128 * GIB);
    let before = files(&copy);
    let lines: Vec<String> = put_back(&copy)
        .bars
        .iter()
        .map(ToString::to_string)
        .collect();
    let left = |why: &str| lines.iter().any(|line| line.contains(why));
    assert!(
        left("0000:03:00.0 BAR1 not changed: the driver nvidia is bound: ReBAR control 32 GiB"),
        "{lines:?}"
    );
    assert!(
        left("0000:04:00.0 BAR1 not changed: the pass did not request this size"),
        "{lines:?}"
    );
    assert_eq!(files(&copy)[SWITCHED[0]], before[SWITCHED[0]]);
}

#[test]
fn a_pass_that_ended_leaves_no_decode_in_its_journal() {
    for movable in [true, false] {
        let copy = machine();
        fixed(
            &copy,
            &SimulatedKernel {
                movable,
                ..SimulatedKernel::new(&copy)
            },
        );
        let journal = Journal::load(&copy.at(JOURNAL), copy.root().path())
            .unwrap()
            .unwrap();
        assert_eq!(journal.decode, []);
    }
}

#[test]
fn restore_gives_every_bar1_its_old_size() {
    let copy = machine();
    let kernel = SimulatedKernel::new(&copy);
    let done = fixed(&copy, &kernel);
    for expected in [BarOutcome::Restored, BarOutcome::Already] {
        let steps = restore(&copy.root(), &kernel, &done.rebar);
        assert!(steps.iter().all(|s| s.outcome == expected), "{steps:?}");
        [SWITCHED[0], SWITCHED[1], ALONE]
            .iter()
            .for_each(|gpu| has(&copy, gpu, FIRMWARE));
    }
}

#[test]
fn restore_leaves_what_somebody_else_changed_and_what_is_in_use() {
    let copy = machine();
    let kernel = SimulatedKernel::new(&copy);
    let done = fixed(&copy, &kernel);
    kernel.resize(bdf(ALONE), 1, GIB).unwrap();
    symlink(
        "../../../bus/pci/drivers/nvidia",
        copy.file(SWITCHED[0], "driver"),
    )
    .unwrap();
    let steps: Vec<String> = restore(&copy.root(), &kernel, &done.rebar)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        steps[0],
        "0000:06:00.0 BAR1 not changed: is 1 GiB, the pass had made it 32 GiB"
    );
    assert_eq!(steps[1], "0000:04:00.0 BAR1 32 GiB -> 256 MiB");
    assert_eq!(
        steps[2],
        "0000:03:00.0 BAR1 not changed: the driver nvidia is bound"
    );
}

/// A pass that died between removing and rescanning.
#[test]
fn restore_looks_for_gpus_that_were_removed() {
    let copy = machine();
    let kernel = SimulatedKernel::new(&copy);
    let mut done = fixed(&copy, &kernel);
    kernel.remove(bdf("0000:00:01.0")).unwrap();
    done.rebar
        .iter_mut()
        .for_each(|entry| entry.after_bytes = None);
    let steps = restore(&copy.root(), &kernel, &done.rebar);
    assert!(
        steps.iter().all(|s| s.outcome == BarOutcome::Restored),
        "{steps:?}"
    );
}
