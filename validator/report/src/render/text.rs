//! The text for the console: no color, no cursor movement, 80 columns or the width of `outcome::text::at_width`. Made of
//! three parts, so that rows can be shown as tests end: header with the GPUs, one row per test, tail. The whole text has
//! the answer before the rows. The program colors the words of a terminal where it writes them.

use crate::render::last_line::last_line;
use crate::render::pair_matrix::pairs;
use crate::render::{causes, gain, words};
use crate::{Gpu, Report, TestEntry};
use machine::pcie::gpu_block::{GpuLine, gpu_block};
use outcome::Outcome;
use outcome::scope::Scope;
use outcome::text::{is_invisible, width as text_width, wrapped};
use std::fmt::Write as _;

/// The column of a row's text, after outcome and id.
const INDENT: usize = 25;
/// The columns that a row's text leaves: those before it, and the seconds.
const BESIDE: usize = 33;
/// The most GPUs whose pairs are shown as a matrix.
pub const MOST_GPUS: usize = 8;

/// The whole report; `path` is the path of the JSON.
#[must_use]
pub fn full_text(report: &Report, path: Option<&str>) -> String {
    let rows: String = rows(&report.tests);
    let answer = replace_controls(&causes::answer(report));
    format!(
        "{}{answer}{}\n{rows}{}",
        header(report),
        matrix(report),
        end(report, path)
    )
}

/// One line about the machine, an empty line, and the GPUs by number with an empty line.
#[must_use]
pub fn header(report: &Report) -> String {
    let mut parts = vec![format!("firstlight {}", words::version(report))];
    parts.push(
        report
            .driver
            .module
            .as_ref()
            .map_or("no driver".to_owned(), |v| format!("driver {v}")),
    );
    parts.extend(report.driver.nccl.as_ref().map(|v| format!("nccl {v}")));
    parts.push(report.gpu_names());
    parts.push(format!("level {}", report.level));
    parts.extend((report.scope != Scope::Machine).then(|| format!("scope {}", report.scope)));
    if report.is_recorded() {
        parts.push(format!("the machine in {}", report.root));
    }
    replace_controls(&parts.join("   ").replace('\n', "?")) + "\n\n" + &gpus(report)
}

/// The GPUs by number, with an empty line; nothing if there is none.
fn gpus(report: &Report) -> String {
    let line = |(number, gpu): (usize, &Gpu)| GpuLine {
        number,
        bdf: gpu.bdf,
        slot: words::slot(report, gpu.bdf),
        name: words::model(report, gpu).to_owned(),
        uuid: gpu.uuid.clone(),
    };
    let lines: Vec<_> = report.gpus.iter().enumerate().map(line).collect();
    let block = gpu_block(&lines);
    if block.is_empty() {
        block
    } else {
        replace_controls(&block) + "\n"
    }
}

/// The matrix of the pairs below the answer, with an empty line before it; nothing if no pair was tried.
fn matrix(report: &Report) -> String {
    let few = report.gpus.len() <= MOST_GPUS;
    let text = few.then(|| pairs(report)).flatten();
    text.map(|text| format!("\n{}", replace_controls(&text)))
        .unwrap_or_default()
}

/// All rows: consecutive tests that do not apply for the same reason share one.
#[must_use]
pub fn rows(tests: &[TestEntry]) -> String {
    let groups = tests.chunk_by(are_equal);
    groups.map(row_of).collect()
}

/// Whether both tests share one row: neither applies, for the same reason.
#[must_use]
pub fn are_equal(one: &TestEntry, other: &TestEntry) -> bool {
    let idle = |test: &TestEntry| test.outcome == Outcome::NotApplicable;
    idle(one) && idle(other) && one.summary == other.summary
}

/// One row for tests that are [`are_equal`].
#[must_use]
pub fn row_of(group: &[TestEntry]) -> String {
    match group {
        [] => String::new(),
        [one] => row(one),
        [first, ..] => {
            let ids: Vec<_> = group.iter().map(|test| test.id.as_str()).collect();
            let summary = format!("{}: {}", first.summary, ids.join(", "));
            let seconds = group.iter().map(|test| test.seconds).sum();
            row(&TestEntry {
                id: format!("{} tests", group.len()),
                summary,
                seconds,
                ..first.clone()
            })
        }
    }
}

/// One test: outcome, id, summary, seconds; a long summary continues on the next lines.
#[must_use]
pub fn row(test: &TestEntry) -> String {
    let first = format!("  {:<6} {:<15} ", words::outcome(test.outcome), test.id);
    let pad = " ".repeat(INDENT);
    // A long id leaves less of the first line.
    let rest = text_width().saturating_sub(BESIDE);
    let width = rest.saturating_sub(first.chars().count().saturating_sub(INDENT));
    let lines = wrap(&test.summary, width, rest);
    let mut lines = lines.iter();
    let head = lines.next().map_or("", String::as_str);
    let mut text = format!("{first}{head:<width$} {:>5.1} s\n", test.seconds);
    for line in lines {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{pad}{line}");
    }
    replace_controls(&text)
}

/// Breaks a text into lines of at most `width` columns; the first one has at most `head`.
fn wrap(text: &str, head: usize, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let width = if lines.len() == 1 { head } else { width };
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The text after rows that were shown as tests ended: the answer, then the end.
#[must_use]
pub fn tail(report: &Report, path: Option<&str>) -> String {
    replace_controls(&format!("\n{}", causes::answer(report)))
        + &matrix(report)
        + &end(report, path)
}

/// The gain from peer-to-peer, the causes, the known problems, the verdict, and last the line for scrapers.
fn end(report: &Report, path: Option<&str>) -> String {
    let gain = gain::report_gain_table(report)
        .map(|table| format!("\n{table}"))
        .unwrap_or_default();
    let scope = wrapped(
        "SCOPE    ",
        "         ",
        &format!("{}: {}", report.scope, report.covers),
    );
    let known = causes::known_problems(report);
    let end = verdict(report, path) + &last_line(report);
    replace_controls(&format!(
        "{gain}{}\n{known}{scope}{end}",
        causes::details_of(report)
    ))
}

/// Control characters in the machine's files must not move the cursor of a terminal.
fn replace_controls(text: &str) -> String {
    text.chars()
        .map(|c| if is_invisible(c) && c != '\n' { '?' } else { c })
        .collect()
}

/// The number of tests by outcome: `12 passed, 1 not applicable`.
#[must_use]
pub fn counts(tests: &[TestEntry]) -> String {
    words::counts(tests)
}

fn verdict(report: &Report, path: Option<&str>) -> String {
    let counts = counts(&report.tests);
    let path = path.map(|p| format!("   report {p}")).unwrap_or_default();
    format!(
        "VERDICT  {:<5}  {counts}{path}\n",
        report.verdict.to_string()
    )
}

#[cfg(test)]
mod tests {
    //! Small reports, line by line.

    use super::*;
    use crate::render::fixture::{gpu, report, test};
    use outcome::finding::{Code, Severity, Subject};
    use outcome::platform::Pair;
    use outcome::scope::Scope;
    use outcome::table::{PairRow, Table};

    #[test]
    fn a_row_of_a_long_id_has_80_columns_too() {
        let words = "NET/Socket/0 for 8 ordered pairs of ranks on different nodes";
        let rows = row(&test("nodes-nccl-socket", Outcome::Pass, words, vec![]));
        let expected = "  PASS   nodes-nccl-socket NET/Socket/0 for 8 ordered pairs of ranks on    0.0 s\n                         different nodes\n";
        assert_eq!(rows, expected);
        assert!(rows.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn tests_that_do_not_apply_for_one_reason_share_a_row_and_keep_their_names() {
        let idle = |id: &str, why: &str| test(id, Outcome::NotApplicable, why, vec![]);
        let tests = [
            idle("cuda", "no GPU"),
            idle("acs", "no GPU"),
            idle("gdr", "no card"),
            idle("nccl", "no GPU"),
        ];
        let expected = [
            "  N/A    2 tests         no GPU: cuda, acs                                 0.1 s",
            "  N/A    gdr             no card                                           0.0 s",
            "  N/A    nccl            no GPU                                            0.0 s",
        ];
        assert_eq!(rows(&tests).lines().collect::<Vec<_>>(), expected);
        let passed = ["cuda", "acs"].map(|id| test(id, Outcome::Pass, "fine", vec![]));
        assert_eq!(rows(&passed).lines().count(), 2);
    }

    #[test]
    fn a_wide_terminal_breaks_fewer_lines() {
        let long = test("display", Outcome::Warn, &"a word ".repeat(30), vec![]);
        let lines = |columns| {
            outcome::text::at_width(columns, || row(&long))
                .lines()
                .count()
        };
        assert!(
            lines(160) < lines(80) && lines(80) < lines(60),
            "{} {} {}",
            lines(160),
            lines(80),
            lines(60)
        );
    }

    #[test]
    fn the_gpus_and_the_pairs_of_a_small_machine_are_shown_and_each_gpu_is_placed_once() {
        let slow = |from, to| Code::P2pSlow.finding(Severity::Fail, Pair::of(from, to), "slow");
        let mut tried = test("p2p-integrity", Outcome::Pass, "", vec![]);
        tried.tables = vec![Table::Pairs(vec![PairRow::new(Pair::of(0, 1), "ok")])];
        let broken = Code::P2pLatency.finding(Severity::Warn, Pair::of(0, 1), "late");
        let speed = test("p2p-bandwidth", Outcome::Fail, "", vec![slow(0, 1)]);
        let late = test("p2p-latency", Outcome::Warn, "", vec![broken]);
        let mut report = report(vec![tried, speed, late]);
        report.gpus = vec![gpu("0000:01:00.0"), gpu("0000:02:00.0")];
        report.explain();
        let text = full_text(&report, None);
        assert!(
            text.contains("\n\n  GPU 0  ") && text.contains("\n  GPU 1  "),
            "{text}"
        );
        let (answer, pairs) = (
            text.find("\nANSWER   ").unwrap(),
            text.find("\nPairs: 1 of 2 ok;").unwrap(),
        );
        assert!(answer < pairs, "{text}");
        assert_eq!(text.matches("         GPU 0 (0000:").count(), 1, "{text}");
        report.gpus = (0..9).map(|_| gpu("0000:01:00.0")).collect();
        assert!(!full_text(&report, None).contains("\nPairs: "));
    }

    #[test]
    fn a_good_machine_is_a_header_rows_and_a_verdict() {
        let tests = vec![
            test(
                "iommu",
                Outcome::Pass,
                "off: no IOMMU class, no groups",
                vec![],
            ),
            test(
                "acs",
                Outcome::NotApplicable,
                "no port on a GPU path",
                vec![],
            ),
        ];
        let text = full_text(&report(tests), Some("/run/firstlight/report.json"));
        let expected = "\
firstlight 0.1.0   no driver   GPUs unknown   level standard

ANSWER   P2P: UNKNOWN

  PASS   iommu           off: no IOMMU class, no groups                    0.0 s
  N/A    acs             no port on a GPU path                             0.0 s

SCOPE    machine: no GPU
VERDICT  PASS   1 passed, 1 not applicable   report /run/firstlight/report.json
FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=12.4
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_failure_is_shown_with_evidence_cause_and_remedy() {
        let finding = Code::CpusLost
            .finding(
                Severity::Fail,
                Subject::Machine,
                "1 processors are online, expected 2",
            )
            .seen("kmsg: CPU 1 has invalid APIC ID 100. Aborting bringup");
        let cpus = test(
            "cpus",
            Outcome::Fail,
            "1 processors are online, expected 2",
            vec![finding],
        );
        let text = tail(&report(vec![cpus]), None);
        let expected = "
ANSWER   P2P: UNKNOWN, processors are missing
FIRST    read the kernel's lines about the missing processors: `dmesg`, search
         for x2apic and smpboot (CPUS-LOST)

  FAIL   CPUS-LOST          machine
         1 processors are online, expected 2
         seen    kmsg: CPU 1 has invalid APIC ID 100. Aborting bringup
         cause   processors were taken offline, or the kernel could not start
                 them
         remedy  read the kernel's lines about the missing processors: `dmesg`,
                 search for x2apic and smpboot

SCOPE    machine: no GPU
VERDICT  FAIL   1 failed
FIRSTLIGHT verdict=FAIL failed=cpus warned=none codes=CPUS-LOST scope=machine host=node7 seconds=12.4
";
        assert_eq!(text, expected);
    }

    #[test]
    fn equal_findings_about_several_subjects_are_shown_once() {
        let left_out =
            |id: &str| Code::TestNotRun.finding(Severity::Error, id, "mandatory, and left out");
        let tests =
            ["acs", "iommu"].map(|id| test(id, Outcome::Error, "left out", vec![left_out(id)]));
        let text = tail(&report(tests.into()), None);
        assert_eq!(text.matches("  ERROR  TEST-NOT-RUN").count(), 1);
        assert!(text.contains("TEST-NOT-RUN       acs, iommu\n"), "{text}");
        assert!(
            text.contains(
                "\nFIRSTLIGHT verdict=ERROR failed=acs,iommu warned=none codes=TEST-NOT-RUN "
            ),
            "{text}"
        );
    }

    #[test]
    fn findings_with_one_cause_are_grouped_and_a_long_list_is_cut() {
        let port = |n| {
            Code::AcsRedirect.finding(
                Severity::Fail,
                &format!("port {n}"),
                format!("port {n} redirects"),
            )
        };
        let text = tail(
            &report(vec![test(
                "acs",
                Outcome::Fail,
                "",
                (1..=10).map(port).collect(),
            )]),
            None,
        );
        assert_eq!(text.matches("  FAIL   ACS-REDIRECT").count(), 1);
        assert!(
            text.contains("         port 4 redirects\n         and 6 more in the JSON report\n"),
            "{text}"
        );
        assert!(
            text.contains("port 9, port 10") && text.matches("cause").count() == 1,
            "{text}"
        );
    }

    #[test]
    fn harmless_findings_stay_in_the_json() {
        let info = Code::LinkSlow.finding(Severity::Info, "0000:01:00.0", "idle");
        assert!(
            !tail(
                &report(vec![test("links", Outcome::Pass, "fine", vec![info])]),
                None
            )
            .contains("LINK-SLOW")
        );
    }

    #[test]
    fn a_long_summary_is_wrapped_to_80_columns() {
        let long =
            "framebuffer fb0 sits on 0000:01:00.0; it may spoil 0000:02:00.0 -> 0000:01:00.0"
                .repeat(3);
        let text = row(&test("display", Outcome::Warn, &long, vec![]));
        assert!(
            text.lines().count() > 3 && text.lines().all(|l| l.chars().count() <= 80),
            "{text}"
        );
        let shown: String = text
            .split_whitespace()
            .filter(|w| long.contains(w))
            .collect();
        assert!(shown.contains("fb0sitson"), "{shown}");
    }

    #[test]
    fn a_recorded_machine_is_marked_on_the_first_line() {
        let recorded = Report {
            root: "/rec/one".into(),
            ..report(vec![])
        };
        assert!(
            header(&recorded)
                .lines()
                .next()
                .unwrap()
                .ends_with("the machine in /rec/one")
        );
        assert!(!header(&report(vec![])).contains("recorded"));
    }

    #[test]
    fn a_limited_scope_is_shown_first_and_last() {
        let fabric = Report {
            scope: Scope::Fabric,
            covers: "kernel, PCIe and driver, with 8 x NVIDIA H200; nothing ran on a GPU".into(),
            ..report(vec![test("iommu", Outcome::Pass, "off", vec![])])
        };
        let text = full_text(&fabric, None);
        assert!(
            text.lines()
                .next()
                .unwrap()
                .ends_with("level standard   scope fabric"),
            "{text}"
        );
        let scope = "\nSCOPE    fabric: kernel, PCIe and driver, with 8 x NVIDIA H200; nothing ran on a\n         GPU\n\
                 VERDICT  PASS ";
        assert!(
            text.contains(scope) && text.contains(" scope=fabric host="),
            "{text}"
        );
    }

    #[test]
    fn no_test_at_all_is_an_error() {
        let text = tail(&report(vec![]), None);
        assert!(text.ends_with(
            "VERDICT  ERROR  no test ran\nFIRSTLIGHT verdict=ERROR failed=validator warned=none codes=none \
             scope=machine host=node7 seconds=12.4\n"
        ));
    }

    #[test]
    fn machine_data_cannot_move_the_cursor_or_forge_a_verdict() {
        let nasty = "\u{1b}[2J\nVERDICT  PASS\rx";
        let finding = Code::CpusLost
            .finding(Severity::Fail, nasty, nasty)
            .seen(nasty);
        let nasty_report = Report {
            root: nasty.into(),
            ..report(vec![test("cpus", Outcome::Fail, nasty, vec![finding])])
        };
        let text = full_text(&nasty_report, None);
        assert!(!text.contains(['\u{1b}', '\r']), "{text}");
        assert_eq!(
            text.lines().filter(|l| l.starts_with("VERDICT")).count(),
            1,
            "{text}"
        );
    }
}
