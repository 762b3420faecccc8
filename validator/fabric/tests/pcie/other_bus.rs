//! A machine whose bus addresses differ from its processors' addresses, such as a Raspberry Pi CM4 or a server with
//! another instruction set: `resource` files contain the processor's, registers the bus's.

use crate::modelled::{MachineCopy, bdf};
use crate::modelled::{ResizeFault, SimulatedKernel};
use fabric::rebar::RebarChoice;
use fabric::rebar::fix;
use fabric::rebar::plan::plan;
use outcome::finding::{Code, Reason, Severity};
use std::collections::BTreeMap;
use std::fs;

/// The machine's first GPU, behind its own root port.
const GPU: &str = "0000:06:00.0";
const PORT: &str = "0000:00:02.0";
/// The offset of processor addresses.
const OFFSET: u64 = 0x20_0000_0000;

/// The address of the GPU's BAR1 in its register, without flags.
fn register(copy: &MachineCopy) -> u64 {
    let bytes = fs::read(copy.file(GPU, "config")).unwrap();
    u64::from_le_bytes(bytes[0x14..0x1c].try_into().unwrap()) & !0xf
}

fn write(copy: &MachineCopy, bdf: &str, at: usize, bytes: &[u8]) {
    let path = copy.file(bdf, "config");
    let mut config = fs::read(&path).unwrap();
    config[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(path, config).unwrap();
}

/// Opens the port's prefetchable window of 128 GiB from `start` on for processors, `OFFSET` lower on the bus.
fn window(copy: &MachineCopy, start: u64) {
    let (base, limit) = (start - OFFSET, start - OFFSET + (128 << 30) - 1);
    // Bytes 2 and 3 of an address are in the register, bytes 4 to 7 in the one for its upper half.
    let half = |address: u64| {
        [
            address.to_le_bytes()[2] & 0xf0 | 1,
            address.to_le_bytes()[3],
        ]
    };
    let upper = |address: u64| address.to_le_bytes()[4..].to_vec();
    write(copy, PORT, 0x24, &[half(base), half(limit)].concat());
    write(copy, PORT, 0x28, &[upper(base), upper(limit)].concat());
    let none = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    let line = format!(
        "{start:#018x} {:#018x} 0x000000000014220c\n",
        start + (128 << 30) - 1
    );
    fs::write(copy.file(PORT, "resource"), none.repeat(15) + &line + none).unwrap();
}

/// Where the kernel believes BAR1 to be.
fn believed(copy: &MachineCopy) -> u64 {
    let fabric = copy.fabric();
    fabric
        .devices
        .iter()
        .find(|d| d.bdf == bdf(GPU))
        .unwrap()
        .aperture()
        .unwrap()
        .start
}

fn machine() -> MachineCopy {
    let copy = MachineCopy::of("rebar-small");
    window(&copy, believed(&copy) & !((1 << 30) - 1));
    let address = believed(&copy) - OFFSET;
    write(&copy, GPU, 0x14, &(address | 0xc).to_le_bytes());
    copy
}

fn broken(copy: &MachineCopy) -> Vec<String> {
    let findings = copy.fabric().findings;
    findings
        .into_iter()
        .filter(|f| f.is(Code::RebarBroken))
        .map(|f| f.message.to_string())
        .collect()
}

#[test]
fn a_register_that_holds_the_bus_address_is_right_and_one_with_the_processors_is_not() {
    let copy = machine();
    assert_eq!(broken(&copy), [""; 0]);
    let address = believed(&copy);
    write(&copy, GPU, 0x14, &(address | 0xc).to_le_bytes());
    let expected = format!(
        "{GPU} has {address:#x} in BAR1, the kernel expects {address:#x}, which is {:#x} on the bus",
        address - OFFSET
    );
    assert_eq!(broken(&copy), [expected]);
}

/// If the kernel leaves a wrong address in a register, the pass writes the bus's address.
#[test]
fn a_register_is_mended_with_the_address_of_the_bus() {
    let copy = machine();
    let before = register(&copy);
    let faults = BTreeMap::from([(bdf(GPU), ResizeFault::MasksRegister)]);
    let kernel = SimulatedKernel {
        faults,
        ..SimulatedKernel::new(&copy)
    };
    let mut asked = plan(&copy.fabric(), RebarChoice::Fix, &[]);
    asked.rebar.retain(|gpu| gpu.bdf == bdf(GPU));
    let done = fix(
        &copy.root(),
        &kernel,
        &asked,
        &copy.at("run/firstlight/fabric.json"),
    )
    .unwrap();
    assert!(!kernel.asked.borrow().is_empty());
    assert_eq!((register(&copy), broken(&copy)), (before, vec![]));
    assert!(
        done.findings.iter().all(|f| !f.is(Code::RebarBroken)),
        "{:?}",
        done.findings
    );
}

#[test]
fn a_gpu_that_lost_all_its_addresses_was_reset() {
    let copy = MachineCopy::of("rebar-small");
    write(&copy, GPU, 0x10, &[0; 4]);
    write(&copy, GPU, 0x14, &0xc_u64.to_le_bytes());
    let found = copy
        .fabric()
        .findings
        .into_iter()
        .find(|f| f.is(Code::RebarBroken))
        .unwrap();
    assert!(
        found.severity == Severity::Fail && found.reason == Some(Reason::AddressesLost),
        "{found:?}"
    );
}
