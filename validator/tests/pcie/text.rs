//! Does what people read fit 80 columns, and say what was done?

use crate::modelled::{Copy, fabric, names};
use firstlight::fabric::acs::AcsPolicy;
use firstlight::fabric::apply::fix;
use firstlight::fabric::plan::plan;
use firstlight::fabric::rebar::RebarChoice;
use firstlight::fabric::rebar::{self, Sysfs};
use firstlight::fabric::restore::restore;
use firstlight::fabric::text;

#[track_caller]
fn fits(name: &str, text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{name}: {line}");
    }
}

#[test]
fn every_machine_is_shown_and_planned_in_80_columns() {
    for name in names() {
        let mut fabric = fabric(name);
        fabric.root = format!("machines/{name}");
        fits(name, &text::show(&fabric));
        let bars = rebar::plan::plan(&fabric, RebarChoice::Fix, &[]);
        fits(name, &text::plan(&fabric, &plan(&fabric, AcsPolicy::All), &bars));
    }
}

#[test]
fn fix_says_what_was_written_and_what_it_reads() {
    let copy = Copy::of("switch-acs");
    let mut fabric = copy.fabric();
    let plan = plan(&fabric, AcsPolicy::Path);
    let journal = copy.at("run/firstlight/fabric.json");
    let bars = rebar::plan::plan(&fabric, RebarChoice::Fix, &[]);
    let bars = rebar::fix(&copy.root(), &Sysfs(&copy.root()), &bars, &journal).unwrap();
    let applied = fix(&copy.root(), &plan, &journal).unwrap();
    fabric.root = "COPY".into();
    let said = text::fixed(&fabric, &plan, &applied, &bars);
    fits("switch-acs", &said);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "fabric fix   the machine in COPY");
    assert_eq!(lines.last(), Some(&"ACS path: 4 of 4 cleared; BAR1 3 of 3 full size"));
    assert_eq!(lines[1], "BAR1: 3 of 3 GPUs have their largest size");
    assert_eq!(lines[2], "  0000:02:08.0 ACS control 0x001d -> 0x0000  reads 0x0000");

    let restored = text::restored("COPY", &restore(&copy.root(), &journal).unwrap());
    let lines: Vec<&str> = restored.lines().collect();
    assert_eq!(lines[1], "4 of 4 registers have their values from before the pass");
    assert_eq!(lines[2], "  0000:02:11.0 ACS control 0x0000 -> 0x001d");
}

#[test]
fn the_same_advice_is_given_once() {
    let text = text::show(&fabric("epyc-8x4090-before"));
    assert_eq!(text.matches("ACS-REDIRECT: ").count(), 10);
    assert_eq!(text.matches("remedy: ").count(), 1);
}
