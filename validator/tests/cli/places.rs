//! Where reports go: through links, in place where something is no file, never half, and all of them
//! telling the same.

use super::machine::{Machine, said};
use std::fs::{self, File};
use std::os::unix::fs::symlink;

#[test]
fn a_link_to_standard_output_is_standard_output_and_stays_a_link() {
    let machine = Machine::recorded("epyc-8x4090");
    let (link, out) = (machine.at("stdout"), machine.at("out.json"));
    symlink("/proc/self/fd/1", &link).unwrap();
    let mut program = machine.program(&format!("validate --json {}", link.display()));
    let ended = said(program.stdout(File::create(&out).unwrap()).output().unwrap());
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(fs::read_link(&link).is_ok());
    let report: serde_json::Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    assert_eq!(report["verdict"], "PASS");
}
