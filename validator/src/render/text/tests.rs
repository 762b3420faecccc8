//! The console's view of small reports, line by line.

use super::*;
use crate::finding::Code;
use crate::outcome::Outcome;
use crate::render::fixture::{report, test};
use crate::scope::Scope;

#[test]
fn a_good_machine_is_a_header_rows_and_a_verdict() {
    let tests = vec![
        test("iommu", Outcome::Pass, "off: no IOMMU class, no groups", vec![]),
        test("acs", Outcome::NotApplicable, "no port on a GPU path", vec![]),
    ];
    let text = whole(&report(tests), Some("/run/firstlight/report.json"));
    let expected = "\
firstlight 0.1.0   no driver   GPUs unknown   level standard

  PASS   iommu           off: no IOMMU class, no groups                    0.0 s
  N/A    acs             no port on a GPU path                             0.0 s

SCOPE    machine: no GPU
VERDICT  PASS   1 passed, 1 not applicable   report /run/firstlight/report.json
FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=12.4
";
    assert_eq!(text, expected);
}

#[test]
fn a_failure_is_told_with_evidence_cause_and_remedy() {
    let finding = Code::CpusLost
        .finding(Severity::Fail, "machine", "1 processors are online, expected 2")
        .seen("kmsg: CPU 1 has invalid APIC ID 100. Aborting bringup");
    let cpus = test("cpus", Outcome::Fail, "1 processors are online, expected 2", vec![finding]);
    let text = tail(&report(vec![cpus]), None);
    let expected = "
  FAIL   CPUS-LOST          machine
         1 processors are online, expected 2
         seen    kmsg: CPU 1 has invalid APIC ID 100. Aborting bringup
         cause   processors were taken offline, or the kernel could not start
                 them
         remedy  read the kernel's lines about the missing processors: `dmesg`,
                 words x2apic and smpboot

SCOPE    machine: no GPU
VERDICT  FAIL   1 failed
FIRSTLIGHT verdict=FAIL failed=cpus warned=none codes=CPUS-LOST scope=machine host=node7 seconds=12.4
";
    assert_eq!(text, expected);
}

#[test]
fn the_same_finding_about_several_subjects_is_told_once() {
    let left_out = |id: &str| Code::TestNotRun.finding(Severity::Error, id, "mandatory, and left out");
    let tests = ["acs", "iommu"].map(|id| test(id, Outcome::Error, "left out", vec![left_out(id)]));
    let text = tail(&report(tests.into()), None);
    assert_eq!(text.matches("  ERROR  TEST-NOT-RUN").count(), 1);
    assert!(text.contains("TEST-NOT-RUN       acs, iommu\n"), "{text}");
    assert!(
        text.contains("\nFIRSTLIGHT verdict=ERROR failed=acs,iommu warned=none codes=TEST-NOT-RUN "),
        "{text}"
    );
}

#[test]
fn findings_with_one_cause_are_told_together_and_a_long_list_is_cut() {
    let port =
        |n| Code::AcsRedirect.finding(Severity::Fail, &format!("port {n}"), format!("port {n} redirects"));
    let text = tail(&report(vec![test("acs", Outcome::Fail, "", (1..=10).map(port).collect())]), None);
    assert_eq!(text.matches("  FAIL   ACS-REDIRECT").count(), 1);
    assert!(text.contains("         port 8 redirects\n         and 2 more in the JSON report\n"), "{text}");
    assert!(text.contains("port 9, port 10") && text.matches("cause").count() == 1, "{text}");
}

#[test]
fn harmless_findings_stay_in_the_json() {
    let info = Code::LinkSlow.finding(Severity::Info, "0000:01:00.0", "idle");
    assert!(
        !tail(&report(vec![test("links", Outcome::Pass, "fine", vec![info])]), None).contains("LINK-SLOW")
    );
}

#[test]
fn a_long_summary_goes_on_below_and_nothing_is_wider_than_80_columns() {
    let long = "framebuffer fb0 sits on 0000:01:00.0; it may spoil 0000:02:00.0 -> 0000:01:00.0".repeat(3);
    let text = row(&test("display", Outcome::Warn, &long, vec![]));
    assert!(text.lines().count() > 3 && text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let shown: String = text.split_whitespace().filter(|w| long.contains(w)).collect();
    assert!(shown.contains("fb0sitson"), "{shown}");
}

#[test]
fn a_recorded_machine_says_so_on_the_first_line() {
    let recorded = Report { root: "/rec/one".into(), ..report(vec![]) };
    assert!(header(&recorded).lines().next().unwrap().ends_with("recorded machine /rec/one"));
    assert!(!header(&report(vec![])).contains("recorded"));
}

#[test]
fn a_verdict_of_less_than_the_machine_says_so_first_and_last() {
    let fabric = Report {
        scope: Scope::Fabric,
        covers: "kernel, PCIe and driver, with 8 x NVIDIA H200; nothing ran on a GPU".into(),
        ..report(vec![test("iommu", Outcome::Pass, "off", vec![])])
    };
    let text = whole(&fabric, None);
    assert!(text.lines().next().unwrap().ends_with("level standard   scope fabric"), "{text}");
    let scope = "\nSCOPE    fabric: kernel, PCIe and driver, with 8 x NVIDIA H200; nothing ran on a\n         GPU\n\
                 VERDICT  PASS ";
    assert!(text.contains(scope) && text.contains(" scope=fabric host="), "{text}");
}

#[test]
fn no_test_at_all_is_an_error_of_the_validator() {
    let text = tail(&report(vec![]), None);
    assert!(text.ends_with(
        "VERDICT  ERROR  no test ran\nFIRSTLIGHT verdict=ERROR failed=validator warned=none codes=none \
             scope=machine host=node7 seconds=12.4\n"
    ));
}

#[test]
fn what_a_machine_says_cannot_move_the_cursor_or_forge_a_verdict() {
    let nasty = "\u{1b}[2J\nVERDICT  PASS\rx";
    let finding = Code::CpusLost.finding(Severity::Fail, nasty, nasty).seen(nasty);
    let nasty_report =
        Report { root: nasty.into(), ..report(vec![test("cpus", Outcome::Fail, nasty, vec![finding])]) };
    let text = whole(&nasty_report, None);
    assert!(!text.contains(['\u{1b}', '\r']), "{text}");
    assert_eq!(text.lines().filter(|l| l.starts_with("VERDICT")).count(), 1, "{text}");
}
