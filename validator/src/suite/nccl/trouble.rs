//! What went wrong in an arm, as a finding: what hangs or finds no way between the GPUs is theirs, what is
//! missing or crashed says nothing of them.

use crate::nccl::ranks::{Trouble, TroubleKind};
use crate::outcome::finding::{Code, Finding, Severity};

/// The finding; `subject` is the arm.
pub(super) fn finding(subject: &str, trouble: &Trouble) -> Box<Finding> {
    let (code, severity) = match trouble.kind {
        TroubleKind::Missing => (Code::NcclMissing, Severity::Error),
        TroubleKind::Hang => (Code::NcclHang, Severity::Fail),
        TroubleKind::NoTransport => (Code::NcclNoTransport, Severity::Fail),
        TroubleKind::Nccl(_) => (Code::NcclError, Severity::Fail),
        TroubleKind::Cuda => (Code::CudaError, Severity::Error),
        TroubleKind::Died | TroubleKind::Broken => (Code::TestCrashed, Severity::Error),
    };
    let rank = trouble.rank.map_or(String::new(), |rank| format!(", rank {rank}"));
    let message = format!("NCCL {subject}{rank}: {}", trouble.text);
    Box::new(code.finding(severity, subject, message).seen_all(trouble.diagnosis.clone()))
}

/// An arm that is not where it was put: a fault of ours.
pub(super) fn gone(subject: &str) -> Box<Finding> {
    let message = format!("NCCL {subject}: its processes were lost");
    Box::new(Code::TestCrashed.finding(Severity::Error, subject, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_of_the_gpus_is_an_error_and_what_does_fails() {
        for (kind, code, severity) in [
            (TroubleKind::Missing, Code::NcclMissing, Severity::Error),
            (TroubleKind::Hang, Code::NcclHang, Severity::Fail),
            (TroubleKind::NoTransport, Code::NcclNoTransport, Severity::Fail),
            (TroubleKind::Nccl(1), Code::NcclError, Severity::Fail),
            (TroubleKind::Died, Code::TestCrashed, Severity::Error),
        ] {
            let trouble =
                Trouble { rank: Some(2), text: "why".into(), kind, diagnosis: vec!["line".to_owned()] };
            let found = finding("with peer-to-peer", &trouble);
            assert!(found.is(code) && found.severity == severity);
            assert_eq!(found.message, "NCCL with peer-to-peer, rank 2: why");
            assert_eq!(found.evidence, ["line"]);
        }
    }
}
