//! The cause of an arm's failure, from the replies of its processes. Pure.

use super::messages::{Answer, Fault};
use machine::Rank;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Why an arm has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Trouble {
    /// The rank that failed, if it is a single one.
    pub rank: Option<Rank>,
    /// One line of text.
    pub text: String,
    /// The kind.
    pub kind: TroubleKind,
    /// NCCL's last lines and, for a hang, its report of its state.
    pub diagnosis: Vec<String>,
}

/// Kinds of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// A library, or a function of it, is missing.
    Missing,
    /// An operation does not end.
    Hang,
    /// NCCL finds no transport between two ranks among those that the arm allows.
    NoTransport,
    /// NCCL returned this `ncclResult_t`.
    Nccl(i32),
    /// CUDA returned an error.
    Cuda,
    /// A process died.
    Died,
    /// A process could not be started or reached, or sent something malformed.
    Broken,
}

impl Trouble {
    pub(super) fn broken(text: impl Into<String>) -> Self {
        Self {
            rank: None,
            text: text.into(),
            kind: TroubleKind::Broken,
            diagnosis: Vec::new(),
        }
    }
}

/// `ncclRemoteError`: another rank failed first.
const REMOTE_ERROR: i32 = 6;

/// The reply of one process.
#[derive(Clone)]
pub(super) enum Reply {
    Answered(Answer),
    Silent(Duration),
    Died(String),
    Broken(String),
}

/// The process that replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Responder {
    /// The process of all ranks.
    All,
    /// The process of one rank.
    Rank(Rank),
}

impl fmt::Display for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("the process of all ranks"),
            Self::Rank(rank) => write!(f, "rank {rank}"),
        }
    }
}

impl Reply {
    /// Why the arm cannot continue; `None` for an answer.
    fn fault(&self, responder: Responder) -> Option<Fault> {
        let rank = match responder {
            Responder::All => None,
            Responder::Rank(rank) => Some(rank),
        };
        let fault = |kind, text| Some(Fault { rank, kind, text });
        match self {
            Self::Answered(Answer::Failed(own)) => Some(Fault {
                rank: own.rank.or(rank),
                ..own.clone()
            }),
            Self::Answered(_) => None,
            Self::Silent(after) => {
                let text = format!(
                    "{responder} does not answer within {:.1} s",
                    after.as_secs_f64()
                );
                fault(TroubleKind::Hang, text)
            }
            Self::Died(how) => fault(TroubleKind::Died, format!("{responder} died: {how}")),
            Self::Broken(why) => fault(
                TroubleKind::Broken,
                format!("{responder} cannot be reached: {why}"),
            ),
        }
    }

    /// How close this reply is to the cause: a dead process or a broken GPU makes others fail, and a hanging
    /// process keeps others waiting.
    fn weight(&self) -> u8 {
        let Self::Answered(Answer::Failed(fault)) = self else {
            return match self {
                Self::Died(_) => 9,
                Self::Broken(_) => 5,
                Self::Silent(_) => 3,
                Self::Answered(_) => 0,
            };
        };
        match fault.kind {
            TroubleKind::Died | TroubleKind::Missing => 8,
            TroubleKind::Cuda => 7,
            TroubleKind::NoTransport => 6,
            TroubleKind::Nccl(REMOTE_ERROR) => 4,
            TroubleKind::Nccl(_) => 6,
            TroubleKind::Broken => 5,
            TroubleKind::Hang => 2,
        }
    }
}

/// The fault closest to the cause; `None` when there is none. A silent hanging process is reported together
/// with those that notice it.
pub(super) fn cause(replies: &[(Responder, Reply)]) -> Option<Fault> {
    let mut worst: Option<&(Responder, Reply)> = None;
    for reply in replies {
        // Of equal weights the first counts.
        if reply.1.weight() > worst.map_or(0, |(_, w)| w.weight()) {
            worst = Some(reply);
        }
    }
    let (responder, worst) = worst?;
    let mut fault = worst.fault(*responder)?;
    let hang = |(_, reply): &&(Responder, Reply)| {
        matches!(
            reply,
            Reply::Answered(Answer::Failed(Fault {
                kind: TroubleKind::Hang,
                ..
            }))
        )
    };
    let hanging: Vec<_> = replies.iter().filter(hang).collect();
    if let (Reply::Silent(_), Some((responder, reply))) = (worst, hanging.first())
        && let Some(other) = reply.fault(*responder)
    {
        fault.text = format!("{}; {}", fault.text, other.text);
    }
    if matches!(worst, Reply::Answered(_)) && fault.kind == TroubleKind::Hang && hanging.len() > 1 {
        // All of them wait: no single rank is the cause.
        fault.rank = None;
        for (responder, _) in hanging.iter().skip(1) {
            fault.text = format!("{}, {responder}", fault.text);
        }
    }
    Some(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: TroubleKind, text: &str) -> Reply {
        Reply::Answered(Answer::Failed(Fault {
            rank: None,
            kind,
            text: text.to_owned(),
        }))
    }

    fn of(replies: Vec<Reply>) -> Fault {
        let replies: Vec<_> = replies
            .into_iter()
            .enumerate()
            .map(|(n, reply)| (Responder::Rank(n.into()), reply))
            .collect();
        cause(&replies).unwrap()
    }

    const LATE: Duration = Duration::from_secs(20);

    #[test]
    fn a_dead_process_is_the_cause_of_the_others_errors() {
        let remote = failed(
            TroubleKind::Nccl(6),
            "ncclAllReduce returned 6 remote error",
        );
        let fault = of(vec![
            remote.clone(),
            Reply::Died("signal: 9 (SIGKILL)".to_owned()),
            remote,
        ]);
        assert_eq!(
            (fault.rank, fault.kind),
            (Some(1.into()), TroubleKind::Died)
        );
        assert_eq!(fault.text, "rank 1 died: signal: 9 (SIGKILL)");
    }

    #[test]
    fn the_silent_rank_is_named_before_those_that_wait_for_it() {
        let waits = failed(TroubleKind::Hang, "no end within 10.0 s");
        let fault = of(vec![
            waits.clone(),
            waits,
            Reply::Silent(LATE),
            Reply::Silent(LATE),
        ]);
        assert_eq!(
            (fault.rank, fault.kind),
            (Some(2.into()), TroubleKind::Hang)
        );
        assert_eq!(
            fault.text,
            "rank 2 does not answer within 20.0 s; no end within 10.0 s"
        );
    }

    #[test]
    fn where_all_wait_no_single_rank_is_named() {
        let waits = failed(TroubleKind::Hang, "no end within 10.0 s at rank 0");
        let fault = of(vec![
            waits.clone(),
            Reply::Answered(Answer::Joined),
            waits.clone(),
        ]);
        assert_eq!(
            (fault.rank, fault.text.as_str()),
            (None, "no end within 10.0 s at rank 0, rank 2")
        );
        assert_eq!(
            of(vec![Reply::Answered(Answer::Joined), waits]).rank,
            Some(1.into())
        );
    }

    #[test]
    fn an_nccl_error_outweighs_the_silence_that_follows() {
        let remote = failed(TroubleKind::Nccl(6), "6 remote error");
        let own = failed(TroubleKind::Nccl(3), "3 internal error");
        let fault = of(vec![Reply::Silent(LATE), remote, own]);
        assert_eq!(
            (fault.rank, fault.kind),
            (Some(2.into()), TroubleKind::Nccl(3))
        );
    }

    #[test]
    fn answers_are_not_trouble() {
        let all = [
            (
                Responder::Rank(Rank::FIRST),
                Reply::Answered(Answer::Joined),
            ),
            (Responder::All, Reply::Answered(Answer::Joined)),
        ];
        assert!(cause(&all).is_none() && cause(&[]).is_none());
    }
}
