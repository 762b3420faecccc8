//! What NCCL's own diagnostics say about the pairs of an arm (NCCL 2.31 and newer, `NCCL_RUN_DIAGNOSTICS`): one more witness.
//! NCCL writes and reads a few words between each two GPUs when it makes a communicator, and goes on whatever it finds. Pairs
//! that it calls wrong are named; that it finds none is said, and passes nothing. Pure.

use super::arms::ArmKind;
use crate::nccl::log::NcclLog;
use crate::schedule::Pair;
use machine::{GpuId, Rank};
use outcome::finding::{Code, Finding, Severity, Subject};

/// A result that may need attention.
const NOTED: &str = "[INFO]";
const GOOD: &str = "[OK]";
/// The check of the pairs of GPUs; others are about the network.
const PAIRS: &str = "p2p:";

/// What the diagnostics say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Diagnostics {
    /// `; NCCL's own diagnostics: p2p: ..`; empty if they did not run or found something.
    pub(super) summary: String,
    pub(super) finding: Option<Finding>,
}

/// Judges the lines; rank n of the arm is on the n-th of `gpus`.
pub(super) fn of(which: ArmKind, log: &NcclLog, gpus: &[GpuId]) -> Diagnostics {
    let with = |tag: &str| -> Vec<&str> {
        log.diagnostics
            .iter()
            .filter_map(|line| line.strip_prefix(tag))
            .map(str::trim)
            .collect()
    };
    let (good, noted) = (with(GOOD), with(NOTED));
    if noted.is_empty() {
        // From 2.32 on other lines come first, such as one that says what was skipped.
        let pairs = good.iter().find(|line| line.starts_with(PAIRS));
        let summary = pairs.map_or(String::new(), |line| {
            format!("; NCCL's own diagnostics: {line}")
        });
        return Diagnostics {
            summary,
            finding: None,
        };
    }
    let mut pairs: Vec<_> = noted.iter().filter_map(|line| pair(line, gpus)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let names = pairs
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    let (severity, what, subject) = match pairs.first() {
        Some(first) if pairs.len() == 1 => (
            Severity::Warn,
            format!("data between GPUs is wrong: {names}"),
            Subject::from(*first),
        ),
        Some(_) => {
            let ends = pairs.iter().flat_map(|pair| [pair.from, pair.to]);
            (
                Severity::Warn,
                format!("data between GPUs is wrong: {names}"),
                Subject::gpus(ends),
            )
        }
        None => (
            Severity::Info,
            noted.first().copied().unwrap_or_default().to_owned(),
            Subject::operation(which),
        ),
    };
    let message = format!("NCCL {which}: its own diagnostics say: {what}");
    let lines = noted
        .iter()
        .map(|line| format!("NCCL DIAG {NOTED} {line}"))
        .collect();
    let finding = Code::NcclDiagnostics
        .finding(severity, subject, message)
        .seen_all(lines);
    Diagnostics {
        summary: String::new(),
        finding: Some(finding),
    }
}

/// The pair of a line such as `p2p: write mismatch srcRank=0 srcCudaDev=0 .. dstRank=1 ..`: the first GPU acts on the other's
/// memory.
fn pair(line: &str, gpus: &[GpuId]) -> Option<Pair> {
    let rank = |key: &str| {
        let value = line
            .split_whitespace()
            .find_map(|word| word.strip_prefix(key))?;
        gpus.get(Rank::new(value.parse().ok()?).index()).copied()
    };
    Some(Pair::new(rank("srcRank=")?, rank("dstRank=")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &str) -> Diagnostics {
        of(
            ArmKind::Strict,
            &NcclLog::read(lines),
            &GpuId::list([0, 2, 3]),
        )
    }

    #[test]
    fn pairs_that_nccl_finds_wrong_are_a_warning_with_its_lines() {
        let Diagnostics { summary, finding } = said(
            "vm:7 NCCL DIAG === NCCL Diagnostics ===\n\
             vm:7 NCCL DIAG [INFO] p2p: write mismatch srcRank=1 srcCudaDev=1 srcNvmlDev=1 dstRank=2 dstCudaDev=2 dstNvmlDev=2 path=PIX handle=direct expected=0x1 got=0x0 verify=0x0; x\n\
             vm:7 NCCL DIAG [INFO] p2p: only 5/6 GPU-to-GPU peer accesses passed verification\n\
             vm:7 NCCL DIAG NCCL diagnostics completed in 245.3 ms across 3 ranks\n",
        );
        let finding = finding.unwrap();
        assert!(
            summary.is_empty()
                && finding.is(Code::NcclDiagnostics)
                && finding.severity == Severity::Warn
        );
        let end = "its own diagnostics say: data between GPUs is wrong: GPU 2 -> 3";
        assert!(finding.message.ends_with(end), "{}", finding.message);
        assert_eq!(finding.evidence.len(), 2);
    }

    #[test]
    fn what_is_no_pair_is_information_and_agreement_is_said() {
        let good = said(
            "NCCL DIAG [OK]   p2p: verified P2P access in both directions between every GPU pair (6 peer accesses)\n",
        );
        assert!(good.summary.ends_with(
            "diagnostics: p2p: verified P2P access in both directions between every GPU pair (6 peer accesses)"
        ));
        assert_eq!(good.finding, None);
        // NCCL 2.32.3 on two H200: a check that was skipped is "[OK]" and comes first.
        let skipped = "vm:7 NCCL DIAG [OK] net bw: skipped (single host or no network transport)\n";
        let both = format!(
            "{skipped}vm:7 NCCL DIAG [OK]   p2p: verified P2P access in both directions between every GPU pair (2 peer accesses)\n"
        );
        assert!(
            said(&both)
                .summary
                .ends_with("between every GPU pair (2 peer accesses)"),
            "{}",
            said(&both).summary
        );
        assert_eq!(said(skipped), Diagnostics::default());
        let finding = said("vm:7 NCCL DIAG [INFO] p2p: setup failed on rank 1 result=1\n")
            .finding
            .unwrap();
        assert_eq!(finding.severity, Severity::Info);
        assert_eq!(said("vm:1:1 [0] NCCL INFO x\n"), Diagnostics::default());
    }
}
