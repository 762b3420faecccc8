//! The context of a test: the root, the configuration, and data that is read once for all tests.

use super::Test;
use crate::config::Config;
use crate::suite::protocol::{Activity, Message};
use crate::suite::shared::gpu_fault;
use gpu::{Clique, Confidential, GpuError, GpuSnapshot, Nvml};
use machine::host::faults;
use machine::host::identity::Identity;
use machine::host::kmsg;
use machine::host::nvidia::{Nvidia, ReadResult, account, confidential, managers};
use machine::host::sva;
use machine::pcie::model::Fabric;
use machine::root::Root;
use outcome::Matrix;
use outcome::finding::{Code, ConfidentialCase, Finding, Reason, Severity, Subject};
use outcome::metric::Metric;
use outcome::platform::Host;
use outcome::{Judgement, Outcome};
use std::any::{Any, TypeId};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Why the GPUs of a recorded machine cannot be tested.
const RECORDED: &str = "this is a recorded machine, whose GPUs are not in this computer";

/// What a test reads and needs: the machine under test, the configuration, what earlier tests found and kept.
pub struct TestContext {
    /// The root from which everything is read.
    pub root: Root,
    /// The configuration.
    pub config: Config,
    /// The fabric, or why it could not be read.
    pub fabric: Result<Fabric, String>,
    /// The kernel's log so far, or why it could not be read.
    pub log: Result<Vec<kmsg::Line>, String>,
    /// How many log records are missing.
    pub log_lost: u64,
    /// Names and versions.
    pub identity: Identity,
    /// NVIDIA's driver.
    pub nvidia: Nvidia,
    /// What kind of machine it is.
    pub host: Host,
    /// The ids of the tests that this process runs.
    pub tests: Vec<String>,
    /// The outcomes of earlier tests by id, including those of earlier workers.
    pub outcomes: RefCell<BTreeMap<String, Outcome>>,
    /// The matrices that earlier tests measured, by id.
    pub matrices: RefCell<BTreeMap<String, Vec<Matrix>>>,
    /// The machine's GPUs, opened by the first test that needs them.
    pub gpus: Gpus,
    /// What tests keep for the tests after them.
    pub kept: Kept,
    /// The end of the running test's deadline; `None` before the first test.
    pub deadline: Cell<Option<Instant>>,
    /// Sends the parent a message in the middle of a test.
    pub send: Box<dyn Fn(Message)>,
}

/// What the driver's libraries report about the machine's GPUs; each value is read once.
#[derive(Debug, Default)]
pub struct Gpus {
    clique: OnceCell<Result<Clique, GpuError>>,
    confidential: OnceCell<Option<Confidential>>,
    /// Their state before this process used them.
    pub(super) before: OnceCell<GpuSnapshot>,
    /// NVML's error if it hangs; then the GPUs are not queried again.
    pub(super) nvml_hang: OnceCell<Option<String>>,
}

/// What tests of one process keep for the tests after them, one value of each type: processes that took seconds to start,
/// answers that a driver gives slowly. The tests own the types.
#[derive(Debug, Default)]
pub struct Kept(RefCell<BTreeMap<TypeId, Rc<dyn Any>>>);

impl Kept {
    /// The value of this type, which the first call makes.
    pub(in crate::suite) fn get_or_make<T: Any>(&self, make: impl FnOnce() -> T) -> Rc<T> {
        let known = self.0.borrow().get(&TypeId::of::<T>()).cloned();
        // The key is the type, so the value always has it.
        if let Some(Ok(value)) = known.map(Rc::downcast::<T>) {
            return value;
        }
        let made = Rc::new(make());
        self.0
            .borrow_mut()
            .insert(TypeId::of::<T>(), Rc::<T>::clone(&made));
        made
    }

    /// The value of this type, which begins as its default.
    pub(in crate::suite) fn get<T: Any + Default>(&self) -> Rc<T> {
        self.get_or_make(T::default)
    }
}

impl fmt::Debug for TestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine at {}", self.root.name())
    }
}

impl TestContext {
    /// Whether this process runs `test`.
    #[must_use]
    pub fn runs(&self, test: &Test) -> bool {
        self.tests.iter().any(|id| id == test.id())
    }

    /// The GPUs, each with a CUDA context. The first call takes seconds.
    ///
    /// # Errors
    /// `CUDA-MISSING`, `CUDA-START` and similar codes with the reason.
    pub fn clique(&self) -> Result<&Clique, Box<Finding>> {
        let open = || {
            self.snapshot_before();
            self.doing("starting CUDA");
            let clique = Clique::open()?;
            (self.send)(Message::Cuda(clique.cuda.clone()));
            Ok(clique)
        };
        if let Some(closed) = self.not_declared_ready() {
            return Err(Box::new(closed));
        }
        let failed =
            |error| gpu_fault::start_finding(error, || self.why_refused(), || self.unmanaged());
        self.gpus.clique.get_or_init(open).as_ref().map_err(failed)
    }

    /// Why the kernel's part of the driver refuses CUDA, and the evidence. The log is read again, because the attempt itself
    /// may have written the line.
    fn why_refused(&self) -> Option<(Reason, String)> {
        let new = kmsg::read(&self.root).ok();
        let lines = new.as_ref().map_or_else(
            || self.log.as_deref().unwrap_or_default(),
            |new| new.lines.as_slice(),
        );
        if let Some(line) = faults::without_room_for_hmm(lines) {
            return Some((Reason::NoRoomForHmm, format!("kmsg: {line}")));
        }
        let evidence = self.lacking_sva()?;
        Some((Reason::NoSharedPageTables, evidence))
    }

    /// The evidence that the kernel cannot share page tables with a GPU here that needs it, if the driver works otherwise.
    fn lacking_sva(&self) -> Option<String> {
        let fabric = self.fabric.as_ref().ok()?;
        let works = gpu_fault::may_share_page_tables(fabric) && self.nvml().is_ok();
        works
            .then(|| sva::lacking(&self.root, self.identity.kernel.as_deref()))
            .flatten()
    }

    /// The program that is missing where NVSwitches need one, and the evidence; `None` in a container, which does not show
    /// the programs of its host.
    fn unmanaged(&self) -> Option<(Code, String)> {
        if self.host.container {
            return None;
        }
        let switches = managers::switches(self.fabric.as_ref().ok()?, &self.root);
        gpu_fault::unmanaged(switches.as_ref(), managers::running(&self.root))
    }

    /// The mode of confidential computing that is on, as NVML reports it; `None` if there is none or this is unknown.
    pub(in crate::suite) fn confidential(&self) -> Option<Confidential> {
        let ask = || {
            self.snapshot_before();
            self.check_nvml().ok()?;
            self.nvml().ok()?.confidential()
        };
        *self.gpus.confidential.get_or_init(ask)
    }

    /// The finding that the GPUs are in a mode of confidential computing and not declared ready: CUDA would not start.
    fn not_declared_ready(&self) -> Option<Finding> {
        let mode = self
            .confidential()
            .filter(|mode| mode.ready == Some(false))?;
        let message = format!(
            "the GPUs are not declared ready: {}",
            self.confidential_state(mode)
        );
        let finding = Code::CcUnsupported.finding(Severity::Error, Subject::Machine, message);
        Some(finding.because(Reason::Confidential(ConfidentialCase::NotReady)))
    }

    /// What NVML and the kernel say about confidential computing, in words.
    pub(in crate::suite) fn confidential_state(&self, mode: Confidential) -> String {
        let guest = confidential::guest(&self.root, self.log.as_deref().unwrap_or_default());
        let guest = guest.map_or("not known to be a confidential guest".to_owned(), |kind| {
            format!("a guest of {kind}")
        });
        let mode = if mode.protected_pcie {
            "protected PCIe"
        } else {
            "confidential computing"
        };
        format!("NVML says that {mode} is on, and the machine is {guest}")
    }

    /// NVML, or why it does not start.
    ///
    /// # Errors
    /// NVML's error.
    pub fn nvml(&self) -> Result<&Nvml, &str> {
        Nvml::of_process()
    }

    /// Checks that NVML can be queried: that it reports on this machine and that the driver answers.
    ///
    /// # Errors
    /// Why not.
    pub(in crate::suite) fn check_nvml(&self) -> Result<(), String> {
        if self.is_recorded() {
            return Err(RECORDED.to_owned());
        }
        self.start_timeout()
            .map_or(Ok(()), |stuck| Err(stuck.message.to_string()))
    }

    /// Whether the machine was read from recorded files and no library simulates its GPUs.
    fn is_recorded(&self) -> bool {
        self.root.path() != Path::new("/") && self.config.validate.library_path.is_empty()
    }

    /// Whether CUDA has been started on the machine's GPUs.
    #[must_use]
    pub fn has_clique(&self) -> bool {
        self.gpus.clique.get().is_some_and(Result::is_ok)
    }

    /// The time left until the running test's deadline.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        Some(
            self.deadline
                .get()?
                .saturating_duration_since(Instant::now()),
        )
    }

    /// Reports the current activity to the parent, which names it if this process hangs or dies.
    pub fn doing(&self, what: impl Into<Activity>) {
        (self.send)(Message::Doing(what.into()));
    }

    /// The outcome of an earlier test; `None` when it did not run.
    #[must_use]
    pub fn outcome(&self, id: &str) -> Option<Outcome> {
        self.outcomes.borrow().get(id).copied()
    }

    /// A matrix that an earlier test measured; `None` when it did not.
    #[must_use]
    pub fn matrix(&self, id: &str, metric: Metric) -> Option<Matrix> {
        self.matrices
            .borrow()
            .get(id)?
            .iter()
            .find(|matrix| matrix.metric() == Some(metric))
            .cloned()
    }

    /// Why a test with GPUs has nothing to do: no GPU, no driver, or a machine that was read from recorded files
    /// and whose GPUs are elsewhere. `pairs`: one GPU is too few.
    ///
    /// # Errors
    /// When this is unknown.
    pub fn no_gpus(&self, pairs: bool) -> Result<Option<Judgement>, Box<Finding>> {
        if let Some(idle) = self.no_driver()? {
            return Ok(Some(idle));
        }
        if self.is_recorded() {
            return Ok(Some(Judgement::not_applicable(RECORDED)));
        }
        if let Some(stuck) = self.start_timeout() {
            return Err(Box::new(stuck));
        }
        if let Some(why) = self.nvml_hang() {
            let message = format!("not run, because the driver does not answer: {why}");
            return Err(Box::new(Code::NvmlTimeout.finding(
                Severity::Error,
                Subject::Machine,
                message,
            )));
        }
        if !pairs {
            return Ok(None);
        }
        let there = self.fabric()?.gpus.len();
        // Where CUDA does not start, the test that needs it reports that.
        let seen = if there < 2 {
            there
        } else {
            self.clique().map_or(there, |clique| clique.gpus.len())
        };
        Ok(no_pair(there, seen).map(Judgement::not_applicable))
    }

    /// The fabric, for tests that need it.
    ///
    /// # Errors
    /// `FABRIC-UNREADABLE` with the reason.
    pub fn fabric(&self) -> Result<&Fabric, Box<Finding>> {
        self.fabric.as_ref().map_err(|why| {
            let message = format!("the fabric cannot be read: {why}");
            Box::new(Code::FabricUnreadable.finding(Severity::Error, Subject::Machine, message))
        })
    }

    /// The kernel's log, for tests that need it.
    ///
    /// # Errors
    /// `KMSG-UNREADABLE` with the reason.
    pub fn log(&self) -> Result<&[kmsg::Line], Box<Finding>> {
        let unreadable = |why: &str| {
            let message = format!("the kernel's log cannot be read: {why}");
            Box::new(Code::KmsgUnreadable.finding(Severity::Error, Subject::Machine, message))
        };
        match &self.log {
            // A running kernel has always logged something, so an empty log is not the kernel's log.
            Ok(lines) if lines.is_empty() => Err(unreadable("/dev/kmsg holds no line")),
            Ok(lines) => Ok(lines),
            Err(why) => Err(unreadable(why)),
        }
    }

    /// Why a test of the driver has nothing to judge: no GPU, or no loaded driver, which the test `driver`
    /// judges.
    ///
    /// # Errors
    /// When this is unknown.
    pub fn no_driver(&self) -> Result<Option<Judgement>, Box<Finding>> {
        if self.fabric()?.gpus.is_empty() {
            return Ok(Some(Judgement::not_applicable("no NVIDIA GPU")));
        }
        let fabric = self.fabric()?;
        let passed = fabric
            .devices
            .iter()
            .filter(|d| fabric.gpus.contains(&d.bdf) && d.pass_through_driver().is_some());
        if passed.count() >= fabric.gpus.len() {
            return Ok(Some(Judgement::not_applicable(
                "all GPUs are passed to virtual machines",
            )));
        }
        let none = || Judgement::not_applicable("no NVIDIA driver is loaded; see the test driver");
        Ok(known(&self.nvidia.loaded)?.is_none().then(none))
    }

    /// The finding that the driver's start did not end; then every call into the driver may hang as well.
    fn start_timeout(&self) -> Option<Finding> {
        let account = self.nvidia.account.as_ref().ok()?.as_ref()?;
        let found = account::findings(account)
            .into_iter()
            .find(|finding| finding.is(Code::DriverTimeout))?;
        let message = format!(
            "not run, because the driver does not answer: {}",
            found.message
        );
        Some(Code::DriverTimeout.finding(Severity::Error, &found.subject, message))
    }

    /// Lines of the kernel's log that contain one of `words`, or one line that says why there are none.
    #[must_use]
    pub fn log_evidence(&self, words: &[&str]) -> Vec<String> {
        match &self.log {
            Ok(lines) => kmsg::mentioning(lines, words, 8),
            Err(why) => vec![format!("kernel log not read: {why}")],
        }
    }
}

/// Why there is no pair among the GPUs on the bus, of which CUDA reports `seen`.
fn no_pair(there: usize, seen: usize) -> Option<String> {
    match (there, seen) {
        (_, 2..) => None,
        (0 | 1, _) => Some("one GPU: there is no pair".to_owned()),
        _ => Some(format!(
            "CUDA has {seen} of {there} GPUs, see the test cuda: there is no pair"
        )),
    }
}

/// The value that was read, or `SYS-UNREADABLE` with the file and the reason.
pub(super) fn known<T>(read: &ReadResult<T>) -> Result<&T, Box<Finding>> {
    read.as_ref().map_err(|why| {
        Box::new(Code::SysUnreadable.finding(Severity::Error, Subject::Machine, why))
    })
}

/// `SYS-UNREADABLE`: a test cannot judge because `path` could not be read.
pub(super) fn unreadable(path: &str, why: &impl Display) -> Box<Finding> {
    let message = format!("/{path} could not be read: {why}");
    Box::new(Code::SysUnreadable.finding(Severity::Error, Subject::Machine, message))
}

#[cfg(test)]
mod tests {
    use super::{Kept, no_pair};

    #[test]
    fn what_a_test_keeps_is_made_once_and_each_type_has_its_own() {
        let kept = Kept::default();
        assert_eq!(
            (
                *kept.get_or_make(|| 1_u8),
                *kept.get_or_make(|| 2_u8),
                *kept.get::<u16>()
            ),
            (1, 1, 0)
        );
    }

    #[test]
    fn gpus_missing_from_cuda_form_no_pair() {
        assert_eq!(no_pair(1, 1).unwrap(), "one GPU: there is no pair");
        assert_eq!(
            no_pair(2, 1).unwrap(),
            "CUDA has 1 of 2 GPUs, see the test cuda: there is no pair"
        );
        assert_eq!((no_pair(8, 7), no_pair(2, 2)), (None, None));
    }
}
