//! What if the kernel is locked down, as under Secure Boot it is? Then nobody may write to configuration space.
//! Our own kernel has no lockdown, so Debian's of the same version boots our initrd. No GPU is there: `acs=all`
//! stands for their paths.

use harness::{Boot, Booted, workspace};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The words that are built into our kernel and into no other.
fn built_in() -> String {
    let config = fs::read_to_string(workspace().join("kernel-config/resolved.config")).unwrap();
    let line = config.lines().find_map(|l| l.strip_prefix("CONFIG_CMDLINE=\"")).expect("CONFIG_CMDLINE");
    line.trim_end_matches('"').to_owned()
}

/// Firmware that leaves ACS on, and settings by which the pass takes it off every port.
const WORDS: &str = "pci=config_acs=1111111@pci:0:0 firstlight.fabric.acs=all firstlight.expect.gpus=0 \
    firstlight.driver.load=false firstlight.validate.level=quick";

/// The pass again, by hand; and as a second witness a write that nothing of ours has a part in.
const SCRIPT: &str = "echo \"mode: $(cat /sys/kernel/security/lockdown)\"
firstlight fabric fix --acs all
echo \"fix ended with $?\"
dd if=/dev/zero of=/sys/bus/pci/devices/0000:00:05.0/config bs=1 count=1 seek=60 conv=notrunc 2>&1 | grep -v records
echo \"written\"";

/// Debian's own kernel of the version that ours is built from, in `dir`. It is a locked package of use `test-kernel`,
/// downloaded once into the cache.
fn debians_kernel(dir: &Path) -> PathBuf {
    let script = "set -euo pipefail; source \"$1/image/lib/common.sh\"
exec 9> \"$CACHE/test-kernel.lock\"; flock 9   # tests run side by side
\"$1/image/fetch.sh\" test-kernel
read -r name version arch _ < <(locked test-kernel)
dpkg-deb --fsys-tarfile \"$(deb_path \"$name\" \"$version\" \"$arch\")\" |
    tar -x -C \"$2\" --wildcards --transform 's,.*/,,' './boot/vmlinuz-*'
ls \"$2\"/vmlinuz-*";
    let mut unpack = Command::new("bash");
    let output = unpack.args(["-c", script, "image/test-kernel"]).arg(workspace()).arg(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

fn machine(words: &str) -> Booted {
    let dir = tempfile::tempdir().unwrap();
    let kernel = debians_kernel(dir.path());
    Boot::shipped()
        .kernel(&kernel)
        .device("pcie-root-port,id=port1,chassis=1,slot=1,addr=5")
        .device("pcie-root-port,id=port2,chassis=2,slot=2,addr=6")
        .append(&format!("{} {WORDS} {words}", built_in()))
        .workload(SCRIPT)
        .whatever_the_verdict()
        .run()
        .unwrap()
}

/// The driver image cannot be mounted in either boot: Debian's kernel has loop devices in a module only.
fn failed(tests: &[&str]) -> Vec<String> {
    tests.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn a_locked_down_kernel_is_named_with_its_mode_and_the_verdict_follows() {
    let booted = machine("lockdown=integrity");
    booted.says("mode: none [integrity] confidentiality");
    // What init shows of the pass.
    booted.says("ACS all: none cleared; LOCKDOWN machine");
    // By hand, and what the kernel itself says to a write.
    let unwrapped = booted.console.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "LOCKDOWN: the kernel is locked down (integrity): it refuses writes to configuration space";
    assert!(unwrapped.contains(told), "{booted}");
    booted.says("fix ended with 1");
    booted.says("Operation not permitted");
    let verdict = booted.verdict();
    assert_eq!((verdict.verdict.as_str(), verdict.failed), ("FAIL", failed(&["driver", "acs"])), "{booted}");
    booted.never_says("LOCKDOWN-IGNORED");
}

/// The same kernel and machine, not locked down: proof that the boot above fails by its lockdown alone.
#[test]
fn the_same_kernel_without_lockdown_has_its_ports_cleared() {
    let booted = machine("");
    booted.says("mode: [none] integrity confidentiality");
    booted.says("ACS policy all: 2 functions with ACS, 2 of 2 cleared");
    booted.says("fix ended with 0");
    booted.never_says("Operation not permitted");
    booted.never_says("LOCKDOWN");
    assert_eq!(booted.verdict().failed, failed(&["driver"]), "{booted}");
}

/// A processor that has the faults of its generation. An emulated one has no new microcode: the kernel does what it can and
/// says so, and for two faults it needs registers of the processor (IBRS, SSBD).
#[test]
fn no_fault_of_a_processor_is_left_open() {
    let script = "cd /sys/devices/system/cpu/vulnerabilities
for fault in *; do echo \"$fault: $(cat $fault)\"; done > /run/kept/faults
grep -m1 ^flags /proc/cpuinfo > /run/kept/flags
cat /proc/sys/kernel/unprivileged_bpf_disabled > /run/kept/bpf";
    let boot = Boot::shipped().append("firstlight.expect.gpus=0").workload(script);
    let booted = boot.qemu(&["-cpu", "Skylake-Server,-cx16"]).run().unwrap();
    let (faults, flags) = (booted.text("kept/faults"), booted.text("kept/flags"));
    let needs = [("spec_store_bypass: ", " ssbd"), ("retbleed: ", " ibrs")];
    let excused = |line: &str| {
        let lacks = needs.iter().any(|(fault, flag)| line.starts_with(fault) && !flags.contains(flag));
        line.to_lowercase().contains("no microcode") || lacks
    };
    let open: Vec<_> = faults.lines().filter(|l| l.contains(": Vulnerable") && !excused(l)).collect();
    assert!(open.is_empty(), "{faults}");
    for fault in ["mds", "meltdown", "spectre_v1", "spectre_v2", "spec_store_bypass", "l1tf", "retbleed"] {
        assert!(faults.lines().any(|line| line.starts_with(&format!("{fault}: "))), "{fault}: {faults}");
    }
    assert_ne!(booted.text("kept/bpf"), "0");
}
