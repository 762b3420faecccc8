//! Do imports point one way? The modules of each product are in layers, the lowest first: a module uses modules of lower
//! layers, and none of its own layer or above. Put a new module into the lowest layer that its imports allow.

use super::{code, is_test, rust_files};

type Layers = &'static [&'static [&'static str]];

/// The modules of `validator/src`; the crates beside it are below all of them.
const VALIDATOR: Layers = &[
    &["net", "process", "schedule"],
    &["config", "nccl"],
    &["floors", "nodes"],
    &["suite"],
    &["engine", "render"],
    &["cli"],
    &["main"],
];

/// The modules of `init/src`.
const INIT: Layers = &[
    &["config", "environment", "file_io", "paths"],
    &["image_id", "link_local", "sys"],
    &["child", "console", "disk", "modules"],
    &["driver", "fault", "verdict"],
    &["helper", "machine"],
    &["stages"],
    &["handoff"],
    &["main"],
];

fn layer(layers: Layers, module: &str) -> Option<usize> {
    layers.iter().position(|modules| modules.contains(&module))
}

/// The modules that a line of code names after `crate::`: `use crate::root::Root;`, `crate::{chain, time}`.
fn named(line: &str) -> Vec<&str> {
    let all = line
        .split("crate::")
        .skip(1)
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(list) => list
                .split('}')
                .next()
                .unwrap_or_default()
                .split(',')
                .collect::<Vec<_>>(),
            None => vec![rest],
        });
    all.filter_map(word).collect()
}

/// The word that `text` begins with.
fn word(text: &str) -> Option<&str> {
    text.trim()
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .next()
}

/// Every import of `product` that does not point to a lower layer, and every module without a layer.
fn violations(product: &str, layers: Layers) -> Vec<String> {
    let under = format!("{product}/src/");
    let mut wrong = Vec::new();
    for file in rust_files(&under).into_iter().filter(|f| !is_test(f)) {
        let rest = file.trim_start_matches(&under);
        let own = rest
            .split('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".rs");
        if own == "lib" {
            continue;
        }
        let Some(here) = layer(layers, own) else {
            wrong.push(format!("{file}: {own} has no layer"));
            continue;
        };
        for line in code(&file) {
            for module in named(&line)
                .into_iter()
                .filter(|module| *module != own && !module.is_empty())
            {
                match layer(layers, module) {
                    Some(below) if below < here => {}
                    _ => wrong.push(format!("{file}: {}", line.trim())),
                }
            }
        }
    }
    wrong
}

#[test]
fn modules_import_only_from_lower_layers() {
    assert_eq!(violations("validator", VALIDATOR), Vec::<String>::new());
    assert_eq!(violations("init", INIT), Vec::<String>::new());
}

#[test]
fn a_line_names_its_modules() {
    assert_eq!(named("use crate::root::Root;"), ["root"]);
    assert_eq!(
        named("    let x = crate::suite::ids().len() + crate::time::now();"),
        ["suite", "time"]
    );
    assert_eq!(named("use crate::{chain, time::utc};"), ["chain", "time"]);
    assert!(named("use super::root::Root;").is_empty());
}
