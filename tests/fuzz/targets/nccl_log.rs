//! NCCL's log, into which hosts, plugins and torn writes put what they like: reading it ends, and what
//! nothing was said of is never proven.
#![no_main]

use firstlight::nccl::log::{Expect, Pairs, Proof, Said};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let said = Said::read(&text);
    assert!(said.links.len() + said.rings.len() + said.warnings.len() <= text.lines().count());
    assert!(said.links.iter().all(|link| text.contains(&link.text())));
    assert_eq!(said.foreign(&[]), said.settings);
    assert!(said.foreign(&said.settings).is_empty());
    for pairs in [Pairs::Ring, Pairs::All] {
        let proven = |expect| matches!(said.proves(4, expect, pairs), Proof::Proven(_));
        let (p2p, none) = (proven(Expect::P2p), proven(Expect::NoP2p));
        assert!(!(p2p && none));
        assert!(!(p2p || none) || said.transports().len() >= 4);
        assert!(!p2p || said.links.iter().all(|link| link.via.is_p2p() == Some(true)));
        assert!(!none || said.links.iter().all(|link| link.via.is_p2p() == Some(false)));
    }
});
