//! The second proof: with peer-to-peer forbidden as well, NCCL must fail to connect two GPUs. If it connects
//! them, it ignores the settings that forbid shared memory and network too, and its success with those
//! forbidden proves nothing, whatever its log says.

use super::arms::{self, ArmKind};
use crate::nccl::Sweep;
use crate::nccl::ranks::{RowAsk, TroubleKind};
use crate::suite::TestContext;
use gpu::Collective;
use machine::Rank;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};

/// One small call.
const BYTES: u64 = 1 << 10;

/// Runs the arm. `None`: it cannot connect, as it must.
pub(super) fn check(context: &TestContext) -> Option<Finding> {
    let which = ArmKind::Withheld;
    let sweep = Sweep {
        iterations: 1,
        ..Sweep::standard(Collective::AllReduce).at(BYTES)
    };
    let mut result = ConnectResult::Connected;
    // The arm must fail: its failure is judged here and is not a finding by itself.
    let tried = arms::with(context, which, |ranks| {
        ranks
            .row(&RowAsk::of(&sweep, BYTES, Rank::FIRST))
            .inspect_err(|trouble| {
                result = match trouble.kind {
                    TroubleKind::NoTransport | TroubleKind::Nccl(_) => ConnectResult::NoTransport,
                    _ => ConnectResult::OtherError,
                };
            })
    });
    judge(result, tried.err().map(|finding| *finding))
}

/// How the attempt to connect ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectResult {
    Connected,
    NoTransport,
    OtherError,
}

fn judge(result: ConnectResult, error: Option<Finding>) -> Option<Finding> {
    let which = ArmKind::Withheld;
    match (result, error) {
        (ConnectResult::NoTransport, _) => None,
        (_, Some(error)) if error.is(Code::NcclNoTransport) => None,
        (_, None) => {
            let message = format!(
                "NCCL {which}: it connects two GPUs although every transport is forbidden, so its transport is unproven"
            );
            Some(Code::NcclUnforbidden.finding(Severity::Error, Subject::operation(which), message))
        }
        (_, Some(error)) => {
            let message = format!(
                "it is unknown whether NCCL obeys its settings: {}",
                error.message
            );
            let finding =
                Code::NcclUnproven.finding(Severity::Error, Subject::operation(which), message);
            let finding = finding
                .because(Reason::EndedOtherwise)
                .seen_all(error.evidence);
            Some(Finding {
                lacks: error.lacks,
                ..finding
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failed_connection_is_a_proof() {
        let said = |code: Code| Some(code.finding(Severity::Fail, Subject::Machine, "why"));
        assert_eq!(
            judge(ConnectResult::NoTransport, said(Code::NcclNoTransport)),
            None
        );
        // NCCL may search for transports already when the communicator is made.
        assert_eq!(
            judge(ConnectResult::Connected, said(Code::NcclNoTransport)),
            None
        );
        let works = judge(ConnectResult::Connected, None).unwrap();
        assert!(works.is(Code::NcclUnforbidden) && works.severity == Severity::Error);
        let hangs = judge(ConnectResult::OtherError, said(Code::NcclHang)).unwrap();
        assert!(hangs.is(Code::NcclUnproven) && hangs.message.ends_with("settings: why"));
    }
}
