//! Whether data also arrives between processes. Frameworks run one process for each GPU and open each other's
//! memory, through CUDA IPC or through exported descriptors of mapped memory. The worker owns the memory and
//! checks it; a second process writes to it and reads from it.

mod judge;
pub(super) mod messages;
mod other;
mod owner;
#[cfg(test)]
mod tests;

pub(in crate::suite) use other::serve;

use crate::config::Level;
use crate::gpu::{self, Clique, GpuError};
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::process::partner::{COMMAND, Lost, Partner};
use crate::schedule::Pair;
use crate::suite::shared::gate::gate;
use crate::suite::shared::gpu_fault::during;
use crate::suite::shared::seat::Seat;
use crate::suite::shared::transfer::Fault;
use crate::suite::{Group, Machine, Test};
use messages::{Answer, Ask, Trouble};
use owner::Shared;
use std::cell::RefCell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "p2p-processes",
    title: "Between processes",
    proves: "all data that one process writes to or reads from a GPU of another process arrives, by CUDA IPC and by descriptor",
    level: Level::Standard,
    deadline: Duration::from_secs(120),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// For starting CUDA a second time, with all GPUs.
const START: Duration = Duration::from_secs(60);
/// Allowed beyond the time limit of the transfer itself.
const ANSWER: Duration = Duration::from_secs(12);
/// `CUDA_ERROR_NOT_SUPPORTED`
pub(in crate::suite) const NOT_SUPPORTED: i32 = 801;

/// The most memory that its contexts use on each GPU, bytes.
pub(in crate::suite) const CONTEXT: u64 = 768 << 20;

/// The other process, started before the test that needs it: starting CUDA takes seconds, during which other
/// tests run.
#[derive(Debug, Default)]
pub struct Beside(RefCell<Option<Partner>>);

impl Beside {
    /// Starts it if that test was requested; true while it is starting. That test tries again after an error, and
    /// reports it.
    pub(in crate::suite) fn begin(&self, machine: &Machine) -> bool {
        let mut beside = self.0.borrow_mut();
        if machine.runs(&TEST) && beside.is_none() {
            *beside = Partner::start(COMMAND).ok();
            let sent = beside.as_mut().map(|partner| partner.say(&Ask::Start, None));
            if sent.is_none_or(|sent| sent.is_err()) {
                *beside = None;
            }
        }
        beside.is_some()
    }

    fn take(&self) -> Option<Partner> {
        self.0.borrow_mut().take()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It was not needed, and may still be starting.
        if let Some(mut partner) = self.take() {
            partner.kill();
        }
    }
}

/// How a buffer is passed from one process to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// By its CUDA IPC handle.
    Ipc,
    /// By an exported descriptor of mapped memory.
    Descriptor,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipc => "CUDA IPC",
            Self::Descriptor => "exported mapped memory",
        })
    }
}

/// Everything that was tried.
#[derive(Debug, Default)]
struct Results {
    tried: Vec<(Pair, How)>,
    faults: Vec<(How, Fault)>,
    /// What the driver does not support, and its error.
    unsupported: Vec<(How, String)>,
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

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    let begun = machine.beside.take();
    if let Some(none) = gate(machine, true)? {
        begun.into_iter().for_each(|mut partner| partner.kill());
        return Ok(none);
    }
    let clique = machine.clique()?;
    let seats = clique.gpus.iter().map(Seat::new).collect::<Result<Vec<_>, _>>();
    let seats = seats.map_err(|e| during("machine", &e))?;
    machine.doing("starting CUDA in a second process");
    let mut other = Other::start(clique, begun)?;
    let mut results = Results { sizes: owner::sizes(machine.config.validate.level), ..Results::default() };
    for how in [How::Ipc, How::Descriptor] {
        match all(machine, &mut other, &seats, how, &mut results) {
            Ok(()) => {}
            Err(Stop::Unsupported(why)) => results.unsupported.push((how, why)),
            Err(Stop::Pair(finding)) => results.broken.push(*finding),
            Err(Stop::All(finding)) => {
                results.broken.push(*finding);
                break;
            }
        }
    }
    Ok(judge::judge(&results))
}

/// Every ordered pair, one owner after the other.
fn all(
    machine: &Machine,
    other: &mut Other,
    seats: &[Seat<'_>],
    how: How,
    results: &mut Results,
) -> Result<(), Stop> {
    for owner in seats {
        let subject = format!("GPU {}", owner.gpu.id());
        let here = |e: GpuError| stop(&subject, &Trouble::from(&e));
        let peers = seats.iter().filter(|p| p.gpu.id() != owner.gpu.id());
        let shared = Shared::new(owner, how, results.sizes).map_err(here)?;
        for peer in peers {
            if !peer.gpu.can_access(owner.gpu).map_err(here)? {
                continue;
            }
            let pair = Pair { from: peer.gpu.id(), to: owner.gpu.id() };
            machine.doing(&format!("{pair}: between processes by {how}"));
            match owner::pair(other, &shared, pair, &mut results.faults) {
                Ok(()) => results.tried.push((pair, how)),
                Err(Stop::Pair(finding)) if !gpu::is_spoiled() => results.broken.push(*finding),
                Err(stop) => return Err(stop),
            }
        }
    }
    Ok(())
}

/// The consequence of a GPU's fault, in either process.
fn stop(subject: &str, trouble: &Trouble) -> Stop {
    let finding = |code: Code, severity| Box::new(code.finding(severity, subject, trouble.text.clone()));
    match trouble {
        Trouble { hang: true, .. } => Stop::All(finding(Code::P2pHang, Severity::Fail)),
        Trouble { sticky: true, .. } => Stop::All(finding(Code::CudaSticky, Severity::Fail)),
        Trouble { code: Some(NOT_SUPPORTED), .. } => Stop::Unsupported(trouble.text.clone()),
        _ => Stop::Pair(finding(Code::CudaError, Severity::Error)),
    }
}

/// The other process, with CUDA started.
struct Other(Partner);

impl Other {
    /// Starts it, or waits for its start, and checks that it has the same GPUs under the same numbers.
    fn start(clique: &Clique, begun: Option<Partner>) -> Result<Self, Box<Finding>> {
        let broken = |why: String| {
            let message = format!("a second process cannot use the GPUs: {why}");
            Box::new(Code::CudaStart.finding(Severity::Error, "machine", message))
        };
        let (mut partner, is_starting) = match begun {
            Some(partner) => (partner, true),
            None => (Partner::start(COMMAND).map_err(|e| broken(e.to_string()))?, false),
        };
        let answer = if is_starting { partner.hear(START) } else { partner.ask(&Ask::Start, None, START) };
        match answer {
            Ok(Answer::Started(ids)) if ids.iter().eq(clique.gpus.iter().map(|g| &g.uuid)) => {
                Ok(Self(partner))
            }
            Ok(Answer::Started(ids)) => Err(broken(format!("it sees other GPUs: {}", ids.join(", ")))),
            Ok(Answer::Failed(trouble)) => Err(broken(trouble.text)),
            Ok(answer) => Err(broken(format!("unexpected answer {answer:?}"))),
            Err(lost) => Err(broken(lost.to_string())),
        }
    }

    fn ask(&mut self, pair: Pair, ask: &Ask, descriptor: Option<BorrowedFd<'_>>) -> Result<Answer, Stop> {
        let subject = pair.to_string();
        match self.0.ask(ask, descriptor, ANSWER) {
            Ok(Answer::Failed(trouble)) => Err(stop(&subject, &trouble)),
            Ok(answer) => Ok(answer),
            Err(lost) => {
                let (code, severity) = match lost {
                    Lost::Silent(_) => (Code::P2pHang, Severity::Fail),
                    Lost::Died(_) | Lost::Broken(_) => (Code::TestCrashed, Severity::Error),
                };
                Err(Stop::All(Box::new(code.finding(severity, &subject, lost.to_string()))))
            }
        }
    }
}
