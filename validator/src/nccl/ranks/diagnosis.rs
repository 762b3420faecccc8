//! The NCCL lines that are shown when an arm has failed: warnings first, then the last lines of each rank.
//! Pure.

use std::collections::BTreeSet;

/// NCCL's message for a pair of ranks without an allowed transport (its `src/transport.cc`).
const NO_TRANSPORT: &str = "No transport found";
const WARNINGS: [&str; 3] = ["NCCL WARN ", "NCCL ATTN ", "NCCL DIAG [INFO]"];
/// The most lines shown.
const MOST: usize = 40;
/// How many of each process's last lines are shown.
const LAST: usize = 4;
/// The longest line.
const LONGEST: usize = 240;

/// The lines to show from each process's output.
pub(super) fn failure_lines(outputs: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let warnings = outputs
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| WARNINGS.iter().any(|warning| line.contains(warning)));
    let last = outputs.iter().flat_map(|text| {
        let lines: Vec<_> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let skipped = lines.len().saturating_sub(LAST);
        lines.into_iter().skip(skipped)
    });
    // With many ranks, warnings must leave room for the last lines.
    let all = warnings.take(MOST / 2).chain(last);
    let all = all.filter(|line| seen.insert(*line)).take(MOST);
    all.map(|line| line.chars().take(LONGEST).collect())
        .collect()
}

/// NCCL's own message about a missing transport, if any.
pub(super) fn no_transport(outputs: &[String]) -> Option<String> {
    let mut lines = outputs.iter().flat_map(|text| text.lines());
    lines
        .find_map(|line| line.find(NO_TRANSPORT).and_then(|at| line.get(at..)))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From NCCL 2.28.9 with every transport forbidden.
    const FORBIDDEN: &str = "\
vm:2344:2377 [3] NCCL INFO NCCL_NET_DISABLE_INTRA set by environment to 1.

[2026-11-20 10:24:45] vm:2344:2377 [3] transport.cc:40 NCCL WARN No transport found for rank 3[90] -> rank 2[80]
vm:2344:2377 [3] NCCL INFO transport.cc:162 -> 2
vm:2344:2377 [3] NCCL INFO transport/generic.cc:25 -> 2
vm:2344:2377 [3] NCCL INFO group.cc:149 -> 2
vm:2344:2377 [3] NCCL INFO group.cc:209 -> 2
vm:2344:2377 [3] NCCL INFO group.cc:76 -> 2 [Async thread]
";

    #[test]
    fn warnings_come_first_and_no_line_is_repeated() {
        let lines = failure_lines(&[
            FORBIDDEN.to_owned(),
            "one\nvm:1:1 [0] NCCL WARN two\n".to_owned(),
        ]);
        assert!(
            lines[0].contains("No transport found for rank 3[90]"),
            "{lines:#?}"
        );
        assert_eq!(lines[1], "vm:1:1 [0] NCCL WARN two");
        assert!(lines[5].contains("group.cc:76"), "{lines:#?}");
        assert_eq!((lines.len(), lines[6].as_str()), (7, "one"));
    }

    #[test]
    fn many_ranks_give_a_bounded_list() {
        let long = format!("{}\n", "x".repeat(5000));
        let outputs: Vec<_> = (0..64)
            .map(|rank| {
                format!("{long}vm:{rank}:1 NCCL WARN first\nrank {rank} a\nrank {rank} b\n")
            })
            .collect();
        let lines = failure_lines(&outputs);
        assert_eq!(lines.len(), MOST);
        assert!(lines.iter().all(|line| line.len() <= LONGEST));
        assert!(lines.iter().any(|line| line == "rank 0 b"));
    }

    #[test]
    fn a_missing_transport_is_reported_in_nccls_words() {
        let outputs = [String::new(), FORBIDDEN.to_owned()];
        assert_eq!(
            no_transport(&outputs).unwrap(),
            "No transport found for rank 3[90] -> rank 2[80]"
        );
        assert_eq!(no_transport(&["Channel 00 via P2P/CUMEM".to_owned()]), None);
    }
}
