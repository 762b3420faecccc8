//! The judgement over transfers between processes. Pure.

use super::{How, Results};
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::schedule::Pair;
use crate::suite::shared::pair::together;
use crate::suite::shared::speed::table;
use crate::suite::shared::transfer::findings;
use serde_json::Value;

/// Judges all pairs.
pub(super) fn judge(results: &Results) -> Judgement {
    let mut all = Vec::new();
    for how in [How::Ipc, How::Descriptor] {
        let mut found: Vec<(Pair, Finding)> = Vec::new();
        for (pair, _) in results.tried.iter().filter(|t| t.1 == how) {
            let faults = results.faults.iter().filter(|(by, f)| *by == how && f.cell.pair == *pair);
            let faults: Vec<_> = faults.map(|(_, fault)| fault.clone()).collect();
            found.extend(findings(*pair, &faults).into_iter().map(|(pair, f)| (pair, between(how, f))));
        }
        all.extend(together(found));
    }
    all.extend(results.unsupported.iter().map(|(how, why)| unsupported(*how, why, results)));
    all.extend(results.broken.iter().cloned());
    if results.tried.is_empty() && all.is_empty() {
        return Judgement::not_applicable("no pair has peer access; see p2p-capability");
    }
    Judgement::summed_up(|| good(results), all).with_tables(vec![tried(results)])
}

/// What was tried with each pair.
fn tried(results: &Results) -> Value {
    let row = |how: How| {
        let pairs = results.tried.iter().filter(|t| t.1 == how).count();
        let [least, most] = results.sizes;
        // Both engines, both directions.
        vec![
            how.to_string().into(),
            pairs.into(),
            least.into(),
            most.into(),
            8.into(),
            (4 * (least + most)).into(),
        ]
    };
    let columns = [
        ("memory", ""),
        ("pairs", ""),
        ("smallest", "B"),
        ("largest", "B"),
        ("transfers a pair", ""),
        ("bytes a pair", "B"),
    ];
    table("tried", &columns, &[row(How::Ipc), row(How::Descriptor)])
}

fn good(results: &Results) -> String {
    let by = |how| results.tried.iter().filter(|t| t.1 == how).count();
    let (ipc, descriptor) = (by(How::Ipc), by(How::Descriptor));
    format!("data arrives between two processes: {ipc} ordered pairs by CUDA IPC, {descriptor} by descriptor")
}

fn between(how: How, finding: Finding) -> Finding {
    Finding { message: format!("between processes, by {how}: {}", finding.message), ..finding }
}

/// Programs share memory by CUDA IPC if they can; if that works, the other mechanism may be missing.
fn unsupported(how: How, why: &str, results: &Results) -> Finding {
    let shared = how != How::Ipc && results.tried.iter().any(|t| t.1 == How::Ipc);
    let severity = if shared { Severity::Info } else { Severity::Warn };
    let message = format!("{how} cannot be used between processes on this machine: {why}");
    Code::P2pRefused
        .finding(severity, "machine", message)
        .because("the driver does not offer it on this system, as in some virtual machines and containers")
        .remedy("configure frameworks to share memory by the other mechanism, or run them on the host itself")
}
