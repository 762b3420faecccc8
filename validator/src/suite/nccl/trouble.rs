//! Errors of an arm as findings: a hang or a failed connection is a fault of the GPUs, a missing library or a
//! crash says nothing about them.

use crate::nccl::ranks::{Trouble, TroubleKind};
use outcome::finding::{Code, Finding, Severity, Subject};
use std::fmt::Display;
use std::iter;

/// The finding; `arm` is NCCL's settings.
pub(super) fn finding(arm: impl Display, trouble: &Trouble) -> Box<Finding> {
    let (code, severity) = match trouble.kind {
        TroubleKind::Missing => (Code::NcclMissing, Severity::Error),
        TroubleKind::Hang => (Code::NcclHang, Severity::Fail),
        TroubleKind::NoTransport => (Code::NcclNoTransport, Severity::Fail),
        TroubleKind::Nccl(_) => (Code::NcclError, Severity::Fail),
        TroubleKind::Cuda => (Code::CudaError, Severity::Error),
        TroubleKind::Died | TroubleKind::Broken => (Code::TestCrashed, Severity::Error),
    };
    let rank = trouble
        .rank
        .map_or(String::new(), |rank| format!(", rank {rank}"));
    let message = format!("NCCL {arm}{rank}: {}", trouble.text);
    let texts = iter::once(&trouble.text)
        .chain(&trouble.diagnosis)
        .map(String::as_str);
    let finding = code
        .finding(severity, Subject::operation(arm), message)
        .lacking(texts);
    Box::new(finding.seen_all(trouble.diagnosis.clone()))
}

/// An arm that is missing from its place: an internal error.
pub(super) fn gone(arm: impl Display) -> Box<Finding> {
    let message = format!("NCCL {arm}: its processes were lost");
    Box::new(Code::TestCrashed.finding(Severity::Error, Subject::operation(arm), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_unrelated_to_the_gpus_are_errors_and_the_others_fail() {
        for (kind, code, severity) in [
            (TroubleKind::Missing, Code::NcclMissing, Severity::Error),
            (TroubleKind::Hang, Code::NcclHang, Severity::Fail),
            (
                TroubleKind::NoTransport,
                Code::NcclNoTransport,
                Severity::Fail,
            ),
            (TroubleKind::Nccl(1), Code::NcclError, Severity::Fail),
            (TroubleKind::Died, Code::TestCrashed, Severity::Error),
        ] {
            let trouble = Trouble {
                rank: Some(2.into()),
                text: "why".into(),
                kind,
                diagnosis: vec!["line".to_owned()],
            };
            let found = finding("with peer-to-peer", &trouble);
            assert!(found.is(code) && found.severity == severity);
            assert_eq!(found.message, "NCCL with peer-to-peer, rank 2: why");
            assert_eq!(found.evidence, ["line"]);
        }
    }
}
