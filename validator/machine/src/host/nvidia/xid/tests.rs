//! The table of Xid numbers, and the lines whose text decides.

use super::*;
use outcome::finding::{Code, FindingEntry, Reason, Subject};
use outcome::platform::Host;

const CHANGED: &str = "NVRM: Xid (PCI:0000:41:00): 154, GPU recovery action changed from";

/// The cause and the remedy of a finding about such an error.
fn shown(meaning: Meaning) -> (String, String) {
    let finding = Code::GpuXid.finding(Severity::Fail, Subject::Machine, "x");
    let entry = FindingEntry::of(
        &finding.because(Reason::Xid(meaning.fault, meaning.recovery)),
        &Host::default(),
    );
    (entry.cause.to_string(), entry.remedy.to_string())
}

#[test]
fn numbers_are_sorted_do_not_overlap_and_are_described() {
    assert!(TABLE.windows(2).all(|rows| rows[0].1 < rows[1].0));
    for (first, last, fault, _, words) in TABLE {
        assert!(
            first <= last && *fault != FaultSource::Unknown && words.len() > 8,
            "{first}"
        );
    }
}

#[test]
fn program_errors_are_information_before_the_tests_and_errors_in_them() {
    for number in [13, 31, 43, 45, 68, 137] {
        let fault = meaning(number).fault;
        assert_eq!(
            severity(fault, TestPhase::Before),
            Severity::Info,
            "{number}"
        );
        assert_eq!(
            severity(fault, TestPhase::During),
            Severity::Error,
            "{number}"
        );
    }
}

#[test]
fn hardware_errors_fail_and_unknown_ones_warn_before_the_tests() {
    let severities = |number: u32| {
        let fault = meaning(number).fault;
        (
            severity(fault, TestPhase::Before),
            severity(fault, TestPhase::During),
        )
    };
    for number in [32, 48, 74, 79, 95, 119, 154] {
        assert_eq!(
            severities(number),
            (Severity::Fail, Severity::Fail),
            "{number}"
        );
    }
    for number in [39, 109, 1, 7, 90, 174, 9999] {
        assert_eq!(
            severities(number),
            (Severity::Warn, Severity::Fail),
            "{number}"
        );
    }
    assert_eq!(severities(63), (Severity::Warn, Severity::Warn));
    let unknown = Meaning {
        fault: FaultSource::Unknown,
        recovery: None,
        words: "",
    };
    assert!(meaning(9999) == unknown && shown(unknown).1 == unmarked().shown_remedy());
}

#[test]
fn the_actions_are_those_of_the_catalogue() {
    for (action, numbers) in [
        (
            IGNORE,
            &[38, 43, 44, 45, 63, 66, 78, 92, 121, 137, 152, 157, 160, 161][..],
        ),
        (RESTART, &[8, 13, 31, 32, 39, 68, 69, 80, 94, 135]),
        (
            RESET,
            &[
                46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158,
            ],
        ),
        (REBOOT, &[79, 151]),
        (POWER, &[54]),
        (UNSPECIFIED, &[56, 57, 58, 61, 81, 123, 167, 169, 9999]),
    ] {
        for number in numbers {
            assert_eq!(meaning(*number).recovery, action, "{number}");
        }
    }
}

/// A finding without a reason.
fn unmarked() -> outcome::finding::Finding {
    Code::GpuXid.finding(Severity::Fail, outcome::finding::Subject::Machine, "")
}

#[test]
fn every_action_has_a_remedy_and_a_program_is_checked_before_it_is_started_again() {
    for (.., fault, recovery, _) in TABLE {
        let meaning = Meaning {
            fault: *fault,
            recovery: *recovery,
            words: "",
        };
        let (cause, remedy) = shown(meaning);
        let row = unmarked();
        assert!(
            cause != row.shown_cause() && remedy != row.shown_remedy(),
            "{meaning:?}"
        );
    }
    assert!(
        shown(meaning(31))
            .1
            .starts_with("end other programs on the GPUs")
    );
    assert!(
        shown(meaning(94))
            .1
            .starts_with("start the program that the line names again")
    );
    assert!(
        shown(meaning(161)).1.starts_with("look up the number"),
        "it fails"
    );
    assert!(shown(meaning(79)).1.starts_with("reboot the machine"));
}

#[test]
fn the_driver_names_the_action_and_its_number_counts_not_its_words() {
    for (change, action) in [
        (
            "0x0 (None) to 0x1 (GPU Reset Required)",
            Some(Recovery::ResetGpu),
        ),
        ("0x0 (None) to 0x1 (PF FLR)", Some(Recovery::ResetGpu)),
        (
            "0x1 (GPU Reset Required) to 0x2 (Node Reboot Required)",
            Some(Recovery::RebootNode),
        ),
        ("0x0 (None) to 0x3 (Drain P2P)", Some(Recovery::DrainP2p)),
        (
            "0x3 (Drain P2P) to 0x4 (Drain and Reset)",
            Some(Recovery::DrainAndReset),
        ),
        ("0x4 (Drain and Reset) to 0x0 (None)", Some(Recovery::None)),
        ("0x0 (None) to 0x5 (Something)", None),
        ("0x0 (None) to 0xfffffffffffffffff (Something)", None),
        ("0x0 (None) to nothing", None),
        ("0x0", None),
    ] {
        assert_eq!(
            changed_to(&format!("{CHANGED} {change}")),
            action,
            "{change}"
        );
    }
}

#[test]
fn the_newest_action_of_the_driver_counts() {
    let lines = [
        format!("{CHANGED} 0x0 (None) to 0x1 (x)"),
        format!("{CHANGED} 0x1 (x) to 0x2 (y)"),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let now = meaning_of(154, &lines);
    assert_eq!(
        (now.fault, now.recovery, now.words),
        (Gpu, REBOOT, demand(Recovery::RebootNode))
    );
    assert!(shown(now).1.starts_with("reboot the machine"));
    let over = format!("{CHANGED} 0x2 (y) to 0x0 (None)");
    let over = meaning_of(154, &[lines[0], &over]);
    assert_eq!((over.fault, over.recovery), (Repaired, IGNORE));
    let unclear = meaning_of(154, &["NVRM: Xid (PCI:0000:41:00): 154, something new"]);
    assert_eq!((unclear.fault, unclear.recovery), (Gpu, UNSPECIFIED));
}

#[test]
fn a_newer_nvlink_error_asks_for_a_reset_only_where_its_line_says_fatal() {
    let mild = "NVRM: Xid (PCI:0000:04:00): 145, RLW_CTRL Nonfatal XC0 i0 Link 00 (0x00000003)";
    let bad = "NVRM: Xid (PCI:0001:00:00): 145, RLW_REMAP Fatal XC1 i0 Link 10 (0x00000082)";
    assert_eq!(meaning_of(145, &[mild]).recovery, IGNORE);
    assert_eq!(meaning_of(145, &[mild, bad, mild]).recovery, RESET);
    assert_eq!(meaning_of(145, &[mild, "cut off"]).recovery, UNSPECIFIED);
    assert_eq!(
        (
            meaning_of(145, &[mild, bad]).fault,
            meaning_of(145, &[]).fault
        ),
        (Link, Link)
    );
}

#[test]
fn an_nvlink_error_that_says_nonfatal_warns_and_its_remedy_says_so() {
    for line in [
        "NVRM: Xid (PCI:0000:19:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x04000000)",
        "NVRM: Xid (PCI:0000:19:00): 150, MSE Non-fatal XC0 i0 Link 13 (0x04000000)",
    ] {
        let mild = meaning_of(145, &[line, line]);
        for when in [TestPhase::Before, TestPhase::During] {
            assert_eq!(severity(mild.fault, when), Severity::Warn, "{line}");
        }
        assert!(
            shown(mild).1.starts_with("nothing now") && mild.recovery == IGNORE,
            "{mild:?}"
        );
    }
}

#[test]
fn no_remedy_says_to_do_nothing_about_an_error_that_fails() {
    for number in 0..=200 {
        let meaning = meaning(number);
        let fails = severity(meaning.fault, TestPhase::Before) == Severity::Fail;
        assert!(
            !fails || !shown(meaning).1.starts_with("nothing"),
            "{number}"
        );
    }
}

#[test]
fn a_line_may_name_an_earlier_xid_as_its_cause() {
    let line = "NVRM: Xid (PCI:0000:4c:00): 45, pid=1000, name=python3, Ch 00000000 caused by previous Xid 149";
    assert_eq!(caused_by(line), Some(149));
    for other in [
        "NVRM: Xid (PCI:0000:4c:00): 45, pid=1000, Ch 00000000",
        "caused by previous Xid",
        "previous Xid x",
    ] {
        assert_eq!(caused_by(other), None, "{other}");
    }
}
