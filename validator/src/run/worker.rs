//! The child's side: reads one request, reads the machine once, runs the tests in order and says
//! what comes out. Whatever goes wrong here ends this process, and the parent knows what to do.

use super::protocol::{Facts, Message, Request};
use crate::host::{identity, kmsg, nvidia};
use crate::outcome::Judgement;
use crate::pcie::model::Fabric;
use crate::report::Driver;
use crate::root::Root;
use crate::suite::{self, Machine, Test};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{self, Read, Write};
use std::time::Instant;

/// The name of the hidden command that runs this.
pub const COMMAND: &str = "worker";

/// Serves one request.
///
/// # Errors
/// A request that makes no sense, or a parent that no longer listens.
pub fn serve(input: impl Read, mut output: impl Write) -> io::Result<()> {
    // Nobody waits for a worker whose parent is gone.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let request: Request = serde_json::from_reader(input)?;
    let tests = request.tests.iter().map(|id| suite::by_id(id).ok_or_else(|| unknown(id)));
    let tests = tests.collect::<io::Result<Vec<_>>>()?;
    let machine = read(request);
    say(&mut output, &Message::Facts(Box::new(facts(&machine))))?;
    for test in tests {
        say(&mut output, &Message::Begin(test.id.to_owned()))?;
        let start = Instant::now();
        let said = judge(test, &machine);
        let seconds = start.elapsed().as_secs_f64();
        say(&mut output, &Message::End { id: test.id.to_owned(), seconds, said })?;
    }
    Ok(())
}

fn unknown(id: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("there is no test {id}"))
}

fn read(request: Request) -> Machine {
    let root = Root::new(request.root);
    let fabric = Fabric::read(&root).map_err(|e| chain(&e));
    let log = kmsg::read(&root);
    let identity = identity::read(&root);
    let nvidia = nvidia::read(&root, &request.config.validate.library_path, identity.kernel.as_deref());
    Machine { root, config: request.config, fabric, log, identity, nvidia }
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

/// An error and what it came from, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

fn judge(test: &Test, machine: &Machine) -> Judgement {
    (test.run)(machine).unwrap_or_else(|why| Judgement::by(*why))
}

fn say(output: &mut impl Write, message: &Message) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}
