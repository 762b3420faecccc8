//! What tests are given: the root, the configuration, and what has been read once for all of them.

use super::Test;
use super::nccl::Arms;
use crate::config::Config;
use crate::gpu::{Clique, GpuError, Look, Nvml};
use crate::machine::host::identity::Identity;
use crate::machine::host::kmsg;
use crate::machine::host::nvidia::{Nvidia, Read};
use crate::machine::pcie::model::Fabric;
use crate::machine::root::Root;
use crate::outcome::Matrix;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::outcome::{Judgement, Outcome};
use crate::suite::p2p::processes::Beside;
use crate::suite::protocol::Message;
use crate::suite::shared::gpu_fault;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::Path;
use std::time::{Duration, Instant};

/// The machine under test.
pub struct Machine {
    /// Where everything is read.
    pub root: Root,
    /// What is asked of the machine.
    pub config: Config,
    /// The fabric, or why it could not be read.
    pub fabric: Result<Fabric, String>,
    /// The kernel's log so far, or why it could not be read.
    pub log: Result<Vec<kmsg::Line>, String>,
    /// How many of its records are missing.
    pub log_lost: u64,
    /// Names and versions.
    pub identity: Identity,
    /// NVIDIA's driver.
    pub nvidia: Nvidia,
    /// The tests that this process runs, by id.
    pub due: Vec<String>,
    /// How the tests before this one ended, by id; those of earlier workers too.
    pub ended: RefCell<BTreeMap<String, Outcome>>,
    /// What they measured by pair, by id.
    pub matrices: RefCell<BTreeMap<String, Vec<Matrix>>>,
    /// Its GPUs, opened by the first test that asks.
    pub gpus: Gpus,
    /// NCCL's processes, started by the first test that wants them.
    pub nccl: Arms,
    /// A second process with CUDA, for tests that need one.
    pub beside: Beside,
    /// When the running test's deadline ends it; `None` before the first.
    pub until: Cell<Option<Instant>>,
    /// Tells the parent something in the middle of a test.
    pub tell: Box<dyn Fn(Message)>,
}

/// What the driver's libraries make of the machine's GPUs, each asked for once.
#[derive(Debug, Default)]
pub struct Gpus {
    clique: OnceCell<Result<Clique, GpuError>>,
    nvml: OnceCell<Result<Nvml, String>>,
    /// How they stood before this process used them.
    pub(super) stood: OnceCell<Look>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine at {}", self.root.path().display())
    }
}

impl Machine {
    /// Whether this process runs `test`.
    #[must_use]
    pub fn runs(&self, test: &Test) -> bool {
        self.due.iter().any(|id| id == test.id)
    }

    /// Its GPUs, each with a CUDA context. The first call takes seconds.
    ///
    /// # Errors
    /// `CUDA-MISSING`, `CUDA-START` and their like with the reason.
    pub fn clique(&self) -> Result<&Clique, Box<Finding>> {
        let open = || {
            self.stood();
            self.doing("starting CUDA");
            let clique = Clique::open()?;
            (self.tell)(Message::Cuda(clique.cuda.clone()));
            Ok(clique)
        };
        self.gpus.clique.get_or_init(open).as_ref().map_err(gpu_fault::starting)
    }

    /// NVML, or why it does not start.
    ///
    /// # Errors
    /// NVML's words.
    pub fn nvml(&self) -> Result<&Nvml, &str> {
        self.gpus.nvml.get_or_init(Nvml::start).as_ref().map_err(String::as_str)
    }

    /// Whether CUDA has been started with its GPUs.
    #[must_use]
    pub fn has_clique(&self) -> bool {
        self.gpus.clique.get().is_some_and(Result::is_ok)
    }

    /// What is left of the running test's deadline.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        Some(self.until.get()?.saturating_duration_since(Instant::now()))
    }

    /// Tells the parent what is being done: it is named when this process hangs or dies.
    pub fn doing(&self, what: &str) {
        (self.tell)(Message::Doing(what.to_owned()));
    }

    /// How an earlier test ended; `None` when it did not run.
    #[must_use]
    pub fn outcome(&self, id: &str) -> Option<Outcome> {
        self.ended.borrow().get(id).copied()
    }

    /// What an earlier test measured by pair; `None` when it did not.
    #[must_use]
    pub fn matrix(&self, id: &str, name: &str) -> Option<Matrix> {
        self.matrices.borrow().get(id)?.iter().find(|matrix| matrix.name == name).cloned()
    }

    /// Why a test with GPUs has nothing to do: none here, no driver, or a recorded machine whose
    /// GPUs are elsewhere. `pairs` says that one GPU is too few.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn no_gpus(&self, pairs: bool) -> Result<Option<Judgement>, Box<Finding>> {
        if let Some(idle) = self.idle()? {
            return Ok(Some(idle));
        }
        if self.root.path() != Path::new("/") && self.config.validate.library_path.is_empty() {
            return Ok(Some(Judgement::not_applicable("a recorded machine: its GPUs are not here")));
        }
        if !pairs {
            return Ok(None);
        }
        let there = self.fabric()?.gpus.len();
        // Where CUDA does not start, the test that needs it says so.
        let seen = if there < 2 { there } else { self.clique().map_or(there, |clique| clique.gpus.len()) };
        Ok(no_pair(there, seen).map(Judgement::not_applicable))
    }

    /// The fabric, for tests that cannot say anything without it.
    ///
    /// # Errors
    /// `FABRIC-UNREADABLE` with the reason.
    pub fn fabric(&self) -> Result<&Fabric, Box<Finding>> {
        self.fabric.as_ref().map_err(|why| {
            let message = format!("the fabric cannot be read: {why}");
            Box::new(Code::FabricUnreadable.finding(Severity::Error, "machine", message))
        })
    }

    /// The kernel's log, for tests that cannot say anything without it.
    ///
    /// # Errors
    /// `KMSG-UNREADABLE` with the reason.
    pub fn log(&self) -> Result<&[kmsg::Line], Box<Finding>> {
        let unreadable = |why: &str| {
            let message = format!("the kernel's log cannot be read: {why}");
            Box::new(Code::KmsgUnreadable.finding(Severity::Error, "machine", message))
        };
        match &self.log {
            // No kernel starts without a word: something else stands in the log's place.
            Ok(lines) if lines.is_empty() => Err(unreadable("/dev/kmsg holds no line")),
            Ok(lines) => Ok(lines),
            Err(why) => Err(unreadable(why)),
        }
    }

    /// Why a test of the driver's work has nothing to look at: no GPU, or no driver for it, which
    /// the test `driver` judges.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn idle(&self) -> Result<Option<Judgement>, Box<Finding>> {
        if self.fabric()?.gpus.is_empty() {
            return Ok(Some(Judgement::not_applicable("no NVIDIA GPU")));
        }
        let none = || Judgement::not_applicable("no NVIDIA driver is loaded; see the test driver");
        Ok(known(&self.nvidia.loaded)?.is_none().then(none))
    }

    /// Lines of the kernel's log that hold one of `words`, or the one line that says why there are none.
    #[must_use]
    pub fn log_evidence(&self, words: &[&str]) -> Vec<String> {
        match &self.log {
            Ok(lines) => kmsg::mentioning(lines, words, 8),
            Err(why) => vec![format!("kernel log not read: {why}")],
        }
    }
}

/// Why there is no pair among the GPUs on the bus, of which CUDA has `seen`.
fn no_pair(there: usize, seen: usize) -> Option<String> {
    match (there, seen) {
        (_, 2..) => None,
        (0 | 1, _) => Some("one GPU: there is no pair".to_owned()),
        _ => Some(format!("CUDA has {seen} of {there} GPUs, see the test cuda: there is no pair")),
    }
}

/// What was read, or `SYS-UNREADABLE` with the file and the reason.
pub(super) fn known<T>(read: &Read<T>) -> Result<&T, Box<Finding>> {
    read.as_ref().map_err(|why| Box::new(Code::SysUnreadable.finding(Severity::Error, "machine", why)))
}

/// `SYS-UNREADABLE`: a test cannot judge because `path` could not be read.
pub(super) fn unreadable(path: &str, why: &impl Display) -> Box<Finding> {
    let message = format!("/{path} could not be read: {why}");
    Box::new(Code::SysUnreadable.finding(Severity::Error, "machine", message))
}

#[cfg(test)]
mod tests {
    use super::no_pair;

    #[test]
    fn gpus_that_cuda_does_not_have_make_no_pair() {
        assert_eq!(no_pair(1, 1).unwrap(), "one GPU: there is no pair");
        assert_eq!(no_pair(2, 1).unwrap(), "CUDA has 1 of 2 GPUs, see the test cuda: there is no pair");
        assert_eq!((no_pair(8, 7), no_pair(2, 2)), (None, None));
    }
}
