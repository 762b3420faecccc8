//! The child's side, and the command that starts it: reads one request, reads the machine once, runs the tests in order and
//! reports each result. Any error ends this process, and the parent handles that.

use super::part::PartReporter;
use crate::config::Config;
use crate::nccl::nvls;
use crate::process::lineage;
use crate::suite::protocol::{Facts, Message, Request};
use crate::suite::{self, Gpus, Group, Kept, TestContext};
use gpu::{GpuSnapshot, Nvml};
use machine::host::{identity, kmsg, nvidia, platform};
use machine::pcie::model::Bdf;
use machine::root::Root;
use outcome::platform::{Known, MemorySource};
use outcome::text::chain;
use report::Driver;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
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
    let parent = Rc::new(Parent {
        input: RefCell::new(input),
        output: RefCell::new(output),
        unanswered: Cell::new(0),
    });
    if !request.nvlinks_of.is_empty() {
        return parent.send(&Message::NvLinks(nvlinks(&request.nvlinks_of)));
    }
    if request.look {
        let fabric = fabric::read(&Root::new(request.root).named(request.name)).ok();
        let gpus = suite::gpu_states(fabric.as_ref());
        return parent.send(&Message::Look(Some(GpuSnapshot { quiet: false, gpus })));
    }
    let tests = request
        .tests
        .iter()
        .map(|id| suite::by_id(id).ok_or_else(|| unknown(id)));
    let tests = tests.collect::<io::Result<Vec<_>>>()?;
    let to_parent = Rc::clone(&parent);
    // A failed message is ignored: this process ends with its parent.
    let context = read_context(
        request,
        Box::new(move |message| drop(to_parent.send(&message))),
    );
    parent.send(&Message::Facts(Box::new(facts(&context))))?;
    let mut parts = PartReporter::new(&context.config.validate.before_part);
    for test in tests {
        parent.send(&Message::Begin(test.id().to_owned()))?;
        parts.begin(suite::step_of(test));
        let start = Instant::now();
        let gpus = context.nvidia.gpus.as_ref().map_or(0, |gpus| gpus.len());
        context
            .deadline
            .set(start.checked_add(test.time_limit(gpus, &context.config.validate)));
        let judgement = suite::run_test(test, &context);
        let seconds = start.elapsed().as_secs_f64();
        context
            .outcomes
            .borrow_mut()
            .insert(test.id().to_owned(), judgement.outcome());
        context
            .matrices
            .borrow_mut()
            .insert(test.id().to_owned(), judgement.matrices.clone());
        parent.send(&Message::End {
            id: test.id().to_owned(),
            seconds,
            said: judgement.clone(),
        })?;
        if test.group == Group::Gpu {
            parent.send(&Message::Look(suite::snapshot_after(
                test, &judgement, &context,
            )))?;
        }
        // What the kernel has logged so far belongs to this test: the parent reads it before the next one begins.
        parent.wait_until_processed()?;
        if gpu::is_cuda_lost() {
            lineage::kill_self();
            return Ok(());
        }
    }
    // They release their GPUs while this process does.
    suite::release_processes(&context);
    Ok(())
}

fn nvlinks(gpus: &[Bdf]) -> Result<Vec<(Bdf, Bdf, u32)>, String> {
    let pairs = Nvml::of_process()?.nvlink_pairs(gpus)?;
    Ok(pairs
        .into_iter()
        .map(|((a, b), count)| (a, b, count))
        .collect())
}

fn unknown(id: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("there is no test {id}"),
    )
}

fn read_context(request: Request, send: Box<dyn Fn(Message)>) -> TestContext {
    let root = Root::new(request.root).named(request.name);
    let mut fabric = fabric::read(&root).map_err(|e| chain(&e));
    if let (Ok(fabric), Some(limit)) = (&mut fabric, &request.config.validate.limit) {
        limit.apply(fabric);
    }
    let log = kmsg::read(&root);
    let log_lost = log.as_ref().map_or(0, |log| log.lost);
    let identity = identity::read(&root);
    let asked = &request.config.validate;
    let nvidia = nvidia::read(
        &root,
        &asked.library_path,
        asked.nccl.as_deref(),
        identity.kernel.as_deref(),
    );
    let lines = log
        .as_ref()
        .map(|log| log.lines.as_slice())
        .unwrap_or_default();
    let known = nvidia.gpus.as_ref().ok().cloned().unwrap_or_default();
    let mut host = platform::read(
        &root,
        fabric.as_ref().ok(),
        &identity,
        &known,
        &logged_memory(lines),
    );
    if let Ok(fabric) = &mut fabric {
        fabric.peers.clone_from(&host.peers);
        platform::demand(fabric, &request.config.expect.demanded(&fabric.gpus));
        host.peers.clone_from(&fabric.peers);
    }
    TestContext {
        root,
        config: request.config,
        fabric,
        log: log.map(|log| log.lines),
        log_lost,
        identity,
        nvidia,
        host,
        tests: request.tests,
        outcomes: RefCell::new(request.ended),
        matrices: RefCell::new(request.matrices),
        gpus: Gpus::default(),
        kept: Kept::default(),
        deadline: Cell::new(None),
        send,
    }
}

/// The memory of the GPUs about which the driver logged it.
fn logged_memory(lines: &[kmsg::Line]) -> BTreeMap<Bdf, Known<u64>> {
    let logged = nvidia::log::bar1_peers(lines);
    let memory = |value| Known {
        value,
        source: MemorySource::Log,
    };
    logged
        .iter()
        .filter_map(|line| Some((line.gpu.parse().ok()?, memory(line.memory?))))
        .collect()
}

fn facts(context: &TestContext) -> Facts {
    let loaded = context.nvidia.loaded.as_ref().ok().and_then(Option::as_ref);
    Facts {
        identity: context.identity.clone(),
        fabric: context.fabric.as_ref().ok().cloned(),
        driver: Driver::of(&context.nvidia),
        module: loaded.map(|l| l.hash.clone()).unwrap_or_default(),
        gpus: context.nvidia.gpus.clone().unwrap_or_default(),
        host: context.host.clone(),
    }
}

/// The parent, which answers each message with an empty line once it has processed it.
struct Parent<R, W> {
    input: RefCell<R>,
    output: RefCell<W>,
    /// How many messages the parent has not answered yet.
    unanswered: Cell<u64>,
}

impl<R: BufRead, W: Write> Parent<R, W> {
    fn send(&self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut output = self.output.borrow_mut();
        output.write_all(&line)?;
        self.unanswered.set(self.unanswered.get() + 1);
        output.flush()
    }

    /// Waits until every message has been processed.
    fn wait_until_processed(&self) -> io::Result<()> {
        let mut input = self.input.borrow_mut();
        for _ in 0..self.unanswered.take() {
            input.read_exact(&mut [0])?;
        }
        Ok(())
    }
}

/// Starts this program again, without our environment except the folders of the driver's libraries. CUDA
/// then numbers GPUs by address, as NVML, `nvidia-smi` and the report do, instead of the fastest first.
pub(super) fn command(config: &Config) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    lineage::add_ancestors(command.arg(COMMAND));
    command.env_clear().env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    if !config.validate.nvls {
        command.env(nvls::VARIABLE, "0");
    }
    if !config.validate.library_path.is_empty() {
        command.env("LD_LIBRARY_PATH", config.validate.library_path.join(":"));
    }
    if let Some(limit) = &config.validate.limit {
        command.env(lineage::VISIBLE_DEVICES, &limit.visible);
    }
    Ok(command)
}
