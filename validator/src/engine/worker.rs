//! The child's side, and the command that starts it: reads one request, reads the machine once, runs the tests in order and
//! reports each result. Any error ends this process, and the parent handles that.

use super::part::Parts;
use crate::config::Config;
use crate::gpu::{self, Look, Nvml};
use crate::machine::host::{identity, kmsg, nvidia};
use crate::machine::pcie::model::{Bdf, Fabric};
use crate::machine::root::Root;
use crate::outcome::Judgement;
use crate::process::lineage;
use crate::report::Driver;
use crate::suite::protocol::{Facts, Message, Request};
use crate::suite::{self, Arms, Beside, Gpus, Group, Machine, Test};
use crate::text::chain;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, Write};
use std::process::Command;
use std::rc::Rc;
use std::time::Instant;

/// The name of the hidden command that runs this.
pub const COMMAND: &str = "worker";

/// Serves one request.
///
/// # Errors
/// An invalid request, or a parent that no longer listens.
pub fn serve(mut input: impl BufRead + 'static, output: impl Write + 'static) -> io::Result<()> {
    // If the parent is gone, the worker is not needed.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut request = String::new();
    input.read_line(&mut request)?;
    let request: Request = serde_json::from_str(&request)?;
    let parent =
        Rc::new(Parent { input: RefCell::new(input), output: RefCell::new(output), open: Cell::new(0) });
    if !request.nvlinks_of.is_empty() {
        return parent.say(&Message::NvLinks(nvlinks(&request.nvlinks_of)));
    }
    if request.look {
        let fabric = Fabric::read(&Root::new(request.root)).ok();
        let gpus = suite::look(fabric.as_ref());
        return parent.say(&Message::Look(Some(Look { quiet: false, gpus })));
    }
    let tests = request.tests.iter().map(|id| suite::by_id(id).ok_or_else(|| unknown(id)));
    let tests = tests.collect::<io::Result<Vec<_>>>()?;
    let to_parent = Rc::clone(&parent);
    // A failed message is ignored: this process ends with its parent.
    let machine = read(request, Box::new(move |message| drop(to_parent.say(&message))));
    parent.say(&Message::Facts(Box::new(facts(&machine))))?;
    let mut parts = Parts::new(&machine.config.validate.before_part);
    for test in tests {
        parent.say(&Message::Begin(test.id.to_owned()))?;
        parts.begin(suite::part(test));
        let start = Instant::now();
        let gpus = machine.nvidia.gpus.as_ref().map_or(0, |gpus| gpus.len());
        machine.until.set(start.checked_add(test.patience(gpus, &machine.config.validate)));
        let said = judge(test, &machine);
        let seconds = start.elapsed().as_secs_f64();
        machine.ended.borrow_mut().insert(test.id.to_owned(), said.outcome());
        machine.matrices.borrow_mut().insert(test.id.to_owned(), said.matrices.clone());
        parent.say(&Message::End { id: test.id.to_owned(), seconds, said: said.clone() })?;
        if test.group == Group::Gpu {
            parent.say(&Message::Look(machine.after(test, &said)))?;
        }
        // What the kernel has logged so far belongs to this test: the parent reads it before the next one begins.
        parent.heard_all()?;
        if gpu::is_spoiled() {
            lineage::end();
            return Ok(());
        }
    }
    Ok(())
}

fn nvlinks(gpus: &[Bdf]) -> Result<Vec<(Bdf, Bdf, u32)>, String> {
    let pairs = Nvml::start()?.nvlink_pairs(gpus)?;
    Ok(pairs.into_iter().map(|((a, b), count)| (a, b, count)).collect())
}

fn unknown(id: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("there is no test {id}"))
}

fn read(request: Request, tell: Box<dyn Fn(Message)>) -> Machine {
    let root = Root::new(request.root);
    let mut fabric = Fabric::read(&root).map_err(|e| chain(&e));
    if let (Ok(fabric), Some(limit)) = (&mut fabric, &request.config.validate.limit) {
        limit.apply(fabric);
    }
    let log = kmsg::read(&root);
    let log_lost = log.as_ref().map_or(0, |log| log.lost);
    let identity = identity::read(&root);
    let nvidia = nvidia::read(&root, &request.config.validate.library_path, identity.kernel.as_deref());
    Machine {
        root,
        config: request.config,
        fabric,
        log: log.map(|log| log.lines),
        log_lost,
        identity,
        nvidia,
        due: request.tests,
        ended: RefCell::new(request.ended),
        matrices: RefCell::new(request.matrices),
        gpus: Gpus::default(),
        nccl: Arms::default(),
        beside: Beside::default(),
        until: Cell::new(None),
        tell,
    }
}

fn facts(machine: &Machine) -> Facts {
    let loaded = machine.nvidia.loaded.as_ref().ok().and_then(Option::as_ref);
    Facts {
        identity: machine.identity.clone(),
        fabric: machine.fabric.as_ref().ok().cloned(),
        driver: Driver::of(&machine.nvidia),
        module: loaded.map(|l| l.hash.clone()).unwrap_or_default(),
        gpus: machine.nvidia.gpus.clone().unwrap_or_default(),
    }
}

fn judge(test: &Test, machine: &Machine) -> Judgement {
    (test.run)(machine).unwrap_or_else(|why| Judgement::by(*why))
}

/// The parent, which answers each message with an empty line once it has processed it.
struct Parent<R, W> {
    input: RefCell<R>,
    output: RefCell<W>,
    /// How many messages the parent has not answered yet.
    open: Cell<u64>,
}

impl<R: BufRead, W: Write> Parent<R, W> {
    fn say(&self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut output = self.output.borrow_mut();
        output.write_all(&line)?;
        self.open.set(self.open.get() + 1);
        output.flush()
    }

    /// Waits until every message has been processed.
    fn heard_all(&self) -> io::Result<()> {
        let mut input = self.input.borrow_mut();
        for _ in 0..self.open.take() {
            input.read_exact(&mut [0])?;
        }
        Ok(())
    }
}

/// Starts this program again, without our environment except the folders of the driver's libraries. CUDA
/// then numbers GPUs by address, as NVML, `nvidia-smi` and the report do, instead of the fastest first.
pub(super) fn command(config: &Config) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    lineage::beneath(command.arg(COMMAND));
    command.env_clear().env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    if !config.validate.library_path.is_empty() {
        command.env("LD_LIBRARY_PATH", config.validate.library_path.join(":"));
    }
    if let Some(limit) = &config.validate.limit {
        command.env(lineage::LIMIT, &limit.visible);
    }
    Ok(command)
}
