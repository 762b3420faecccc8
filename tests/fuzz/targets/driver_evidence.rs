//! What tells of NVIDIA's driver: a module's file, init's account, the driver's own texts. Whatever
//! they hold, reading them ends, and a field is never more than what stands there.
#![no_main]

use firstlight::machine::host::nvidia::{account, elf, gpus, params, version};
use firstlight::outcome::finding::Finding;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let fields = elf::modinfo(bytes).unwrap_or_default();
    assert!(fields.iter().all(|(name, value)| name.len() + value.len() < bytes.len()));
    if let Ok(account) = account::parse(bytes) {
        let findings: Vec<Finding> = account.findings();
        assert_eq!(findings.len(), account.findings.len());
    }
    let text = String::from_utf8_lossy(bytes);
    let gpu = gpus::parse(&text);
    assert!(gpu.firmware.is_none_or(|v| version::is_version(&v) && text.contains(&v)));
    assert!(params::parse(&text).values().all(|value| text.contains(value) && params::same(value, value)));
});
