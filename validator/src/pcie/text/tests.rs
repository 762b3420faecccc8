use super::*;
use crate::pcie::acs::AcsPolicy;
use crate::pcie::sample::{fabric, two_gpus};
use crate::pcie::{judge, plan as planning};

fn sample() -> Fabric {
    let mut fabric = fabric(two_gpus());
    fabric.findings = judge::all(&fabric);
    fabric
}

#[test]
fn a_plan_lists_what_it_would_write() {
    let fabric = sample();
    let bars = rebar::plan::plan(&fabric, RebarChoice::Check, &[]);
    let text = plan(&fabric, &planning::plan(&fabric, AcsPolicy::Path), &bars);
    assert_eq!(
        text,
        "fabric plan   this machine\n\
         BAR1: 0 of 2 GPUs have their largest size (only looked at)\n\
         ACS policy path: 2 functions with ACS, 1 to write\n  \
           would write  0000:00:01.0 ACS control 0x001d -> 0x0000\n"
    );
}

#[test]
fn what_was_recorded_says_so() {
    let mut fabric = sample();
    fabric.root = "/somewhere".into();
    let first = show(&fabric).lines().next().map(str::to_owned);
    assert_eq!(first.as_deref(), Some("fabric show   recorded machine /somewhere"));
}

#[test]
fn show_names_ports_paths_and_findings_in_80_columns() {
    let text = show(&sample());
    for part in [
        "0000:00:01.0  root-port   0x001d SV RR CR UF  redirects\n",
        "0000:00:02.0  root-port   0x0000  redirect off\n",
        "0000:01:00.0  10de:2684  x16 of x16 at 16 GT/s",
        "GPU-GPU  1 PHB; slowest 31.5 GB/s raw\n",
        "  FAIL   ACS-REDIRECT: 0000:00:01.0",
    ] {
        assert!(text.contains(part), "'{part}' is missing in\n{text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
}
