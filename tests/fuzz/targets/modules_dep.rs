//! modules.dep, modules.builtin and modules.alias: an order names each file once, and a pattern from
//! hell takes no exponential time.
#![no_main]

use firstlight_init::modules::alias::{fits, modules_for};
use firstlight_init::modules::deps::{Deps, builtin, name_of};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;

// The three, each behind a line of two percent signs.
fuzz_target!(|input: &str| {
    let (dep, rest) = input.split_once("\n%%\n").unwrap_or((input, ""));
    let (built_in, wanted) = rest.split_once("\n%%\n").unwrap_or(("", rest));
    let modules: Vec<_> = wanted.split_whitespace().map(str::to_owned).collect();
    if let Ok(order) = Deps::parse(dep).order(&modules, &builtin(built_in)) {
        let once: BTreeSet<_> = order.iter().collect();
        assert_eq!(once.len(), order.len(), "{order:?}");
        assert!(order.iter().all(|file| dep.contains(file.as_str())));
    }
    assert!(!name_of(wanted).contains('/'));
    let _ = fits(dep, wanted);
    let modules = modules_for(dep, wanted);
    assert!(modules.iter().all(|module| dep.contains(module.as_str())));
});
