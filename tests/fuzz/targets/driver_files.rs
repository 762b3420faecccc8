//! What a driver and its image say of themselves in text: the description, the parameters' list,
//! /proc/devices, a GPU's information, and the kernel's lines. Reading ends, and makes nothing up.
#![no_main]

use firstlight_init::driver::causes::of_lines;
use firstlight_init::driver::nodes::{Told, majors, number, plan};
use firstlight_init::driver::parameters::given;
use firstlight_init::driver::{description, in_force, kernel_lines};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match description::parse(&text) {
        Ok(read) => {
            let families: Vec<_> = read.family.iter().collect();
            let configured = BTreeMap::from([("nvidia".to_owned(), text.clone().into_owned())]);
            for configured in [BTreeMap::new(), configured] {
                let (given, findings) = given("nvidia", Some(&read), &families, &configured);
                let mut names: Vec<_> = given.0.iter().map(|word| &word.name).collect();
                names.sort();
                names.dedup();
                assert_eq!(names.len(), given.0.len(), "a parameter is given twice");
                assert!(findings.len() <= families.len() * text.len());
            }
        }
        Err(why) => assert!(!why.contains('\n'), "{why:?}"),
    }
    let params = in_force::parse(&text);
    assert!(params.keys().all(|name| text.contains(name.as_str())));
    let told = Told {
        majors: majors(&text),
        params,
        gpus: [("a".to_owned(), number(&text, "Device Minor"))].into(),
        ..Told::default()
    };
    let (nodes, without) = plan(&told, true);
    assert!(nodes.iter().all(|planned| planned.node.path.starts_with("/dev/nvidia")));
    assert!(without.len() <= 2);
    let lines = kernel_lines::parse(bytes);
    let shown = kernel_lines::about_driver(&lines, "nvidia");
    assert!(shown.len() <= 25 && shown.iter().all(|line| line.chars().count() <= 308 && !line.contains('\n')));
    if let Some((_, line)) = of_lines(&shown) {
        assert!(shown.iter().any(|shown| shown == line));
    }
    let _ = kernel_lines::unpacking(&lines);
});
