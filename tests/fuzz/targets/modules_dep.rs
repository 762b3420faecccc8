//! modules.dep, modules.builtin and modules.alias: an order names each file once, and a pattern from
//! hell takes no exponential time.
#![no_main]

use firstlight_init::modules::alias::{fits, modules_for};
use firstlight_init::modules::deps::{Deps, builtin, name_of};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;

fuzz_target!(|input: (&str, &str, &str)| {
    let (dep, built_in, wanted) = input;
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
