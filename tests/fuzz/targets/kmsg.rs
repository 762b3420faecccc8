//! The kernel's log, into which every driver and program may write: reading it ends, and a line is
//! never more than what stands there.
#![no_main]

use firstlight::machine::host::faults::faults;
use firstlight::machine::host::kmsg::parse;
use firstlight::machine::host::nvidia::log;
use firstlight::machine::host::nvidia::xid::When;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let lines = parse(bytes);
    assert!(lines.len() <= text.lines().count());
    assert!(lines.iter().all(|line| text.contains(&line.text)));
    assert!(log::xids(&lines).len() <= lines.len() && log::bar1_peers(&lines).len() <= lines.len());
    assert!(log::static_maps(&lines).len() <= lines.len() && log::patch_fails(&lines).len() <= lines.len());
    for finding in faults(&lines, When::During).into_iter().chain(faults(&lines, When::Before)) {
        assert!(!finding.evidence.is_empty());
    }
});
