//! The judgement over transfers between processes. Pure.

use super::{Results, ShareMethod};
use crate::schedule::Pair;
use crate::suite::shared::pair::merge_pairs;
use crate::suite::shared::transfer::findings;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use outcome::table::{ProcessesRow, Table};

/// Judges all pairs.
pub(super) fn judge(results: &Results) -> Judgement {
    let mut all = Vec::new();
    for method in [ShareMethod::Ipc, ShareMethod::Descriptor] {
        let mut found: Vec<(Pair, Finding)> = Vec::new();
        for (pair, _) in results.tried.iter().filter(|t| t.1 == method) {
            let faults = results
                .faults
                .iter()
                .filter(|(by, f)| *by == method && f.transfer.pair == *pair);
            let faults: Vec<_> = faults.map(|(_, fault)| fault.clone()).collect();
            found.extend(
                findings(*pair, &faults)
                    .into_iter()
                    .map(|(pair, f)| (pair, name_method(method, f))),
            );
        }
        all.extend(merge_pairs(found));
    }
    all.extend(
        results
            .unsupported
            .iter()
            .map(|(method, why)| unsupported(*method, why, results)),
    );
    all.extend(results.broken.iter().cloned());
    if results.tried.is_empty() && all.is_empty() {
        return Judgement::not_applicable("no pair has peer access; see p2p-capability");
    }
    Judgement::summed_up(|| summary(results), all).with_tables(vec![transfers_table(results)])
}

/// What was tried with each pair.
fn transfers_table(results: &Results) -> Table {
    let [smallest, largest] = results.sizes;
    let row = |method: ShareMethod| ProcessesRow {
        memory: method.to_string(),
        pairs: results.tried.iter().filter(|t| t.1 == method).count(),
        smallest,
        largest,
        // Both engines, both directions.
        transfers: 8,
        bytes: 4 * (smallest + largest),
    };
    Table::Processes(vec![row(ShareMethod::Ipc), row(ShareMethod::Descriptor)])
}

fn summary(results: &Results) -> String {
    let by = |method| results.tried.iter().filter(|t| t.1 == method).count();
    let (ipc, descriptor) = (by(ShareMethod::Ipc), by(ShareMethod::Descriptor));
    format!(
        "data arrives between two processes: {ipc} ordered pairs by CUDA IPC, {descriptor} by descriptor"
    )
}

fn name_method(method: ShareMethod, finding: Finding) -> Finding {
    Finding {
        message: format!("between processes, by {method}: {}", finding.message).into(),
        ..finding
    }
}

/// Programs share memory by CUDA IPC if they can; if that works, the other mechanism may be missing.
fn unsupported(method: ShareMethod, why: &str, results: &Results) -> Finding {
    let shared =
        method != ShareMethod::Ipc && results.tried.iter().any(|t| t.1 == ShareMethod::Ipc);
    let severity = if shared {
        Severity::Info
    } else {
        Severity::Warn
    };
    let message = format!("{method} cannot be used between processes on this machine: {why}");
    Code::P2pRefused
        .finding(severity, Subject::Machine, message)
        .because(Reason::NotShared)
}
