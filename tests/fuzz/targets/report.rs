//! A report from anywhere: it is refused, or it is the same after being written and read again.
#![no_main]

use firstlight::report::from_json;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(report) = from_json(bytes) {
        let written = serde_json::to_vec(&report).expect("a report can be written");
        assert_eq!(from_json(&written).expect("and read again"), report);
    }
});
