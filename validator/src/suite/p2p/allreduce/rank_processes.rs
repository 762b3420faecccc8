//! The processes of all ranks: requests go to all of them, and the answers must arrive within one deadline.

use super::super::processes::NOT_SUPPORTED;
use super::super::processes::messages::Trouble;
use super::rank::{Answer, Ask, COMMAND, HANG, Join, Ran, Run};
use crate::process::partner::{Partner, PartnerError};
use crate::schedule::Pair;
use gpu::Clique;
use machine::{GpuId, Rank};
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use std::io;
use std::time::{Duration, Instant};

/// The time limit for starting CUDA in all processes at once.
const START: Duration = Duration::from_secs(60);
/// The time limit for opening and closing other processes' memory.
const OPENING: Duration = Duration::from_secs(15);
/// Added to the time that a rank itself waits.
const ANSWER: Duration = Duration::from_secs(5);
/// `CUDA_ERROR_TOO_MANY_PEERS`
const TOO_MANY: i32 = 711;

/// Why a group, or everything, ends early.
pub(super) enum Stop {
    /// So many GPUs cannot have access to each other at once.
    TooMany,
    /// The driver does not support CUDA IPC.
    Unsupported(String),
    /// Everything ends.
    All(Box<Finding>),
}

/// A rank's process, and the IPC handles of its two areas.
struct RankProcess {
    gpu: GpuId,
    handles: [Vec<u8>; 2],
    partner: Partner,
}

/// The processes of all ranks.
pub(super) struct RankProcesses(Vec<RankProcess>);

impl RankProcesses {
    /// Starts a process for each of these GPUs, all at the same time.
    pub(super) fn start(clique: &Clique, gpus: &[GpuId]) -> Result<Self, Stop> {
        let broken = |why: String| {
            let message = format!("a process for each GPU cannot be started: {why}");
            Stop::All(Box::new(
                Code::CudaStart
                    .finding(Severity::Error, Subject::Machine, message)
                    .lacking([why.as_str()]),
            ))
        };
        let start = |gpu: &GpuId| -> io::Result<RankProcess> {
            Ok(RankProcess {
                gpu: *gpu,
                handles: Default::default(),
                partner: Partner::start(COMMAND)?,
            })
        };
        let started = gpus.iter().map(start).collect::<io::Result<_>>();
        let mut processes = Self(started.map_err(|e| broken(e.to_string()))?);
        processes.say(gpus, |_, gpu| Ask::Open { gpu })?;
        for (gpu, answer) in processes
            .hear(gpus, START)
            .map_err(|lost| broken(lost.1.to_string()))?
        {
            let uuid = clique.gpu(gpu).map(|gpu| gpu.uuid.clone());
            match answer {
                Answer::Opened { id, handles } if Some(&id) == uuid.as_ref() => {
                    processes
                        .of(gpu)
                        .into_iter()
                        .for_each(|process| process.handles.clone_from(&handles));
                }
                Answer::Opened { id, .. } => {
                    return Err(broken(format!("it sees GPU {id} as GPU {gpu}")));
                }
                Answer::Failed(trouble) if trouble.code == Some(NOT_SUPPORTED) => {
                    return Err(Stop::Unsupported(trouble.text));
                }
                Answer::Failed(trouble) => return Err(broken(trouble.text)),
                answer => return Err(broken(format!("unexpected answer {answer:?}"))),
            }
        }
        Ok(processes)
    }

    fn of(&mut self, gpu: GpuId) -> Option<&mut RankProcess> {
        self.0.iter_mut().find(|process| process.gpu == gpu)
    }

    fn say(&mut self, gpus: &[GpuId], ask: impl Fn(Rank, GpuId) -> Ask) -> Result<(), Stop> {
        for (rank, gpu) in Rank::each(gpus) {
            let sent = self
                .of(*gpu)
                .map(|process| process.partner.send(&ask(rank, *gpu), None));
            sent.unwrap_or(Ok(())).map_err(|lost| gone(*gpu, &lost))?;
        }
        Ok(())
    }

    /// The answers of these GPUs' ranks, all within the same time.
    fn hear(
        &mut self,
        gpus: &[GpuId],
        within: Duration,
    ) -> Result<Vec<(GpuId, Answer)>, (GpuId, PartnerError)> {
        let due = Instant::now() + within;
        let mut answers = Vec::new();
        for process in gpus {
            let left = due.saturating_duration_since(Instant::now());
            let Some(process) = self.of(*process) else {
                continue;
            };
            let answer = process
                .partner
                .receive(left)
                .map_err(|lost| (process.gpu, lost))?;
            answers.push((process.gpu, answer));
        }
        Ok(answers)
    }

    fn ask(
        &mut self,
        gpus: &[GpuId],
        within: Duration,
        ask: impl Fn(Rank, GpuId) -> Ask,
    ) -> Result<Vec<Answer>, Stop> {
        self.say(gpus, ask)?;
        let answers = self
            .hear(gpus, within)
            .map_err(|(gpu, lost)| gone(gpu, &lost))?;
        let faults = answers.iter().filter_map(|(gpu, answer)| match answer {
            Answer::Failed(trouble) => Some((*gpu, trouble)),
            _ => None,
        });
        // A rank that gives up because of another rank's fault reports a milder fault than that rank.
        match faults.min_by_key(|(_, trouble)| (trouble.hang, !trouble.sticky)) {
            Some((gpu, trouble)) => Err(stop(gpu, trouble, Code::CudaError, Severity::Error)),
            None => Ok(answers.into_iter().map(|(_, answer)| answer).collect()),
        }
    }

    /// All ranks open each other's memory; if one cannot, the others close it again.
    pub(super) fn join(&mut self, group: &[GpuId]) -> Result<(), Stop> {
        let handles: Vec<_> = group
            .iter()
            .filter_map(|gpu| self.of(*gpu).map(|process| process.handles.clone()))
            .collect();
        self.say(group, |rank, _| {
            Ask::Join(Join {
                rank,
                handles: handles.clone(),
            })
        })?;
        let answers = self
            .hear(group, OPENING)
            .map_err(|(gpu, lost)| gone(gpu, &lost))?;
        let fault = answers.iter().find_map(|(gpu, answer)| match answer {
            Answer::Refused { peer, trouble } => {
                Some(refused(*gpu, group.get(peer.index()).copied(), trouble))
            }
            Answer::Failed(trouble) => Some(stop(*gpu, trouble, Code::CudaError, Severity::Error)),
            _ => None,
        });
        let Some(fault) = fault else { return Ok(()) };
        let joined = answers
            .iter()
            .filter(|(_, answer)| *answer == Answer::Joined)
            .map(|(gpu, _)| *gpu);
        self.leave(&joined.collect::<Vec<_>>())?;
        Err(fault)
    }

    pub(super) fn leave(&mut self, group: &[GpuId]) -> Result<(), Stop> {
        self.ask(group, OPENING, |_, _| Ask::Leave).map(drop)
    }

    pub(super) fn run(&mut self, group: &[GpuId], run: Run) -> Result<Vec<Ran>, Stop> {
        let ran = |answer| match answer {
            Answer::Ran(ran) => Ok(ran),
            answer => {
                let message = format!("unexpected answer {answer:?} of a rank's process");
                Err(Stop::All(Box::new(Code::P2pChecker.finding(
                    Severity::Error,
                    Subject::Machine,
                    message,
                ))))
            }
        };
        self.ask(group, HANG + ANSWER, |_, _| Ask::Run(run))?
            .into_iter()
            .map(ran)
            .collect()
    }

    /// Kills all processes: a kernel that does not end prevents its process from ending by itself.
    pub(super) fn kill(&mut self) {
        self.0.iter_mut().for_each(|process| process.partner.kill());
    }
}

impl Drop for RankProcesses {
    fn drop(&mut self) {
        // So that all exit at the same time.
        self.0
            .iter_mut()
            .for_each(|process| process.partner.close());
    }
}

fn gone(gpu: GpuId, lost: &PartnerError) -> Stop {
    let (code, severity) = match lost {
        PartnerError::Silent(_) => (Code::P2pHang, Severity::Fail),
        PartnerError::Died(_) | PartnerError::Broken(_) => (Code::TestCrashed, Severity::Error),
    };
    let finding = code.finding(severity, gpu, format!("GPU {gpu}: {lost}"));
    Stop::All(Box::new(finding.because(Reason::KernelAllReduce)))
}

/// What ends if `gpu` cannot open the memory of `peer` in another process.
fn refused(gpu: GpuId, peer: Option<GpuId>, trouble: &Trouble) -> Stop {
    let Some(peer) = peer else {
        return stop(gpu, trouble, Code::P2pRefused, Severity::Fail);
    };
    match stop(gpu, trouble, Code::P2pRefused, Severity::Fail) {
        Stop::All(finding) if finding.is(Code::P2pRefused) => {
            let pair = Pair::new(gpu, peer);
            let message = format!("{pair}: CUDA IPC is refused: {}", trouble.text);
            let refused = Code::P2pRefused.finding(Severity::Fail, pair, message);
            Stop::All(Box::new(Finding {
                lacks: finding.lacks,
                ..refused
            }))
        }
        stop => stop,
    }
}

/// What a GPU's fault in its process ends; `code` and `severity` are for faults without their own code.
fn stop(gpu: GpuId, trouble: &Trouble, code: Code, severity: Severity) -> Stop {
    let (code, severity) = match trouble {
        Trouble { hang: true, .. } => (Code::P2pHang, Severity::Fail),
        Trouble { sticky: true, .. } => (Code::CudaSticky, Severity::Fail),
        Trouble {
            code: Some(TOO_MANY),
            ..
        } => return Stop::TooMany,
        Trouble {
            code: Some(NOT_SUPPORTED),
            ..
        } => return Stop::Unsupported(trouble.text.clone()),
        _ => (code, severity),
    };
    let finding = code
        .finding(severity, gpu, trouble.text.as_str())
        .lacking([trouble.text.as_str()]);
    Stop::All(Box::new(finding.because(Reason::KernelAllReduce)))
}
