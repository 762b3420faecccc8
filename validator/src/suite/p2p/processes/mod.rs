//! Does data also arrive between processes? Frameworks run one process for each GPU and open each
//! other's memory, through CUDA IPC or through exported descriptors of mapped memory. The worker owns
//! the memory and looks at it; a second process writes there and reads from there.

mod judge;
mod other;
mod owner;
mod speech;
#[cfg(test)]
mod tests;

pub(in crate::suite) use other::serve;

use crate::config::Level;
use crate::gpu::{self, Clique, GpuError};
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::process::partner::{Lost, Partner};
use crate::schedule::Pair;
use crate::suite::shared::gate::gate;
use crate::suite::shared::gpu_fault::during;
use crate::suite::shared::seat::Seat;
use crate::suite::shared::transfer::Fault;
use crate::suite::{Group, Machine, Test};
use owner::Shared;
use speech::{Answer, Ask, Trouble};
use std::cell::RefCell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "p2p-processes",
    title: "Between processes",
    proves: "what one process writes to or reads from a GPU of another process arrives whole, by CUDA IPC and by descriptor",
    level: Level::Standard,
    deadline: Duration::from_secs(120),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// Starting CUDA a second time, with all GPUs.
const START: Duration = Duration::from_secs(60);
/// Beyond what a transfer may take by its own clock.
const ANSWER: Duration = Duration::from_secs(12);
/// `CUDA_ERROR_NOT_SUPPORTED`
pub(in crate::suite) const NOT_SUPPORTED: i32 = 801;

/// What its contexts take of each GPU's memory at most, bytes.
pub(in crate::suite) const CONTEXT: u64 = 768 << 20;

/// The other process, before the test that needs it: starting CUDA takes seconds, in which other tests go on.
#[derive(Debug, Default)]
pub struct Beside(RefCell<Option<Partner>>);

impl Beside {
    /// Starts it where that test was asked for; true while it is starting. What goes wrong is told by that test,
    /// which tries again.
    pub(in crate::suite) fn begin(&self, machine: &Machine) -> bool {
        let mut beside = self.0.borrow_mut();
        if machine.runs(&TEST) && beside.is_none() {
            *beside = Partner::start().ok();
            let said = beside.as_mut().map(|partner| partner.say(&Ask::Start, None));
            if said.is_none_or(|said| said.is_err()) {
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
        // Nobody needed it: it may be in the middle of its start.
        if let Some(mut partner) = self.take() {
            partner.kill();
        }
    }
}

/// How a buffer gets from one process to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// By its name in CUDA IPC.
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

/// All that was tried.
#[derive(Debug, Default)]
struct Told {
    tried: Vec<(Pair, How)>,
    faults: Vec<(How, Fault)>,
    /// What the driver does not support, and its words.
    unsupported: Vec<(How, String)>,
    broken: Vec<Finding>,
    /// Sizes of the transfers, each made by both engines both ways.
    sizes: [u64; 2],
}

/// Why one pair, or everything, ends early.
enum Stop {
    /// The driver cannot do it this way at all.
    Unsupported(String),
    /// This pair has no more to say.
    Pair(Box<Finding>),
    /// Neither has any other.
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
    let mut told = Told { sizes: owner::sizes(machine.config.validate.level), ..Told::default() };
    for how in [How::Ipc, How::Descriptor] {
        match all(machine, &mut other, &seats, how, &mut told) {
            Ok(()) => {}
            Err(Stop::Unsupported(why)) => told.unsupported.push((how, why)),
            Err(Stop::Pair(finding)) => told.broken.push(*finding),
            Err(Stop::All(finding)) => {
                told.broken.push(*finding);
                break;
            }
        }
    }
    Ok(judge::judge(&told))
}

/// Every ordered pair, one owner after the other.
fn all(
    machine: &Machine,
    other: &mut Other,
    seats: &[Seat<'_>],
    how: How,
    told: &mut Told,
) -> Result<(), Stop> {
    for owner in seats {
        let subject = format!("GPU {}", owner.gpu.ordinal);
        let here = |e: GpuError| stop(&subject, &Trouble::from(&e));
        let peers = seats.iter().filter(|p| p.gpu.ordinal != owner.gpu.ordinal);
        let shared = Shared::new(owner, how, told.sizes).map_err(here)?;
        for peer in peers {
            if !peer.gpu.can_access(owner.gpu).map_err(here)? {
                continue;
            }
            let pair = Pair { from: peer.gpu.ordinal, to: owner.gpu.ordinal };
            machine.doing(&format!("{pair}: between processes by {how}"));
            match owner::pair(other, &shared, pair, &mut told.faults) {
                Ok(()) => told.tried.push((pair, how)),
                Err(Stop::Pair(finding)) if !gpu::is_spoiled() => told.broken.push(*finding),
                Err(stop) => return Err(stop),
            }
        }
    }
    Ok(())
}

/// What a GPU's fault, in either process, means for the rest.
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
    /// With the same GPUs under the same numbers.
    fn start(clique: &Clique, begun: Option<Partner>) -> Result<Self, Box<Finding>> {
        let broken = |why: String| {
            let message = format!("a second process cannot use the GPUs: {why}");
            Box::new(Code::CudaStart.finding(Severity::Error, "machine", message))
        };
        let (mut partner, said) = match begun {
            Some(partner) => (partner, true),
            None => (Partner::start().map_err(|e| broken(e.to_string()))?, false),
        };
        let answer = if said { partner.hear(START) } else { partner.ask(&Ask::Start, None, START) };
        match answer {
            Ok(Answer::Started(ids)) if ids.iter().eq(clique.gpus.iter().map(|g| &g.uuid)) => {
                Ok(Self(partner))
            }
            Ok(Answer::Started(ids)) => Err(broken(format!("it sees others: {}", ids.join(", ")))),
            Ok(Answer::Failed(trouble)) => Err(broken(trouble.text)),
            Ok(answer) => Err(broken(format!("it answers {answer:?}"))),
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
