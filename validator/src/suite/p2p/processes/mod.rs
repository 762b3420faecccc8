//! Whether data also arrives between processes. Frameworks run one process for each GPU and open each other's
//! memory, through CUDA IPC or through exported descriptors of mapped memory. The worker owns the memory and
//! checks it; a second process writes to it and reads from it.

mod judge;
pub(super) mod messages;
mod owner_process;
mod peer_process;
#[cfg(test)]
mod tests;

pub(in crate::suite) use peer_process::serve;

use crate::process::partner::{COMMAND, Partner, PartnerError};
use crate::schedule::Pair;
use crate::suite::protocol::Activity;
use crate::suite::shared::gate::gate;
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::shared::gpu_resources::GpuResources;
use crate::suite::shared::transfer::Fault;
use crate::suite::{Group, Test, TestContext};
use gpu::{self, Clique, GpuError};
use messages::{Answer, Ask, Trouble};
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::test;
use owner_process::SharedBuffer;
use report::Level;
use std::cell::RefCell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::P2P_PROCESSES,
    title: "Between processes",
    proves: "all data that one process writes to or reads from a GPU of another process arrives, by CUDA IPC and by descriptor",
    level: Level::Standard,
    deadline: Duration::from_secs(120),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The time limit for starting CUDA a second time, with all GPUs.
const START: Duration = Duration::from_secs(60);
/// The time limit of an answer, longer than that of a transfer.
const ANSWER: Duration = Duration::from_secs(12);
/// `CUDA_ERROR_NOT_SUPPORTED`
pub(in crate::suite) const NOT_SUPPORTED: i32 = 801;

/// The most memory that the other process's contexts use on each GPU, bytes.
pub(in crate::suite) const CONTEXT: u64 = 768 << 20;

/// The other process, started before the test that needs it: starting CUDA takes seconds, in which other tests run.
#[derive(Debug, Default)]
struct PrestartedPeer(RefCell<Option<Partner>>);

impl PrestartedPeer {
    fn begin(&self, context: &TestContext) -> bool {
        let mut prestarted = self.0.borrow_mut();
        if context.runs(&TEST) && prestarted.is_none() {
            *prestarted = Partner::start(COMMAND).ok();
            let sent = prestarted
                .as_mut()
                .map(|partner| partner.send(&Ask::Start, None));
            if sent.is_none_or(|sent| sent.is_err()) {
                *prestarted = None;
            }
        }
        prestarted.is_some()
    }

    fn take(&self) -> Option<Partner> {
        self.0.borrow_mut().take()
    }
}

/// Starts the other process if the test that needs it was requested; true while it is starting. That test tries again after
/// an error, and reports it.
pub(in crate::suite) fn start_ahead(context: &TestContext) -> bool {
    context.kept.get::<PrestartedPeer>().begin(context)
}

impl Drop for PrestartedPeer {
    fn drop(&mut self) {
        // It was not needed, and may still be starting.
        if let Some(mut partner) = self.take() {
            partner.kill();
        }
    }
}

/// How a buffer is passed from one process to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShareMethod {
    /// By its CUDA IPC handle.
    Ipc,
    /// By an exported descriptor of mapped memory.
    Descriptor,
}

impl fmt::Display for ShareMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipc => "CUDA IPC",
            Self::Descriptor => "exported mapped memory",
        })
    }
}

/// The results of all pairs and methods.
#[derive(Debug, Default)]
struct Results {
    tried: Vec<(Pair, ShareMethod)>,
    faults: Vec<(ShareMethod, Fault)>,
    /// What the driver does not support, and its error.
    unsupported: Vec<(ShareMethod, String)>,
    broken: Vec<Finding>,
    /// Sizes of the transfers, each made by both engines in both directions.
    sizes: [u64; 2],
}

/// Why one pair, or everything, ends early.
enum Stop {
    /// The driver does not support this mechanism.
    Unsupported(String),
    /// This pair ends.
    Pair(Box<Finding>),
    /// All pairs end.
    All(Box<Finding>),
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let begun = context.kept.get::<PrestartedPeer>().take();
    if let Some(none) = gate(context, true)? {
        begun.into_iter().for_each(|mut partner| partner.kill());
        return Ok(none);
    }
    let clique = context.clique()?;
    let gpus = clique
        .gpus
        .iter()
        .map(GpuResources::new)
        .collect::<Result<Vec<_>, _>>();
    let gpus = gpus.map_err(|e| fault_finding(Subject::Machine, &e))?;
    context.doing("starting CUDA in a second process");
    let mut other = PeerProcess::start(clique, begun)?;
    let mut results = Results {
        sizes: owner_process::sizes(context.config.validate.level),
        ..Results::default()
    };
    for method in [ShareMethod::Ipc, ShareMethod::Descriptor] {
        match try_all_pairs(context, &mut other, &gpus, method, &mut results) {
            Ok(()) => {}
            Err(Stop::Unsupported(why)) => results.unsupported.push((method, why)),
            Err(Stop::Pair(finding)) => results.broken.push(*finding),
            Err(Stop::All(finding)) => {
                results.broken.push(*finding);
                break;
            }
        }
    }
    Ok(judge::judge(&results))
}

/// Tries every ordered pair, one owner after the other.
fn try_all_pairs(
    context: &TestContext,
    other: &mut PeerProcess,
    gpus: &[GpuResources<'_>],
    method: ShareMethod,
    results: &mut Results,
) -> Result<(), Stop> {
    for owner in gpus {
        let to_stop = |e: GpuError| stop(owner.gpu.id(), &Trouble::from(&e));
        let peers = gpus.iter().filter(|p| p.gpu.id() != owner.gpu.id());
        let shared = SharedBuffer::new(owner, method, results.sizes).map_err(to_stop)?;
        for peer in peers {
            if !peer.gpu.can_access(owner.gpu).map_err(to_stop)? {
                continue;
            }
            let pair = Pair {
                from: peer.gpu.id(),
                to: owner.gpu.id(),
            };
            context.doing(Activity::of_pair(
                pair,
                format!("between processes by {method}"),
            ));
            match owner_process::try_pair(other, &shared, pair, &mut results.faults) {
                Ok(()) => results.tried.push((pair, method)),
                Err(Stop::Pair(finding)) if !gpu::is_cuda_lost() => results.broken.push(*finding),
                Err(stop) => return Err(stop),
            }
        }
    }
    Ok(())
}

/// What a GPU's fault in either process ends.
fn stop(subject: impl Into<Subject>, trouble: &Trouble) -> Stop {
    let text = trouble.text.as_str();
    let finding =
        |code: Code, severity| Box::new(code.finding(severity, subject, text).lacking([text]));
    match trouble {
        Trouble { hang: true, .. } => Stop::All(finding(Code::P2pHang, Severity::Fail)),
        Trouble { sticky: true, .. } => Stop::All(finding(Code::CudaSticky, Severity::Fail)),
        Trouble {
            code: Some(NOT_SUPPORTED),
            ..
        } => Stop::Unsupported(trouble.text.clone()),
        _ => Stop::Pair(finding(Code::CudaError, Severity::Error)),
    }
}

/// The other process, in which CUDA has started.
struct PeerProcess(Partner);

impl PeerProcess {
    /// Starts it, or waits for its start, and checks that it has the same GPUs under the same numbers.
    fn start(clique: &Clique, begun: Option<Partner>) -> Result<Self, Box<Finding>> {
        let broken = |why: String| {
            let message = format!("a second process cannot use the GPUs: {why}");
            Box::new(
                Code::CudaStart
                    .finding(Severity::Error, Subject::Machine, message)
                    .lacking([why.as_str()]),
            )
        };
        let (mut partner, is_starting) = match begun {
            Some(partner) => (partner, true),
            None => (
                Partner::start(COMMAND).map_err(|e| broken(e.to_string()))?,
                false,
            ),
        };
        let answer = if is_starting {
            partner.receive(START)
        } else {
            partner.ask(&Ask::Start, None, START)
        };
        match answer {
            Ok(Answer::Started(ids)) if ids.iter().eq(clique.gpus.iter().map(|g| &g.uuid)) => {
                Ok(Self(partner))
            }
            Ok(Answer::Started(ids)) => {
                Err(broken(format!("it sees other GPUs: {}", ids.join(", "))))
            }
            Ok(Answer::Failed(trouble)) => Err(broken(trouble.text)),
            Ok(answer) => Err(broken(format!("unexpected answer {answer:?}"))),
            Err(lost) => Err(broken(lost.to_string())),
        }
    }

    fn ask(
        &mut self,
        pair: Pair,
        ask: &Ask,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<Answer, Stop> {
        match self.0.ask(ask, descriptor, ANSWER) {
            Ok(Answer::Failed(trouble)) => Err(stop(pair, &trouble)),
            Ok(answer) => Ok(answer),
            Err(lost) => {
                let (code, severity) = match lost {
                    PartnerError::Silent(_) => (Code::P2pHang, Severity::Fail),
                    PartnerError::Died(_) | PartnerError::Broken(_) => {
                        (Code::TestCrashed, Severity::Error)
                    }
                };
                Err(Stop::All(Box::new(code.finding(
                    severity,
                    pair,
                    lost.to_string(),
                ))))
            }
        }
    }
}
