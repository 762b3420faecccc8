//! A report from anywhere: it is refused, or it is the same after being written and read again, every form of it can be
//! made, and init, which reads it for itself, says what the validator says.
#![no_main]

use firstlight::render::{junit, last_line, text};
use firstlight::report::from_json;
use firstlight_init::child::End;
use firstlight_init::verdict::{Proof, judge};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(report) = from_json(bytes) else { return };
    let written = serde_json::to_vec(&report).expect("a report can be written");
    assert_eq!(from_json(&written).expect("and read again"), report);

    let (whole, line) = (text::whole(&report, None), last_line::last_line(&report));
    assert!(whole.ends_with(&line) && line.lines().count() == 1, "{whole}");
    assert_eq!(whole.lines().filter(|line| line.starts_with("FIRSTLIGHT ")).count(), 1, "{whole}");
    assert!(!whole.contains(|c: char| c.is_control() && c != '\n'), "{whole:?}");
    let _ = junit::suites(&report).expect("it is made in memory");

    let lines = vec![format!("VERDICT  {}   x", report.verdict), line.trim_end().to_owned()];
    for status in 0..4 {
        let (end, reason) = (End::Exited(status), String::new());
        let proof = Proof { end, reason, report: Ok(written.clone()), lines: lines.clone(), seconds: 1.0 };
        let judgement = judge(&proof, &[]);
        if i32::from(report.verdict.exit_status()) != status {
            assert!(!judgement.has_report && !judgement.verdict.is_good());
        } else if judgement.has_report {
            assert_eq!(judgement.verdict, report.verdict);
            assert_eq!(
                judgement.announcement("here"),
                lines,
                "the validator's own lines are those of its report"
            );
        }
    }
});
